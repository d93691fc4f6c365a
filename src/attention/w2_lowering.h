// Wasserstein-2 attention as dot-product attention on the two streams side by side. With q~ = [R q_mu - c; q_sigma -
// c_sigma], k~ likewise and t = 1 / (|tau| + eps),
//
//   score(i, j) = -t |q~_i - k~_j|^2 = 2t q~_i . k~_j - t |k~_j|^2 - t |q~_i|^2
//
// for any c. The first term is a dot product with scale 2t, the second a key bias; the last is the same for all keys of
// a query, so it changes the log-sum-exp but not the weights.
//
// A softcap, a sink or a factor of the query depends on it, and a large bias of the caller would take digits from the
// second term if both were one number. Then two extra channels make the products whole scores:
//   [q~, -|q~|^2 / 2, 1] . [k~, 1, -|k~|^2 / 2].
//
// To be multiplied in bf16, q~ and k~ are rounded first, and the norms are those of the rounded rows. So a score is
// still minus a squared distance, of points that are off by their rounding alone, and equal rows are at distance 0. A
// norm takes three channels, since a float is the sum of three numbers of bf16. Scores are always whole then: the
// gradients of the norms are sums of the same rounded gradients of scores as those of q~ and k~, with which they nearly
// cancel.
#pragma once

#include <cstddef>
#include <cstdint>

#include "call.h"
#include "phasor/attention/w2.h"
#include "phasor/core/parallel.h"
#include "row_blocks.h"
#include "scratch/scratch.h"

namespace phasor::detail {

// Both streams, their element type known at run time.
template <class Byte>
struct AnyStreams {
  AnyTensor<Byte> mu, log_sigma;

  AnyStreams() = default;
  template <class T>
  AnyStreams(const W2Streams<T>& streams) : mu(streams.mu), log_sigma(streams.log_sigma) {}
};
using StreamsView = AnyStreams<const std::byte>;
using StreamsOutput = AnyStreams<std::byte>;

constexpr TensorNames kMeans{.q = "q_mu",
                             .k = "k_mu",
                             .v = "v_mu",
                             .out = "out_mu",
                             .grad_out = "grad_out_mu",
                             .grad_q = "grad_q_mu",
                             .grad_k = "grad_k_mu",
                             .grad_v = "grad_v_mu"};

// A call that has been checked.
struct W2Problem {
  AttentionCall means;  // of the means alone, with the options as they were given
  StreamsView q, k, v;
  double inverse_tau = 1.0;  // 1 / (|tau| + eps)
  double t = 1.0;            // options.scale times it
  bool is_narrow = false;    // q~ and k~ are rounded to bf16
  // Backward, without whole scores: q~ has a channel of 0 and k~ one of 1, so that the gradient of the first is the sum
  // of a query's gradients of scores. It is that of the log-sum-exp, but for the rounding of the stored result.
  bool sums_rows = false;

  bool has_whole_scores() const {
    const AttentionOptions& o = means.options;
    return is_narrow || o.softcap != 0 || !o.sinks.empty() || o.query_scale.data != nullptr ||
           o.key_bias.data != nullptr;
  }
  std::int64_t stream_channels() const { return 2 * means.channels; }
  // Of whole scores: a row of q~ is followed by the parts of its norm, then as many ones; a row of k~ by the ones
  // first.
  std::int64_t norm_channels() const { return is_narrow ? 3 : 1; }
  std::int64_t lowered_channels() const {
    return stream_channels() + (has_whole_scores() ? 2 * norm_channels() : sums_rows ? 1 : 0);
  }
};

struct W2Lowered {
  ScratchZeros<float, 4> middle;        // c [B, G, 1, 2D]
  Scratch k;                            // k~
  Scratch q, v;                         // q~ and the streams of v, if they are needed side by side
  ScratchZeros<double, 3> query_terms;  // t |q~_i|^2 [B, H, T], if requested; not with whole scores
  ScratchZeros<float, 3> key_bias;      // -t |k~_j|^2 [B, G, S]; not with whole scores
  AttentionCall call;                   // refers to the above
};

// Queries and values are read in place, as two streams, or copied side by side for backward and decode. With whole
// scores queries are always copied.
enum class StreamLayout { apart, side_by_side };

W2Lowered lower(const char* function, const W2Problem& problem, bool with_query_terms, StreamLayout layout);

// From gradients of sigma, the second half of the rows, to those of log_sigma: times sigma / 2.
void differentiate_sigma(const AnyView& log_sigma, const RowBlock& block, const Scratch& gradient);

// The streams as one tensor of floats, and the other way: floats rounded and stored.
Scratch side_by_side(const StreamsView& streams);
void split(const Scratch& rows, const StreamsOutput& streams);
void split_block(const Scratch& rows, const RowBlock& block, const StreamsOutput& streams);

}  // namespace phasor::detail
