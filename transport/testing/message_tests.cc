// Matching, sizes, bounds.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "transport/testing/transport_test.h"

namespace weft {
namespace {

using Kind = TransportEventKind;

TEST_P(TransportTest, EverySizeInEitherOrderAndDirection) {
  Nodes nodes = Mesh(2);
  const uint64_t eager = nodes[0]->domain().info().eager_max;
  uint64_t seed = 0;
  for (uint64_t size :
       {uint64_t{0}, uint64_t{1}, uint64_t{31}, eager - 1, eager, eager + 1,
        uint64_t{12345}, uint64_t{1} << 20, (uint64_t{1} << 20) + 13}) {
    for (bool recv_first : {false, true}) {
      for (uint32_t from : {0u, 1u}) {
        SCOPED_TRACE(absl::StrCat(size, " bytes, from ", from));
        Node& a = *nodes[from];
        Node& b = *nodes[1 - from];
        const std::string bytes = Pattern(++seed, size);
        std::string into(size, '\0');
        uint64_t recv = 0;
        if (recv_first) recv = b.Recv(from, seed, &into);
        const uint64_t send = a.Send(1 - from, seed, bytes);
        if (!recv_first) recv = b.Recv(from, seed, &into);
        PumpUntil(nodes, [&] { return a.done(send) && b.done(recv); });
        ASSERT_TRUE(a.result(send).status.ok()) << a.result(send).status;
        ASSERT_TRUE(b.result(recv).status.ok()) << b.result(recv).status;
        EXPECT_EQ(into, bytes);
        EXPECT_EQ(a.result(send).length, size);
        EXPECT_EQ(b.result(recv).length, size);
        EXPECT_TRUE(a.result(send).is_send);
        EXPECT_FALSE(b.result(recv).is_send);
        EXPECT_EQ(b.result(recv).tag, seed);
        EXPECT_EQ(b.result(recv).endpoint, b.to(from));
      }
    }
  }
  const weft_transport_stats stats = nodes[0]->domain().Stats().value();
  EXPECT_EQ(stats.sent_messages, 18u);
  EXPECT_EQ(stats.received_messages, 18u);
  EXPECT_EQ(stats.sent_bytes, stats.received_bytes);
  EXPECT_EQ(stats.endpoints, 1u);
}

// No bytes need no memory.
TEST_P(TransportTest, NothingCanBeSent) {
  Nodes nodes = Mesh(2);
  ASSERT_TRUE(nodes[0]->TrySend(1, 7, nullptr, 0, 1));
  ASSERT_TRUE(nodes[1]->TryRecv(0, 7, nullptr, 0, 2));
  PumpUntil(nodes, [&] { return nodes[0]->done(1) && nodes[1]->done(2); });
  EXPECT_TRUE(nodes[0]->result(1).status.ok());
  EXPECT_TRUE(nodes[1]->result(2).status.ok());
}

TEST_P(TransportTest, FirstPostedFirstMatchedPerTag) {
  Nodes nodes = Mesh(2);
  Node& a = *nodes[0];
  Node& b = *nodes[1];
  const uint32_t kMessages = std::min(100u, a.domain().info().eager_credits);
  for (bool recv_first : {false, true}) {
    std::vector<std::string> into(kMessages, std::string(16, '\0'));
    std::vector<uint64_t> sends, recvs;
    const auto post_recvs = [&] {
      for (std::string& bytes : into) recvs.push_back(b.Recv(0, 5, &bytes));
    };
    const size_t a_before = a.order().size();
    const size_t b_before = b.order().size();
    if (recv_first) post_recvs();
    for (uint32_t i = 0; i < kMessages; ++i) {
      sends.push_back(a.Send(1, 5, Pattern(i, 16)));
    }
    if (!recv_first) post_recvs();
    PumpUntil(nodes, [&] { return a.outstanding() + b.outstanding() == 0; });
    for (uint32_t i = 0; i < kMessages; ++i) {
      EXPECT_EQ(into[i], Pattern(i, 16)) << i;
    }
    // And completed in that order.
    EXPECT_EQ(
        std::vector<uint64_t>(a.order().begin() + a_before, a.order().end()),
        sends);
    EXPECT_EQ(
        std::vector<uint64_t>(b.order().begin() + b_before, b.order().end()),
        recvs);
  }
}

TEST_P(TransportTest, TagsAreExact) {
  Nodes nodes = Mesh(2);
  Node& a = *nodes[0];
  Node& b = *nodes[1];
  // Tags that differ in one bit, matched in the opposite order.
  std::vector<uint64_t> tags = {0, UINT64_MAX};
  for (int bit = 0; bit < 64 && tags.size() < a.domain().info().eager_credits;
       ++bit) {
    tags.push_back(uint64_t{1} << bit);
  }
  if (tags.size() > a.domain().info().eager_credits) {
    tags.resize(a.domain().info().eager_credits);
  }
  for (uint64_t tag : tags) a.Send(1, tag, Pattern(tag, 9));
  std::map<uint64_t, std::string> into;
  std::reverse(tags.begin(), tags.end());
  for (uint64_t tag : tags) {
    into[tag] = std::string(9, '\0');
    const uint64_t recv = b.Recv(0, tag, &into[tag]);
    PumpUntil(nodes, [&] { return b.done(recv); });
    EXPECT_EQ(into[tag], Pattern(tag, 9)) << tag;
  }
}

// A message of one tag waits for nothing of another, whatever its size.
TEST_P(TransportTest, TagsDoNotWaitForEachOther) {
  Nodes nodes = Mesh(2);
  Node& a = *nodes[0];
  Node& b = *nodes[1];
  const std::string large = Pattern(1, 1 << 18);
  const uint64_t waits = a.Send(1, 1, large);
  std::string other(large.size(), '\0');
  const uint64_t recv = b.Recv(0, 2, &other);
  const std::string passes = Pattern(2, large.size());
  a.Send(1, 2, passes);
  PumpUntil(nodes, [&] { return b.done(recv); });
  EXPECT_EQ(other, passes);
  EXPECT_FALSE(a.done(waits)) << "nobody took it";
}

TEST_P(TransportTest, ASmallSendIsCopied) {
  Nodes nodes = Mesh(2);
  const uint64_t size = nodes[0]->domain().info().eager_max;
  std::string bytes = Pattern(1, size);
  nodes[0]->Send(1, 1, bytes);
  std::fill(bytes.begin(), bytes.end(), 'x');
  std::string into(size, '\0');
  const uint64_t recv = nodes[1]->Recv(0, 1, &into);
  PumpUntil(nodes, [&] { return nodes[1]->done(recv); });
  EXPECT_EQ(into, Pattern(1, size));
}

// ---- Lengths ---------------------------------------------------------------

TEST_P(TransportTest, AnotherLengthIsAnErrorOnBothSides) {
  Nodes nodes = Mesh(2);
  Node& a = *nodes[0];
  Node& b = *nodes[1];
  const uint64_t eager = a.domain().info().eager_max;
  const std::pair<uint64_t, uint64_t> cases[] = {
      {0, 1},         {1, 0},         {40, 39},       {40, 41},
      {eager + 9, 1}, {1, eager + 9}, {99999, 99998}, {99998, 99999}};
  for (bool recv_first : {false, true}) {
    for (const auto& [sent, expected] : cases) {
      SCOPED_TRACE(absl::StrCat(sent, " into ", expected));
      const std::string bytes = Pattern(3, sent);
      std::string into(expected, '.');
      uint64_t recv = 0;
      if (recv_first) recv = b.Recv(0, 1, &into);
      const uint64_t send = a.Send(1, 1, bytes);
      if (!recv_first) recv = b.Recv(0, 1, &into);
      PumpUntil(nodes, [&] { return a.done(send) && b.done(recv); });
      for (const absl::Status& status :
           {a.result(send).status, b.result(recv).status}) {
        EXPECT_TRUE(Is(status, ErrorCode::kLengthMismatch));
        for (uint64_t length : {sent, expected}) {
          EXPECT_NE(status.message().find(absl::StrCat(length)),
                    std::string::npos)
              << status;
        }
      }
      EXPECT_EQ(into, std::string(expected, '.')) << "bytes were written";
      // The tag goes on.
      std::string next(4, '\0');
      const uint64_t good = b.Recv(0, 1, &next);
      a.Send(1, 1, "next");
      PumpUntil(nodes, [&] { return b.done(good); });
      EXPECT_EQ(next, "next");
    }
  }
}

// ---- Bounds ----------------------------------------------------------------

TEST_P(TransportTest, CreditsBoundSmallSends) {
  Nodes nodes = Mesh(2);
  Node& a = *nodes[0];
  Node& b = *nodes[1];
  const uint64_t credits = a.domain().info().eager_credits;
  uint64_t cookie = 100;
  for (bool urgent : {false, true}) {
    for (uint64_t i = 0; i < credits; ++i) {
      ASSERT_TRUE(a.TrySend(1, urgent, "abc", 3, cookie++, urgent));
    }
    EXPECT_FALSE(a.TrySend(1, urgent, "abc", 3, 1, urgent)) << "no bound";
    EXPECT_FALSE(a.TrySend(1, 10, "abc", 3, 1, urgent)) << "one per tag";
  }
  EXPECT_GE(a.domain().Stats().value().again, 4u);
  // One that completes makes room for one.
  std::string into(3, '\0');
  b.Recv(0, 0, &into);
  PumpUntil(nodes, [&] { return a.done(100); });
  EXPECT_TRUE(a.TrySend(1, 0, "abc", 3, cookie++));
  EXPECT_FALSE(a.TrySend(1, 0, "abc", 3, 1));
  // The other side has credits of its own.
  EXPECT_TRUE(b.TrySend(0, 0, "abc", 3, cookie++));
}

TEST_P(TransportTest, ReceivesAndLargeSendsAreBounded) {
  Nodes nodes = Mesh(2);
  Node& a = *nodes[0];
  const uint64_t limit = a.domain().info().max_inflight;
  if (limit > 1000) GTEST_SKIP() << limit << " would take long";
  char byte = 0;
  for (uint64_t i = 0; i < limit; ++i) {
    ASSERT_TRUE(a.TryRecv(1, i % 3, &byte, 1, i + 1));
  }
  EXPECT_FALSE(a.TryRecv(1, 9, &byte, 1, 0));
  const std::string large(a.domain().info().eager_max + 1, 'x');
  for (uint64_t i = 0; i < limit; ++i) {
    ASSERT_TRUE(a.TrySend(1, i % 3, large.data(), large.size(), limit + i + 1));
  }
  EXPECT_FALSE(a.TrySend(1, 9, large.data(), large.size(), 0));
}

// Control goes through where bulk has used up what there is.
TEST_P(TransportTest, UrgentMessagesPassBulk) {
  Nodes nodes = Mesh(2);
  Node& a = *nodes[0];
  Node& b = *nodes[1];
  std::string control(32, '\0');
  const uint64_t recv = b.Recv(0, 0, &control);
  uint64_t cookie = 1000;
  while (a.TrySend(1, 1, "bulk", 4, ++cookie)) {
  }
  a.Send(1, 0, Pattern(8, 32), /*urgent=*/true);
  PumpUntil(nodes, [&] { return b.done(recv); });
  EXPECT_EQ(control, Pattern(8, 32));
}

}  // namespace
}  // namespace weft
