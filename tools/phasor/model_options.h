// The flags that train, eval and compare share: the data, the size of the model, its encoding by name.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "phasor/models/transformer.h"
#include "phasor/training/settings.h"

namespace phasor::tool {

// --task, --text, --symbols, --distance.
void add_data_options(CLI::App& command, DatasetConfig& data);
// The same, where data is known and may be changed.
struct DataChanges {
  std::optional<std::string> task, text;
  std::optional<std::int64_t> symbols, distance;
};
void add_data_options(CLI::App& command, DataChanges& data);
// --distance is refused where the task has none; `task` is the one that will be used.
void check_data_options(const CLI::App& command, const std::optional<std::string>& task);
// For people: "induction, 32 symbols".
std::string data_text(const DatasetConfig& data);
// Reads a text once: sets data.text_size, and says on standard error what was read.
void note_text(DatasetConfig& data);

struct SizeOptions {
  std::int64_t layers = 2, hidden = 64, heads = 4, kv_heads = 0, ffn = 0;
  bool bidirectional = false;

  TransformerConfig config(std::int64_t vocabulary, std::int64_t length) const;  // without an encoding
};
void add_size_options(CLI::App& command, SizeOptions& size);

// [w2-]ENCODING[+SCALING]: "rope", "w2-alibi", "rope+yarn". A scaling is applied at inference: what stands before it is
// trained.
struct ModelEncoding {
  std::string name;
  Score score = Score::dot;
  std::string encoding;
  std::optional<std::string> scaling = {};

  std::string trained_as() const;  // the name without the scaling
};
ModelEncoding parse_model_encoding(const char* flag, std::string_view name);

// The config with the encoding's defaults for such a model, and the score.
TransformerConfig with_encoding(TransformerConfig config, const ModelEncoding& encoding);

// A trained model's RoPE, scaled for texts `factor` times as long as those of training. Errors name --rope-scaling.
EncodingConfig scaled_rope(const EncodingConfig& trained, const std::string& type, double factor,
                           std::int64_t trained_length);

}  // namespace phasor::tool
