// What a tokenizer.json may not have: each error names the file, the key and what was expected.
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "goldens.h"
#include "support/expect_error.h"

namespace phasor {
namespace {

using Json = nlohmann::json;

// A good tokenizer, changed.
Tokenizer changed(const std::string& name, const std::function<void(Json&)>& change) {
  Json golden = golden_tokenizer(name);
  change(golden["tokenizer"]);
  return Tokenizer::from_json(golden["tokenizer"].dump(), "file.json");
}

#define EXPECT_REFUSED(name, change, ...) \
  EXPECT_ERROR(changed(name, [](Json& json) { change; }), "[Tokenizer::from_file] file.json: ", __VA_ARGS__)

TEST(TokenizerRefusals, WhatIsNotKnown) {
  EXPECT_REFUSED("gpt2", json["hidden"] = 1, "hidden", "not known");
  EXPECT_REFUSED("gpt2", json["version"] = "2.0", "version", "2.0", "1.0");
  EXPECT_REFUSED("gpt2", json["model"]["type"] = "WordLevel", "model.type", "WordLevel", "BPE, Unigram, WordPiece");
  EXPECT_REFUSED("gpt2", json["model"]["other"] = 1, "model.\"other\"", "not known");
  EXPECT_REFUSED("gpt2", json["pre_tokenizer"]["type"] = "UnicodeScripts", "pre_tokenizer.type", "UnicodeScripts",
                 "Split");
  EXPECT_REFUSED("gpt2", json["decoder"]["type"] = "CTC", "decoder.type", "CTC", "ByteLevel");
  EXPECT_REFUSED("qwen", json["normalizer"]["type"] = "NFX", "normalizer.type", "NFX", "NFKC");
  EXPECT_REFUSED("llama3", json["pre_tokenizer"]["pretokenizers"][0]["behavior"] = "Sideways",
                 "pre_tokenizer.pretokenizers[0].behavior", "Sideways", "Isolated");
}

TEST(TokenizerRefusals, WhatWouldBeIgnored) {
  EXPECT_REFUSED("gpt2", json["model"]["dropout"] = 0.1, "model.dropout", "0.1", "random");
  EXPECT_REFUSED("bert_of_fixed_length", json["truncation"]["stride"] = 2, "truncation.stride", "2", "0");
  EXPECT_REFUSED("fused", json["pre_tokenizer"]["add_prefix_space"] = false, "pre_tokenizer.add_prefix_space", "never");
}

TEST(TokenizerRefusals, Vocabularies) {
  EXPECT_REFUSED("gpt2", json["model"].erase("vocab"), "model.vocab", "missing");
  EXPECT_REFUSED("gpt2", json["model"]["vocab"]["x"] = 0, "model.vocab.", "no other token");
  EXPECT_REFUSED("gpt2", json["model"]["vocab"]["x"] = -1, "model.vocab.\"x\"", "-1", "an id");
  EXPECT_REFUSED("gpt2", json["model"]["vocab"]["x"] = 4'000'000'000, "model.vocab.\"x\"", "4000000000", "less than");
  EXPECT_REFUSED("gpt2", json["model"]["vocab"]["x"] = 1.5, "model.vocab.\"x\"", "1.5", "an id");
  EXPECT_REFUSED("gpt2", json["model"]["vocab"]["x"] = nullptr, "model.vocab.\"x\"", "null", "an id");
  EXPECT_REFUSED("xlmr", json["model"]["vocab"][5] = json["model"]["vocab"][4], "model.vocab[5]", "once");
  EXPECT_REFUSED("xlmr", json["model"]["unk_id"] = 100'000, "model.unk_id", "100000", "an id of the vocabulary");
}

TEST(TokenizerRefusals, Merges) {
  EXPECT_REFUSED("gpt2", json["model"]["merges"][3] = "a b c", "model.merges[3]", "a b c", "two tokens");
  EXPECT_REFUSED("gpt2", json["model"]["merges"][3] = "ab", "model.merges[3]", "two tokens");
  EXPECT_REFUSED("gpt2", (json["model"]["merges"][3] = {"a", "nowhere"}), "model.merges[3]", "of the vocabulary");
  EXPECT_REFUSED("gpt2", json["model"]["merges"][3] = json["model"]["merges"][2], "model.merges[3]", "once");
}

TEST(TokenizerRefusals, AddedTokens) {
  EXPECT_REFUSED("qwen", json["added_tokens"][0]["id"] = 7, "added_tokens[0].id", "7", "behind the vocabulary");
  EXPECT_REFUSED("gpt2", json["added_tokens"][0]["id"] = 7, "added_tokens[0].id", "7", "in the vocabulary");
  EXPECT_REFUSED("gpt2", json["added_tokens"][0]["content"] = "", "added_tokens[0].content", "not empty");
  EXPECT_REFUSED("gpt2", json["added_tokens"].push_back(json["added_tokens"][0]), "added_tokens[1].content", "once");
  EXPECT_REFUSED("gpt2", json["added_tokens"][0].erase("special"), "added_tokens[0].special", "missing");
}

TEST(TokenizerRefusals, PostProcessors) {
  EXPECT_REFUSED("t5", json["post_processor"]["special_tokens"]["</s>"]["ids"] = {99'999}, "post_processor", "99999");
  EXPECT_REFUSED("t5", json["post_processor"]["special_tokens"].erase("</s>"),
                 "post_processor.single[1].SpecialToken.id", "one of special_tokens");
  EXPECT_REFUSED("t5", json["post_processor"]["single"][0]["Sequence"]["id"] = "B",
                 "post_processor.single[0].Sequence.id", "B", "A");
  EXPECT_REFUSED("bert", (json["post_processor"]["cls"] = {"[CLS]", "2"}), "post_processor.cls[1]", "an id");
}

TEST(TokenizerRefusals, Patterns) {
  const auto refused = [](const std::string& regex, const std::string& expected) {
    const auto change = [&](Json& json) { json["pre_tokenizer"]["pretokenizers"][0]["pattern"] = {{"Regex", regex}}; };
    EXPECT_ERROR(changed("llama3", change), "pre_tokenizer.pretokenizers[0].pattern.Regex", expected);
  };
  refused("(", "missing closing parenthesis");
  refused("[a[b]]", "[...] inside of [...]");
  refused("[a&&b]", "&&");
  refused("a{1,2}+", "X{...}+");
  refused("(?m:a)", "(?m");
  refused("\\p{Klingon}", "unknown property");
  EXPECT_REFUSED("llama3", (json["pre_tokenizer"]["pretokenizers"][0]["pattern"] = {{"String", ""}}), "String",
                 "not empty");
  EXPECT_REFUSED("llama3", json["pre_tokenizer"]["pretokenizers"][0]["pattern"] = Json::object(), "String and Regex");
}

TEST(TokenizerRefusals, Charsmaps) {
  EXPECT_REFUSED("t5", json["normalizer"]["precompiled_charsmap"] = "?", "normalizer.precompiled_charsmap", "base64");
  EXPECT_REFUSED("t5", json["normalizer"]["precompiled_charsmap"] = "AAAA", "normalizer.precompiled_charsmap",
                 "4 bytes");
  EXPECT_REFUSED("t5", json["normalizer"]["precompiled_charsmap"] = "/////wAA", "normalizer.precompiled_charsmap",
                 "size");
}

TEST(TokenizerRefusals, Texts) {
  const auto no_unknown = [](Json& json) { json["model"].erase("unk_id"); };
  EXPECT_ERROR(changed("xlmr", no_unknown).encode("\xE2\x98\x83"), "[Tokenizer::encode] text: ", "unk_id");
  const auto no_room = [](Json& json) { json["truncation"]["max_length"] = 1; };
  EXPECT_ERROR(changed("bert_of_fixed_length", no_room).encode("fox"), "truncation.max_length: 1", "2 special tokens");
}

TEST(TokenizerRefusals, Files) {
  EXPECT_ERROR(Tokenizer::from_json("[]", "file.json"), "[Tokenizer::from_file] file.json", "an object");
  EXPECT_ERROR(Tokenizer::from_json("{", "file.json"), "not JSON at line 1");
  EXPECT_ERROR(Tokenizer::from_json("{}", "file.json"), "file.json: model: missing");
  EXPECT_THROW(Tokenizer::from_file("/no/such/tokenizer.json"), std::exception);
}

}  // namespace
}  // namespace phasor
