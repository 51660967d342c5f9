// What a peer may write: frames and records of every kind, whole, cut off and
// made up, into a connection between two streams that are not there.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "transport/grpc/connection.h"
#include "transport/grpc/proof.h"
#include "transport/grpc/wire.h"

namespace weft_grpc {
namespace {

class FakeMessage : public Message {
 public:
  explicit FakeMessage(std::string bytes) : bytes_(std::move(bytes)) {}
  size_t size() const override { return bytes_.size(); }
  void Copy(size_t offset, size_t bytes, char* to) const override {
    ASSERT_LE(offset + bytes, bytes_.size());
    if (bytes != 0) std::memcpy(to, bytes_.data() + offset, bytes);
  }

 private:
  const std::string bytes_;
};

// Keeps what is written. Over() ends it as the port would.
class FakeStream : public Stream {
 public:
  void Write(std::string_view head, const char* body, size_t bytes,
             std::atomic<uint32_t>* held) override {
    ASSERT_TRUE(writable_);
    if (held != nullptr && keep) {
      ++*held;
      kept_.push_back(held);
    }
    writable_ = false;
    written.emplace_back(head);
    written.back().append(body == nullptr ? "" : std::string(body, bytes));
  }
  void Watch() override { watched = true; }
  bool writable() const override { return writable_ && !cancelled; }
  void Cancel() override { cancelled = true; }
  void Finish() override { cancelled = true; }
  std::vector<std::string> PeerNames() const override { return {}; }

  void Writable() {
    writable_ = true;
    if (!cancelled) user()->OnWritable(this);
  }

  // Refers to the oldest body no more, where it does keep them.
  void LetGo() {
    --*kept_.front();
    kept_.pop_front();
  }
  void Look() {
    watched = false;
    user()->OnReleased(this);
  }

  std::deque<std::string> written;
  bool cancelled = false;
  bool keep = false;
  bool watched = false;

 private:
  std::deque<std::atomic<uint32_t>*> kept_;
  bool writable_ = true;
};

class ProtocolTest : public testing::Test {
 protected:
  ProtocolTest() { Begin(); }
  ~ProtocolTest() override { End(); }

  void Begin() {
    control_ = std::make_shared<FakeStream>();
    bulk_ = std::make_shared<FakeStream>();
    Connection::Link link{control_, bulk_, 1, {64, 4, 8}};
    Options options;
    options.eager_max = 64;
    Locked lock(&shared_);
    connection_ =
        std::make_unique<Connection>(5, link, options, 1000, &shared_);
  }
  void End() {
    if (connection_ == nullptr) return;
    control_->user()->OnOver(control_.get(), "over");
    bulk_->user()->OnOver(bulk_.get(), "over");
    EXPECT_TRUE(connection_->down());
    connection_.reset();
  }
  void Say(const Record& record, const std::string& data = "") {
    std::string bytes;
    AppendRecord(record, &bytes);
    connection_->OnMessage(control_.get(), FakeMessage(bytes + data));
  }
  void SayChunk(uint64_t id, const std::string& data) {
    connection_->OnMessage(bulk_.get(),
                           FakeMessage(EncodeChunkHead(id) + data));
  }
  weft_code Post(uint32_t kind, uint64_t tag, std::string* bytes) {
    weft_transport_op op{};
    op.kind = kind;
    op.tag = tag;
    op.host = bytes->data();
    op.length = bytes->size();
    weft_status status{};
    status.struct_size = sizeof(status);
    Locked lock(&shared_);
    return connection_->Post(op, &status);
  }
  bool cut_off() const { return control_->cancelled && bulk_->cancelled; }

  Shared shared_{0};
  std::shared_ptr<FakeStream> control_, bulk_;
  std::unique_ptr<Connection> connection_;
};

Record Of(RecordKind kind, uint64_t id, uint64_t tag, uint64_t length,
          uint16_t flags = 0) {
  Record record;
  record.kind = kind;
  record.flags = flags;
  record.id = id;
  record.tag = tag;
  record.length = length;
  return record;
}

TEST_F(ProtocolTest, WhatAPeerWouldWriteIsTaken) {
  std::string small(5, '\0'), large(100, '\0'), ours(100, 'o');
  EXPECT_EQ(Post(WEFT_TRANSPORT_RECV, 1, &small), WEFT_OK);
  EXPECT_EQ(Post(WEFT_TRANSPORT_RECV, 2, &large), WEFT_OK);
  EXPECT_EQ(Post(WEFT_TRANSPORT_SEND, 3, &ours), WEFT_OK);
  Say(Of(RecordKind::kEager, 1, 1, 5), "hello");
  Say(Of(RecordKind::kLarge, 2, 2, 100));
  Say(Of(RecordKind::kClear, 1, 0, 0));
  SayChunk(2, std::string(40, 'a'));
  SayChunk(2, std::string(60, 'b'));
  ASSERT_EQ(bulk_->written.size(), 1u);
  EXPECT_EQ(bulk_->written[0], EncodeChunkHead(1) + ours);
  Say(Of(RecordKind::kFin, 1, 0, 100));
  EXPECT_FALSE(cut_off());
  EXPECT_EQ(small, "hello");
  EXPECT_EQ(large, std::string(40, 'a') + std::string(60, 'b'));
  EXPECT_EQ(shared_.mailbox.stats.received_messages, 2u);
  EXPECT_EQ(shared_.mailbox.stats.sent_messages, 1u);
}

TEST_F(ProtocolTest, WhatNoPeerWouldWriteCutsItOff) {
  std::string large(100, '\0'), ours(100, 'o');
  const std::function<void()> bad[] = {
      [&] { Say(Of(RecordKind::kEager, 1, 1, 65), std::string(65, 'x')); },
      [&] { Say(Of(RecordKind::kEager, 1, 1, 9), "too few"); },
      [&] { Say(Of(RecordKind::kEager, 1, 1, 1, 2), "x"); },
      [&] { Say(Of(RecordKind::kLarge, 1, 1, 64)); },
      [&] { Say(Of(RecordKind::kLarge, 1, 1, 65, 1)); },
      [&] {  // one id twice
        Say(Of(RecordKind::kEager, 7, 1, 1), "x");
        Say(Of(RecordKind::kEager, 7, 1, 1), "x");
      },
      [&] {  // more than it has credits for
        for (uint64_t i = 1; i <= 5; ++i) {
          Say(Of(RecordKind::kEager, i, 1, 1), "x");
        }
      },
      [&] {
        for (uint64_t i = 1; i <= 9; ++i) Say(Of(RecordKind::kLarge, i, 1, 65));
      },
      [&] { Say(Of(RecordKind::kClear, 1, 0, 0)); },
      [&] { Say(Of(RecordKind::kFin, 1, 0, 0)); },
      [&] {  // done before a byte was sent
        Post(WEFT_TRANSPORT_SEND, 1, &ours);
        Say(Of(RecordKind::kFin, 1, 0, 100));
      },
      [&] {  // a mismatch of equal lengths
        Post(WEFT_TRANSPORT_SEND, 1, &ours);
        Say(Of(RecordKind::kFin, 1, 0, 100, kMismatch));
      },
      [&] { Say(Of(RecordKind::kFinal, 0, 0, 0)); },
      [&] { Say(Of(static_cast<RecordKind>(0), 0, 0, 0)); },
      [&] { Say(Of(static_cast<RecordKind>(99), 0, 0, 0)); },
      [&] { SayChunk(1, "nobody asked"); },
      [&] {  // more than the RECV has room for
        Post(WEFT_TRANSPORT_RECV, 1, &large);
        Say(Of(RecordKind::kLarge, 1, 1, 100));
        SayChunk(1, std::string(101, 'x'));
      },
      [&] {
        Post(WEFT_TRANSPORT_RECV, 1, &large);
        Say(Of(RecordKind::kLarge, 1, 1, 100));
        SayChunk(1, "");
      },
      [&] { connection_->OnMessage(bulk_.get(), FakeMessage("short")); },
      [&] { connection_->OnMessage(control_.get(), FakeMessage("short")); }};
  int number = 0;
  for (const auto& write : bad) {
    SCOPED_TRACE(number++);
    write();
    EXPECT_TRUE(cut_off());
    End();
    Begin();
  }
}

// A peer may say that it has all of a message while this side reads it still.
TEST_F(ProtocolTest, ASendStaysWhileItsChunksAreReferredTo) {
  constexpr size_t kTwoChunks = 1'500'000;
  std::string one(100, 'o'), two(kTwoChunks, 't'), small(1, 's');
  bulk_->keep = true;
  EXPECT_EQ(Post(WEFT_TRANSPORT_SEND, 1, &one), WEFT_OK);
  EXPECT_EQ(Post(WEFT_TRANSPORT_SEND, 2, &two), WEFT_OK);
  EXPECT_EQ(Post(WEFT_TRANSPORT_SEND, 2, &small), WEFT_OK);
  Say(Of(RecordKind::kClear, 2, 0, 0));
  bulk_->Writable();
  bulk_->Writable();
  Say(Of(RecordKind::kClear, 1, 0, 0));
  ASSERT_EQ(bulk_->written.size(), 3u);
  Say(Of(RecordKind::kFin, 2, 0, kTwoChunks));
  Say(Of(RecordKind::kFin, 3, 0, 1));
  EXPECT_TRUE(bulk_->watched);
  bulk_->LetGo();
  bulk_->Look();
  EXPECT_TRUE(bulk_->watched) << "the second chunk is still referred to";
  EXPECT_EQ(shared_.mailbox.stats.sent_messages, 0u);
  bulk_->LetGo();
  bulk_->Look();
  EXPECT_FALSE(bulk_->watched);
  EXPECT_EQ(shared_.mailbox.stats.sent_messages, 2u) << "and what came after";
  // Answered, and then the connection ends: the peer has it all the same.
  Say(Of(RecordKind::kFin, 1, 0, 100));
  EXPECT_EQ(shared_.mailbox.stats.sent_messages, 2u);
  EXPECT_FALSE(cut_off());
  Say(Of(RecordKind::kFin, 1, 0, 100));
  EXPECT_TRUE(cut_off()) << "it was answered before";
  bulk_->LetGo();
  End();
  EXPECT_EQ(shared_.mailbox.stats.sent_messages, 3u);
}

// Silence is counted from the last sign of life.
TEST_F(ProtocolTest, SilenceEndsIt) {
  for (int i = 0; i < 5; ++i) {
    {
      Locked lock(&shared_);
      connection_->Tick(900);
    }
    EXPECT_FALSE(cut_off());
    Say(Of(RecordKind::kBeat, 0, 0, 0));
    control_->Writable();
  }
  Locked lock(&shared_);
  connection_->Tick(500);
  EXPECT_FALSE(cut_off());
  connection_->Tick(501);
  EXPECT_TRUE(cut_off());
}

TEST_F(ProtocolTest, MadeUpRecordsBreakNothingElse) {
  std::mt19937_64 random(7);
  std::string large(100, '\0'), small(8, '\0'), ours(100, 'o');
  for (int round = 0; round < 3000; ++round) {
    Post(WEFT_TRANSPORT_RECV, 1, &large);
    Post(WEFT_TRANSPORT_RECV, 1, &small);
    Post(WEFT_TRANSPORT_SEND, 1, &ours);
    for (int i = 0; i < 20 && !cut_off(); ++i) {
      const uint64_t lengths[] = {0, 1, 8, 64, 65, 100, random()};
      const uint64_t length = lengths[random() % 7];
      Record record = Of(static_cast<RecordKind>(1 + random() % 7),
                         random() % 4 + i, random() % 3, length, random() % 2);
      if (random() % 4 == 0) {
        SayChunk(record.id, std::string(random() % 101, 'c'));
      } else {
        Say(record, std::string(random() % 3 == 0 ? 0 : length % 101, 'e'));
      }
      control_->Writable();
      bulk_->Writable();
    }
    End();
    Begin();
  }
}

// ---- Frames ----------------------------------------------------------------

Frame SomeFrame() {
  Frame frame;
  frame.kind = FrameKind::kRefuse;
  frame.hello = {1, 2, 3, 4, "job", 5, 6, 7};
  frame.eager_max = 8;
  frame.credits = 9;
  frame.max_inflight = 10;
  frame.expected = 11;
  frame.token = "token";
  frame.nonce = std::string(32, '\0');
  frame.proof = "proof";
  frame.refusal = {WEFT_REFUSED_PLAN, "why"};
  return frame;
}

TEST(FrameTest, ComesBackAsItWas) {
  const std::string bytes = EncodeFrame(SomeFrame());
  const std::optional<Frame> frame = DecodeFrame(bytes);
  ASSERT_TRUE(frame.has_value());
  EXPECT_EQ(EncodeFrame(*frame), bytes);
  EXPECT_EQ(frame->hello.plan_hash, 7u);
  EXPECT_EQ(frame->nonce.size(), 32u);
  EXPECT_EQ(frame->refusal.message, "why");
}

TEST(FrameTest, CutOffAndChangedOnesAreNoHarm) {
  const std::string bytes = EncodeFrame(SomeFrame());
  for (size_t n = 0; n < bytes.size(); ++n) {
    EXPECT_FALSE(DecodeFrame(bytes.substr(0, n)).has_value()) << n;
    for (int bit = 0; bit < 8; ++bit) {
      std::string changed = bytes;
      changed[n] = static_cast<char>(changed[n] ^ (1 << bit));
      const std::optional<Frame> frame = DecodeFrame(changed);
      if (!frame.has_value()) continue;
      EXPECT_EQ(EncodeFrame(*frame), changed);
    }
  }
  EXPECT_FALSE(DecodeFrame(bytes + "x").has_value());
  std::string record;
  AppendRecord(Of(RecordKind::kBeat, 0, 0, 0), &record);
  EXPECT_FALSE(DecodeFrame(record).has_value());
}

// ---- Proofs ----------------------------------------------------------------

TEST(ProofTest, DependsOnAllThatItIsAbout) {
  const std::string proof = Prove("secret", Role::kConnector, "said");
  EXPECT_EQ(proof.size(), 32u);
  EXPECT_TRUE(SameBytes(proof, Prove("secret", Role::kConnector, "said")));
  EXPECT_FALSE(SameBytes(proof, Prove("secrex", Role::kConnector, "said")));
  EXPECT_FALSE(SameBytes(proof, Prove("secret", Role::kListener, "said")));
  EXPECT_FALSE(SameBytes(proof, Prove("secret", Role::kConnector, "saie")));
  EXPECT_FALSE(SameBytes(proof, proof.substr(1)));
  EXPECT_EQ(Prove("", Role::kConnector, "said"), "");
  EXPECT_NE(RandomBytes(32), RandomBytes(32));
}

}  // namespace
}  // namespace weft_grpc
