// The windows of seeds that random tests run.
#include "support/seeds.h"

#include <set>

namespace phasor {
namespace {

class Seeds : public testing::Test {
 protected:
  void SetUp() override {  // each test case is a process of its own, so nothing has to be put back
    for (const char* name : {"PHASOR_SEED_START", "PHASOR_SEED_COUNT", "PHASOR_NIGHT"}) ::unsetenv(name);
  }
};

TEST_F(Seeds, AWindowIsPartOfTheSetAndTheSameAllDay) {
  const std::vector<std::uint32_t> window = seed_window(100, 64);
  EXPECT_EQ(window.size(), kSanitized ? 4u : 16u);
  for (const std::uint32_t seed : window) EXPECT_TRUE(seed >= 100 && seed < 164) << seed;
  EXPECT_EQ(std::set(window.begin(), window.end()).size(), window.size());
  EXPECT_EQ(seed_window(100, 64), window);
  EXPECT_EQ(seed_window(7, 1), std::vector{7u});
}

TEST_F(Seeds, ANightRunsAll) {
  ::setenv("PHASOR_NIGHT", "1", 1);
  EXPECT_EQ(seed_window(3, 4), (std::vector{3u, 4u, 5u, 6u}));
}

TEST_F(Seeds, AStartIsTakenAsItIs) {
  ::setenv("PHASOR_SEED_START", "4000", 1);
  EXPECT_EQ(seed_window(3, 4), std::vector{4000u});
  ::setenv("PHASOR_SEED_COUNT", "2", 1);
  EXPECT_EQ(seed_window(3, 4), (std::vector{4000u, 4001u}));
}

TEST_F(Seeds, ShardsRunEachSeedOnce) {
  std::vector<std::uint32_t> together;
  for (std::uint32_t shard = 0; shard < 3; shard++)
    for (const std::uint32_t seed : seeds({.count = 160, .shard = shard, .shards = 3})) together.push_back(seed);
  EXPECT_EQ(together, seed_window(0, 160));
}

TEST_F(Seeds, AFailureSaysHowToRepeatIt) {
  const std::string text = repeat_seed(41);
  EXPECT_NE(text.find("PHASOR_SEED_START=41 "), std::string::npos) << text;
  EXPECT_NE(text.find("core_tests --gtest_filter='Seeds.AFailureSaysHowToRepeatIt'"), std::string::npos) << text;
}

}  // namespace
}  // namespace phasor
