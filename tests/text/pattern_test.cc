#include "pattern.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace phasor::text {
namespace {

// Matches in brackets, the rest as it is.
std::string marked(const std::string& regex, const std::string& text) {
  const Pattern pattern(pcre2_syntax(regex));
  std::string result;
  for_each_part(pattern, text, [&](std::size_t begin, std::size_t end, bool is_match) {
    const std::string part = text.substr(begin, end - begin);
    result += is_match ? "[" + part + "]" : part;
  });
  return result;
}

TEST(Pattern, MatchesAsOnigurumaDoes) {
  EXPECT_EQ(marked("\\d+", "a12b3"), "a[12]b[3]");
  EXPECT_EQ(marked("(?i:'S)", "it's IT'S"), "it['s] IT['S]");
  EXPECT_EQ(marked("\\s+(?!\\S)", "a   b"), "a[  ] b");
  EXPECT_EQ(marked("^x", "x\nxx"), "[x]\n[x]x");  // ^ matches at every line
  EXPECT_EQ(marked("a.c", "abc a\nc"), "[abc] a\nc");
  EXPECT_EQ(marked("\\p{Lu}|\\p{^L}", "aB1"), "a[B][1]");
  EXPECT_EQ(marked("a++b?+", "aab"), "[aab]");
  EXPECT_EQ(marked("\\u00e9|\\x{2603}", "\xC3\xA9\xE2\x98\x83"), "[\xC3\xA9][\xE2\x98\x83]");
}

TEST(Pattern, ClassesAreThoseOfOniguruma) {
  EXPECT_EQ(marked("\\s", "\xE1\xA0\x8E"), "\xE1\xA0\x8E");  // U+180E is no space since Unicode 6.3
  EXPECT_EQ(marked("\\s", "\xC2\x85\xE3\x80\x80"), "[\xC2\x85][\xE3\x80\x80]");
  EXPECT_EQ(marked("[^\\S]", "a b"), "a[ ]b");
  EXPECT_EQ(marked("[\\S]", "a b"), "[a] [b]");
  EXPECT_EQ(marked("\\w", "e\xCC\x81_\xC2\xB2"),
            "[e][\xCC\x81][_]\xC2\xB2");       // marks are parts of words, superscripts not
  EXPECT_EQ(marked("\\h", "g9F"), "g[9][F]");  // hexadecimal digits
  EXPECT_EQ(marked("\\bb", "b ab"), "[b] ab");
  EXPECT_EQ(marked("\\p{Han}", "\xE6\xBC\xA2\xE3\x80\x81"), "[\xE6\xBC\xA2]\xE3\x80\x81");  // not what scripts share
}

TEST(Pattern, EmptyMatches) {
  EXPECT_EQ(marked("x*", "axb"), "[]a[x]b[]");
  EXPECT_EQ(marked("x*", "\xC3\xA9"), "[]\xC3\xA9[]");
  EXPECT_EQ(marked("x*", ""), "");
}

TEST(Pattern, LiteralSyntaxMatchesTheTextAlone) {
  const std::string text = "a.b*(c)[d]\\{e}^$|?+#-\xC3\xA9 \n";
  const Pattern pattern(literal_syntax(text));
  const auto match = pattern.find(text, 0);
  ASSERT_TRUE(match);
  EXPECT_EQ(match->end, text.size());
  EXPECT_FALSE(pattern.find("aXb*(c)[d]\\{e}^$|?+#-\xC3\xA9 \n", 0));
}

TEST(Pattern, WhatOnigurumaReadsDifferentlyIsRefused) {
  for (const char* regex :
       {"[a[b]]", "[a&&b]", "a{2}+", "(?m)a", "(a)\\1", "a\\Kb", "\\xE2", "\\p", "[\\W]", "[]a]", "["})
    EXPECT_THROW(pcre2_syntax(regex), std::invalid_argument) << regex;
  for (const char* regex : {"(", "a**?)", "\\p{Nowhere}"})
    EXPECT_THROW(Pattern(pcre2_syntax(regex)), std::invalid_argument) << regex;
}

}  // namespace
}  // namespace phasor::text
