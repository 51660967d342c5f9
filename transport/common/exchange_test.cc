#include "transport/common/exchange.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace weft_transport {
namespace {

constexpr Limits kLimits = {8, 2, 3};

struct Nothing {};

// Writes down what it would carry.
class Carrier : public Exchange<Carrier, Nothing, std::string> {
 public:
  explicit Carrier(Mailbox* mailbox)
      : Exchange(5, 1, kLimits, kLimits, mailbox) {}

  weft_code Post(uint32_t kind, uint64_t tag, std::string* bytes,
                 uint32_t flags = 0) {
    weft_transport_op op{};
    op.kind = kind;
    op.flags = flags;
    op.tag = tag;
    op.host = bytes->data();
    op.length = bytes->size();
    op.cookie = ++cookie_;
    weft_status status{};
    status.struct_size = sizeof(status);
    return kind == WEFT_TRANSPORT_SEND ? PostSend(op, &status)
                                       : PostRecv(op, &status);
  }
  weft_code SendIt(uint64_t tag, std::string* bytes, uint32_t flags = 0) {
    return Post(WEFT_TRANSPORT_SEND, tag, bytes, flags);
  }
  weft_code RecvIt(uint64_t tag, std::string* bytes) {
    return Post(WEFT_TRANSPORT_RECV, tag, bytes);
  }
  // The whole of a cleared SEND goes out.
  void SendChunks() {
    while (!active().empty()) {
      Send& from = send(active().front());
      from.sent = from.length;
      active().pop_front();
    }
  }
  bool TakeChunk(uint64_t id, const std::string& bytes) {
    char* to = nullptr;
    if (!BeginChunk(id, bytes.size(), &to)) return false;
    if (to != nullptr) std::memcpy(to, bytes.data(), bytes.size());
    EndChunk(id);
    return true;
  }

  using Exchange::active;
  using Exchange::BeginAbort;
  using Exchange::BeginClose;
  using Exchange::CompleteAll;
  using Exchange::Finished;
  using Exchange::Lose;
  using Exchange::Settle;
  using Exchange::TakeClear;
  using Exchange::TakeClose;
  using Exchange::TakeEager;
  using Exchange::TakeFin;
  using Exchange::TakeFinOf;
  using Exchange::TakeLarge;

  std::vector<std::string> said;
  std::set<uint64_t> referred;

 private:
  friend Exchange;
  friend Incoming;
  friend Outgoing;
  void Say(const std::string& what, uint64_t id, const std::string& more = "") {
    said.push_back(what + " " + std::to_string(id) + more);
  }
  void SayMessage(uint64_t id, Send* send) {
    Say(send->eager ? "eager" : "large", id, send->urgent ? " urgent" : "");
  }
  void SayClear(uint64_t id) { Say("clear", id); }
  void SayFin(uint64_t id, bool urgent, bool mismatch, uint64_t length) {
    Say("fin", id,
        " " + std::to_string(length) + (urgent ? " urgent" : "") +
            (mismatch ? " mismatch" : ""));
  }
  void SayClose() { Say("close", 0); }
  bool Refers(uint64_t id, const Send&) const {
    return referred.count(id) != 0;
  }
  void Forget(const Send&) {}

  uint64_t cookie_ = 0;
};

class ExchangeTest : public testing::Test {
 protected:
  // "SEND 1 ok": the operation, its cookie, how it ended; and EP_DOWN.
  std::vector<std::string> Events() {
    weft_transport_event raw[64];
    for (auto& event : raw) event.struct_size = sizeof(event);
    weft_sdk::EventWriter writer(raw, 64);
    mailbox_.Poll(&writer);
    std::vector<std::string> out;
    for (uint32_t i = 0; i < writer.count(); ++i) {
      const bool ok = raw[i].code == WEFT_OK;
      const std::string how = ok ? " ok" : std::string(" ") + raw[i].message;
      if (raw[i].kind == WEFT_EVENT_EP_DOWN) {
        out.push_back("down" + how);
      } else {
        out.push_back(
            (raw[i].op_kind == WEFT_TRANSPORT_SEND ? "SEND " : "RECV ") +
            std::to_string(raw[i].cookie) + how);
      }
    }
    return out;
  }
  using Texts = std::vector<std::string>;

  Mailbox mailbox_;
  Carrier carrier_{&mailbox_};
};

TEST_F(ExchangeTest, ASmallMessageMeetsItsRecvWhicheverIsFirst) {
  std::string first(3, '\0'), second(3, '\0');
  carrier_.RecvIt(7, &first);
  EXPECT_TRUE(carrier_.TakeEager(1, 7, false, "one"));
  EXPECT_TRUE(carrier_.TakeEager(2, 7, false, "two"));
  EXPECT_EQ(carrier_.said, Texts({"fin 1 3"}));
  carrier_.RecvIt(7, &second);
  EXPECT_EQ(carrier_.said, Texts({"fin 1 3", "fin 2 3"}));
  EXPECT_EQ(first + second, "onetwo");
  EXPECT_EQ(Events(), Texts({"RECV 1 ok", "RECV 2 ok"}));
  EXPECT_EQ(mailbox_.stats.received_bytes, 6u);
}

TEST_F(ExchangeTest, OtherLengthsTakeNoByte) {
  std::string room(4, 'r'), ours(5, 'o');
  carrier_.RecvIt(7, &room);
  EXPECT_TRUE(carrier_.TakeEager(1, 7, true, "one"));
  EXPECT_EQ(carrier_.said, Texts({"fin 1 4 urgent mismatch"}));
  EXPECT_EQ(room, "rrrr");
  carrier_.SendIt(7, &ours);
  EXPECT_TRUE(carrier_.TakeFin(1, true, 9));
  EXPECT_EQ(Events(), Texts({"RECV 1 a SEND of 3 bytes met a RECV of 4",
                             "SEND 2 a SEND of 5 bytes met a RECV of 9"}));
}

TEST_F(ExchangeTest, ALargeMessageComesInChunks) {
  std::string room(10, '\0'), small(1, '\0');
  EXPECT_TRUE(carrier_.TakeLarge(1, 7, 10));
  EXPECT_TRUE(carrier_.TakeEager(2, 7, false, "x"));
  carrier_.RecvIt(7, &room);
  carrier_.RecvIt(7, &small);
  EXPECT_EQ(carrier_.said, Texts({"clear 1"})) << "its lane is busy";
  EXPECT_TRUE(carrier_.TakeChunk(1, "01234"));
  EXPECT_FALSE(carrier_.TakeChunk(1, "567890"));
  EXPECT_FALSE(carrier_.TakeChunk(1, ""));
  EXPECT_TRUE(carrier_.TakeChunk(1, "56789"));
  EXPECT_EQ(carrier_.said, Texts({"clear 1", "fin 1 10", "fin 2 1"}));
  EXPECT_EQ(room + small, "0123456789x");
  EXPECT_FALSE(carrier_.TakeChunk(1, "x"));
}

TEST_F(ExchangeTest, ALargeSendGoesWhenItIsCleared) {
  std::string ours(20, 'o');
  carrier_.SendIt(7, &ours);
  EXPECT_FALSE(carrier_.TakeFin(1, false, 20)) << "before a byte was sent";
  EXPECT_TRUE(carrier_.TakeClear(1));
  EXPECT_FALSE(carrier_.TakeClear(1));
  EXPECT_FALSE(carrier_.TakeFin(1, true, 9)) << "it was cleared";
  carrier_.SendChunks();
  EXPECT_TRUE(carrier_.TakeFinOf(1));
  EXPECT_FALSE(carrier_.TakeFinOf(1));
  EXPECT_EQ(Events(), Texts({"SEND 1 ok"}));
}

// What is answered after a SEND that something refers to waits for it.
TEST_F(ExchangeTest, SendsSettleInOrder) {
  std::string ours(20, 'o'), small(2, 's');
  carrier_.SendIt(7, &ours);
  carrier_.SendIt(7, &small);
  carrier_.TakeClear(1);
  carrier_.SendChunks();
  carrier_.referred = {1};
  EXPECT_TRUE(carrier_.TakeFin(1, false, 20));
  EXPECT_TRUE(carrier_.TakeFin(2, false, 2));
  EXPECT_FALSE(carrier_.TakeFin(2, false, 2)) << "it was answered";
  EXPECT_TRUE(carrier_.Settle());
  EXPECT_TRUE(Events().empty());
  carrier_.referred.clear();
  EXPECT_FALSE(carrier_.Settle());
  EXPECT_EQ(Events(), Texts({"SEND 1 ok", "SEND 2 ok"}));
}

TEST_F(ExchangeTest, OperationsHaveTheirBounds) {
  std::string small(2, 's'), large(20, 'l');
  for (uint32_t flags : {0u, WEFT_TRANSPORT_URGENT}) {
    EXPECT_EQ(carrier_.SendIt(1, &small, flags), WEFT_OK);
    EXPECT_EQ(carrier_.SendIt(1, &small, flags), WEFT_OK);
    EXPECT_EQ(carrier_.SendIt(1, &small, flags), WEFT_AGAIN);
  }
  EXPECT_TRUE(carrier_.TakeFin(1, false, 2));
  EXPECT_EQ(carrier_.SendIt(1, &small), WEFT_OK);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(carrier_.RecvIt(2, &large), WEFT_OK);
  EXPECT_EQ(carrier_.RecvIt(2, &large), WEFT_AGAIN);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(carrier_.SendIt(3, &large), WEFT_OK);
  EXPECT_EQ(carrier_.SendIt(3, &large), WEFT_AGAIN);
  EXPECT_EQ(mailbox_.stats.again, 4u);
}

TEST_F(ExchangeTest, WhatNoPeerWouldSayIsRefused) {
  EXPECT_FALSE(carrier_.TakeEager(1, 1, false, "too long!"));
  EXPECT_FALSE(carrier_.TakeLarge(1, 1, 8)) << "that is small";
  EXPECT_FALSE(carrier_.TakeClear(1));
  EXPECT_FALSE(carrier_.TakeFin(1, false, 0));
  EXPECT_FALSE(carrier_.TakeFinOf(0));
  EXPECT_FALSE(carrier_.TakeChunk(1, "x"));
  EXPECT_TRUE(carrier_.TakeEager(4, 1, false, "a"));
  EXPECT_FALSE(carrier_.TakeEager(4, 1, false, "a")) << "one id twice";
  EXPECT_TRUE(carrier_.TakeEager(3, 1, true, "a")) << "urgent ones overtake";
  EXPECT_TRUE(carrier_.TakeEager(5, 1, false, "a"));
  EXPECT_FALSE(carrier_.TakeEager(6, 1, false, "a")) << "no credit";
  for (uint64_t id : {7, 8, 9}) EXPECT_TRUE(carrier_.TakeLarge(id, 2, 9));
  EXPECT_FALSE(carrier_.TakeLarge(10, 2, 9));
  std::string ours(2, 'o');
  carrier_.SendIt(3, &ours);
  EXPECT_FALSE(carrier_.TakeFin(1, true, 2)) << "a mismatch of equal lengths";
  EXPECT_FALSE(carrier_.TakeFin(1, false, 3));
}

// What has begun goes on; nothing else does.
TEST_F(ExchangeTest, ClosingFinishesWhatHasBegun) {
  std::string begun(10, '\0'), not_begun(10, '\0'), ours(20, 'o');
  carrier_.TakeLarge(1, 1, 10);
  carrier_.TakeLarge(2, 2, 10);
  carrier_.RecvIt(1, &begun);
  carrier_.RecvIt(2, &not_begun);
  carrier_.SendIt(3, &ours);
  carrier_.TakeClear(1);
  EXPECT_TRUE(carrier_.TakeChunk(1, "01234"));
  carrier_.TakeClose();
  EXPECT_EQ(carrier_.said.back(), "close 0");
  EXPECT_EQ(carrier_.DownCode(), WEFT_CANCELED);
  EXPECT_FALSE(carrier_.BeginClose());
  EXPECT_TRUE(carrier_.active().empty()) << "no byte of it went out";
  EXPECT_FALSE(carrier_.Finished());
  EXPECT_TRUE(carrier_.TakeChunk(2, "0123456789"));
  EXPECT_TRUE(carrier_.TakeEager(5, 1, false, "late"));
  EXPECT_TRUE(carrier_.TakeChunk(1, "56789"));
  EXPECT_TRUE(carrier_.Finished());
  EXPECT_EQ(begun, "0123456789");
  EXPECT_EQ(not_begun, std::string(10, '\0'));
  carrier_.Lose("");
  carrier_.CompleteAll();
  const std::string why = " rank 1 closed the endpoint";
  EXPECT_EQ(Events(),
            Texts({"RECV 1 ok", "SEND 3" + why, "RECV 2" + why, "down" + why}));
}

TEST_F(ExchangeTest, ALossSaysWhy) {
  std::string ours(2, 'o'), answered(20, 'a');
  carrier_.SendIt(1, &ours);
  carrier_.SendIt(1, &answered);
  carrier_.TakeClear(2);
  carrier_.SendChunks();
  carrier_.referred = {2};
  carrier_.TakeFin(2, false, 20);
  carrier_.Lose("it is silent");
  carrier_.Lose("and more");
  EXPECT_EQ(carrier_.DownCode(), WEFT_PEER_LOST);
  carrier_.CompleteAll();
  const std::string why = " rank 1 is lost: it is silent";
  EXPECT_EQ(Events(), Texts({"SEND 1" + why, "SEND 2 ok", "down" + why}));
  EXPECT_EQ(mailbox_.stats.endpoints, 0u);
}

TEST_F(ExchangeTest, AnEndByThisSideIsNoLoss) {
  EXPECT_TRUE(carrier_.BeginAbort());
  EXPECT_FALSE(carrier_.BeginAbort());
  carrier_.Lose("");
  carrier_.CompleteAll();
  EXPECT_EQ(Events(), Texts({"down ok"}));
}

}  // namespace
}  // namespace weft_transport
