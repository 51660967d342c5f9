// Strangers that speak gRPC, and know where to call.
#include <grpcpp/grpcpp.h>
#include <grpcpp/support/sync_stream.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "absl/strings/str_cat.h"
#include "transport/grpc/other_side.h"

namespace weft {
namespace {

// One call to a port, on a connection of its own.
class Caller {
 public:
  explicit Caller(int port) {
    grpc::ChannelArguments args;
    args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    channel_ =
        grpc::CreateCustomChannel(absl::StrCat("ipv4:127.0.0.1:", port),
                                  grpc::InsecureChannelCredentials(), args);
    context_.set_deadline(std::chrono::system_clock::now() + kPatience);
    const grpc::internal::RpcMethod method(
        "/weft.Transport/Stream", grpc::internal::RpcMethod::BIDI_STREAMING);
    stream_.reset(grpc::internal::ClientReaderWriterFactory<
                  grpc::ByteBuffer, grpc::ByteBuffer>::Create(channel_.get(),
                                                              method,
                                                              &context_));
  }
  ~Caller() {
    context_.TryCancel();
    stream_->Finish();
  }
  void Say(const std::string& bytes) {
    const grpc::Slice slice(bytes);
    stream_->Write(grpc::ByteBuffer(&slice, 1));
  }
  // Nothing is answered, and not because the test has run out of patience.
  bool IsCutOff() {
    grpc::ByteBuffer answer;
    if (stream_->Read(&answer)) return false;
    return std::chrono::system_clock::now() < context_.deadline();
  }

 private:
  std::shared_ptr<grpc::Channel> channel_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>>
      stream_;
};

class CallersTest : public GrpcTest {};
INSTANTIATE_TEST_SUITE_P(Grpc, CallersTest,
                         testing::Values(GrpcCase("plain", {})),
                         TransportCase::Name);

TEST_P(CallersTest, WhoTalksNonsenseIsCutOff) {
  Nodes nodes = Mesh(2);
  const Place place(nodes[1]->domain().Listen().value());
  for (size_t size : {1, 100, 5000, 3'000'000}) {
    Caller caller(place.port);
    caller.Say(Pattern(size, size));
    EXPECT_TRUE(caller.IsCutOff()) << size;
  }
  Exchange(*nodes[0], *nodes[1]);
  EXPECT_EQ(nodes[1]->others().size(), 1u) << "a stranger is no event";
}

// There is no end to strangers that say nothing: the first one goes, and there
// is room for who belongs there.
TEST_P(CallersTest, TheSilentMakeRoom) {
  DomainConfig config = Config(1, 2);
  config.peer_timeout_ms = 100'000;  // it is not that they took too long
  auto b = Open(config);
  const Place place(b->domain().Listen().value());
  std::vector<std::unique_ptr<Caller>> callers;
  for (int i = 0; i < 100; ++i) {
    callers.push_back(std::make_unique<Caller>(place.port));
  }
  EXPECT_TRUE(callers.front()->IsCutOff());
  auto a = Open(Config(0, 2));
  EXPECT_TRUE(Connect(*a, *b));
  Exchange(*a, *b);
}

// All ranks of a job come at the same time, and no stranger's bound is theirs.
TEST_P(CallersTest, AllRanksFindRoomAtOnce) {
  constexpr uint32_t kRanks = 90;
  const auto config = [this](uint32_t rank) {
    DomainConfig of = Config(rank, kRanks);
    of.peer_timeout_ms = 100'000;  // on two cores
    return of;
  };
  Nodes nodes;
  nodes.push_back(Open(config(kRanks - 1)));
  const std::string address = nodes[0]->domain().Listen().value();
  for (uint32_t r = 0; r + 1 < kRanks; ++r) {
    nodes.push_back(Open(config(r)));
    ASSERT_TRUE(nodes.back()->domain().Connect(kRanks - 1, address).ok());
  }
  PumpUntil(nodes, [&] {
    return std::all_of(nodes.begin() + 1, nodes.end(), [](const auto& node) {
      return node->Count(TransportEventKind::kConnected) == 1;
    });
  });
  for (size_t i = 1; i < nodes.size(); ++i) {
    const absl::Status status =
        nodes[i]->Last(TransportEventKind::kConnected)->status;
    EXPECT_TRUE(status.ok()) << status;
  }
}

}  // namespace
}  // namespace weft
