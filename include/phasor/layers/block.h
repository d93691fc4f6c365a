// The pre-norm transformer block, over one stream or, with Wasserstein-2 attention, over the two of Gaussian tokens:
//
//   h = x + attention(norm(x)),  y = h + feed_forward(norm(h))
//
// for each stream, with its own RmsNorms and SwiGlus; only attention joins the two streams of W2Block. Both
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

// Names as in Hugging Face configs and in the W2 transformer's.
struct BlockConfig {
  std::int64_t hidden_size = 0;
  std::int64_t num_attention_heads = 0;
  std::int64_t num_key_value_heads = 0;  // 0: as many as heads
  std::int64_t head_dim = 0;             // 0: hidden_size / num_attention_heads
  std::int64_t intermediate_size = 0;
  double rms_norm_eps = 1e-6;
  bool qk_norm = false;         // not with W2
  bool attention_bias = false;  // not with W2
  double attention_dropout = 0.0;
};

// An RmsNorm for each stream.
class StreamsNorm {
 public:
  struct Saved {
    RmsNorm::Saved mu, log_sigma;
  };

  StreamsNorm(std::int64_t channels, float eps, bool gaussian);
  void list_weights(std::string_view prefix, NamedWeights& weights);  // prefix, or prefix_mu and prefix_log_sigma

  void forward(const ConstStreams& x, const Streams& y, Saved* saved) const;
  void backward(const Saved& saved, const ConstStreams& grad_y, const Streams& grad_x, Workspace& workspace,
                Into into = Into::write);

 private:
  RmsNorm mu_;
  std::optional<RmsNorm> log_sigma_;
};

template <class Attention, class FeedForward>
class PreNormBlock {
 public:
  static constexpr bool kGaussian = std::is_same_v<Attention, W2AttentionLayer>;
  static constexpr const char* kName = kGaussian ? "W2Block" : "Block";

  // Tensors [B, T, C] for each stream.
  struct StreamTensors {
    Tensor<float, 3> mu, log_sigma;
  };
  // x, which the caller keeps, is in attention_norm.
  struct Saved {
    StreamsNorm::Saved attention_norm, ffn_norm;
    typename Attention::Saved attention;
    typename FeedForward::Saved ffn;
    StreamTensors normed, middle, normed_middle;
  };

  PreNormBlock(const BlockConfig& config, InitialValues& initial);

  const BlockConfig& config() const { return config_; }
  const Attention& attention() const { return attention_; }
  void list_weights(std::string_view prefix, NamedWeights& weights);  // attention_norm, attention, ffn_norm, ffn

  // Streams [B, T, C]; without `saved`, y may be x. With `weights` [B, H, T, T] also those of attention.
  void forward(const ConstStreams& x, const PlanInput& plan, const AttentionOptions& options, const Streams& y,
               Saved* saved, Workspace& workspace, TensorView<float, 4> weights = {}) const;

  // grad_x is written; it is not grad_y. grad_plan, when given, is added to.
  void backward(const Saved& saved, const ConstStreams& grad_y, const Streams& grad_x, PlanGradient* grad_plan,
                Workspace& workspace);

  // New tokens x, [B, n, C] after those of the cache, as in AttentionLayer.
  LayerCache make_cache(const LayerCacheConfig& config) const { return attention_.make_cache(config); }
  void decode(const ConstStreams& x, const PlanInput& plan, const AttentionOptions& options, LayerCache& cache,
              const Streams& y, Workspace& workspace) const;

 private:
  template <class Attend>
  void run(const ConstStreams& x, const Streams& y, Saved* saved, Workspace& workspace, const Attend& attend) const;

  BlockConfig config_;
  StreamsNorm attention_norm_, ffn_norm_;
  Attention attention_;
  FeedForward ffn_;
};

using Block = PreNormBlock<AttentionLayer, SwiGlu>;
using W2Block = PreNormBlock<W2AttentionLayer, W2FeedForward>;

extern template class PreNormBlock<AttentionLayer, SwiGlu>;
extern template class PreNormBlock<W2AttentionLayer, W2FeedForward>;

}  // namespace phasor
