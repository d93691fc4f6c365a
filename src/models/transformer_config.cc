#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <string>

#include "phasor/models/transformer.h"

namespace phasor {

namespace {

constexpr const char* kModel = "Transformer";

// Layers with an encoding of their own exist, and are named once.
void check_layers(const TransformerConfig& config) {
  std::set<std::int64_t> named;
  for (std::size_t i = 0; i < config.layer_encodings.size(); i++)
    for (const std::int64_t layer : config.layer_encodings[i].layers) {
      PHASOR_CHECK(layer >= 0 && layer < config.num_hidden_layers, kModel, "layer_encodings[", i, "].layers: ", layer,
                   ", expected 0 to ", config.num_hidden_layers - 1);
      PHASOR_CHECK(named.insert(layer).second, kModel, "layer_encodings[", i, "].layers: ", layer,
                   " again, expected every layer once at most");
    }
}

}  // namespace

TransformerConfig TransformerConfig::checked() const {
  TransformerConfig c = *this;
  // Far beyond any model, and products of two of them can be counted.
  const auto check_size = [](const char* name, std::int64_t size, std::int64_t most) {
    PHASOR_CHECK(size >= 1 && size <= most, kModel, name, ": ", size, ", expected 1 to ", most);
  };
  constexpr std::int64_t kMostLayers = 1 << 16, kMostWidth = 1 << 24, kMostTokens = INT32_MAX;
  check_size("vocab_size", c.vocab_size, kMostTokens);
  check_size("hidden_size", c.hidden_size, kMostWidth);
  check_size("num_hidden_layers", c.num_hidden_layers, kMostLayers);
  check_size("num_attention_heads", c.num_attention_heads, kMostWidth);
  check_size("intermediate_size", c.intermediate_size, kMostWidth);
  PHASOR_CHECK(c.norm_eps >= 0.0 && std::isfinite(c.norm_eps), kModel, "norm_eps: ", c.norm_eps,
               ", expected 0 or more, and finite");
  PHASOR_CHECK(c.sliding_window >= 0, kModel, "sliding_window: ", c.sliding_window, ", expected 0 (none) or more");
  for (const std::int64_t layer : c.sliding_layers)
    PHASOR_CHECK(layer >= 0 && layer < c.num_hidden_layers, kModel, "sliding_layers: ", layer, ", expected 0 to ",
                 c.num_hidden_layers - 1);
  PHASOR_CHECK(c.type_vocab_size >= 0 && c.type_vocab_size <= kMostWidth, kModel,
               "type_vocab_size: ", c.type_vocab_size, ", expected 0 (none) to ", kMostWidth);
  const bool plain = c.embedding_scale == 1.0 && !c.embedding_norm && c.type_vocab_size == 0 && !c.head_transform &&
                     c.first_attention_norm && c.attention_softcap == 0.0;
  PHASOR_CHECK(c.score == Score::dot || plain, kModel,
               "embedding_scale, embedding_norm, type_vocab_size, head_transform, first_attention_norm or "
               "attention_softcap: given with W2 scores, expected none of them");
  const AttentionHeads heads =
      AttentionHeads{c.hidden_size, c.num_attention_heads, c.num_key_value_heads, c.head_dim}.checked(kModel);
  c.num_key_value_heads = heads.key_heads;
  c.head_dim = heads.head_dim;
  check_layers(c);
  return c;
}

std::optional<std::int64_t> TransformerConfig::longest() const {
  std::optional<std::int64_t> least = phasor::longest(encoding);
  for (const LayerEncoding& other : layer_encodings)
    if (const auto most = phasor::longest(other.encoding)) least = std::min(least.value_or(*most), *most);
  return least;
}

std::string TransformerConfig::describe_encodings() const {
  std::string text = describe(encoding);
  for (const LayerEncoding& other : layer_encodings) {
    text += other.layers.size() == 1 ? "; layer" : "; layers";
    for (std::size_t i = 0; i < other.layers.size(); i++) text += (i ? ", " : " ") + std::to_string(other.layers[i]);
    text += ": " + describe(other.encoding);
  }
  return text;
}

ModelShape TransformerConfig::shape() const {
  constexpr double kEmbeddingDeviation = 0.02;  // of Init::normal, which transformers have
  return {.heads = num_attention_heads,
          .head_dim = head_dim,
          .model_dim = hidden_size,
          .max_length = max_position_embeddings,
          .causal = causal,
          .embedding_deviation = kEmbeddingDeviation * embedding_scale};
}

double TransformerConfig::matrix_elements() const {
  const auto of = [](std::int64_t size) { return static_cast<double>(size); };
  const double projections = 2.0 * of(num_attention_heads + num_key_value_heads) * of(head_dim);
  const double feed_forward = (gated ? 3.0 : 2.0) * of(intermediate_size);
  const double streams = score == Score::w2 ? 2.0 : 1.0, attentions = cross_attention ? 2.0 : 1.0;
  return streams * of(hidden_size) *
         (of(vocab_size) + of(num_hidden_layers) * (attentions * projections + feed_forward));
}

NormConfig TransformerConfig::norm_config() const {
  return {.kind = norm, .eps = static_cast<float>(norm_eps), .bias = norm_bias};
}

BlockConfig TransformerConfig::block(std::int64_t layer) const {
  return {.hidden_size = hidden_size,
          .num_attention_heads = num_attention_heads,
          .num_key_value_heads = num_key_value_heads,
          .head_dim = head_dim,
          .intermediate_size = intermediate_size,
          .norm = norm,
          .norm_bias = norm_bias,
          .norm_eps = norm_eps,
          .norm_place = norm_place,
          .attention_norm = first_attention_norm || layer > 0,
          .parallel_residual = parallel_residual,
          .hidden_act = hidden_act,
          .gated = gated,
          .mlp_bias = mlp_bias,
          .qk_norm = qk_norm,
          .attention_bias = attention_bias,
          .attention_output_bias = attention_output_bias,
          .attention_scale = attention_scale,
          .cross_attention = cross_attention,
          .attention_dropout = attention_dropout};
}

bool TransformerConfig::slides(std::int64_t layer) const {
  return sliding_window > 0 && (sliding_layers.empty() || std::ranges::count(sliding_layers, layer) != 0);
}

OutputHeadConfig TransformerConfig::head() const {
  return {.channels = hidden_size,
          .vocabulary = vocab_size,
          .tied = tie_word_embeddings,
          .bias = head_bias,
          .transform = head_transform,
          .transform_bias = head_transform_bias,
          .activation = hidden_act,
          .norm = norm_config(),
          .scale = logits_scale,
          .softcap = logits_softcap};
}

}  // namespace phasor
