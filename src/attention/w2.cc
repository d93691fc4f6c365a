#include "phasor/attention/w2.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "check_shapes.h"
#include "decode.h"
#include "rotation_gradient.h"
#include "rows.h"
#include "w2_lowering.h"
#include "w2_rows.h"

namespace phasor {
namespace detail {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr std::int64_t kMostChannels = 512;  // of the kernel, which has the streams side by side

template <class Byte>
void check_like_mu(const char* function, const char* name, const AnyStreams<Byte>& streams, const char* meaning) {
  check_shape(function, name, streams.log_sigma.shape, streams.mu.shape, meaning);
  check_data(function, name, streams.log_sigma.data, streams.log_sigma.shape);
  check_rows(function, name, streams.log_sigma.shape, streams.log_sigma.strides);
}
void check_output_like_mu(const char* function, const char* name, const StreamsOutput& streams, const char* meaning) {
  check_like_mu(function, name, streams, meaning);
  check_distinct(function, name, streams.log_sigma.shape, streams.log_sigma.strides);
}

W2Problem make_problem(const char* function, const StreamsView& q, const StreamsView& k, const StreamsView& v,
                       W2Temperature temperature, const AttentionOptions& options) {
  const auto [tau, eps] = temperature;
  PHASOR_CHECK(std::isfinite(tau), function, "tau: ", tau, ", expected a finite number");
  PHASOR_CHECK(std::isfinite(eps) && eps >= 0 && std::fabs(tau) + eps > 0, function, "eps: ", eps, " beside tau ", tau,
               ", expected a finite number of at least 0, above 0 when tau is 0");
  for (const auto& [name, x] : {std::pair{"q", &q}, {"v", &v}})
    PHASOR_CHECK(x->mu.shape[3] <= kMostChannels / 2, function, name, "_mu: shape ", shape_text(x->mu.shape),
                 ", expected a last dimension of 1 to ", kMostChannels / 2);
  const double inverse_tau = 1.0 / (std::fabs(tau) + eps), t = options.scale.value_or(1.0) * inverse_tau;
  W2Problem problem{make_call(function, q.mu, k.mu, v.mu, options, kMeans), q, k, v, inverse_tau, t};
  problem.is_narrow = problem.means.is_narrow;
  if (problem.lowered_channels() > kMostChannels) problem.is_narrow = false;
  constexpr double kMost = kLargestFactor / 2;  // products are multiplied by 2t
  PHASOR_CHECK(inverse_tau <= kMost && std::fabs(t) <= kMost, function, "tau: ", tau, " with eps ", eps, " and scale ",
               options.scale.value_or(1.0), ", expected scale / (|tau| + eps) of at most ", kMost);
  PHASOR_CHECK(problem.lowered_channels() <= kMostChannels, function, "q_mu: shape ", shape_text(q.mu.shape),
               ", expected a last dimension of 1 to ", kMostChannels / 2 - 1,
               " with softcap, sinks, query_scale or key_bias");
  check_like_mu(function, "q_log_sigma", q, "the shape of q_mu");
  check_like_mu(function, "k_log_sigma", k, "the shape of k_mu");
  check_like_mu(function, "v_log_sigma", v, "the shape of v_mu");
  return problem;
}

// The streams that the call of the means does not have.
List<Extent> log_sigmas(const W2Problem& p) {
  return {extent("q_log_sigma", p.q.log_sigma), extent("k_log_sigma", p.k.log_sigma),
          extent("v_log_sigma", p.v.log_sigma)};
}

// ---------------------------------------------------------------------------------------------------------- forward

struct W2ForwardOutput {
  StreamsOutput out;
  TensorView<float, 3> lse;
  TensorView<float, 4> softmax, weights;
};

void check_outputs(const char* function, const W2Problem& problem, const W2ForwardOutput& output) {
  check_output_like_mu(function, "out_log_sigma", output.out, "the shape of out_mu");
  check_forward(function, problem.means, {output.out.mu, output.lse, output.softmax, output.weights},
                {extent("out_log_sigma", output.out.log_sigma)}, log_sigmas(problem));
}

// From the kernel's log-sum-exps to those of the scores as defined: subtracts t |q~_i|^2, unless whole scores include
// it. That of a query without keys stays -infinity.
void subtract_query_terms(const W2Problem& problem, const W2Lowered& lowered, const TensorView<float, 3>& lse) {
  if (!lse.data || problem.has_whole_scores()) return;
  for_row_blocks(problem.means.q.shape, [&](const RowBlock& block) {
    for (std::int64_t i = block.first; i < block.first + block.count; i++) {
      float& x = lse(block.b, block.h, i);
      if (x != -kInfinity) x = static_cast<float>(x - lowered.query_terms(block.b, block.h, i));
    }
  });
}

void forward_side_by_side(const char* function, const W2Problem& problem, const W2ForwardOutput& output) {
  const W2Lowered lowered = lower(function, problem, output.lse.data != nullptr, StreamLayout::side_by_side);
  const AttentionCall& call = lowered.call;
  const Scratch out({call.batch, call.heads, call.queries, call.value_channels});
  forward(call, {out.view(), output.lse, output.softmax, output.weights});
  split(out, output.out);
  subtract_query_terms(problem, lowered, output.lse);
}

void w2_forward(const StreamsView& q, const StreamsView& k, const StreamsView& v, W2Temperature temperature,
                const W2ForwardOutput& output, const AttentionOptions& options) {
  constexpr const char* kName = "w2_attention_forward";
  W2Problem problem = make_problem(kName, q, k, v, temperature, options);
  check_outputs(kName, problem, output);
  const bool decodes = is_decode(problem.means, {output.out.mu, output.lse, output.softmax, output.weights});
  if (decodes) problem.is_narrow = false;  // decoding multiplies floats
  if (decodes) return forward_side_by_side(kName, problem, output);
  const W2Lowered lowered = lower(kName, problem, output.lse.data != nullptr, StreamLayout::apart);
  forward(lowered.call, {output.out.mu, output.lse, output.softmax, output.weights, output.out.log_sigma});
  subtract_query_terms(problem, lowered, output.lse);
}

// --------------------------------------------------------------------------------------------------------- backward

struct W2BackwardInputs {
  StreamsView out;
  TensorView<const float, 4> softmax;
  StreamsView grad_out;
  TensorView<const float, 3> grad_lse;
};

struct W2BackwardOutput {
  StreamsOutput q, k, v;
  double* tau = nullptr;
  BackwardOutput options;  // those of the options; q, k and v are not set
};

void check_gradients(const char* function, const W2Problem& problem, const W2BackwardInputs& input,
                     const W2BackwardOutput& output) {
  check_like_mu(function, "out_log_sigma", input.out, "the shape of out_mu");
  check_like_mu(function, "grad_out_log_sigma", input.grad_out, "the shape of grad_out_mu");
  check_output_like_mu(function, "grad_q_log_sigma", output.q, "the shape of grad_q_mu");
  check_output_like_mu(function, "grad_k_log_sigma", output.k, "the shape of grad_k_mu");
  check_output_like_mu(function, "grad_v_log_sigma", output.v, "the shape of grad_v_mu");
  BackwardOutput means = output.options;
  means.q = output.q.mu, means.k = output.k.mu, means.v = output.v.mu;
  List<Extent> inputs = log_sigmas(problem);
  inputs.push_back(extent("out_log_sigma", input.out.log_sigma));
  inputs.push_back(extent("grad_out_log_sigma", input.grad_out.log_sigma));
  check_backward(function, problem.means, {input.out.mu, input.softmax, input.grad_out.mu, input.grad_lse}, means,
                 {extent("grad_q_log_sigma", output.q.log_sigma), extent("grad_k_log_sigma", output.k.log_sigma),
                  extent("grad_v_log_sigma", output.v.log_sigma)},
                 inputs);
}

// Gradients by q~, k~ and the key bias: first those of the kernel, then those of the scores as defined. c is a
// constant: no score depends on it.
struct LoweredGradients {
  Scratch q, k, v;
  ScratchZeros<float, 3> key_bias;

  explicit LoweredGradients(const AttentionCall& call)
      : q(call.q.shape), k(call.k.shape), v(call.v.shape), key_bias({call.batch, call.key_heads, call.keys}) {}
};

void add_multiple(double factor, const float* __restrict x, std::int64_t count, float* __restrict sum) {
  const auto rounded = static_cast<float>(factor);
  for (std::int64_t c = 0; c < count; c++) sum[c] += rounded * x[c];
}

double sum_of(const List<double>& parts) {
  double sum = 0;
  for (const double part : parts) sum += part;
  return sum;
}

std::size_t block_count(const Shape<4>& shape) {
  return static_cast<std::size_t>(shape[0] * shape[1] * blocks_of_rows(shape[2]));
}

// Through -t |q~_i|^2 in the log-sum-exp, whose gradient is r_i: dq~_i -= 2t r_i q~_i. Returns its part of t dt:
// -t r_i |q~_i|^2. With whole scores it is the channel -|q~_i|^2 / 2 that depends on q~_i, and all of t dt is with
// keys. With sums of rows, r_i is what the kernel summed, and so what a rounding of the result adds to it.
double finish_query(const W2Problem& problem, const W2Lowered& lowered, const W2BackwardInputs& input, std::int64_t b,
                    std::int64_t h, std::int64_t i, float* gradient) {
  const std::int64_t channels = problem.stream_channels();
  const float* query = lowered.q.row(b, h, i);
  if (problem.has_whole_scores() || problem.sums_rows) {
    const double of_norm = gradient[channels];
    if (of_norm == 0) return 0;  // a query without keys may have NaN
    add_multiple(-of_norm, query, channels, gradient);
    return problem.sums_rows ? -of_norm / 2 * dot(query, query, channels) : 0.0;
  }
  // If the query sees no key, the log-sum-exp is constant.
  if (!input.grad_lse.data || input.softmax(b, h, i, 1) == 0) return 0;
  const double r = input.grad_lse(b, h, i);
  add_multiple(-2 * problem.t * r, query, channels, gradient);
  return -r * lowered.query_terms(b, h, i);
}

// From gradients by q~ or k~ to those of the table that rotates the means, of mu and of log_sigma.
void store_gradients(const StreamsView& x, const std::optional<RotaryView>& rotation, const Scratch& gradient,
                     const RotaryGradient& of_table, const StreamsOutput& output) {
  if (of_table.is_wanted()) rotation_gradient(x.mu, *rotation, gradient, of_table);
  for_row_blocks(gradient.view().shape, [&](const RowBlock& block) {
    const auto [b, h, first, count, index] = block;
    rotate_back(rotation, b, h, first, count, x.mu.shape[3], gradient.row(b, h, first), gradient.channels());
    differentiate_sigma(x.log_sigma, block, gradient);
    split_block(gradient, block, output);
  });
}

// Finishes the gradients by q~. Returns their part of t dt.
double finish_queries(const W2Problem& problem, const W2Lowered& lowered, const W2BackwardInputs& input,
                      const Scratch& gradient) {
  List<double> parts(block_count(gradient.view().shape));
  for_row_blocks(gradient.view().shape, [&](const RowBlock& block) {
    const auto [b, h, first, count, index] = block;
    for (std::int64_t i = first; i < first + count; i++)
      parts[static_cast<std::size_t>(index)] += finish_query(problem, lowered, input, b, h, i, gradient.row(b, h, i));
  });
  return sum_of(parts);
}

// Through the key bias -t |k~_j|^2, whose gradient is c_j: dk~_j -= 2t c_j k~_j. Returns its part of t dt:
// k~_j . dk_j - t c_j |k~_j|^2, where dk_j is the kernel's, 2t sum_i dS_ij q~_i. With whole scores, likewise through
// the channel -|k~_j|^2 / 2, and the product has all channels.
double finish_key(const W2Problem& problem, const W2Lowered& lowered, const LoweredGradients& gradients, std::int64_t b,
                  std::int64_t g, std::int64_t j) {
  const std::int64_t channels = problem.stream_channels(), all = gradients.k.channels();
  const float* key = lowered.k.row(b, g, j);
  float* gradient = gradients.k.row(b, g, j);
  const double c = problem.has_whole_scores() ? 0.0 : gradients.key_bias(b, g, j);
  // A key that no query sees may have NaN; its gradient is 0.
  if (c == 0 && std::all_of(gradient, gradient + all, [](float x) { return x == 0; })) return 0;
  const double part = dot(key, gradient, all) - problem.t * c * dot(key, key, channels);
  const double of_norm = problem.has_whole_scores() ? gradient[channels + problem.norm_channels()] : 2 * problem.t * c;
  add_multiple(-of_norm, key, channels, gradient);
  return part;
}

// Finishes the gradients by k~. Returns their part of t dt.
double finish_keys(const W2Problem& problem, const W2Lowered& lowered, const LoweredGradients& gradients) {
  const Scratch& gradient = gradients.k;
  List<double> parts(block_count(gradient.view().shape));
  for_row_blocks(gradient.view().shape, [&](const RowBlock& block) {
    const auto [b, g, first, count, index] = block;
    for (std::int64_t j = first; j < first + count; j++)
      parts[static_cast<std::size_t>(index)] += finish_key(problem, lowered, gradients, b, g, j);
  });
  return sum_of(parts);
}

void w2_backward(const StreamsView& q, const StreamsView& k, const StreamsView& v, W2Temperature temperature,
                 const W2BackwardInputs& input, const W2BackwardOutput& output, const AttentionOptions& options) {
  constexpr const char* kName = "w2_attention_backward";
  W2Problem problem = make_problem(kName, q, k, v, temperature, options);
  check_gradients(kName, problem, input, output);
  const bool rounds_result = input.out.mu.type != ElementType::float32;
  problem.sums_rows = rounds_result && !problem.has_whole_scores() && problem.stream_channels() < kMostChannels;
  const bool with_query_terms = input.grad_lse.data != nullptr && !problem.sums_rows;
  const W2Lowered lowered = lower(kName, problem, with_query_terms, StreamLayout::side_by_side);
  const Scratch out = side_by_side(input.out), grad_out = side_by_side(input.grad_out);
  const bool whole = problem.has_whole_scores();
  LoweredGradients gradients(lowered.call);
  BackwardOutput of_kernel = output.options;
  of_kernel.q = gradients.q.view(), of_kernel.k = gradients.k.view(), of_kernel.v = gradients.v.view();
  if (!whole) of_kernel.key_bias = gradients.key_bias.view();
  backward(lowered.call, {out.view(), input.softmax, grad_out.view(), input.grad_lse}, of_kernel);
  const double from_queries = finish_queries(problem, lowered, input, gradients.q);
  const double from_keys = finish_keys(problem, lowered, gradients);
  store_gradients(q, options.q_rotary, gradients.q, output.options.q_rotary, output.q);
  store_gradients(k, options.k_rotary, gradients.k, output.options.k_rotary, output.k);
  split(gradients.v, output.v);
  // t = scale * u, u = 1 / (|tau| + eps): dtau = -u sign(tau) t dt. |tau| has no derivative at 0; as usual it
  // counts as 0 there.
  const double sign = temperature.tau > 0 ? 1.0 : temperature.tau < 0 ? -1.0 : 0.0;
  if (output.tau) *output.tau = -sign * problem.inverse_tau * (from_queries + from_keys);
}

}  // namespace

template <Element T>
void w2_attention_forward(const W2Streams<const T>& q, const W2Streams<const T>& k, const W2Streams<const T>& v,
                          W2Temperature temperature, const W2Output<T>& output, const AttentionOptions& options) {
  w2_forward(q, k, v, temperature, {output.out, output.lse, output.softmax, output.weights}, options);
}

template <Element T>
void w2_attention_backward(const W2Streams<const T>& q, const W2Streams<const T>& k, const W2Streams<const T>& v,
                           W2Temperature temperature, const W2BackwardInput<T>& input, const W2Gradients<T>& gradients,
                           const AttentionOptions& options) {
  w2_backward(q, k, v, temperature, {input.out, input.softmax, input.grad_out, input.grad_lse},
              {gradients.q, gradients.k, gradients.v, gradients.tau, option_gradients(gradients)}, options);
}

// For the element types that kernels convert.
#define PHASOR_INSTANTIATE(T)                                                                                          \
  template void w2_attention_forward(const W2Streams<const T>&, const W2Streams<const T>&, const W2Streams<const T>&,  \
                                     W2Temperature, const W2Output<T>&, const AttentionOptions&);                      \
  template void w2_attention_backward(const W2Streams<const T>&, const W2Streams<const T>&, const W2Streams<const T>&, \
                                      W2Temperature, const W2BackwardInput<T>&, const W2Gradients<T>&,                 \
                                      const AttentionOptions&)
PHASOR_INSTANTIATE(float);
PHASOR_INSTANTIATE(bf16);
PHASOR_INSTANTIATE(f16);
#undef PHASOR_INSTANTIATE

}  // namespace detail

void check_w2_attention(const W2Streams<const float>& q, const W2Streams<const float>& k,
                        const W2Streams<const float>& v, W2Temperature temperature, const AttentionOptions& options) {
  detail::make_problem("check_w2_attention", q, k, v, temperature, options);
}

}  // namespace phasor
