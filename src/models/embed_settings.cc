// The files of sentence-transformers.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "json/fields.h"
#include "phasor/core/check.h"
#include "phasor/core/mapped_file.h"
#include "phasor/models/embed.h"

namespace phasor {
namespace {

namespace fs = std::filesystem;

constexpr const char* kName = "load_embed_settings";

// Poolings of sentence-transformers, with the keys of its files before 5.4 and after.
constexpr std::array<std::pair<const char*, const char*>, 6> kModes{
    {{"pooling_mode_cls_token", "cls"},
     {"pooling_mode_max_tokens", "max"},
     {"pooling_mode_mean_tokens", "mean"},
     {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens"},
     {"pooling_mode_weightedmean_tokens", "weightedmean"},
     {"pooling_mode_lasttoken", "lasttoken"}}};

// An empty object if the file is not there. A null is a key that is not given.
Json read_object(const fs::path& path) {
  if (!fs::exists(path)) return Json::object();
  const MappedFile file(path);
  Json json = parse_json_object({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, kName,
                                path.string());
  for (auto at = json.begin(); at != json.end();) at = at->is_null() ? json.erase(at) : std::next(at);
  return json;
}

Pooling read_pooling(const fs::path& path) {
  PHASOR_CHECK(fs::exists(path), kName, path.string(), ": no such file, expected that of the Pooling module");
  const Json json = read_object(path);
  FieldReader reader(json, kName, path.string());
  std::vector<std::string> modes;
  const Json* mode = reader.find("pooling_mode");
  if (mode != nullptr && mode->is_string()) {
    modes.push_back(mode->get<std::string>());
  } else if (mode != nullptr) {
    reader("pooling_mode", modes);
  } else {
    for (const auto& [key, name] : kModes) {
      bool chosen = false;
      reader.since(key, chosen, false);
      if (chosen) modes.emplace_back(name);
    }
    if (modes.empty()) modes.emplace_back("mean");
  }
  std::string given;
  for (const std::string& each : modes) given += (given.empty() ? "" : ", ") + each;
  if (given != "mean" && given != "cls") reader.refuse_part("pooling_mode", given, "mean or cls");
  return pooling_from_name(given);
}

struct Module {
  std::string type, path;
};

// The file is a list. Types have the module of Python before them, which changes with the version:
// sentence_transformers.models.Pooling.
std::vector<Module> read_modules(const fs::path& path) {
  const MappedFile file(path);
  const std::string list(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  const Json json = parse_json_object("{\"modules\": " + list + "}", kName, path.string());
  FieldReader reader(json, kName, path.string());
  std::vector<Module> modules;
  for (FieldReader& each : reader.objects("modules")) {
    Module module;
    each("type", module.type);
    each("path", module.path);
    module.type.erase(0, module.type.rfind('.') + 1);
    const bool plain = module.path.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
    if (!plain || module.path.starts_with('.')) each.refuse_key("path", "the name of a folder within this one");
    modules.push_back(std::move(module));
  }
  reader.finish();
  return modules;
}

// Transformer, Pooling, and perhaps Normalize.
void apply_modules(const fs::path& folder, EmbedSettings& settings) {
  const fs::path path = folder / "modules.json";
  if (!fs::exists(path)) return;
  const std::vector<Module> modules = read_modules(path);
  std::string types;
  for (const Module& each : modules) types += (types.empty() ? "" : ", ") + each.type;
  settings.normalize = types == "Transformer, Pooling, Normalize";
  PHASOR_CHECK(settings.normalize || types == "Transformer, Pooling", kName, path.string(), ": modules ",
               types.empty() ? "none" : types, ", expected Transformer, Pooling, and at most Normalize after them");
  PHASOR_CHECK(modules[0].path.empty(), kName, path.string(), ": modules[0].path: ", json_text(Json(modules[0].path)),
               ", expected \"\": the model beside this file");
  settings.pooling = read_pooling(folder / modules[1].path / "config.json");
}

// A prompt of the files would be put before every text.
void check_prompt(const fs::path& path) {
  const Json json = read_object(path);
  FieldReader reader(json, kName, path.string());
  std::string name;
  reader.since("default_prompt_name", name, {});
  if (!name.empty()) reader.refuse_key("default_prompt_name", "none: put the prompt before your texts");
}

void expect(FieldReader& reader, const char* key, const std::string& only) {
  std::string value;
  reader.since(key, value, only);
  if (value != only) reader.refuse_key(key, only);
}

// Whether a normalizer of tokenizer.json, or a part of it, makes letters small.
bool lowers_case(const Json& normalizer) {
  const auto type = normalizer.find("type"), parts = normalizer.find("normalizers");
  if (type == normalizer.end()) return false;
  if (*type == "BertNormalizer") return normalizer.value("lowercase", Json(true)) == true;
  const bool in_parts = parts != normalizer.end() && std::ranges::any_of(*parts, lowers_case);
  return *type == "Lowercase" || in_parts;
}

// The file's name was that of the model's type once.
fs::path transformer_file(const fs::path& folder) {
  const fs::path first = folder / "sentence_bert_config.json", older = folder / "sentence_roberta_config.json";
  return !fs::exists(first) && fs::exists(older) ? older : first;
}

// What the Transformer module computes; files before 5.4 say less.
void check_transformer(FieldReader& reader, const fs::path& tokenizer) {
  bool lower_case = false;
  reader.since("do_lower_case", lower_case, false);
  if (lower_case && !lowers_case(read_object(tokenizer).value("normalizer", Json())))
    reader.refuse_key("do_lower_case", "false, or a normalizer in tokenizer.json that does it");
  expect(reader, "transformer_task", "feature-extraction");
  if (reader.find("modality_config") == nullptr) return;
  FieldReader text = reader.object("modality_config").object("text");
  expect(text, "method", "forward");
  expect(text, "method_output_name", "last_hidden_state");
}

std::int64_t read_max_tokens(const fs::path& folder, const TransformerConfig& config) {
  const std::int64_t longest = config.longest().value_or(config.max_position_embeddings);
  const fs::path path = transformer_file(folder);
  const Json json = read_object(path);
  FieldReader reader(json, kName, path.string());
  check_transformer(reader, folder / "tokenizer.json");
  std::optional<std::int64_t> found;
  reader("max_seq_length", found);
  if (found && (*found < 1 || *found > longest))
    reader.refuse_key("max_seq_length", "1 to " + std::to_string(longest) + ", the model's positions");
  if (found) return *found;
  // It may be 1e30, where there is no limit.
  const Json tokenizer = read_object(folder / "tokenizer_config.json");
  const auto limit = tokenizer.find("model_max_length");
  const bool counts = limit != tokenizer.end() && limit->is_number() && limit->get<double>() >= 1 &&
                      limit->get<double>() < static_cast<double>(longest);
  return counts ? static_cast<std::int64_t>(limit->get<double>()) : longest;
}

}  // namespace

EmbedSettings load_embed_settings(const fs::path& folder, const TransformerConfig& config) {
  EmbedSettings settings;
  apply_modules(folder, settings);
  check_prompt(folder / "config_sentence_transformers.json");
  settings.max_tokens = read_max_tokens(folder, config);
  return settings;
}

}  // namespace phasor
