#include "runtime/wire/ahead.h"

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/wire/wire.h"
#include "runtime/wire/wire_fixture.h"

namespace weft::runtime {
namespace {

using namespace wire_testing;  // NOLINT
using actor::Message;
using ::testing::ElementsAre;

plan::Plan PlanOf(const std::vector<plan::Channel>& channels) {
  plan::Plan plan;
  for (const plan::Channel& channel : channels) *plan.add_channels() = channel;
  return plan;
}

plan::Channel Of(uint64_t id, uint32_t copies, int64_t floats,
                 uint32_t peer = 1, bool receives = false) {
  plan::Channel channel;
  channel.set_id(id);
  channel.set_peer(peer);
  channel.set_receives(receives);
  channel.set_copies(copies);
  if (floats == 0) return channel;  // an edge of order
  channel.mutable_tensor()->set_dtype(1);
  channel.mutable_tensor()->add_dims(floats);
  return channel;
}

// In the order of ids, as long as half of the credits last, which each peer has
// for each direction.
TEST(SendsAheadTest, ChannelsOfSmallValuesInTheOrderOfTheirIds) {
  const plan::Plan plan =
      PlanOf({Of(9, 1, 1000), Of(3, 2, 16), Of(5, 1, 1025), Of(6, 4, 0),
              Of(7, 1, 16), Of(8, 1, 16, 2), Of(4, 2, 16, 1, true)});
  EXPECT_THAT(SendsAhead(plan,
                         [](const auto&) {
                           return EagerBounds{4096, 20};
                         }),
              ElementsAre(0, 3, 0, 5, 2, 2, 3));
  EXPECT_THAT(
      SendsAhead(
          plan,
          [](const plan::Channel& channel) {
            return channel.receives() ? EagerBounds{} : EagerBounds{4000, 64};
          }),
      ElementsAre(2, 3, 0, 5, 2, 2, 0));
}

class AheadTest : public WireTest {
 protected:
  void Send(uint32_t value) {
    absl::Status sent = sender().program->Send(0, &value, 4);
    ASSERT_TRUE(sent.ok()) << sent;
  }
};

// SEND has its credits from the start; no receive is posted yet, and no message
// comes but what it sends.
TEST_F(AheadTest, SendsNeedNoReceives) {
  for (const Options& options :
       {Options{}, Options{{"delay_max", "5"}, {"delay_seed", "3"}}}) {
    ConnectPair(/*copies=*/1, options);
    ASSERT_TRUE(sender().Poll().ok());
    ASSERT_EQ(sender().got.size(), 1u);
    const Message credit =
        Message::Req(plan::ActorIdOf(*sender().view, 1, {}),
                     plan::CreditRegister(*sender().view, 0), 0, 0);
    EXPECT_EQ(sender().got[0], credit);
    Send(100);
    ASSERT_TRUE(sender().Poll().ok());
    ASSERT_EQ(sender().got.size(), 2u);  // as many as copies, and one
    Send(101);
    for (int i = 0; i < 100; ++i) {
      ASSERT_TRUE(sender().Poll().ok());
      ASSERT_TRUE(receiver().Poll().ok());
    }
    EXPECT_EQ(sender().got.size(), 2u);
    EXPECT_TRUE(receiver().got.empty());
    uint32_t memory = 0;
    for (uint32_t act = 0; act < 5; ++act) {
      SCOPED_TRACE(act);
      Grant(&memory, 4, 0, act);
      Pump([&] {
        return receiver().got.size() == act + 1 &&
               sender().got.size() == act + 3;
      });
      EXPECT_EQ(memory, 100 + act);
      EXPECT_EQ(receiver().got[act].sequence, act);
      EXPECT_EQ(sender().got[act + 2].sequence, act + 2);
      Send(102 + act);
    }
    for (Rank& rank : ranks_) rank.program.reset();
  }
}

// More copies let SEND hear of as many at once as its port takes.
TEST_F(AheadTest, NoMoreCreditsThanCopies) {
  ConnectPair(/*copies=*/3);
  ASSERT_TRUE(sender().Poll().ok());
  EXPECT_EQ(sender().got.size(), 3u);
  Send(1);
  ASSERT_TRUE(sender().Poll().ok());
  ASSERT_EQ(sender().got.size(), 4u);
  EXPECT_EQ(sender().got[3].copy, 0);
  uint32_t memory = 0;
  Grant(&memory, 4, 0, 0);
  Pump([&] { return receiver().got.size() == 1; });
  ASSERT_TRUE(sender().Poll().ok());
  EXPECT_EQ(sender().got.size(), 4u);  // its port has three already
  Send(2);
  ASSERT_TRUE(sender().Poll().ok());
  EXPECT_EQ(sender().got.size(), 5u);
}

// A rank that has other options is known by what it offers.
TEST_F(AheadTest, EachRankSendsWithinItsOwnBounds) {
  for (bool few_sends : {true, false}) {
    const WireTransport few{&Loopback(), kFewCredits};
    const WireTransport many{&Loopback(), {}};
    transports_ = {{few_sends ? few : many}, {few_sends ? many : few}};
    ConnectPair(/*copies=*/1);
    ASSERT_TRUE(sender().Poll().ok());
    EXPECT_EQ(sender().got.size(), few_sends ? 0u : 1u);
    uint32_t memory = 0;
    Grant(&memory, 4, 0, 0);
    Pump([&] { return sender().got.size() == 1; });
    Send(7);
    Pump([&] { return receiver().got.size() == 1; });
    EXPECT_EQ(memory, 7u);
    ranks_.clear();
  }
}

}  // namespace
}  // namespace weft::runtime
