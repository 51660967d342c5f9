// What a wire makes of a peer that breaks the rules.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/wire/wire.h"
#include "runtime/wire/wire_fixture.h"

namespace weft::runtime {
namespace {

using namespace wire_testing;  // NOLINT
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A rank 1 that says whatever the test wants.
class RogueTest : public WireTest {
 protected:
  // `ranks`: 2, or 3, of which it knows the last one's address.
  void ConnectRogue(uint32_t ranks = 2, const Options& options = kFewCredits) {
    const auto rogue = [&] {
      DomainConfig config = OptionsOf(1, ranks, meeting_.get(), {}).config;
      domain_ = transport_->Open(config).value();
      const std::string mine = domain_->Listen().value();
      ASSERT_TRUE(meeting_->AllGather(1, "wire/offers", offer_).ok());
      const std::vector<std::string> texts =
          meeting_->AllGather(1, "wire/address", JoinFields({mine})).value();
      if (ranks == 3) {
        address_ = SplitFields(texts[2]).value()[0];
        ASSERT_TRUE(domain_->Connect(2, address_).ok());
      }
      for (uint32_t others = 1; others < ranks; ++others) {
        const TransportEvent event = Next(*domain_);
        ASSERT_TRUE(event.status.ok()) << event.status;
        if (event.kind == TransportEventKind::kAccepted) {
          endpoint_ = event.endpoint;
        }
      }
      ASSERT_TRUE(meeting_->AllGather(1, "wire/connected", "").ok());
    };
    for (const absl::Status& status : Connect(ranks, options, rogue)) {
      ASSERT_TRUE(status.ok()) << status;
    }
  }
  static TransportEvent Next(Domain& domain) {
    TransportEvent event;
    while (domain.Poll(absl::MakeSpan(&event, 1)).value() == 0) {
      domain.Wait(1'000'000).IgnoreError();
    }
    return event;
  }
  void Say(uint64_t tag, const void* data, uint64_t bytes) {
    auto posted = domain_->PostSend(endpoint_, tag, data, bytes, 0, true);
    ASSERT_TRUE(posted.ok() && *posted) << posted.status();
  }
  // Rank 0 receives on the channel, and awaits one value.
  absl::Status AwaitValue(uint32_t* memory) {
    plan::Plan plan = ReceiverPlan(2, 1);
    plan.set_rank(0);
    plan.mutable_channels(0)->set_peer(1);
    absl::Status loaded = sender().Load(std::move(plan));
    return loaded.ok() ? sender().program->Post(0, memory, sizeof(*memory))
                       : loaded;
  }
  // How rank 0, which sends on the channel, takes a frame.
  absl::Status Take(const Frame& frame) {
    ConnectRogue();
    EXPECT_TRUE(sender().Load(SenderPlan(2, 2)).ok());
    Say(kFrameTag, &frame, sizeof(frame));
    absl::Status status = Failure(0);
    sender().program.reset();
    return status;
  }

  const Transport* transport_ = &Loopback();
  std::string offer_ = OfferOf(*transport_);
  std::unique_ptr<Domain> domain_;
  uint64_t endpoint_ = 0;  // to rank 0
  std::string address_;    // of rank 2
};

TEST_F(RogueTest, BadFramesNameTheirRank) {
  const Frame good{Frame::kCredit, 0, 1, kChannel, 9, kEpoch, 0};
  EXPECT_TRUE(Take(SealFrame(good)).ok());
  EXPECT_EQ(sender().got.size(), 1u);
  struct Case {
    const char* text;
    Frame frame;
  };
  Frame damaged = SealFrame(good);
  damaged.sequence ^= 1;
  Frame epoch = good, kind = good, channel = good, copy = good, none = good,
        many = good;
  epoch.epoch = kEpoch + 1;
  kind.kind = 2;
  channel.channel = kChannel + 1;
  copy.copy = 2;
  none.count = 0;
  many.count = 3;
  for (const Case& c : std::vector<Case>{
           {"is damaged", damaged},
           {"is of another job", SealFrame(epoch)},
           {"is of no kind", SealFrame(kind)},
           {"is for no channel", SealFrame(channel)},
           {"does not fit channel 'x:0>1' to rank 1", SealFrame(copy)},
           {"does not fit channel 'x:0>1' to rank 1", SealFrame(none)},
           {"is a credit too many for channel", SealFrame(many)}}) {
    SCOPED_TRACE(c.text);
    absl::Status status = Take(c.frame);
    EXPECT_TRUE(IsError(status, ErrorCode::kTransportFailed)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(absl::StrCat("a frame from rank 1 ", c.text)));
    EXPECT_TRUE(sender().got.empty());
  }
}

// SEND has its credits of this rank itself: one more would let it overrun.
TEST_F(RogueTest, NobodyTellsOfReceivesThatSendsGoAheadOf) {
  ConnectRogue(2, {});
  ASSERT_TRUE(sender().Load(SenderPlan(2, 2)).ok());
  const Frame frame = SealFrame({Frame::kCredit, 0, 1, kChannel, 0, kEpoch, 0});
  Say(kFrameTag, &frame, sizeof(frame));
  const absl::Status status = Failure(0);
  EXPECT_TRUE(IsError(status, ErrorCode::kTransportFailed)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("a frame from rank 1 does not fit channel 'x:0>1'"));
  EXPECT_EQ(sender().got.size(), 2u);  // as many as copies
  sender().program.reset();
}

// One that says it sends anything ahead has its values taken as they come.
TEST_F(RogueTest, BoundsThatNobodyHasLetNobodyWait) {
  offer_ = OffersText(
      {{"loopback", Loopback().info().locality, ~uint64_t{0}, ~uint32_t{0}}});
  ConnectRogue();
  uint32_t memory = 0;
  ASSERT_TRUE(AwaitValue(&memory).ok());
  const uint32_t value = 7;
  Say(kChannel, &value, sizeof(value));
  Pump([&] { return sender().got.size() == 1; });
  EXPECT_EQ(memory, 7u);
  // More than there are receives for, up to what the transport itself takes.
  for (int i = 0; i < 4; ++i) Say(kChannel, &value, sizeof(value));
  EXPECT_TRUE(Failure(0).ok());
  EXPECT_EQ(sender().got.size(), 1u);
  sender().program.reset();
}

TEST_F(RogueTest, BadValuesNameTheirRank) {
  constexpr uint32_t kCopies = 16;
  ValueFrame good;
  good.head = {Frame::kValues, 4, 2, kChannel, 0, kEpoch, 0};
  good.bytes[0] = 7;
  const auto sealed = [](ValueFrame frame) {
    frame.head.crc =
        ValueFrameCrc(frame, uint64_t{frame.head.count} * frame.head.copy);
    return frame;
  };
  ValueFrame damaged = sealed(good), sequence = good, many = good, more = good,
             kind = good;
  damaged.bytes[1] = 1;
  ValueFrame longer = good, huge = good;
  longer.head.copy = 8;
  huge.head.copy = 1000;
  sequence.head.sequence = 1;
  many.head.count = 9;
  more.head.count = 4;
  kind.head.kind = Frame::kCredit;
  struct Case {
    const char* text;
    ValueFrame frame;
  };
  for (const Case& c : std::vector<Case>{
           {"", sealed(good)},
           {"are damaged", damaged},
           {"are damaged", huge},
           {"do not fit channel 'x:0>1'", sealed(longer)},
           {"do not fit channel 'x:0>1'", sealed(sequence)},
           {"do not fit channel 'x:0>1'", sealed(many)},
           {"are more than channel 'x:0>1' from rank 1 has", sealed(more)},
           {"is of no kind", sealed(kind)}}) {
    SCOPED_TRACE(c.text);
    ConnectRogue();
    plan::Plan plan = OfBytes(ReceiverPlan(2, kCopies), 4);
    plan.set_rank(0);
    plan.mutable_channels(0)->set_peer(1);
    ASSERT_TRUE(sender().Load(std::move(plan)).ok());
    uint32_t memory[2] = {};
    for (uint32_t& m : memory) {
      ASSERT_TRUE(sender().program->Post(0, &m, 4).ok());
    }
    Say(kValueTag, &c.frame, sizeof(c.frame));
    const absl::Status status = Failure(0);
    sender().program.reset();
    if (c.text[0] == '\0') {
      EXPECT_TRUE(status.ok()) << status;
      EXPECT_EQ(memory[0], 7u);
      continue;
    }
    EXPECT_TRUE(IsError(status, ErrorCode::kTransportFailed)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("from rank 1 "));
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.text));
    EXPECT_EQ(memory[0], 0u);
  }
}

TEST_F(RogueTest, MessagesOfAnotherLengthNameTheirRank) {
  for (const auto& [tag, text] : std::vector<std::pair<uint64_t, std::string>>{
           {kFrameTag, "a frame from rank 1"},
           {kAbortTag, "the last words of rank 1"}}) {
    ConnectRogue();
    Say(tag, "0123456789", 10);
    absl::Status status = Failure(0);
    EXPECT_TRUE(IsError(status, ErrorCode::kLengthMismatch)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  }
}

TEST_F(RogueTest, DataOfAnotherLengthNamesTheChannel) {
  ConnectRogue();
  uint32_t memory = 0;
  ASSERT_TRUE(AwaitValue(&memory).ok());
  Say(kChannel, "0123456789", 10);
  absl::Status status = Failure(0);
  EXPECT_TRUE(IsError(status, ErrorCode::kLengthMismatch)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("channel 'x:0>1' from rank 1"));
}

struct Named {
  const char* name;
  const Transport& (*load)();
};

class AgainTest : public RogueTest,
                  public ::testing::WithParamInterface<Named> {
 protected:
  AgainTest() {
    transport_ = &GetParam().load();
    offer_ = OfferOf(*transport_);
    transports_.assign(3, {{transport_, {}}});
  }
};

// With all that a rank knows, and as a later life of it.
TEST_P(AgainTest, WhoComesAsARankThatIsThereIsTurnedAway) {
  ConnectRogue(3);
  DomainConfig config = OptionsOf(1, 3, meeting_.get(), {}).config;
  config.incarnation = 1;
  std::unique_ptr<Domain> again = transport_->Open(config).value();
  ASSERT_TRUE(again->Connect(2, address_).ok());
  std::vector<TransportEventKind> seen;
  Pump([&] {
    TransportEvent event;
    if (again->Poll(absl::MakeSpan(&event, 1)).value() == 1) {
      seen.push_back(event.kind);
    }
    return seen.size() == 2;
  });
  EXPECT_THAT(seen, ElementsAre(TransportEventKind::kConnected,
                                TransportEventKind::kEndpointDown));
  EXPECT_TRUE(Failure(2).ok());
  // The first one stays.
  TransportEvent event;
  EXPECT_EQ(domain_->Poll(absl::MakeSpan(&event, 1)).value(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Transports, AgainTest,
                         ::testing::Values(Named{"loopback", Loopback},
                                           Named{"shm", Shm},
                                           Named{"grpc", Grpc}),
                         [](const auto& info) {
                           return std::string(info.param.name);
                         });

TEST_F(RogueTest, LastWordsThatMakeNoSense) {
  ConnectRogue();
  LastWords words;
  words.code = 424242;
  words.size = 1u << 30;
  std::memset(words.text, '?', sizeof(words.text));
  Say(kAbortTag, &words, sizeof(words));
  absl::Status status = Failure(0);
  EXPECT_TRUE(IsError(status, ErrorCode::kInternal)) << status;
  EXPECT_EQ(status.message(),
            "rank 1: " + std::string(sizeof(words.text), '?'));
}

}  // namespace
}  // namespace weft::runtime
