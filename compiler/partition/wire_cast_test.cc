// What travels as bf16 between ranks: cast, send, recv, cast, in host memory
// and in that of a device.

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "compiler/memory/state_layout.h"
#include "compiler/partition/by_rank.h"
#include "compiler/partition/partition.h"
#include "compiler/placement/placement.h"
#include "compiler/rates/rates.h"
#include "compiler/testing/fake_oracle.h"
#include "core/graph/text.h"
#include "core/graph/verify.h"
#include "core/reference/job_interpreter.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using Kind = Work::Kind;

// A large activation, a small one and an integer from rank 0 to rank 1.
Graph Sample() {
  return ParseGraph(R"(graph "g" {
    %x = weft.DataSource() {source: "x", dtypes: [1], ranks: [1], dims: [512]}
    %a = Exp(%x) device("w0")
    %s = ReduceSum(%a) {keepdims: 0} device("w0")
    %b = Sub(%a, %s) device("w1")
    %c = Neg(%a) device("w1")
    %o = weft.Output(%b) {name: "b"}
    %p = weft.Output(%c) {name: "c"}
  })")
      .value();
}

Graph OfRank(const Graph& graph, int rank, bool narrow) {
  RankAssignment where = AssignRanks(graph, 2).value();
  where.narrow_wire = narrow;
  Graph mine = GraphOfRank(graph, where, rank).value();
  EXPECT_TRUE(VerifyGraph(mine).ok()) << VerifyGraph(mine);
  return mine;
}

// The works of a rank that computes on device 0 (the host) or 1, in order.
struct Worked {
  Partition parts;
  std::vector<std::string> texts;  // "cast bf16 on 1"
};

Worked Work(Graph graph, uint32_t device) {
  const std::vector<plan::Device> devices = {HostDevice(),
                                             PrivateDevice("sim:0")};
  FakeOracle oracle;
  oracle.AllowAll(1);
  PlacementOptions options;
  options.devices = devices;
  options.default_device = device;
  CapabilityCache cache(&oracle);
  const RateTable rates = ClassifyRates(graph, 1).value();
  Placement placed =
      PlaceNodes(std::move(graph), options, StateLayout(), &cache).value();
  Worked out{PartitionGraph(placed, rates, devices).value(), {}};
  const auto text = [&](int buffer) {
    const Buffer& b = out.parts.buffers[buffer];
    return std::string(DTypeName(b.type.dtype)) + " on " +
           std::to_string(b.device);
  };
  for (const weft::Work& work : out.parts.works) {
    const Node& node = *placed.graph.node(work.node);
    const bool large =
        !work.operands.empty() && work.operands[0].buffer >= 0 &&
        out.parts.buffers[work.operands[0].buffer].type.shape.rank() == 1;
    if (work.kind == Kind::kCompute && node.Is(OpId::kCast)) {
      out.texts.push_back("cast to " + text(work.results[0]));
    } else if (work.kind == Kind::kCopy && large) {
      out.texts.push_back("copy to " + text(work.results[0]));
    } else if (work.kind == Kind::kSend && large) {
      out.texts.push_back("send " + text(work.operands[0].buffer));
    } else if (work.kind == Kind::kRecv && large) {
      out.texts.push_back("recv " + text(work.results[0]));
    }
  }
  return out;
}

TEST(WireCastTest, HostMemoryCastSendRecvCast) {
  const Graph graph = Sample();
  EXPECT_THAT(Work(OfRank(graph, 0, true), 0).texts,
              ElementsAre("cast to bf16 on 0", "send bf16 on 0"));
  EXPECT_THAT(Work(OfRank(graph, 1, true), 0).texts,
              ElementsAre("recv bf16 on 0", "cast to f32 on 0"));
}

// Half the bytes between the device and the host, too.
TEST(WireCastTest, DeviceMemoryCastSendRecvCast) {
  const Graph graph = Sample();
  EXPECT_THAT(Work(OfRank(graph, 0, true), 1).texts,
              ElementsAre("copy to f32 on 1", "cast to bf16 on 1",
                          "copy to bf16 on 0", "send bf16 on 0"));
  EXPECT_THAT(
      Work(OfRank(graph, 1, true), 1).texts,
      ElementsAre("recv bf16 on 0", "copy to bf16 on 1", "cast to f32 on 1",
                  "copy to f32 on 0", "copy to f32 on 0"));
}

uint64_t ChannelBytes(const Partition& parts) {
  uint64_t bytes = 0;
  for (const plan::Channel& channel : parts.channels) {
    uint64_t elements = 1;
    for (int64_t dim : channel.tensor().dims()) elements *= dim;
    bytes += elements * DTypeSize(static_cast<DType>(channel.tensor().dtype()));
  }
  return bytes;
}

TEST(WireCastTest, HalfTheBytesButForTheSmall) {
  const Graph graph = Sample();
  for (int rank : {0, 1}) {
    EXPECT_EQ(ChannelBytes(Work(OfRank(graph, rank, false), 0).parts),
              512u * 4 + 4);
    EXPECT_EQ(ChannelBytes(Work(OfRank(graph, rank, true), 0).parts),
              512u * 2 + 4);
  }
}

TEST(WireCastTest, TheErrorIsThatOfOneRounding) {
  const Graph graph = Sample();
  std::vector<float> x(512);
  for (int i = 0; i < 512; ++i) x[i] = 0.01f * static_cast<float>(i % 100);
  Feeds feeds;
  feeds["x"] = {Literal::Of<float>({512}, x)};
  std::vector<double> results[2];
  for (bool narrow : {false, true}) {
    const Graph mine = OfRank(graph, 0, narrow),
                other = OfRank(graph, 1, narrow);
    std::vector<RankProgram> job(2);
    job[0] = {&mine, feeds, {}};
    job[1] = {&other, {}, {}};
    auto ran = InterpretJob(job);
    ASSERT_TRUE(ran.ok()) << ran.status();
    results[narrow] = (*ran)[1].outputs.at("c")[0].ToDoubles();
  }
  double worst = 0;
  for (int i = 0; i < 512; ++i) {
    worst = std::max(worst, std::abs(results[1][i] / results[0][i] - 1));
  }
  EXPECT_LE(worst, std::ldexp(1.0, -8));
  EXPECT_GT(worst, std::ldexp(1.0, -12));
}

}  // namespace
}  // namespace weft
