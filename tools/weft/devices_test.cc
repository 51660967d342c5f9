#include "tools/weft/devices.h"

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
