// A folder with a model that reads and writes text, as generate and perplexity take it.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "phasor/core/precision.h"
#include "phasor/models/encoder_decoder.h"
#include "phasor/models/transformer.h"
#include "phasor/text/tokenizer.h"

namespace phasor::tool {

// Which weights, in which type: the folder and --precision.
struct WeightOptions {
  std::string folder;
  std::string precision{precision_name(Precision::storage)};
};
void add_weight_options(CLI::App& command, WeightOptions& options, const char* about_folder);

struct TextModelOptions : WeightOptions {
  std::optional<std::string> cache = {};

  std::optional<CacheStorage> storage() const;  // that --cache names
};
// Those of the weights, and --cache.
void add_text_model_options(CLI::App& command, TextModelOptions& options, const char* about_cache);

// Whether a folder is of phasor train. Refuses one that is not there.
bool is_trained_here(const std::string& folder);

// Folders of phasor train have training.json, and models of text read bytes; others are Hugging Face's.
struct TextModel {
  explicit TextModel(const TextModelOptions& options);
  // The folder's tokenizer, read when a text is given: token ids need none. Errors name `flag`, which gave the text.
  void read_tokenizer(const char* flag);
  std::vector<std::int32_t> encode(std::string_view text, bool add_special_tokens) const;

  // The model that reads the prompt and writes the text, where it is one. Errors name `command`.
  Transformer& transformer(const char* command);
  const TransformerConfig& writer() const;  // of what writes the text

  bool ours;
  std::variant<Transformer, EncoderDecoder> model;
  std::optional<Tokenizer> tokenizer = {};  // none: tokens are bytes
  std::string folder;
};

}  // namespace phasor::tool
