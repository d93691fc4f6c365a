// Embeddings of texts: the states of a text's tokens, pooled to one vector, as sentence-transformers computes them.
//
//   const Transformer model = Transformer::from_pretrained(folder);
//   const EmbedSettings settings = load_embed_settings(folder, model.config());
//   const Tensor<float, 2> vectors = embed(model, load_tokenizer(folder, model.config()), texts, settings, workspace);
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "phasor/core/tensor.h"
#include "phasor/layers/workspace.h"
#include "phasor/models/transformer.h"
#include "phasor/text/tokenizer.h"

namespace phasor {

enum class Pooling {
  mean,  // of all tokens, special ones included
  cls,   // the first token
};
std::string_view pooling_name(Pooling pooling);    // "mean", "cls"
Pooling pooling_from_name(std::string_view name);  // refuses other names

struct EmbedSettings {
  std::optional<Pooling> pooling{};          // mean when not given; a causal model has no default
  bool normalize = true;                     // to length 1
  std::optional<std::int64_t> max_tokens{};  // of a text, special ones included: longer ones are cut
  std::int64_t batch = 32;                   // texts at once
};

// What the files of sentence-transformers in a folder say: modules.json, the config of its Pooling module,
// sentence_bert_config.json. Without them a text has at most the tokens of tokenizer_config.json's model_max_length and
// of the model's positions. Modules, poolings and prompts that are not here are refused, with file and key.
EmbedSettings load_embed_settings(const std::filesystem::path& folder, const TransformerConfig& config);

// A row for each text, [N, hidden_size].
Tensor<float, 2> embed(const Transformer& model, const Tokenizer& tokenizer, std::span<const std::string> texts,
                       const EmbedSettings& settings, Workspace& workspace);

}  // namespace phasor
