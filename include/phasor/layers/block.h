// The transformer block, over one stream or, with Wasserstein-2 attention, over the two of Gaussian tokens. It is a
// chain of sublayers f (attention, attention to an encoder's states, feed-forward), each with norms around it:
//
//   before   x + f(norm(x))             pre-norm: GPT-2, Llama, the W2 transformer
//   after    norm(x + f(x))             post-norm: the original Transformer, BERT
//   around   x + norm2(f(norm(x)))      Gemma 2 and 3
//   parallel x + attention(norm(x)) + feed_forward(norm2(x))      GPT-NeoX
//
// Each stream has norms and feed-forward layers of its own; only attention joins the two streams of W2Block. Both
// blocks have one interface, so models are written once.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

#include "phasor/layers/attention_layer.h"
#include "phasor/layers/feed_forward.h"
#include "phasor/layers/norm.h"
#include "phasor/layers/streams.h"
#include "phasor/layers/w2_attention_layer.h"
#include "phasor/layers/w2_feed_forward.h"

namespace phasor {

enum class NormPlace { before, after, around };

// Names as in Hugging Face configs and in the W2 transformer's.
struct BlockConfig {
  std::int64_t hidden_size = 0;
  std::int64_t num_attention_heads = 0;
  std::int64_t num_key_value_heads = 0;  // 0: as many as heads
  std::int64_t head_dim = 0;             // 0: hidden_size / num_attention_heads
  std::int64_t intermediate_size = 0;
  NormKind norm = NormKind::rms;
  bool norm_bias = true;  // of LayerNorms
  double norm_eps = 1e-6;
  NormPlace norm_place = NormPlace::before;
  bool attention_norm = true;      // false: attention reads x itself, as in the first block of ModernBERT
  bool parallel_residual = false;  // with norms before
  // The rest but dropout is not for W2, whose blocks are gated by silu and have no biases.
  Activation hidden_act = Activation::silu;
  bool gated = true;
  bool mlp_bias = false;
  bool qk_norm = false;
  bool attention_bias = false;
  std::optional<bool> attention_output_bias = {};  // if it differs from attention_bias
  std::optional<double> attention_scale = {};      // of scores, instead of the plan's
  bool cross_attention = false;                    // to an encoder's states
  double attention_dropout = 0.0;
};

// Tensors [B, T, C] for each stream.
struct SavedStreams {
  Tensor<float, 3> mu, log_sigma;
};

// A norm for each stream.
class StreamsNorm {
 public:
  struct Saved {
    Norm::Saved mu, log_sigma;
  };

  StreamsNorm(std::int64_t channels, const NormConfig& config, bool gaussian);
  void list_weights(std::string_view prefix, NamedWeights& weights);  // prefix, or prefix_mu and prefix_log_sigma

  void forward(const ConstStreams& x, const Streams& y, Saved* saved) const;
  void backward(const Saved& saved, const ConstStreams& grad_y, const Streams& grad_x, Workspace& workspace,
                Into into = Into::write);

 private:
  Norm mu_;
  std::optional<Norm> log_sigma_;
};

// The norms and the residual around a sublayer f: out = after(base + inside(f(before(in)))). A norm that is absent
// changes nothing. f is a function: f(x, y) writes y; its gradient is f(grad_y, grad_x).
class Sublayer {
 public:
  struct Saved {
    StreamsNorm::Saved before, inside, after;
    SavedStreams normed, result, sum;  // what the norms made or read, where they are
  };

  Sublayer(const BlockConfig& config, bool has_norm, bool gaussian);
  void list_weights(std::string_view name, NamedWeights& weights);      // NAME_norm, which is before or after
  void list_out_weights(std::string_view name, NamedWeights& weights);  // NAME_out_norm

  // out is in the memory of neither in nor base, but may be in's if there is a norm before.
  template <class F>
  void forward(const ConstStreams& in, const ConstStreams& base, const Streams& out, Saved* saved, Workspace& workspace,
               const F& f) const;

  // With in = base: writes their gradient. With Into::add, grad has the gradient of base already, and gets that of in
  // added. grad may be grad_out.
  template <class F>
  void backward(const Saved& saved, const ConstStreams& grad_out, const Streams& grad, Into into, Workspace& workspace,
                const F& f);

 private:
  bool gaussian_;
  std::optional<StreamsNorm> before_, inside_, after_;
};

template <class Attention, class FeedForward>
class TransformerBlock {
 public:
  static constexpr bool kGaussian = std::is_same_v<Attention, W2AttentionLayer>;
  static constexpr const char* kName = kGaussian ? "W2Block" : "Block";

  // x, which the caller keeps, is in one of the norms or layers.
  struct Saved {
    Sublayer::Saved around_attention, around_ffn;
    typename Attention::Saved attention;
    typename FeedForward::Saved ffn;
    SavedStreams middle;
  };

  TransformerBlock(const BlockConfig& config, InitialValues& initial);

  const BlockConfig& config() const { return config_; }
  const Attention& attention() const { return attention_; }
  // attention_norm, attention, cross_attention_norm, cross_attention, ffn_norm, ffn, attention_out_norm, ffn_out_norm
  void list_weights(std::string_view prefix, NamedWeights& weights);

  // Streams [B, T, C]; without `saved`, y may be x. With `weights` [B, H, T, T] also those of attention. A block with
  // cross-attention only decodes.
  void forward(const ConstStreams& x, const PlanInput& plan, const AttentionOptions& options, const Streams& y,
               Saved* saved, Workspace& workspace, TensorView<float, 4> weights = {}) const;

  // grad_x is written; it is not grad_y. grad_plan, when given, is added to.
  void backward(const Saved& saved, const ConstStreams& grad_y, const Streams& grad_x, PlanGradient* grad_plan,
                Workspace& workspace);

  // New tokens x, [B, n, C] after those of the cache, as in AttentionLayer.
  LayerCache make_cache(const LayerCacheConfig& config) const { return attention_.make_cache(config); }
  void decode(const ConstStreams& x, const PlanInput& plan, const AttentionOptions& options, LayerCache& cache,
              const Streams& y, Workspace& workspace, std::span<const std::int64_t> counts = {}) const;
  // With cross-attention: gives a cache an encoder's states [B, S, C], of the first lengths[b] of each sequence.
  void read_states(TensorView<const float, 3> states, std::span<const std::int64_t> lengths, CacheStorage storage,
                   LayerCache& cache, Workspace& workspace) const;

 private:
  void check_shapes(const ConstStreams& x, const Streams& y) const;

  BlockConfig config_;
  Sublayer around_attention_, around_ffn_;
  Attention attention_;
  FeedForward ffn_;
  std::optional<Sublayer> around_cross_attention_;
  std::optional<Attention> cross_attention_;
};

using Block = TransformerBlock<AttentionLayer, FeedForward>;
using W2Block = TransformerBlock<W2AttentionLayer, W2FeedForward>;

extern template class TransformerBlock<AttentionLayer, FeedForward>;
extern template class TransformerBlock<W2AttentionLayer, W2FeedForward>;

}  // namespace phasor
