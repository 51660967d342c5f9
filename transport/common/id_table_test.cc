#include "transport/common/id_table.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>

namespace weft_transport {
namespace {

TEST(IdTableTest, FindsWhatIsThere) {
  IdTable<std::unique_ptr<int>> table;
  EXPECT_EQ(table.Find(1), nullptr);
  const auto add = [&table](int number) {
    auto& entry = table.Add();
    entry.value = std::make_unique<int>(number);
    return entry.id;
  };
  const uint64_t one = add(1);
  const uint64_t two = add(2);
  EXPECT_EQ(one, 1u);
  EXPECT_EQ(two, 2u);
  EXPECT_EQ(**table.Find(one), 1);
  EXPECT_EQ(table.Whole(2), two);
  table.Remove(one);
  for (uint64_t id : {uint64_t{0}, one, uint64_t{3}, two + 16, two + 1000}) {
    EXPECT_EQ(table.Find(id), nullptr) << id;
  }
  EXPECT_EQ(table.Whole(1), 0u);
  EXPECT_EQ(table.Whole(0), 0u);
  EXPECT_EQ(**table.Find(two), 2);
}

// One that stays is gone around, however long.
TEST(IdTableTest, AgreesWithAMap) {
  IdTable<int> table;
  std::map<uint64_t, int> map;
  std::mt19937 random(3);
  uint64_t last = 0;
  for (int i = 0; i < 20'000; ++i) {
    if (map.empty() || random() % 100 < 50 + (i / 4000) % 2) {
      auto& entry = table.Add();
      entry.value = i;
      const uint64_t id = entry.id;
      EXPECT_GT(id, last);
      last = id;
      map[id] = i;
    } else {
      // Mostly of the newest, so that old ones stay.
      auto it = random() % 8 == 0 ? map.begin() : std::prev(map.end());
      ASSERT_NE(table.Find(it->first), nullptr);
      EXPECT_EQ(*table.Find(it->first), it->second);
      EXPECT_EQ(table.Whole(static_cast<uint32_t>(it->first)), it->first);
      table.Remove(it->first);
      EXPECT_EQ(table.Find(it->first), nullptr);
      map.erase(it);
    }
  }
  const auto all = table.TakeAll();
  EXPECT_TRUE(std::equal(all.begin(), all.end(), map.begin(), map.end(),
                         [](const auto& a, const auto& b) {
                           return a.id == b.first && a.value == b.second;
                         }));
  EXPECT_TRUE(table.TakeAll().empty());
}

}  // namespace
}  // namespace weft_transport
