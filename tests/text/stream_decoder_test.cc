#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "goldens.h"

namespace phasor {
namespace {

// The parts that a stream returns for the bytes of a text, one token for each byte.
std::vector<std::string> parts_of(const std::string& name, const std::vector<std::string>& tokens) {
  const Tokenizer tokenizer = tokenizer_of(golden_tokenizer(name));
  StreamDecoder stream(tokenizer);
  std::vector<std::string> parts;
  for (const std::string& token : tokens) parts.push_back(stream.put(tokenizer.token_to_id(token).value()));
  parts.push_back(stream.finish());
  return parts;
}

using Parts = std::vector<std::string>;

TEST(StreamDecoder, ACharacterComesWithItsLastByte) {
  EXPECT_EQ(parts_of("llama2", {"<0xE2>", "<0x82>", "<0xAC>", "o", "<0xC3>", "<0xA9>"}),
            (Parts{"", "", "\xE2\x82\xAC", "o", "", "\xC3\xA9", ""}));
  EXPECT_EQ(parts_of("gpt2", {"\xC3\xA2", "\xC4\xA4", "\xC2\xAC", "o"}), (Parts{"", "", "\xE2\x82\xAC", "o", ""}));
}

TEST(StreamDecoder, HalfACharacterAtTheEndIsAReplacement) {
  EXPECT_EQ(parts_of("gpt2", {"o", "\xC3\xA2", "\xC4\xA4"}), (Parts{"o", "", "", "\xEF\xBF\xBD"}));
}

TEST(StreamDecoder, NothingThatWasReturnedIsTakenBack) {
  // decode() would show all three bytes as U+FFFD, but the first two were a character.
  EXPECT_EQ(parts_of("llama2", {"<0xC3>", "<0xA9>", "<0xE2>", "o"}), (Parts{"", "\xC3\xA9", "", "\xEF\xBF\xBDo", ""}));
}

TEST(StreamDecoder, SpacesBetweenTokensAreKept) {
  EXPECT_EQ(parts_of("bert", {"fox", "dog", "##s"}), (Parts{"fox", " dog", "s", ""}));
  EXPECT_EQ(parts_of("t5", {"\xE2\x96\x81"
                            "fox",
                            "\xE2\x96\x81",
                            "\xE2\x96\x81"
                            "dog"}),
            (Parts{"fox", " ", " dog", ""}));
}

TEST(StreamDecoder, SpecialTokensAreSkippedOrNot) {
  const Tokenizer tokenizer = tokenizer_of(golden_tokenizer("gpt2"));
  const std::int32_t special = tokenizer.token_to_id("<|x|>").value();
  EXPECT_EQ(StreamDecoder(tokenizer).put(special), "");
  EXPECT_EQ(StreamDecoder(tokenizer, false).put(special), "<|x|>");
  EXPECT_EQ(StreamDecoder(tokenizer).put(1'000'000), "");
}

TEST(StreamDecoder, BeginsAnewAfterItsEnd) {
  const Tokenizer tokenizer = tokenizer_of(golden_tokenizer("bert"));
  StreamDecoder stream(tokenizer);
  const std::int32_t fox = tokenizer.token_to_id("fox").value();
  for (int repeat = 0; repeat < 2; repeat++) {
    EXPECT_EQ(stream.put(fox), "fox");
    EXPECT_EQ(stream.put(fox), " fox");
    EXPECT_EQ(stream.finish(), "");
  }
}

}  // namespace
}  // namespace phasor
