// Files beside the weights: the tokenizer and the tokens that end a text.
#include "phasor/models/text_files.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "support/expect_error.h"
#include "support/source_folder.h"
#include "support/temporary_folder.h"

namespace phasor {
namespace {

using Tokens = std::vector<std::int32_t>;

class TextFiles : public testing::Test {
 protected:
  void write(const char* name, const std::string& text) const { std::ofstream(folder_.path() / name) << text; }
  TemporaryFolder folder_;
};

TEST_F(TextFiles, StopTokensAreOneOrSeveral) {
  EXPECT_EQ(load_stop_tokens(folder_.path()), Tokens());
  write("config.json", R"({"eos_token_id": 2})");
  EXPECT_EQ(load_stop_tokens(folder_.path()), Tokens({2}));
  write("generation_config.json", R"({"eos_token_id": null})");
  EXPECT_EQ(load_stop_tokens(folder_.path()), Tokens({2}));
  write("generation_config.json", R"({"eos_token_id": [7, 9]})");
  EXPECT_EQ(load_stop_tokens(folder_.path()), Tokens({7, 9}));
}

TEST_F(TextFiles, StopTokensAreNumbers) {
  for (const char* wrong : {"\"</s>\"", "-1", "2.5", "[1, null]", "4294967296", "{}"}) {
    write("generation_config.json", "{\"eos_token_id\": " + std::string(wrong) + "}");
    EXPECT_ERROR(load_stop_tokens(folder_.path()),
                 "generation_config.json: eos_token_id: ", "expected the number of a token");
  }
}

TEST_F(TextFiles, TheTokenizerFitsTheModel) {
  EXPECT_ERROR(load_tokenizer(folder_.path(), {}), (folder_.path() / "tokenizer.json").string() + ": no such file",
               "save_pretrained");
  std::filesystem::copy_file(in_source_folder("examples/tokenizer.json"), folder_.path() / "tokenizer.json");
  const std::int64_t tokens = Tokenizer::from_file(folder_.path() / "tokenizer.json").vocab_size();
  EXPECT_EQ(load_tokenizer(folder_.path(), {.vocab_size = tokens + 5}).vocab_size(), tokens);
  EXPECT_ERROR(load_tokenizer(folder_.path(), {.vocab_size = tokens - 1}), "tokenizer.json: " + std::to_string(tokens),
               "expected at most the " + std::to_string(tokens - 1) + " of vocab_size in config.json");
}

// Gemma 3 has a token for images, which its models of text do not have.
TEST_F(TextFiles, SpecialTokensMayGoBeyondTheModel) {
  write("tokenizer.json", R"({"added_tokens": [{"id": 2, "content": "<image>", "single_word": false, "lstrip": false,
    "rstrip": false, "normalized": false, "special": true}],
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}})");
  EXPECT_EQ(load_tokenizer(folder_.path(), {.vocab_size = 2}).vocab_size(), 3);
}

TEST_F(TextFiles, TemplatesOfChatsAreInOneOfTwoFiles) {
  const std::vector<ChatMessage> hello{{"user", "Hello"}};
  EXPECT_ERROR(load_chat_template(folder_.path()), folder_.path().string(), "chat_template.jinja");
  write("tokenizer_config.json", R"({"bos_token": {"content": "<s>"}, "eos_token": "</s>", "pad_token": null,
    "chat_template": "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}"})");
  EXPECT_EQ(load_chat_template(folder_.path()).format(hello), "<s>Hello</s>");
  write("chat_template.jinja", "{{ bos_token }}[{{ messages[0].role }}]{{ pad_token is defined }}\n");
  EXPECT_EQ(load_chat_template(folder_.path()).format(hello), "<s>[user]False");
}

TEST_F(TextFiles, OfSeveralTemplatesTheDefaultIsTaken) {
  write("tokenizer_config.json", R"({"chat_template": [{"name": "tool_use", "template": "x"},
    {"name": "default", "template": "y"}]})");
  EXPECT_EQ(load_chat_template(folder_.path()).format({}), "y");
  for (const char* wrong : {"5", "[{\"name\": \"default\", \"template\": 5}]"}) {
    write("tokenizer_config.json", "{\"chat_template\": " + std::string(wrong) + "}");
    EXPECT_ERROR(load_chat_template(folder_.path()), "tokenizer_config.json: chat_template: 5, expected a text");
  }
  write("tokenizer_config.json", R"({"chat_template": [{"name": "rag", "template": "x"}]})");
  EXPECT_ERROR(load_chat_template(folder_.path()), "no template of chats");
  write("tokenizer_config.json", R"({"chat_template": "{{ nothing }}"})");
  EXPECT_ERROR(load_chat_template(folder_.path()).format({}), "tokenizer_config.json: chat_template: line 1: ");
}

}  // namespace
}  // namespace phasor
