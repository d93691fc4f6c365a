#include "model_options.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <span>
#include <stdexcept>
#include <vector>

#include "flags.h"
#include "phasor/core/check.h"
#include "phasor/position/rope.h"
#include "table.h"
#include "usage.h"

namespace phasor::tool {
namespace {

std::string joined(const auto& words) {
  std::string text;
  for (const auto& word : words) text += (text.empty() ? "" : ", ") + std::string(word);
  return text;
}

bool has(const std::span<const std::string_view>& keys, std::string_view key) {
  return std::ranges::count(keys, key) != 0;
}

// Types of RoPE that can scale a trained model: a factor is all they need to be told.
std::vector<std::string_view> scalings() {
  std::vector<std::string_view> names;
  for (const RopeType& type : rope_types()) {
    const bool no_more = std::ranges::all_of(type.required, [](std::string_view key) {
      return key == "factor" || key == "original_max_position_embeddings";
    });
    if (no_more && (has(type.required, "factor") || has(type.optional, "factor"))) names.push_back(type.name);
  }
  return names;
}

constexpr std::int64_t kMostLayers = 1 << 16, kMostWidth = 1 << 24, kMostSymbols = 1 << 20;

// For both kinds of numbers: one that has a default, and one that may be left out.
void add_data_options(CLI::App& command, std::optional<std::string>& task, std::optional<std::string>& text,
                      auto& symbols, auto& distance) {
  std::vector<std::string> names;
  for (const Task& each : tasks()) names.emplace_back(each.name);
  auto* task_option =
      command.add_option("--task", task, "Built-in task: " + joined(names))
          ->check([names](const std::string& given) -> std::string {
            return std::ranges::count(names, given) == 1 ? "" : given + ", expected one of " + joined(names);
          });
  auto* text_option =
      command.add_option("--text", text, "Text file, or a folder of text files, read as bytes")->excludes(task_option);
  command.add_option("--symbols", symbols, "Number of different symbols in a task")
      ->capture_default_str()
      ->excludes(text_option)
      ->check(whole_number(2, kMostSymbols));
  command.add_option("--distance", distance, "How far back task ago looks, in tokens")
      ->capture_default_str()
      ->excludes(text_option)
      ->check(whole_number(0, kMostSymbols));
}

}  // namespace

void add_data_options(CLI::App& command, DatasetConfig& data) {
  add_data_options(command, data.task, data.text, data.symbols, data.distance);
}

void add_data_options(CLI::App& command, DataChanges& data) {
  add_data_options(command, data.task, data.text, data.symbols, data.distance);
}

void check_data_options(const CLI::App& command, const std::optional<std::string>& task) {
  PHASOR_CHECK(command.count("--distance") == 0 || task == "ago", "data", "--distance: given for ",
               task ? "task " + *task : "a text", ", expected task ago, which alone has a distance");
}

std::string data_text(const DatasetConfig& data) {
  if (data.text) return printable(*data.text) + (data.text_size ? ", " + count(data.text_size->bytes) + " bytes" : "");
  const std::string symbols = *data.task + ", " + std::to_string(data.symbols) + " symbols";
  return *data.task == "ago" ? symbols + ", " + std::to_string(data.distance) + " ago" : symbols;
}

void note_text(DatasetConfig& data) {
  if (!data.text) return;
  const TextSummary found = text_summary(*data.text);
  data.text_size = found.size;
  std::fprintf(stderr, "%s: %s %s, %s bytes%s\n", printable(*data.text).c_str(), count(found.files).c_str(),
               found.files == 1 ? "file" : "files", count(found.size.bytes).c_str(),
               found.skipped == 0 ? "" : ("; skipped " + count(found.skipped) + " that are not UTF-8 text").c_str());
}

void add_size_options(CLI::App& command, SizeOptions& size) {
  command.add_option("--layers", size.layers, "Number of transformer blocks")
      ->capture_default_str()
      ->check(whole_number(1, kMostLayers));
  command.add_option("--hidden", size.hidden, "Hidden size (width of the model)")
      ->capture_default_str()
      ->check(whole_number(1, kMostWidth));
  command.add_option("--heads", size.heads, "Number of query heads")
      ->capture_default_str()
      ->check(whole_number(1, kMostWidth));
  command.add_option("--kv-heads", size.kv_heads, "Number of key and value heads (default: same as --heads)")
      ->check(whole_number(1, kMostWidth));
  command.add_option("--ffn", size.ffn, "Feed-forward size (default: 8/3 of --hidden, rounded up to a multiple of 8)")
      ->check(whole_number(1, kMostWidth));
  command.add_flag("--bidirectional", size.bidirectional, "No causal mask: every token attends to all tokens");
}

TransformerConfig SizeOptions::config(std::int64_t vocabulary, std::int64_t length) const {
  constexpr std::int64_t kMultiple = 8;
  PHASOR_CHECK(hidden % heads == 0, "model", "--hidden: ", hidden, ", expected a multiple of --heads ", heads);
  PHASOR_CHECK(kv_heads == 0 || heads % kv_heads == 0, "model", "--kv-heads: ", kv_heads,
               ", expected a divisor of --heads ", heads);
  constexpr std::int64_t kWidestHead = 512;
  PHASOR_CHECK(hidden / heads <= kWidestHead, "model", "--hidden, --heads: ", hidden / heads,
               " channels in a head, expected at most ", kWidestHead);
  TransformerConfig config;
  config.vocab_size = vocabulary;
  config.hidden_size = hidden;
  config.num_hidden_layers = layers;
  config.num_attention_heads = heads;
  config.num_key_value_heads = kv_heads;
  config.intermediate_size = ffn != 0 ? ffn : (hidden * 8 / 3 + kMultiple - 1) / kMultiple * kMultiple;
  config.max_position_embeddings = length;
  config.causal = !bidirectional;
  return config.checked();
}

std::string ModelEncoding::trained_as() const { return name.substr(0, name.find('+')); }

ModelEncoding parse_model_encoding(const char* flag, std::string_view name) {
  constexpr std::string_view kW2 = "w2-";
  ModelEncoding result{.name = std::string(name), .encoding = {}};
  if (name.starts_with(kW2)) {
    result.score = Score::w2;
    name.remove_prefix(kW2.size());
  }
  if (const std::size_t plus = name.find('+'); plus != std::string_view::npos) {
    result.scaling = name.substr(plus + 1);
    name = name.substr(0, plus);
    PHASOR_CHECK(name == RopeConfig::kEncoding, "encoding", flag, ": ", result.name,
                 ", expected a scaling of rope only");
    PHASOR_CHECK(has(scalings(), *result.scaling), "encoding", flag, ": ", result.name, ", expected one of ",
                 joined(scalings()), " after the +");
  }
  std::vector<std::string_view> names;
  for (const Encoding& row : encodings()) names.push_back(row.name);
  PHASOR_CHECK(has(names, name), "encoding", flag, ": ", result.name, ", expected one of ", joined(names),
               ", after w2- for Wasserstein-2 scores");
  result.encoding = name;
  return result;
}

namespace {

// Positions one token: an encoding that does not fit the model, as rope and an odd number of channels in a head,
// throws.
void check_fit(const TransformerConfig& config) {
  const Tensor<std::int64_t, 3> position = consecutive_positions(1);
  const std::vector<Weight> weights = parameters(config.encoding, config.shape());
  lower(config.encoding, weights, {.queries = position.view(), .shape = config.shape()});
}

}  // namespace

TransformerConfig with_encoding(TransformerConfig config, const ModelEncoding& model_encoding) try {
  config.score = model_encoding.score;
  config.encoding = encoding(model_encoding.encoding).defaults(config.shape());
  check_fit(config);
  return config;
} catch (const std::invalid_argument& error) {
  fail("encoding", model_encoding.name, " with --hidden ", config.hidden_size, ", --heads ", config.num_attention_heads,
       ": ", without_function(error.what()));
}

EncodingConfig scaled_rope(const EncodingConfig& trained, const std::string& type, double factor,
                           std::int64_t trained_length) {
  PHASOR_CHECK(trained.name() == RopeConfig::kEncoding, "scaled_rope", "--rope-scaling: given for a model with ",
               trained.name(), ", expected one with rope, which alone has scalings");
  PHASOR_CHECK(has(scalings(), type), "scaled_rope", "--rope-scaling: ", type, ", expected one of ",
               joined(scalings()));
  RopeConfig rope = trained.as<RopeConfig>();
  rope.max_position_embeddings = trained_length;
  rope.scaling = {.type = type, .factor = factor};
  const RopeType& row = rope_type(type);
  constexpr std::string_view kOriginal = "original_max_position_embeddings";
  if (has(row.required, kOriginal) || has(row.optional, kOriginal))
    rope.scaling.original_max_position_embeddings = trained_length;
  validate(rope);
  return rope;
}

}  // namespace phasor::tool
