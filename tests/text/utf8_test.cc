#include "utf8.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace phasor::text {
namespace {

TEST(Utf8, CharactersComeBack) {
  for (const char32_t code : {0x0, 0x41, 0x7F, 0x80, 0x7FF, 0x800, 0xFFFF, 0x10000, 0x10FFFF}) {
    const std::string text = "x" + character_text(code) + "y";
    EXPECT_TRUE(is_utf8(text));
    EXPECT_EQ(replace_broken(text), text);
    std::size_t at = 1;
    EXPECT_EQ(next_character(text, at), code);
    EXPECT_EQ(at, text.size() - 1);
    EXPECT_EQ(previous_character(text, at), 1u);
  }
}

// What Python's bytes.decode(errors="replace") gives; R stands for U+FFFD.
TEST(Utf8, EachLongestBrokenPartIsOneReplacement) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"a\xFFz", "aRz"},
      {"\xC3", "R"},
      {"\xC3(", "R("},
      {"\xE2\x82", "R"},
      {"\xE2\x82z", "Rz"},
      {"\xE2\xE2\x82\xAC", "R\xE2\x82\xAC"},
      {"\xF0\x9F\x98", "R"},
      {"\xF0\x9F\x98\xF0\x9F\x98\x80", "R\xF0\x9F\x98\x80"},
      {"\xC0\x80", "RR"},            // overlong
      {"\xE0\x80\x80", "RRR"},       // overlong
      {"\xED\xA0\x80", "RRR"},       // a surrogate
      {"\xF4\x90\x80\x80", "RRRR"},  // above U+10FFFF
      {"\x80\x80", "RR"},
      {"12345678\xFF"
       "12345678\xE2",
       "12345678R12345678R"},
  };
  for (const auto& [broken, pattern] : cases) {
    std::string expected;
    for (const char each : pattern) expected += each == 'R' ? std::string(kReplacement) : std::string(1, each);
    EXPECT_EQ(replace_broken(broken), expected) << pattern;
    EXPECT_FALSE(is_utf8(broken)) << pattern;
  }
}

}  // namespace
}  // namespace phasor::text
