// Chats as text and ids, beside transformers'.
#include "phasor/text/chat_template.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>
#include <nlohmann/json.hpp>

#include "support/expect_error.h"
#include "support/golden.h"

namespace phasor {
namespace {

using Messages = std::vector<ChatMessage>;

const nlohmann::json& golden() {
  static const nlohmann::json chats = read_golden("chats.json");
  return chats;
}

Messages messages_of(const nlohmann::json& chat) {
  Messages messages;
  for (const nlohmann::json& each : chat) messages.push_back({each.at("role"), each.at("content")});
  return messages;
}

const Messages kHello{{"user", "Hello"}};

TEST(ChatTemplate, WritesTheTextOfTransformers) {
  setenv("TZ", "UTC", 1);
  const std::map<std::string, std::string> special = golden().at("special_tokens");
  for (const nlohmann::json& each : golden().at("templates")) {
    SCOPED_TRACE(each.at("name").get<std::string>());
    const ChatTemplate chat(each.at("template").get<std::string>(), "golden", special);
    for (std::size_t i = 0; i < each.at("texts").size(); i++) {
      const Messages messages = messages_of(golden().at("chats")[i]);
      const std::time_t now = golden().at("now");
      if (each.at("texts")[i].is_null())
        EXPECT_ERROR(chat.format(messages, now), "golden: line", "the template refuses these messages");
      else
        EXPECT_EQ(chat.format(messages, now), each.at("texts")[i].get<std::string>()) << i;
    }
  }
}

TEST(ChatTemplate, RefusesWhatItDoesNotKnow) {
  for (const std::string source : golden().at("refused"))
    EXPECT_ERROR(ChatTemplate(source, "refused.jinja").format(kHello),
                 "refused.jinja: line 1: ", "A prompt that is formatted already needs no template");
  EXPECT_ERROR(ChatTemplate("a\n\n{{ messages | tojson }}", "x").format(kHello),
               "x: line 3: the filter tojson of a list");
  EXPECT_ERROR(ChatTemplate("{{ namespace(1) }}", "x").format(kHello),
               "namespace with arguments that have no name, expected name=value");
  EXPECT_ERROR(ChatTemplate("\xFF", "x"), "x: 1 bytes, expected UTF-8");
}

// However short, none runs on, and none takes more memory than a chat needs.
TEST(ChatTemplate, EveryTemplateEnds) {
  std::string nested, deep, chain = "{{ 1", long_sum;
  for (int i = 0; i < 250; i++) long_sum += "+'a'";
  for (int i = 0; i < 12; i++) nested += "{% for i" + std::to_string(i) + " in range(10000) %}";
  nested += "x";
  for (int i = 0; i < 12; i++) nested += "{% endfor %}";
  for (int i = 0; i < 100000; i++) deep += "(", chain += "+1";
  for (const std::string& source :
       {nested, "{{ " + deep, chain + " }}", "{{ " + std::string(100000, '-') + "1 }}",
        std::string("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"),
        "{% macro f() %}{{ f()" + long_sum + " }}{% endmacro %}{{ f() }}",
        std::string(
            "{% set ns = namespace(x='aaaa') %}{% for i in range(100) %}{% set ns.x = ns.x + ns.x %}{% endfor %}"),
        std::string(
            "{% set ns = namespace(x=[1]) %}{% for i in range(100) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}"),
        std::string("{% set ns = namespace(x=[1]) %}{% for i in range(9000) %}{% set ns.x = [ns.x] %}{% endfor %}"),
        std::string("{% set ns = namespace(x='aa') %}{% for i in range(99) %}{% set ns.x = ns.x.replace('a', ns.x) "
                    "%}{% endfor %}")})
    EXPECT_ERROR(ChatTemplate(source, "long").format(kHello), "long: line 1: ");
}

// Two special tokens, of which one takes the space behind it; letters are the rest.
std::string tokenizer_json(bool normalized) {
  nlohmann::json vocabulary = {{"<s>", 0}, {"<end>", 1}, {"<unk>", 2}};
  for (const char c : std::string("<>/abcdehlnosu ")) vocabulary[std::string(1, c)] = vocabulary.size();
  nlohmann::json tokens = nlohmann::json::array();
  for (const char* token : {"<s>", "<end>"})
    tokens.push_back({{"id", vocabulary[token]},
                      {"content", token},
                      {"single_word", false},
                      {"lstrip", false},
                      {"rstrip", token == std::string("<end>")},
                      {"normalized", normalized},
                      {"special", true}});
  return nlohmann::json{
      {"added_tokens", tokens},
      {"normalizer", {{"type", "Lowercase"}}},
      {"model", {{"type", "BPE"}, {"unk_token", "<unk>"}, {"vocab", vocabulary}, {"merges", nlohmann::json::array()}}}}
      .dump();
}

TEST(ChatTemplate, SpecialTokensAreTheTemplatesAlone) {
  const Tokenizer tokenizer = Tokenizer::from_json(tokenizer_json(false), "tokenizer");
  const ChatTemplate chat("<s>{% for m in messages %}{{ m.content | trim }}<end> {% endfor %}<s>", "chat");
  const auto plain = [&](const std::string& text) {  // as separate characters
    std::vector<std::int32_t> ids;
    for (const char c : text) ids.push_back(tokenizer.encode(std::string(1, c))[0]);
    return ids;
  };
  const auto expected = [&](const std::string& message) {
    std::vector<std::int32_t> ids = plain(message);
    ids.insert(ids.begin(), 0);
    ids.insert(ids.end(), {1, 0});
    return ids;
  };
  for (const std::string text : {"hello", "<s>", "a<end> b", "<<s>s><end>", "<s", ""})
    EXPECT_EQ(chat.encode(Messages{{"user", text}}, tokenizer), expected(text)) << text;
  EXPECT_EQ(chat.encode(Messages{{"user", " <s>a "}}, tokenizer), expected("<s>a"));
  EXPECT_EQ(chat.encode(Messages{{"user", "end>"}}, tokenizer), expected("end>"));
  // Bytes that are not UTF-8 are U+FFFD, which this tokenizer does not know.
  EXPECT_EQ(chat.encode(Messages{{"user", "\xFF"}}, tokenizer), (std::vector<std::int32_t>{0, 2, 1, 0}));
}

TEST(ChatTemplate, RefusesSpecialTokensThatItCannotTellApart) {
  const Tokenizer tokenizer = Tokenizer::from_json(tokenizer_json(true), "tokenizer");
  const ChatTemplate chat("<s>{{ messages[0].content }}<end>", "chat");
  EXPECT_EQ(chat.encode(kHello, tokenizer).size(), 7u);
  EXPECT_ERROR(chat.encode(Messages{{"user", "a <S>"}}, tokenizer), "spells the special token <s>");
}

}  // namespace
}  // namespace phasor
