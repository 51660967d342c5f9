// Hosts of other versions: structs that are shorter or longer than the plugin's
// header has them. The tables are called directly here.
#include <cstring>

#include "transport/testing/transport_test.h"

namespace weft {
namespace {

// A struct with a claimed size of `size` and canaries behind it.
template <typename T>
class Truncated {
 public:
  explicit Truncated(uint32_t size) : size_(size) {
    std::memset(bytes_, kCanary, sizeof(bytes_));
    std::memcpy(bytes_, &size, sizeof(size));
  }
  // The front of `value`.
  Truncated(uint32_t size, const T& value) : Truncated(size) {
    std::memcpy(bytes_ + 4, reinterpret_cast<const char*>(&value) + 4,
                size - 4);
  }
  T* get() { return reinterpret_cast<T*>(bytes_); }
  bool Intact() const {
    uint32_t size;
    std::memcpy(&size, bytes_, sizeof(size));
    if (size != size_) return false;
    for (size_t i = size_; i < sizeof(bytes_); ++i) {
      if (bytes_[i] != kCanary) return false;
    }
    return true;
  }

 private:
  static constexpr unsigned char kCanary = 0xA5;
  uint32_t size_;
  alignas(T) unsigned char bytes_[sizeof(T) + 64];
};

weft_status NewStatus() {
  weft_status status{};
  status.struct_size = sizeof(status);
  return status;
}

TEST_P(TransportTest, OlderHostsGetNoByteMoreThanTheyKnow) {
  auto node = Open(Config(0, 1));
  weft_domain* domain = node->domain().handle();
  weft_status status = NewStatus();
  for (uint32_t size = 8; size <= sizeof(weft_transport_info); size += 4) {
    Truncated<weft_transport_info> info(size);
    EXPECT_EQ(api().info(nullptr, info.get(), &status), WEFT_OK);
    EXPECT_TRUE(info.Intact()) << size;
    EXPECT_EQ(api().info(domain, info.get(), &status), WEFT_OK);
    EXPECT_TRUE(info.Intact()) << size;
  }
  for (uint32_t size = 8; size <= sizeof(weft_transport_stats); size += 4) {
    if (api().stats == nullptr) break;
    Truncated<weft_transport_stats> stats(size);
    EXPECT_EQ(api().stats(domain, stats.get(), &status), WEFT_OK);
    EXPECT_TRUE(stats.Intact()) << size;
  }
  for (uint32_t size : {8u, 9u, 12u}) {  // an address does not fit
    Truncated<weft_blob> blob(size);
    EXPECT_NE(api().listen(domain, blob.get(), &status), WEFT_OK);
    EXPECT_TRUE(blob.Intact()) << size;
  }
}

// What an older host does not say counts as zero: a domain without options,
// without a token, of epoch 0.
TEST_P(TransportTest, OlderHostsConfigurationsAreRead) {
  weft_domain_config config{};
  config.struct_size = sizeof(config);
  config.rank = 1;
  config.world = 2;
  config.job = {"j", 1};
  config.epoch = ~uint64_t{0};
  config.plan_hash = ~uint64_t{0};
  for (uint32_t size :
       {offsetof(weft_domain_config, job), offsetof(weft_domain_config, epoch),
        offsetof(weft_domain_config, notify_token),
        offsetof(weft_domain_config, options),
        offsetof(weft_domain_config, secret)}) {
    Truncated<weft_domain_config> older(size, config);
    weft_status status = NewStatus();
    weft_domain* domain = nullptr;
    ASSERT_EQ(api().domain_open(older.get(), &domain, &status), WEFT_OK)
        << size << status.message;
    EXPECT_EQ(api().domain_close(domain, &status), WEFT_OK);
  }
  // Without a world there is no rank in it.
  Truncated<weft_domain_config> empty(8, config);
  weft_status status = NewStatus();
  weft_domain* domain = nullptr;
  EXPECT_EQ(api().domain_open(empty.get(), &domain, &status), WEFT_INVALID);
}

// Events of every size, in an array that the host laid out.
TEST_P(TransportTest, OlderHostsEventsEndWhereTheySay) {
  Nodes nodes = Mesh(2);
  std::string into(3, '\0');
  const uint32_t least = offsetof(weft_transport_event, tag);
  for (uint32_t size = least; size <= sizeof(weft_transport_event); size += 8) {
    const uint64_t tag = size;
    PumpThese({nodes[0].get()}, [&] {  // credits may have to come back
      return nodes[0]->TrySend(1, tag, "four", 4, tag);
    });
    ASSERT_TRUE(nodes[1]->TryRecv(0, tag, into.data(), 3, tag));
    Truncated<weft_transport_event> event(size);
    weft_status status = NewStatus();
    uint32_t count = 0;
    PumpThese({nodes[0].get()}, [&] {
      return api().poll(nodes[1]->domain().handle(), event.get(), 1, &count,
                        &status) != WEFT_OK ||
             count == 1;
    });
    ASSERT_EQ(count, 1u);
    EXPECT_TRUE(event.Intact()) << size;
    EXPECT_EQ(event.get()->kind, WEFT_EVENT_COMPLETED);
    EXPECT_EQ(event.get()->cookie, tag);
    if (size > offsetof(weft_transport_event, message)) {  // with its end
      EXPECT_LT(std::strlen(event.get()->message),
                size - offsetof(weft_transport_event, message));
    }
  }
  // The node saw none of these completions: they were polled past it.
  nodes[1]->Forget((sizeof(weft_transport_event) - least) / 8 + 1);
}

TEST_P(TransportTest, NewerHostsLongerStructsAreRead) {
  Nodes nodes = Mesh(2);
  struct NewerOp {
    weft_transport_op known;
    uint64_t added[2];
  };
  struct NewerEvent {
    weft_transport_event known;
    uint64_t added;
  };
  std::string into(4, '\0');
  NewerOp op{{sizeof(NewerOp), WEFT_TRANSPORT_SEND, 0, 0, nodes[0]->to(1), 1,
              const_cast<char*>("four"), 4, 1},
             {~0ull, ~0ull}};
  weft_status status = NewStatus();
  ASSERT_EQ(api().post(nodes[0]->domain().handle(), &op.known, &status),
            WEFT_OK);
  op.known.kind = WEFT_TRANSPORT_RECV;
  op.known.ep = nodes[1]->to(0);
  op.known.host = into.data();
  for (int i = 0; i < 2; ++i) {  // two events need the stride
    op.known.cookie = 5 + i;
    if (i == 1) nodes[0]->Send(1, 1, "more");
    ASSERT_EQ(api().post(nodes[1]->domain().handle(), &op.known, &status),
              WEFT_OK);
  }
  NewerEvent events[4] = {};
  for (NewerEvent& event : events) {
    event.known.struct_size = sizeof(event);
    event.added = 42;
  }
  uint32_t count = 0;
  uint32_t total = 0;
  PumpThese({}, [&] {
    EXPECT_EQ(api().poll(nodes[1]->domain().handle(), &events[total].known,
                         4 - total, &count, &status),
              WEFT_OK);
    total += count;
    return total >= 2;
  });
  EXPECT_EQ(events[0].known.cookie, 5u);
  EXPECT_EQ(events[1].known.cookie, 6u);
  EXPECT_EQ(events[1].added, 42u);
  EXPECT_EQ(into, "more");
  PumpThese({}, [&] {  // the two SENDs, one of which the node does not know
    EXPECT_EQ(api().poll(nodes[0]->domain().handle(), &events[0].known, 1,
                         &count, &status),
              WEFT_OK);
    total += count;
    return total >= 4;
  });
  nodes[0]->Forget(1);
}

TEST_P(TransportTest, UnknownKindsAndFlagsAreRefused) {
  Nodes nodes = Mesh(2);
  weft_domain* domain = nodes[0]->domain().handle();
  weft_status status = NewStatus();
  char byte = 0;
  weft_transport_op op{};
  op.struct_size = sizeof(op);
  op.kind = WEFT_TRANSPORT_SEND;
  op.ep = nodes[0]->to(1);
  op.host = &byte;
  op.length = 1;
  op.flags = 2;
  EXPECT_EQ(api().post(domain, &op, &status), WEFT_INVALID);
  op.flags = 0;
  op.kind = 9;
  EXPECT_EQ(api().post(domain, &op, &status), WEFT_INVALID);
  op.kind = WEFT_TRANSPORT_RECV;
  op.flags = WEFT_TRANSPORT_URGENT;
  EXPECT_EQ(api().post(domain, &op, &status), WEFT_INVALID);
  EXPECT_EQ(api().ep_close(domain, op.ep, 2, &status), WEFT_INVALID);
  EXPECT_EQ(api().post(nullptr, &op, &status), WEFT_INVALID);
  EXPECT_EQ(api().domain_close(nullptr, &status), WEFT_INVALID);
}

}  // namespace
}  // namespace weft
