#include "phasor/text/stop_texts.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace phasor {
namespace {

using Parts = std::vector<std::string>;

// What comes out for each part, and at the end.
Parts shown(const Parts& stops, const Parts& parts) {
  StopTexts texts(stops);
  Parts out;
  for (const std::string& each : parts) out.push_back(texts.put(each));
  out.push_back(texts.finish());
  return out;
}

TEST(StopTexts, WithoutAnyEverythingIsShown) { EXPECT_EQ(shown({}, {"a", "", "bc"}), Parts({"a", "", "bc", ""})); }

TEST(StopTexts, WhatMayBecomeOneIsHeldBack) {
  EXPECT_EQ(shown({"END"}, {"theE", "N", "Emy", "E"}), Parts({"the", "", "ENEmy", "", "E"}));
  EXPECT_EQ(shown({"aab"}, {"a", "a", "a", "c"}), Parts({"", "", "a", "aac", ""}));
}

TEST(StopTexts, NothingIsShownFromTheFirstOneOn) {
  EXPECT_EQ(shown({"END"}, {"theE", "ND of", "it"}), Parts({"the", "", "", ""}));
  EXPECT_EQ(shown({"of", "END"}, {"the END of"}), Parts({"the ", ""}));
  EXPECT_EQ(shown({"bcd", "abcdef"}, {"xabcde"}), Parts({"xa", ""}));
  EXPECT_EQ(shown({"\n\n"}, {"a\n", "b\n", "\nc"}), Parts({"a", "\nb", "", ""}));
}

// Byte by byte, it is the text before the first stop text.
TEST(StopTexts, IsTheTextBeforeTheFirst) {
  const std::string text = "aabababbaabbabaabbbab";
  for (const std::string stop : {"a", "bb", "aabb", "abaab", "bbb", "bbbb", "abab"}) {
    StopTexts texts({stop, "never"});
    std::string out;
    for (const char c : text) out += texts.put(std::string(1, c));
    out += texts.finish();
    EXPECT_EQ(texts.found(), text.find(stop) != std::string::npos) << stop;
    EXPECT_EQ(out, text.substr(0, text.find(stop))) << stop;
  }
}

TEST(StopTexts, RefusesNothing) { EXPECT_ERROR(StopTexts({""}), "stop text: empty"); }

}  // namespace
}  // namespace phasor
