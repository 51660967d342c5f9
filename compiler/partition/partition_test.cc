// Partition of one rank by devices, and of ranks and devices: by ranks first
// and by devices then is the same as by all devices at once.

#include "compiler/partition/partition.h"

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/memory/state_layout.h"
#include "compiler/partition/by_rank.h"
#include "compiler/placement/device_names.h"
#include "compiler/placement/placement.h"
#include "compiler/rates/rates.h"
#include "compiler/testing/fake_oracle.h"
#include "core/base/error.h"
#include "core/graph/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::Contains;
using Kind = Work::Kind;

struct Parted {
  Placement placed;
  Partition parts;

  int Named(Kind kind, const std::string& name) const {
    for (size_t w = 0; w < parts.works.size(); ++w) {
      if (parts.works[w].kind == kind && parts.works[w].name == name) {
        return static_cast<int>(w);
      }
    }
    ADD_FAILURE() << name;
    return 0;
  }
};

absl::StatusOr<Parted> TryPart(Graph graph,
                               const std::vector<plan::Device>& devices,
                               FakeOracle* oracle, uint32_t default_device) {
  for (uint32_t d = 1; d < devices.size(); ++d) oracle->AllowAll(d);
  PlacementOptions options;
  options.devices = devices;
  options.default_device = default_device;
  StateLayout state =
      PlanState({&graph}, devices, devices[default_device].name()).value();
  const RateTable rates = ClassifyRates(graph, 1).value();
  CapabilityCache cache(oracle);
  Placement placed =
      PlaceNodes(std::move(graph), options, state, &cache).value();
  auto parts = PartitionGraph(placed, rates, devices);
  if (!parts.ok()) return parts.status();
  return Parted{std::move(placed), *std::move(parts)};
}

Parted Part(Graph graph, const std::vector<plan::Device>& devices,
            FakeOracle* oracle, uint32_t default_device) {
  return TryPart(std::move(graph), devices, oracle, default_device).value();
}

// Graphs come from files, too.
TEST(PartitionTest, WhatLandsNowhereIsRefused) {
  const std::string sends = "%s = weft.Send(%v) {channel: \"a\", peer: 1";
  const std::string receives =
      "%r = weft.Recv() {channel: \"b\", peer: 1, dtype: f32, shape: [4]";
  for (const auto& [send, recv] :
       std::vector<std::pair<std::string, std::string>>{
           {", lands: \"b\"", ""},
           {"", ", lands: \"a\""},
           {", mapped: 1", ", lands: \"a\""},
           {", lent: 1", ", lands: \"a\""},
           {", mapped: 1, lent: 1, lands: \"a\"", ""},
           {", mapped: 1, lent: 1", ", mapped: 1, lands: \"a\""},
           {", lands: \"b\"", ", lands: \"a\""}}) {
    FakeOracle oracle;
    const std::string text = absl::StrCat(
        "graph \"g\" {\n%v = weft.Variable() {dtype: f32, shape: [4]}\n", sends,
        send, "}\n", receives, recv, "}\n}");
    const absl::Status status =
        TryPart(ParseGraph(text).value(), {HostDevice()}, &oracle, 0).status();
    EXPECT_TRUE(IsError(status, ErrorCode::kBadGraph)) << text << status;
  }
}

// A kernel of the device that takes one operand from the host's memory, and
// leaves its result there: a copy before it, and one before who reads the
// result on the device, both on the device's own ordered stream.
TEST(PartitionTest, HostAndDeviceMemoryOnOneDeviceIsAnOrderedCopyPair) {
  FakeOracle oracle;
  oracle.Answer(OpId::kExp).host_in = 1;
  oracle.Answer(OpId::kExp).host_out = 1;
  const Parted p = Part(ParseGraph(R"(graph "g" {
    %v = weft.Variable() {dtype: f32, shape: [4]}
    %a = Neg(%v)
    %b = Exp(%a)
    %c = Abs(%b)
    %d = Abs(%b)
  })")
                            .value(),
                        {HostDevice(), PrivateDevice("sim:0")}, &oracle, 1);
  const int a = p.Named(Kind::kCompute, "a"), b = p.Named(Kind::kCompute, "b"),
            c = p.Named(Kind::kCompute, "c"), d = p.Named(Kind::kCompute, "d");
  const int down = p.Named(Kind::kCopy, "a@cpu:0");
  const int up = p.Named(Kind::kCopy, "b@sim:0");
  for (auto [before, after] : std::vector<std::pair<int, int>>{
           {a, down}, {down, b}, {b, up}, {up, c}, {up, d}}) {
    EXPECT_THAT(PredecessorsOf(p.parts, after), Contains(before));
    EXPECT_LT(before, after);
  }
  const int stream = p.parts.works[b].stream;
  EXPECT_EQ(p.parts.streams[stream].device, 1u);
  EXPECT_TRUE(p.parts.streams[stream].ordered);
  for (int w : {a, down, up, c, d}) EXPECT_EQ(p.parts.works[w].stream, stream);
  int copies = 0;
  for (const Work& work : p.parts.works) copies += work.kind == Kind::kCopy;
  EXPECT_EQ(copies, 2);
}

// ---- Two passes are one

// The place of a device: its rank and its name there.
using Places = std::vector<std::string>;

// "a/from_rank_0" is `a`.
std::string Plain(const std::string& name) {
  return name.substr(0, name.find("/from_rank_"));
}

// What is computed where, from what that lies where; and what is moved from
// where to where. Two partitions are the same if these are: they compute the
// same works on the same devices from the same operands there, and move the
// same values the same ways, each once. What a Send gives and a Recv takes is
// one move; names, streams and the order among independent works are free.
void AddFacts(const Parted& p, const Places& places,
              std::multiset<std::string>* out) {
  const auto at = [&](int buffer) {
    const Buffer& b = p.parts.buffers[buffer];
    return absl::StrCat(Plain(b.name), " at ", places[b.device]);
  };
  for (const Work& work : p.parts.works) {
    std::vector<std::string> operands;
    for (const WorkOperand& o : work.operands) {
      operands.push_back(o.buffer < 0 ? "constant" : at(o.buffer));
    }
    switch (work.kind) {
      case Kind::kPost:
        break;  // of the Recv that follows
      case Kind::kCopy:
        out->insert(
            absl::StrCat("move ", operands[0], " to ", at(work.results[0])));
        break;
      case Kind::kSend: {
        const std::string to =
            absl::StrCat("w", p.parts.channels[work.channel].peer(), "/cpu:0");
        const std::string name =
            Plain(p.parts.buffers[work.operands[0].buffer].name);
        out->insert(
            absl::StrCat("move ", operands[0], " to ", name, " at ", to));
        break;
      }
      case Kind::kRecv:
        break;  // its Send is counted
      default:
        out->insert(absl::StrCat(static_cast<int>(work.kind), " ", work.name,
                                 " on ",
                                 places[p.parts.streams[work.stream].device],
                                 " of ", absl::StrJoin(operands, ", ")));
    }
  }
}

// Rank 0 has a host and an accelerator, rank 1 a host: the devices that one
// partition can tell apart, which has one host.
Graph RandomGraph(uint32_t seed) {
  std::mt19937 random(seed);
  const std::vector<std::string> devices = {"w0/cpu:0", "w0/sim:0", "w1/cpu:0"};
  const std::vector<std::string> ops = {"Add", "Mul", "Sub", "Max"};
  const auto pick = [&random](size_t n) { return random() % n; };
  std::string text = "graph \"g\" {\n";
  std::vector<std::string> values;
  for (int i = 0; i < 3; ++i) {
    values.push_back(absl::StrCat("v", i));
    absl::StrAppend(&text, "%v", i,
                    " = weft.Variable() {dtype: f32, shape: [4]} device(\"",
                    devices[pick(3)], "\")\n");
  }
  for (int i = 0; i < 12; ++i) {
    absl::StrAppend(&text, "%n", i, " = ", ops[pick(4)], "(%",
                    values[pick(values.size())], ", %",
                    values[pick(values.size())], ") device(\"",
                    devices[pick(3)], "\")\n");
    values.push_back(absl::StrCat("n", i));
  }
  for (int i = 0; i < 2; ++i) {
    absl::StrAppend(&text, "%o", i, " = weft.Output(%",
                    values[3 + pick(values.size() - 3)], ") {name: \"o", i,
                    "\"} device(\"w0\")\n");
  }
  return ParseGraph(text + "}").value();
}

plan::Device Host(const std::string& name) {
  plan::Device device = HostDevice();
  device.set_name(name);
  return device;
}

std::multiset<std::string> InTwoPasses(const Graph& graph) {
  std::multiset<std::string> facts;
  const RankAssignment where = AssignRanks(graph, 2).value();
  for (int rank : {0, 1}) {
    FakeOracle oracle;
    const Parted p = Part(GraphOfRank(graph, where, rank).value(),
                          {HostDevice(), PrivateDevice("sim:0")}, &oracle, 0);
    AddFacts(
        p,
        {absl::StrCat("w", rank, "/cpu:0"), absl::StrCat("w", rank, "/sim:0")},
        &facts);
  }
  return facts;
}

std::multiset<std::string> AtOnce(const Graph& graph) {
  Graph all = graph.Clone();
  for (Node* node : all.Nodes()) {
    if (node->Is(OpId::kOutput)) node->device.clear();
  }
  FakeOracle oracle;
  std::multiset<std::string> facts;
  const std::vector<plan::Device> devices = {
      Host("w0/cpu:0"), PrivateDevice("w0/sim:0"), Host("w1/cpu:0")};
  AddFacts(Part(std::move(all), devices, &oracle, 0),
           {"w0/cpu:0", "w0/sim:0", "w1/cpu:0"}, &facts);
  return facts;
}

TEST(PartitionTest, ByRanksThenDevicesIsAllAtOnce) {
  size_t moves = 0;
  for (uint32_t seed = 0; seed < 1000; ++seed) {
    const Graph graph = RandomGraph(seed);
    const auto once = AtOnce(graph);
    ASSERT_EQ(InTwoPasses(graph), once) << "seed " << seed << "\n"
                                        << PrintGraph(graph);
    for (const std::string& fact : once) moves += fact.rfind("move", 0) == 0;
  }
  EXPECT_GT(moves, 5000u);
}

}  // namespace
}  // namespace weft
