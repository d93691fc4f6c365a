// A transformer over tokens: embedding, blocks, norm, output head; written once for standard and Wasserstein-2 blocks
// and for any position encoding.
//
//   Transformer model({.vocab_size = 256, .hidden_size = 128, .num_hidden_layers = 4, .num_attention_heads = 4,
//                      .intermediate_size = 344, .encoding = AlibiConfig{.causal = true}}, /*seed=*/1);
//   model.forward(tokens, logits, &saved, workspace);
//   model.backward(saved, grad_logits, workspace);
//
// With W2 scores there are two embedding tables, of mu and of log_sigma (layers/streams.h), and the head reads mu.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "phasor/core/precision.h"
#include "phasor/layers/block.h"
#include "phasor/layers/embedding.h"
#include "phasor/models/layer_positions.h"
#include "phasor/position/encoding.h"

namespace phasor {

enum class Score {
  dot,
  w2,  // minus the squared 2-Wasserstein distance between Gaussian tokens
};

// Names as in Hugging Face configs, where there are such.
struct TransformerConfig {
  std::int64_t vocab_size = 0;
  std::int64_t hidden_size = 0;
  std::int64_t num_hidden_layers = 0;
  std::int64_t num_attention_heads = 0;
  std::int64_t num_key_value_heads = 0;  // 0: as many as heads
  std::int64_t head_dim = 0;             // 0: hidden_size / num_attention_heads
  std::int64_t intermediate_size = 0;
  std::int64_t max_position_embeddings = 2048;
  double rms_norm_eps = 1e-6;
  bool tie_word_embeddings = true;
  bool qk_norm = false;         // not with W2
  bool attention_bias = false;  // not with W2
  double attention_dropout = 0.0;
  std::int64_t sliding_window = 0;  // 0: none
  bool causal = true;               // false: every token sees all, for tasks that label tokens
  Score score = Score::dot;
  EncodingConfig encoding = NoneConfig{};           // of every layer that is not named in the next line
  std::vector<LayerEncoding> layer_encodings = {};  // a layer is named once at most

  // Sizes that were 0, filled in; errors name what does not fit.
  TransformerConfig checked() const;
  ModelShape shape() const;  // of a checked config
  BlockConfig block() const;
  // Numbers in the embedding and in the blocks' matrices, of a checked config. In double: a hostile one has more than
  // can be counted.
  double matrix_elements() const;
  // The longest sequence that all encodings can encode, if there is a limit.
  std::optional<std::int64_t> longest() const;
  std::string describe_encodings() const;  // a line for people
};

// What a step of training may choose.
struct ForwardOptions {
  std::uint64_t dropout_seed = 0;
  std::int64_t first_position = 0;
  // Weights of attention of one layer, [B, H, T, T]; without data they are not made.
  std::int64_t weights_layer = 0;
  TensorView<float, 4> weights{};
};

class Transformer {
 public:
  using AnyBlock = std::variant<Block, W2Block>;
  struct Saved;
  class Cache;

  Transformer(const TransformerConfig& config, std::uint64_t seed);
  // Weights that are random at first are zeros, made at first use: for whoever reads them from a file.
  static Transformer with_zeros(const TransformerConfig& config);

  // A Llama or Qwen3 in the files of Hugging Face: config.json and safetensors, single or sharded, F32, BF16 or F16.
  // By storage, tables and matrices that the files have in BF16 stay so, in the mapped memory of the files; they cannot
  // be trained. With float32 all weights are floats, with bf16 all tables and matrices are rounded.
  static Transformer from_pretrained(const std::filesystem::path& folder, Precision precision = default_precision());

  const TransformerConfig& config() const { return config_; }
  NamedWeights weights() &;  // stable order and names; the encoding's are positions.NAME
  std::int64_t parameter_count();
  // For inference: keeps the tables and matrices that may_be_bf16 in bf16.
  void round_to_bf16();
  static bool may_be_bf16(const NamedWeight& weight);
  void clear_gradients();

  // The same weights at other angles: scalings of RoPE at inference. The new encoding learns as much as the old. The
  // second function changes config().layer_encodings[index].
  void set_encoding(const EncodingConfig& encoding);
  void set_layer_encoding(std::size_t index, const EncodingConfig& encoding);

  // tokens [B, T] to logits [B, T, vocab_size].
  void forward(TensorView<const std::int32_t, 2> tokens, TensorView<float, 3> logits, Saved* saved,
               Workspace& workspace, const ForwardOptions& options = {}) const;
  // Adds to the gradients of all weights. grad_logits is [B, T, vocab_size].
  void backward(const Saved& saved, TensorView<const float, 3> grad_logits, Workspace& workspace);

  // How keys must be kept for texts up to this length: unrotated where their angles change when the text grows.
  CachedKeys suitable_keys(std::int64_t capacity) const { return positions_.suitable_keys(capacity); }
  // bf16 if the weights are of bf16, but for W2.
  CacheStorage suitable_storage() const;
  // Decoding: tokens [B, n] after those of the cache; logits [B, vocab_size] of the last of them.
  Cache make_cache(const LayerCacheConfig& config) const;
  void decode(TensorView<const std::int32_t, 2> tokens, Cache& cache, TensorView<float, 2> logits,
              Workspace& workspace) const;

 private:
  Transformer(const TransformerConfig& config, InitialValues initial, std::uint64_t seed);  // of a checked config
  bool gaussian() const { return config_.score == Score::w2; }
  const Weight& head() const { return head_ ? *head_ : embedding_.weight(); }
  Weight& head() { return head_ ? *head_ : embedding_.weight(); }
  const PlanInput& plan_of(const LayerPlans& plans, std::size_t layer) const;
  AttentionOptions attention_options(std::uint64_t dropout_seed, std::size_t layer) const;
  void embed(TensorView<const std::int32_t, 2> tokens, const PositionPlan& plan, const Streams& x) const;
  void save_tokens(TensorView<const std::int32_t, 2> tokens, Saved& saved) const;

  TransformerConfig config_;
  Embedding embedding_;
  std::optional<Embedding> log_sigma_embedding_;
  std::vector<AnyBlock> blocks_;
  RmsNorm norm_;
  std::optional<Weight> head_;  // when not tied
  LayerPositions positions_;
};

// What forward keeps for backward. Reused from step to step, it allocates nothing but the plans of encodings that
// learn.
struct Transformer::Saved {
  Tensor<std::int32_t, 2> tokens;
  LayerPlans plans;  // shared with the layers
  struct Layer {
    Tensor<float, 3> mu, log_sigma;  // the block's input
    std::variant<Block::Saved, W2Block::Saved> block;
  };
  std::vector<Layer> layers;
  Tensor<float, 3> last, last_log_sigma, normed;  // after the blocks
  RmsNorm::Saved norm;
};

// Keys and values of every layer, and how many tokens have been read.
class Transformer::Cache {
 public:
  std::int64_t length() const { return length_; }
  std::int64_t capacity() const { return capacity_; }
  void truncate(std::int64_t length);  // of all sequences

 private:
  friend class Transformer;
  std::vector<LayerCache> layers_;
  std::int64_t length_ = 0, capacity_ = 0;
  CachedKeys keys_ = CachedKeys::rotated;
};

}  // namespace phasor
