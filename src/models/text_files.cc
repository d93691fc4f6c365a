#include "phasor/models/text_files.h"

#include <array>
#include <string>

#include "json/strict_json.h"
#include "phasor/core/check.h"
#include "phasor/core/mapped_file.h"

namespace phasor {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTokenizer = "load_tokenizer";
constexpr const char* kStopTokens = "load_stop_tokens";

std::int32_t token_id(const Json& value, const std::string& source) {
  const bool fits = value.is_number_unsigned() && value.get<std::uint64_t>() <= INT32_MAX;
  PHASOR_CHECK(fits, kStopTokens, source, ": eos_token_id: ", json_text(value),
               ", expected the number of a token, or a list of such numbers");
  return value.get<std::int32_t>();
}

// None if the file is not there, or says nothing.
std::vector<std::int32_t> stop_tokens_of(const fs::path& path) {
  if (!fs::exists(path)) return {};
  const MappedFile file(path);
  const Json json = parse_json_object({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()},
                                      kStopTokens, path.string());
  const auto found = json.find("eos_token_id");
  if (found == json.end() || found->is_null()) return {};
  if (!found->is_array()) return {token_id(*found, path.string())};
  std::vector<std::int32_t> tokens;
  for (const Json& each : *found) tokens.push_back(token_id(each, path.string()));
  return tokens;
}

}  // namespace

Tokenizer load_tokenizer(const fs::path& folder, const TransformerConfig& config) {
  const fs::path path = folder / "tokenizer.json";
  PHASOR_CHECK(fs::exists(path), kTokenizer, folder.string(),
               ": no tokenizer.json, expected one, since a text is given (token ids need none)");
  Tokenizer tokenizer = Tokenizer::from_file(path);
  for (std::int64_t id = config.vocab_size; id < tokenizer.vocab_size(); id++) {
    const auto token = static_cast<std::int32_t>(id);
    const bool special = tokenizer.decode(std::array{token}, /*skip_special_tokens=*/true).empty();
    PHASOR_CHECK(special, kTokenizer, path.string(), ": ", tokenizer.vocab_size(), " tokens, expected at most the ",
                 config.vocab_size, " of vocab_size in config.json: it is the tokenizer of another model");
  }
  return tokenizer;
}

std::vector<std::int32_t> load_stop_tokens(const fs::path& folder) {
  std::vector<std::int32_t> tokens = stop_tokens_of(folder / "generation_config.json");
  return tokens.empty() ? stop_tokens_of(folder / "config.json") : tokens;
}

}  // namespace phasor
