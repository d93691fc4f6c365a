#include "trie.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "vocabulary.h"

namespace phasor::text {
namespace {

using Found = std::vector<std::pair<std::size_t, std::int32_t>>;

Found prefixes(const Trie& trie, std::string_view text) {
  Found found;
  trie.prefixes(text, [&](std::size_t length, std::int32_t value) { found.emplace_back(length, value); });
  return found;
}

TEST(Trie, FindsEveryPrefixShortestFirst) {
  const Trie trie({{"abc", 3}, {"a", 1}, {"ab\xFF", 4}, {"b", 2}});
  EXPECT_EQ(prefixes(trie, "abcd"), (Found{{1, 1}, {3, 3}}));
  EXPECT_EQ(prefixes(trie, "ab\xFF"), (Found{{1, 1}, {3, 4}}));
  EXPECT_EQ(prefixes(trie, "c"), Found{});
  EXPECT_EQ(prefixes(trie, ""), Found{});
  EXPECT_EQ(trie.longest("abcd"), (std::pair<std::size_t, std::int32_t>{3, 3}));
  EXPECT_EQ(Trie().longest("a"), std::nullopt);
}

TEST(Trie, RandomTextsAsAMapHasThem) {
  std::mt19937 random(7);
  const auto word = [&] {
    std::string text(random() % 6 + 1, 'a');
    for (char& each : text) each = static_cast<char>('a' + random() % 3);
    return text;
  };
  std::map<std::string, std::int32_t> all;
  for (std::int32_t i = 0; i < 200; i++) all.emplace(word(), i);
  std::vector<Trie::Entry> entries;
  Vocabulary vocabulary;
  for (const auto& [text, value] : all) {
    entries.push_back({text, value});
    EXPECT_TRUE(vocabulary.add(text, value));
    EXPECT_FALSE(vocabulary.add(text, 1000));
    EXPECT_FALSE(vocabulary.add(text + "?", value));
  }
  const Trie trie(std::move(entries));
  for (int i = 0; i < 500; i++) {
    const std::string text = word() + word();
    Found expected;
    for (std::size_t length = 1; length <= text.size(); length++)
      if (const auto found = all.find(text.substr(0, length)); found != all.end())
        expected.emplace_back(length, found->second);
    EXPECT_EQ(prefixes(trie, text), expected) << text;
    const auto whole = all.find(text);
    EXPECT_EQ(vocabulary.find(text), whole == all.end() ? kNoToken : whole->second);
  }
  for (const auto& [text, value] : all) EXPECT_EQ(vocabulary.token(value), text);
}

}  // namespace
}  // namespace phasor::text
