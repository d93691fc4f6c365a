#include "model_options.h"

#include <cmath>

#include "phasor/core/check.h"
#include "phasor/position/hugging_face.h"
#include "phasor/position/rope.h"
#include "table.h"

namespace phasor::tool {

namespace {

// For both kinds of numbers: one that has a default, and one that may be left out.
void add_data_options(CLI::App& command, std::optional<std::string>& task, std::optional<std::string>& text,
                      auto& symbols, auto& distance) {
  std::string names;
  for (const Task& each : tasks()) names += (names.empty() ? "" : ", ") + std::string(each.name);
  auto* task_option = command.add_option("--task", task, "A built-in task: " + names);
  auto* text_option =
      command.add_option("--text", text, "A text file, or a folder of them, read as bytes")->excludes(task_option);
  command.add_option("--symbols", symbols, "How many different symbols a task has")
      ->capture_default_str()
      ->excludes(text_option);
  command.add_option("--distance", distance, "k of task ago")->capture_default_str()->excludes(text_option);
}

}  // namespace

void add_data_options(CLI::App& command, DatasetConfig& data) {
  add_data_options(command, data.task, data.text, data.symbols, data.distance);
}

void add_data_options(CLI::App& command, DataChanges& data) {
  add_data_options(command, data.task, data.text, data.symbols, data.distance);
}

std::string data_text(const DatasetConfig& data) {
  if (data.text) return printable(*data.text) + (data.text_size ? ", " + count(data.text_size->bytes) + " bytes" : "");
  const std::string symbols = *data.task + ", " + std::to_string(data.symbols) + " symbols";
  return *data.task == "ago" ? symbols + ", " + std::to_string(data.distance) + " ago" : symbols;
}

void add_size_options(CLI::App& command, SizeOptions& size) {
  command.add_option("--layers", size.layers, "Blocks")->capture_default_str();
  command.add_option("--hidden", size.hidden, "Width of the model")->capture_default_str();
  command.add_option("--heads", size.heads, "Query heads")->capture_default_str();
  command.add_option("--kv-heads", size.kv_heads, "Key and value heads (default: as many as heads)");
  command.add_option("--ffn", size.ffn, "Width of the feed-forward (default: 8/3 of --hidden, to a multiple of 8)");
  command.add_flag("--bidirectional", size.bidirectional, "Every token sees all: for tasks that label tokens");
}

DecoderConfig SizeOptions::config(std::int64_t vocabulary, std::int64_t length) const {
  constexpr std::int64_t kMultiple = 8, kMost = 1 << 24;
  PHASOR_CHECK(hidden >= 1 && hidden <= kMost, "model", "--hidden: ", hidden, ", expected 1 to ", kMost);
  DecoderConfig config;
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

ModelEncoding parse_model_encoding(std::string_view name) {
  constexpr std::string_view kW2 = "w2-";
  ModelEncoding result{.name = std::string(name), .encoding = {}};
  if (name.starts_with(kW2)) {
    result.score = Score::w2;
    name.remove_prefix(kW2.size());
  }
  if (const std::size_t plus = name.find('+'); plus != std::string_view::npos) {
    result.scaling = rope_type(name.substr(plus + 1)).name;
    name = name.substr(0, plus);
    PHASOR_CHECK(name == RopeConfig::kEncoding, "encoding", "name: \"", result.name,
                 "\", expected a scaling of rope only");
  }
  result.encoding = encoding(name).name;
  return result;
}

DecoderConfig with_encoding(DecoderConfig config, const ModelEncoding& model_encoding) {
  config.score = model_encoding.score;
  config.encoding = encoding(model_encoding.encoding).defaults(config.shape());
  return config;
}

EncodingConfig scaled_rope(const EncodingConfig& trained, const std::string& type, double factor,
                           std::int64_t trained_length) {
  PHASOR_CHECK(trained.name() == RopeConfig::kEncoding, "scaled_rope", "encoding: ", trained.name(),
               ", expected rope, which alone has scalings");
  PHASOR_CHECK(std::isfinite(factor) && factor > 0.0, "scaled_rope", "factor: ", factor,
               ", expected more than 0 and finite");
  RopeConfig rope = trained.as<RopeConfig>();
  rope.max_position_embeddings = trained_length;
  constexpr int kAllDigits = 17;
  rope.scaling = read_rope_scaling("{\"rope_type\": \"" + type + "\", \"factor\": " + number(factor, kAllDigits) + "}",
                                   trained_length);
  validate(rope);
  return rope;
}

}  // namespace phasor::tool
