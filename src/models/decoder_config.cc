#include "phasor/models/decoder.h"

namespace phasor {

DecoderConfig DecoderConfig::checked() const {
  constexpr const char* kModel = "Decoder";
  DecoderConfig c = *this;
  PHASOR_CHECK(c.vocab_size >= 1, kModel, "vocab_size: ", c.vocab_size, ", expected 1 or more");
  PHASOR_CHECK(c.num_hidden_layers >= 1, kModel, "num_hidden_layers: ", c.num_hidden_layers, ", expected 1 or more");
  PHASOR_CHECK(c.intermediate_size >= 1, kModel, "intermediate_size: ", c.intermediate_size, ", expected 1 or more");
  PHASOR_CHECK(c.sliding_window >= 0, kModel, "sliding_window: ", c.sliding_window, ", expected 0 (none) or more");
  PHASOR_CHECK(c.score == Score::dot || (!c.qk_norm && !c.attention_bias), kModel,
               "qk_norm, attention_bias: given with W2 scores, expected neither");
  const AttentionHeads heads =
      AttentionHeads{c.hidden_size, c.num_attention_heads, c.num_key_value_heads, c.head_dim}.checked(kModel);
  c.num_key_value_heads = heads.key_heads;
  c.head_dim = heads.head_dim;
  return c;
}

ModelShape DecoderConfig::shape() const {
  return {.heads = num_attention_heads,
          .head_dim = head_dim,
          .model_dim = hidden_size,
          .max_length = max_position_embeddings,
          .causal = causal};
}

BlockConfig DecoderConfig::block() const {
  return {.hidden_size = hidden_size,
          .num_attention_heads = num_attention_heads,
          .num_key_value_heads = num_key_value_heads,
          .head_dim = head_dim,
          .intermediate_size = intermediate_size,
          .rms_norm_eps = rms_norm_eps,
          .qk_norm = qk_norm,
          .attention_bias = attention_bias,
          .attention_dropout = attention_dropout};
}

}  // namespace phasor
