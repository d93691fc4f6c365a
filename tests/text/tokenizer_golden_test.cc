#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "goldens.h"
#include "support/expect_error.h"

namespace phasor {
namespace {

using Ids = std::vector<std::int32_t>;

class TokenizerGolden : public testing::TestWithParam<std::string> {
 protected:
  const nlohmann::json& golden_ = golden_tokenizer(GetParam());
  const std::vector<std::string> texts_ = tokenizer_goldens()["texts"].get<std::vector<std::string>>();
  const Tokenizer tokenizer_ = tokenizer_of(golden_);
};

TEST_P(TokenizerGolden, Encodes) {
  for (std::size_t i = 0; i < texts_.size(); i++) {
    EXPECT_EQ(tokenizer_.encode(texts_[i]), golden_["ids"][i].get<Ids>()) << texts_[i];
    EXPECT_EQ(tokenizer_.encode(texts_[i], false), golden_["ids_without_special_tokens"][i].get<Ids>()) << texts_[i];
  }
}

TEST_P(TokenizerGolden, EncodesAgain) {  // from the cache
  for (int repeat = 0; repeat < 2; repeat++)
    for (std::size_t i = 0; i < texts_.size(); i++)
      EXPECT_EQ(tokenizer_.encode(texts_[i]), golden_["ids"][i].get<Ids>()) << texts_[i];
}

// A tokenizer whose file asks for other lengths gives what one gives whose file asks for these.
TEST(Tokenizer, IsCutAtOtherLengths) {
  nlohmann::json golden = golden_tokenizer("bert_of_fixed_length");
  const Tokenizer tokenizer = tokenizer_of(golden);
  golden["tokenizer"].erase("padding");
  for (const std::int64_t longest : {3, 4, 7, 20}) {
    golden["tokenizer"]["truncation"]["max_length"] = longest;
    const Tokenizer expected = tokenizer_of(golden);
    for (const std::string text : tokenizer_goldens()["texts"]) {
      EXPECT_EQ(tokenizer.cut_at(longest).encode(text), expected.encode(text));
      EXPECT_EQ(tokenizer.cut_at(longest).encode_pair(text, text).ids, expected.encode_pair(text, text).ids);
    }
  }
  golden["tokenizer"].erase("truncation");
  const Tokenizer whole = tokenizer_of(golden);
  for (const std::string text : tokenizer_goldens()["texts"]) {
    EXPECT_EQ(tokenizer.cut_at({}).encode(text), whole.encode(text));
    EXPECT_EQ(tokenizer.cut_at(5).cut_at({}).encode(text), whole.encode(text));
  }
  EXPECT_ERROR(tokenizer.cut_at(0), "[Tokenizer::cut_at] longest: 0, expected at least 1");
}

TEST_P(TokenizerGolden, EncodesPairs) {
  const EncodedText pair = tokenizer_.encode_pair(texts_[0], texts_[1]);
  EXPECT_EQ(pair.ids, golden_["pair"]["ids"].get<Ids>());
  EXPECT_EQ(pair.type_ids, golden_["pair"]["type_ids"].get<Ids>());
  EXPECT_EQ(pair.attention_mask, golden_["pair"]["attention_mask"].get<Ids>());
}

TEST_P(TokenizerGolden, Decodes) {
  for (std::size_t i = 0; i < texts_.size(); i++) {
    const Ids ids = golden_["ids"][i].get<Ids>();
    EXPECT_EQ(tokenizer_.decode(ids), golden_["text"][i].get<std::string>());
    EXPECT_EQ(tokenizer_.decode(ids, false), golden_["text_with_special_tokens"][i].get<std::string>());
  }
}

TEST_P(TokenizerGolden, StreamsWhatItDecodes) {
  for (const auto& each : golden_["ids"]) {
    StreamDecoder stream(tokenizer_);
    std::string text;
    for (const std::int32_t id : each.get<Ids>()) text += stream.put(id);
    EXPECT_EQ(text + stream.finish(), tokenizer_.decode(each.get<Ids>()));
  }
}

TEST_P(TokenizerGolden, KnowsItsVocabulary) {
  EXPECT_EQ(tokenizer_.vocab_size(), golden_["vocab_size"].get<std::int64_t>());
  const nlohmann::json& vocab = golden_["tokenizer"]["model"]["vocab"];
  if (!vocab.is_object()) return;
  for (const auto& [token, id] : vocab.items()) {
    EXPECT_EQ(tokenizer_.token_to_id(token), id.get<std::int32_t>());
    EXPECT_EQ(tokenizer_.id_to_token(id.get<std::int32_t>()), token);
  }
  EXPECT_EQ(tokenizer_.token_to_id("no such token"), std::nullopt);
  EXPECT_EQ(tokenizer_.id_to_token(1'000'000), std::nullopt);
  EXPECT_EQ(tokenizer_.id_to_token(-1), std::nullopt);
  EXPECT_EQ(tokenizer_.decode(Ids{1'000'000, -1}), "");
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const auto& each : tokenizer_goldens()["tokenizers"]) all.push_back(each["name"].get<std::string>());
  return all;
}

INSTANTIATE_TEST_SUITE_P(Kinds, TokenizerGolden, testing::ValuesIn(names()),
                         [](const auto& parameter) { return parameter.param; });

TEST(Tokenizer, ReadsBrokenTextAsReplacementCharacters) {
  const Tokenizer tokenizer = tokenizer_of(golden_tokenizer("gpt2"));
  const std::string replacement = "\xEF\xBF\xBD";
  EXPECT_EQ(tokenizer.encode("a\xFFz"), tokenizer.encode("a" + replacement + "z"));
  EXPECT_EQ(tokenizer.encode("a\xE2\x82z"), tokenizer.encode("a" + replacement + "z"));
  EXPECT_EQ(tokenizer.encode("\xED\xA0\x80"), tokenizer.encode(replacement + replacement + replacement));
}

TEST(Tokenizer, MergesWrittenAsTextAreMergesWrittenAsPairs) {
  nlohmann::json golden = golden_tokenizer("gpt2");
  for (auto& merge : golden["tokenizer"]["model"]["merges"])
    merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
  const std::vector<std::string> texts = tokenizer_goldens()["texts"];
  for (std::size_t i = 0; i < texts.size(); i++)
    EXPECT_EQ(tokenizer_of(golden).encode(texts[i]), golden["ids"][i].get<Ids>());
}

// A file of before 2021.
TEST(Tokenizer, ModelsWithoutATypeAreKnownByTheirKeys) {
  for (const char* name : {"gpt2", "bert", "xlmr"}) {
    nlohmann::json golden = golden_tokenizer(name);
    golden["tokenizer"]["model"].erase("type");
    EXPECT_EQ(tokenizer_of(golden).encode("the fox"), tokenizer_of(golden_tokenizer(name)).encode("the fox"));
  }
}

TEST(Tokenizer, BatchesArePaddedToTheLongest) {
  const Tokenizer tokenizer = tokenizer_of(golden_tokenizer("bert_of_fixed_length"));
  const std::vector<std::string> texts{"the fox and the dog", "fox"};
  const std::vector<EncodedText> batch = tokenizer.encode_batch(texts);
  ASSERT_EQ(batch.size(), 2u);
  EXPECT_EQ(batch[0].ids.size(), batch[1].ids.size());
  EXPECT_EQ(batch[0].ids, tokenizer.encode(texts[0]));
  EXPECT_EQ(batch[1].attention_mask.front(), 0);  // padding is on the left
  EXPECT_EQ(batch[1].attention_mask.back(), 1);
}

}  // namespace
}  // namespace phasor
