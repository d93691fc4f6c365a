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

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "phasor/core/precision.h"
#include "phasor/layers/block.h"
#include "phasor/layers/embedding.h"
#include "phasor/layers/output_head.h"
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

  // Blocks (layers/block.h has what they mean, and what is not for W2).
  NormKind norm = NormKind::rms;
  bool norm_bias = true;
  double norm_eps = 1e-6;
  NormPlace norm_place = NormPlace::before;
  bool first_attention_norm = true;  // false: the first layer has none
  bool parallel_residual = false;
  Activation hidden_act = Activation::silu;
  bool gated = true;
  bool mlp_bias = false;
  bool qk_norm = false;
  bool attention_bias = false;
  std::optional<bool> attention_output_bias = {};
  std::optional<double> attention_scale = {};
  bool cross_attention = false;
  double attention_softcap = 0.0;  // c > 0: scores become c tanh(score / c)
  double attention_dropout = 0.0;
  std::int64_t sliding_window = 0;                // 0: none; if not causal, as many keys on the other side
  std::vector<std::int64_t> sliding_layers = {};  // that have the window; none named: all
  bool causal = true;                             // false: every token sees all, for tasks that label tokens
  Score score = Score::dot;

  // Embeddings and head, for one stream but for tie_word_embeddings and final_norm.
  double embedding_scale = 1.0;
  bool embedding_norm = false;       // after positions are added
  std::int64_t type_vocab_size = 0;  // token types of BERT; 0: none
  bool final_norm = true;            // after the blocks
  bool output_head = true;           // false: a model of states alone, such as an encoder
  bool tie_word_embeddings = true;
  bool head_bias = false;
  bool head_transform = false;  // the head of masked language models (layers/output_head.h)
  bool head_transform_bias = true;
  double logits_scale = 1.0;
  double logits_softcap = 0.0;

  EncodingConfig encoding = NoneConfig{};           // of every layer that is not named in the next line
  std::vector<LayerEncoding> layer_encodings = {};  // a layer is named once at most

  // Sizes that were 0, filled in; errors name what does not fit.
  TransformerConfig checked() const;
  ModelShape shape() const;  // of a checked config
  BlockConfig block(std::int64_t layer) const;
  bool slides(std::int64_t layer) const;  // whether it has the window
  NormConfig norm_config() const;
  OutputHeadConfig head() const;
  // Numbers in the embedding and in the blocks' matrices, of a checked config. In double: a hostile one has more than
  // can be counted.
  double matrix_elements() const;
  // The longest sequence that all encodings can encode, if there is a limit.
  std::optional<std::int64_t> longest() const;
  std::string describe_encodings() const;  // a line for people
};

// What a call may choose.
struct ForwardOptions {
  // Tokens of each sequence, if not all: others are padding, which no token sees. [B]
  std::span<const std::int64_t> lengths = {};
  TensorView<const std::int32_t, 2> token_types{};  // [B, T], of models with type_vocab_size; without data: 0
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

  // A model of Hugging Face (docs/models.md has the types): config.json and safetensors, single or sharded, F32, BF16,
  // F16. By storage, tables and matrices that the files have in 16 bits stay so, in the mapped memory of the files;
  // they cannot be trained. With float32 all weights are floats, with bf16 all tables and matrices are rounded.
  static Transformer from_pretrained(const std::filesystem::path& folder, Precision precision = default_precision());

  const TransformerConfig& config() const { return config_; }
  NamedWeights weights() &;  // stable order and names; the encoding's are positions.NAME
  std::int64_t parameter_count();
  // For inference: keeps the tables and matrices that may_be_narrow in bf16.
  void round_to_bf16();
  static bool may_be_narrow(const NamedWeight& weight);  // in 16 bits
  void clear_gradients();

  // The same weights at other angles: scalings of RoPE at inference. The new encoding learns as much as the old. The
  // second function changes config().layer_encodings[index].
  void set_encoding(const EncodingConfig& encoding);
  void set_layer_encoding(std::size_t index, const EncodingConfig& encoding);

  // tokens [B, T] to the states after the last norm, [B, T, hidden_size].
  void encode(TensorView<const std::int32_t, 2> tokens, TensorView<float, 3> states, Workspace& workspace,
              const ForwardOptions& options = {}) const;
  // tokens [B, T] to logits [B, T, vocab_size].
  void forward(TensorView<const std::int32_t, 2> tokens, TensorView<float, 3> logits, Saved* saved,
               Workspace& workspace, const ForwardOptions& options = {}) const;
  // Adds to the gradients of all weights. grad_logits is [B, T, vocab_size].
  void backward(const Saved& saved, TensorView<const float, 3> grad_logits, Workspace& workspace);

  // How keys must be kept for texts up to this length: unrotated where their angles change when the text grows.
  CachedKeys suitable_keys(std::int64_t capacity) const { return positions_.suitable_keys(capacity); }
  // The type of the weights, but for W2.
  CacheStorage suitable_storage() const;
  // Decoding: tokens [B, n] after those of the cache, or the first counts[b] of each sequence; logits [B, vocab_size]
  // of the last of them (undefined where counts[b] is 0).
  Cache make_cache(const LayerCacheConfig& config) const;
  // With cross-attention: the states [B, S, C] of an encoder that all tokens see, of the first lengths[b] tokens.
  void read_states(TensorView<const float, 3> states, std::span<const std::int64_t> lengths, Cache& cache,
                   Workspace& workspace) const;
  void decode(TensorView<const std::int32_t, 2> tokens, Cache& cache, TensorView<float, 2> logits, Workspace& workspace,
              std::span<const std::int64_t> counts = {}) const;

 private:
  Transformer(const TransformerConfig& config, InitialValues initial, std::uint64_t seed);  // of a checked config
  bool gaussian() const { return config_.score == Score::w2; }
  const PlanInput& plan_of(const LayerPlans& plans, std::size_t layer) const;
  AttentionOptions attention_options(const ForwardOptions& call, std::size_t layer) const;
  void embed(TensorView<const std::int32_t, 2> tokens, const PositionPlan& plan, const Streams& x,
             const ForwardOptions& options, Saved* saved) const;
  void embed_backward(const Saved& saved, const Streams& grad, PlanGradient& grad_plan, Workspace& workspace);
  void check_options(const ForwardOptions& options) const;
  // The states after the last norm, in `normed`.
  void run(TensorView<const std::int32_t, 2> tokens, TensorView<float, 3> normed, Saved* saved, Workspace& workspace,
           const ForwardOptions& options) const;
  void check_decode(TensorView<const std::int32_t, 2> tokens, const Cache& cache, TensorView<float, 2> logits,
                    std::span<const std::int64_t> counts) const;
  void normalise(TensorView<const float, 2> x, TensorView<float, 2> normed, Norm::Saved* saved) const;

  TransformerConfig config_;
  Embedding embedding_;
  std::optional<Embedding> log_sigma_embedding_, type_embedding_;
  std::optional<Norm> embedding_norm_;
  std::vector<AnyBlock> blocks_;
  std::optional<Norm> norm_;
  std::optional<OutputHead> head_;
  LayerPositions positions_;
};

// What forward keeps for backward. Reused from step to step, it allocates nothing but the plans of encodings that
// learn.
struct Transformer::Saved {
  Tensor<std::int32_t, 2> tokens, token_types;
  std::vector<std::int64_t> lengths;  // which the layers' options refer to
  LayerPlans plans;                   // shared with the layers
  Tensor<float, 3> embedded;          // before their norm, if they have one
  Norm::Saved embedding_norm;
  struct Layer {
    Tensor<float, 3> mu, log_sigma;  // the block's input
    std::variant<Block::Saved, W2Block::Saved> block;
  };
  std::vector<Layer> layers;
  Tensor<float, 3> last, last_log_sigma, normed;  // after the blocks
  Norm::Saved norm;
  OutputHead::Saved head;
};

// Keys and values of every layer, and how many tokens of each sequence have been read.
class Transformer::Cache {
 public:
  std::span<const std::int64_t> lengths() const& { return lengths_; }
  std::span<const std::int64_t> lengths() const&& = delete;
  std::int64_t length() const;  // the longest
  std::int64_t capacity() const { return capacity_; }
  void truncate(std::int64_t length);  // of all sequences that are longer
  std::span<const LayerCache> layers() const& { return layers_; }
  std::span<const LayerCache> layers() const&& = delete;
  // Gives all layers `length` tokens of the only sequence, whose rows the caller then writes (KvCache::replace_rows).
  std::vector<std::vector<std::span<std::byte>>> replace_rows(std::int64_t length);

 private:
  friend class Transformer;
  std::vector<LayerCache> layers_;
  std::vector<std::int64_t> lengths_;
  std::int64_t capacity_ = 0;
  CachedKeys keys_ = CachedKeys::rotated;
  CacheStorage storage_ = CacheStorage::float32;
};

}  // namespace phasor
