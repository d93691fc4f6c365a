#include "phasor/text/chat_template.h"

#include <utility>

#include "jinja/evaluator.h"
#include "jinja/parser.h"
#include "json/strict_json.h"
#include "phasor/core/check.h"
#include "utf8.h"

namespace phasor {
namespace {

constexpr const char* kName = "ChatTemplate";

// Calls `make`; what it refuses is an error that names the template.
auto named(const std::string& name, const auto& make) {
  try {
    return make();
  } catch (const text::jinja::Refused& refused) {
    fail(kName, name, ": line ", refused.line, ": ", refused.text,
         ". A prompt that is formatted already needs no template");
  }
}

}  // namespace

struct ChatTemplate::Parsed {
  std::string name, source;
  std::vector<text::jinja::Statement> statements;
  std::map<std::string, std::string> special_tokens;
};

ChatTemplate::ChatTemplate(std::string_view source, std::string name,
                           std::map<std::string, std::string> special_tokens) {
  constexpr std::size_t kLargest = std::size_t{1} << 20;
  PHASOR_CHECK(source.size() <= kLargest && text::is_utf8(source), kName, name, ": ", source.size(),
               " bytes, expected UTF-8 of at most ", kLargest);
  std::vector<text::jinja::Statement> statements = named(name, [&] { return text::jinja::parse(source); });
  parsed_ = std::make_shared<const Parsed>(
      Parsed{std::move(name), std::string(source), std::move(statements), std::move(special_tokens)});
}

std::string ChatTemplate::format(std::span<const ChatMessage> messages, std::time_t now) const {
  Json variables = Json(parsed_->special_tokens);
  variables["messages"] = Json::array();
  for (const ChatMessage& each : messages)
    variables["messages"].push_back({{"role", each.role}, {"content", each.content}});
  variables["add_generation_prompt"] = true;
  variables["tools"] = variables["documents"] = nullptr;
  return named(parsed_->name, [&] { return text::jinja::write(parsed_->statements, variables, now); });
}

std::vector<std::int32_t> ChatTemplate::encode(std::span<const ChatMessage> messages, const Tokenizer& tokenizer,
                                               std::time_t now) const {
  std::vector<ChatMessage> marked(messages.begin(), messages.end());
  for (ChatMessage& each : marked) each.content = tokenizer.mark_control_tokens(each.content, parsed_->source);
  return tokenizer.encode_marked(format(marked, now));
}

}  // namespace phasor
