#include "tools/weft/devices.h"

#include <string>
#include <vector>

#include "core/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

TEST(DeviceNameTest, AllForms) {
  EXPECT_EQ(ParseDeviceName("cpu")->text(), "cpu:0");
  EXPECT_EQ(ParseDeviceName("sim:3")->text(), "sim:3");
  DeviceName name = ParseDeviceName("sim:1?tier=T1&delay_us=5").value();
  EXPECT_EQ(name.text(), "sim:1");
  EXPECT_THAT(name.options,
              ElementsAre(Pair("tier", "T1"), Pair("delay_us", "5")));
}

TEST(DeviceNameTest, MalformedNamesAreShown) {
  for (const char* bad : {"", ":0", "cpu:", "cpu:x", "cpu:-1", "c pu", "a/b",
                          "sim:0?tier", "sim:0?=T1"}) {
    absl::Status status = ParseDeviceName(bad).status();
    EXPECT_TRUE(IsError(status, ErrorCode::kBadValue)) << bad;
    EXPECT_THAT(std::string(status.message()), HasSubstr(bad));
  }
}

std::vector<std::string> Texts(absl::string_view devices, uint32_t rank,
                               uint32_t ranks) {
  std::vector<std::string> out;
  auto names = DevicesOfRank(devices, rank, ranks);
  EXPECT_TRUE(names.ok()) << names.status();
  if (!names.ok()) return out;
  for (const DeviceName& name : *names) out.push_back(name.text());
  return out;
}

TEST(DeviceListTest, EachRankHasItsOwnAndThoseOfAll) {
  EXPECT_THAT(Texts("w0/cpu:0,w1/sim:0", 0, 2), ElementsAre("cpu:0"));
  EXPECT_THAT(Texts("w0/cpu:0, w1/sim:1?tier=T0", 1, 2), ElementsAre("sim:1"));
  EXPECT_THAT(Texts("sim:0", 3, 4), ElementsAre("sim:0"));
  EXPECT_THAT(Texts("w1/sim:0,cpu", 0, 2), ElementsAre("cpu:0"));
  EXPECT_THAT(Texts("w1/sim:0,cpu", 1, 2), ElementsAre("sim:0", "cpu:0"));
  EXPECT_THAT(ComputeKinds("w1/sim:1?tier=T0,cpu", 2).value(),
              ElementsAre("cpu", "sim?tier=T0"));
  EXPECT_EQ(DevicesOfFirst("w1/sim:0,w0/sim:1?tier=T0,cpu").value(),
            "sim:1?tier=T0,cpu");
}

TEST(DeviceListTest, BadListsAreRefusedWithBothSides) {
  const struct {
    const char* devices;
    std::vector<const char*> says;
  } kCases[] = {
      {"w0/cpu:0,w3/sim:0", {"'w3/sim:0'", "rank w3", "w0 to w1"}},
      {"w0/cpu:0", {"'w0/cpu:0'", "rank w1 has none", "2 ranks"}},
      {"sim,w1/sim:0", {"rank w1", "sim:0 twice"}},
  };
  for (const auto& bad : kCases) {
    absl::Status status = ComputeKinds(bad.devices, 2).status();
    EXPECT_TRUE(IsError(status, ErrorCode::kBadJob)) << status;
    for (const char* part : bad.says) {
      EXPECT_THAT(std::string(status.message()), HasSubstr(part));
    }
  }
  for (const char* malformed : {"x1/cpu", "w/cpu", "w1/", "cpu,,sim", ""}) {
    EXPECT_TRUE(
        IsError(DevicesOfRank(malformed, 1, 2).status(), ErrorCode::kBadValue))
        << malformed;
  }
}

TEST(JobDevicesTest, ARankOpensItsOwnAlone) {
  const std::string list = "w0/cpu:0,w1/sim:0";
  JobDevices first = JobDevices::Open(list, PluginLoadOptions(), 0, 2).value();
  EXPECT_EQ(first.plan().size(), 1u);
  JobDevices second = JobDevices::Open(list, PluginLoadOptions(), 1, 2).value();
  EXPECT_EQ(second.plan().size(), 2u);
  EXPECT_EQ(second.compute(), "sim:0");
  // The first of several computes, the host is the first of the plan.
  JobDevices both =
      JobDevices::Open("sim:1,cpu,sim:0", PluginLoadOptions()).value();
  ASSERT_EQ(both.plan().size(), 3u);
  EXPECT_EQ(both.plan()[0].name(), "cpu:0");
  EXPECT_EQ(both.compute(), "sim:1");
  EXPECT_EQ(both.compute_info().name, "simulated device");
}

TEST(JobDevicesTest, TheHostComesFirst) {
  JobDevices cpu = JobDevices::Open("cpu", PluginLoadOptions()).value();
  EXPECT_EQ(cpu.plan().size(), 1u);
  EXPECT_EQ(cpu.compute(), "cpu:0");
  EXPECT_TRUE(cpu.plan()[0].inline_());
  JobDevices sim = JobDevices::Open("sim:0", PluginLoadOptions()).value();
  ASSERT_EQ(sim.plan().size(), 2u);
  EXPECT_EQ(sim.plan()[0].name(), "cpu:0");
  EXPECT_EQ(sim.compute(), "sim:0");
  EXPECT_FALSE(sim.plan()[1].host_mapped());
  EXPECT_EQ(sim.pointers().size(), 2u);
}

TEST(JobDevicesTest, WhatIsNotThereIsNamed) {
  absl::Status status = JobDevices::Open("gpu", PluginLoadOptions()).status();
  EXPECT_TRUE(IsError(status, ErrorCode::kPluginNotFound)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("gpu"));
  status = JobDevices::Open("cpu:9", PluginLoadOptions()).status();
  EXPECT_TRUE(IsError(status, ErrorCode::kDeviceNotFound)) << status;
  status = JobDevices::Open("sim:0?teir=T1", PluginLoadOptions()).status();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr("teir"));
}

}  // namespace
}  // namespace weft
