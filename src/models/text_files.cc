#include "phasor/models/text_files.h"

#include <array>
#include <map>
#include <string>

#include "json/strict_json.h"
#include "phasor/core/check.h"
#include "phasor/core/mapped_file.h"

namespace phasor {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTokenizer = "load_tokenizer";
constexpr const char* kStopTokens = "load_stop_tokens";
constexpr const char* kChat = "load_chat_template";

std::string read_text(const fs::path& path) {
  const MappedFile file(path);
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

std::int32_t token_id(const Json& value, const std::string& source) {
  const bool fits = value.is_number_unsigned() && value.get<std::uint64_t>() <= INT32_MAX;
  PHASOR_CHECK(fits, kStopTokens, source, ": eos_token_id: ", json_text(value),
               ", expected the number of a token, or a list of such numbers");
  return value.get<std::int32_t>();
}

// None if the file is not there, or says nothing.
std::vector<std::int32_t> stop_tokens_of(const fs::path& path) {
  if (!fs::exists(path)) return {};
  const Json json = parse_json_object(read_text(path), kStopTokens, path.string());
  const auto found = json.find("eos_token_id");
  if (found == json.end() || found->is_null()) return {};
  if (!found->is_array()) return {token_id(*found, path.string())};
  std::vector<std::int32_t> tokens;
  for (const Json& each : *found) tokens.push_back(token_id(each, path.string()));
  return tokens;
}

// "bos_token": "<s>", or an object with the text as its content.
std::map<std::string, std::string> special_tokens_of(const Json& config) {
  std::map<std::string, std::string> tokens;
  for (const char* name :
       {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"}) {
    const auto found = config.find(name);
    if (found == config.end()) continue;
    const Json& text = found->is_object() && found->contains("content") ? found->at("content") : *found;
    if (text.is_string()) tokens[name] = text.get<std::string>();
  }
  return tokens;
}

// Templates may be a list of objects with name and template.
const Json* default_template(const Json& config) {
  const auto found = config.find("chat_template");
  if (found == config.end() || !found->is_array()) return found == config.end() || found->is_null() ? nullptr : &*found;
  for (const Json& each : *found)
    if (each.is_object() && each.contains("template") && each.value("name", Json()) == "default")
      return &each["template"];
  return nullptr;
}

}  // namespace

Tokenizer load_tokenizer(const fs::path& folder, const TransformerConfig& config) {
  const fs::path path = folder / "tokenizer.json";
  PHASOR_CHECK(fs::exists(path), kTokenizer, path.string(),
               ": no such file, expected it, since a text is given. transformers writes it: "
               "AutoTokenizer.from_pretrained(folder).save_pretrained(folder)");
  Tokenizer tokenizer = Tokenizer::from_file(path);
  for (std::int64_t id = config.vocab_size; id < tokenizer.vocab_size(); id++) {
    const auto token = static_cast<std::int32_t>(id);
    const bool special = tokenizer.decode(std::array{token}, /*skip_special_tokens=*/true).empty();
    PHASOR_CHECK(special, kTokenizer, path.string(), ": ", tokenizer.vocab_size(), " tokens, expected at most the ",
                 config.vocab_size, " of vocab_size in config.json: it is the tokenizer of another model");
  }
  return tokenizer;
}

ChatTemplate load_chat_template(const fs::path& folder) {
  const fs::path path = folder / "tokenizer_config.json", source = folder / "chat_template.jinja";
  const Json config = fs::exists(path) ? parse_json_object(read_text(path), kChat, path.string()) : Json::object();
  if (fs::exists(source)) return {read_text(source), source.string(), special_tokens_of(config)};
  const Json* found = default_template(config);
  PHASOR_CHECK(
      found != nullptr, kChat, folder.string(),
      ": no template of chats, expected chat_template.jinja or chat_template in tokenizer_config.json. A prompt "
      "that is formatted already needs none");
  PHASOR_CHECK(found->is_string(), kChat, path.string(), ": chat_template: ", json_text(*found), ", expected a text");
  return {found->get<std::string>(), path.string() + ": chat_template", special_tokens_of(config)};
}

std::vector<std::int32_t> load_stop_tokens(const fs::path& folder) {
  std::vector<std::int32_t> tokens = stop_tokens_of(folder / "generation_config.json");
  return tokens.empty() ? stop_tokens_of(folder / "config.json") : tokens;
}

}  // namespace phasor
