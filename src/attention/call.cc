#include "call.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

#include "check_shapes.h"
#include "phasor/core/check.h"
#include "products/pairs.h"
#include "terms/terms-inl.h"

namespace phasor::detail {
namespace {

constexpr std::int64_t kMostChannels = 512;
// Larger than any position: keeps sums of positions and window sizes far from overflow.
constexpr std::int64_t kFar = std::int64_t{1} << 50;

void check_channels(const char* function, const char* name, const AnyView& x) {
  PHASOR_CHECK(x.shape[3] >= 1 && x.shape[3] <= kMostChannels, function, name, ": shape ", shape_text(x.shape),
               ", expected a last dimension of 1 to ", kMostChannels);
}

void check_inputs(const char* function, const AnyView& q, const AnyView& k, const AnyView& v,
                  const TensorNames& names) {
  for (const auto& [name, x] : {std::pair{names.q, &q}, {names.k, &k}, {names.v, &v}}) {
    check_data(function, name, x->data, x->shape);
    check_rows(function, name, x->shape, x->strides);
  }
  check_channels(function, names.q, q);
  check_channels(function, names.v, v);
  PHASOR_CHECK(k.shape[0] == q.shape[0] && k.shape[3] == q.shape[3], function, names.k, ": shape ", shape_text(k.shape),
               ", expected batch ", q.shape[0], " and last dimension ", q.shape[3], " as ", names.q, " of shape ",
               shape_text(q.shape), " has");
  PHASOR_CHECK(v.shape[0] == k.shape[0] && v.shape[1] == k.shape[1] && v.shape[2] == k.shape[2], function, names.v,
               ": shape ", shape_text(v.shape), ", expected [B, G, S] as ", names.k, " of shape ", shape_text(k.shape),
               " has");
  PHASOR_CHECK(q.shape[1] >= 1 && k.shape[1] >= 1 && q.shape[1] % k.shape[1] == 0, function, names.k, ": ", k.shape[1],
               " heads in shape ", shape_text(k.shape), ", expected a divisor of the ", q.shape[1], " heads of ",
               names.q, " of shape ", shape_text(q.shape));
}

List<Sequence> dense_sequences(const AnyView& q, const AnyView& k) {
  List<Sequence> sequences;
  for (std::int64_t b = 0; b < q.shape[0]; b++)
    sequences.push_back({.batch = b, .queries = q.shape[2], .keys = k.shape[2]});
  return sequences;
}

void check_starts(const char* function, const char* name, std::span<const std::int64_t> starts, std::int64_t total) {
  PHASOR_CHECK(starts.size() >= 2 && starts.front() == 0 && starts.back() == total, function, name, ": ", starts.size(),
               " numbers from ", starts.empty() ? 0 : starts.front(), " to ", starts.empty() ? 0 : starts.back(),
               ", expected at least two, from 0 to ", total);
  PHASOR_CHECK(std::ranges::is_sorted(starts), function, name, ": descends, expected cumulative lengths");
}

List<Sequence> ragged_sequences(const char* function, const AnyView& q, const AnyView& k,
                                const AttentionOptions& options) {
  const auto query_starts = options.query_starts, key_starts = options.key_starts;
  PHASOR_CHECK(q.shape[0] == 1, function, "query_starts: given with q of shape ", shape_text(q.shape),
               ", expected a batch of 1");
  check_starts(function, "query_starts", query_starts, q.shape[2]);
  check_starts(function, "key_starts", key_starts, k.shape[2]);
  PHASOR_CHECK(query_starts.size() == key_starts.size(), function, "key_starts: ", key_starts.size(),
               " numbers, expected ", query_starts.size(), " as query_starts has");
  List<Sequence> sequences;
  for (std::size_t s = 0; s + 1 < query_starts.size(); s++)
    sequences.push_back({.first_query = query_starts[s],
                         .queries = query_starts[s + 1] - query_starts[s],
                         .first_key = key_starts[s],
                         .keys = key_starts[s + 1] - key_starts[s]});
  return sequences;
}

// Offsets first (their default depends on all keys), then lengths.
void place_sequences(const char* function, const AttentionOptions& options, List<Sequence>& sequences) {
  const auto offsets = options.query_offsets, lengths = options.key_lengths;
  PHASOR_CHECK(offsets.size() <= 1 || offsets.size() == sequences.size(), function, "query_offsets: ", offsets.size(),
               " numbers, expected none, 1 or ", sequences.size(), ", one for each sequence");
  PHASOR_CHECK(lengths.empty() || lengths.size() == sequences.size(), function, "key_lengths: ", lengths.size(),
               " numbers, expected none or ", sequences.size(), ", one for each sequence");
  for (std::size_t s = 0; s < sequences.size(); s++) {
    Sequence& sequence = sequences[s];
    sequence.offset = offsets.empty() ? sequence.keys - sequence.queries : offsets[offsets.size() == 1 ? 0 : s];
    check_positions(function, sequence.offset);
    if (lengths.empty()) continue;
    PHASOR_CHECK(lengths[s] >= 0 && lengths[s] <= sequence.keys, function, "key_lengths: ", lengths[s],
                 " for sequence ", s, ", expected 0 to ", sequence.keys, ", the keys it has");
    sequence.keys = lengths[s];
  }
}

void check_rotation(const char* function, const char* name, const RotaryView& table, const AnyView& x,
                    const char* rotated) {
  PHASOR_CHECK(table.cos.shape == table.sin.shape, function, name, ": cos of shape ", shape_text(table.cos.shape),
               " and sin of shape ", shape_text(table.sin.shape), ", expected the same");
  PHASOR_CHECK(table.cos.has_contiguous_rows() && table.sin.has_contiguous_rows(), function, name,
               ": last stride is not 1, expected 1");
  const Shape<4>& shape = table.cos.shape;
  PHASOR_CHECK(
      (shape[0] == 1 || shape[0] == x.shape[0]) && (shape[1] == 1 || shape[1] == x.shape[1]) && shape[2] >= x.shape[2],
      function, name, ": shape ", shape_text(shape), ", expected 1 or ", x.shape[0], " sequences, 1 or ", x.shape[1],
      " heads and at least ", x.shape[2], " tokens as ", rotated, " of shape ", shape_text(x.shape), " has");
  PHASOR_CHECK(2 * table.pairs() <= x.shape[3], function, name, ": rotates ", 2 * table.pairs(),
               " channels, expected at most ", x.shape[3], " as ", rotated, " of shape ", shape_text(x.shape), " has");
}

void check_options(const char* function, const AttentionCall& call) {
  const AttentionOptions& o = call.options;
  PHASOR_CHECK(std::fabs(call.scale) <= kLargestFactor, function, "scale: ", call.scale, ", expected a number from ",
               -kLargestFactor, " to ", kLargestFactor);
  for_each_term([&](auto term) { term.check(function, call); });
  if (o.q_rotary) check_rotation(function, "q_rotary", *o.q_rotary, call.q, call.names.q);
  if (o.k_rotary) check_rotation(function, "k_rotary", *o.k_rotary, call.k, call.names.k);
}

// Whether the products multiply bf16, where the target in use has instructions for it.
bool is_narrow(const AttentionCall& call) {
  const auto is_bf16 = [](const AnyView& x) { return x.type == ElementType::bfloat16; };
  switch (call.options.precision.value_or(default_precision())) {
    case Precision::storage:
      return is_bf16(call.q) && is_bf16(call.k) && is_bf16(call.v) && products::PairMultiplier::available();
    case Precision::float32:
      return false;
    case Precision::bf16:
      return products::PairMultiplier::available();
  }
  return false;
}

}  // namespace

AttentionCall make_call(const char* function, const AnyView& q, const AnyView& k, const AnyView& v,
                        const AttentionOptions& options, const TensorNames& names) {
  check_inputs(function, q, k, v, names);
  AttentionCall call;
  call.names = names;
  call.q = q, call.k = k, call.v = v;
  call.batch = q.shape[0], call.heads = q.shape[1], call.queries = q.shape[2], call.channels = q.shape[3];
  call.key_heads = k.shape[1], call.keys = k.shape[2], call.value_channels = v.shape[3];
  call.scale = options.scale.value_or(1.0 / std::sqrt(static_cast<double>(call.channels)));
  call.left = std::min(options.window.left, kFar);
  call.right = std::min({options.window.right, options.causal ? std::int64_t{1} : kFar, kFar});
  call.options = options;
  call.is_narrow = is_narrow(call);
  check_options(function, call);
  KeyBiasOption::prepare(call);
  const bool ragged = !options.query_starts.empty() || !options.key_starts.empty();
  call.sequences = ragged ? ragged_sequences(function, q, k, options) : dense_sequences(q, k);
  place_sequences(function, options, call.sequences);
  return call;
}

namespace {

// No output shares memory with an input, those of the options included, or with another output.
void check_all_apart(const char* function, const AttentionCall& call, const List<Extent>& outputs,
                     List<Extent> inputs) {
  const AttentionOptions& o = call.options;
  inputs.insert(inputs.end(), {extent(call.names.q, call.q), extent(call.names.k, call.k), extent(call.names.v, call.v),
                               extent("key_scales", call.k.scales), extent("value_scales", call.v.scales)});
  for_each_term([&](auto term) {
    if constexpr (requires { term.list_inputs(call, inputs); }) term.list_inputs(call, inputs);
  });
  for (const auto& rotation : {o.q_rotary, o.k_rotary})
    if (rotation) inputs.insert(inputs.end(), {extent("cos", rotation->cos), extent("sin", rotation->sin)});
  check_apart(function, outputs, inputs);
}

void check_table_gradient(const char* function, const char* name, const std::optional<RotaryView>& table,
                          const RotaryGradient& gradient, List<Extent>& outputs) {
  if (!gradient.is_wanted()) return;
  PHASOR_CHECK(table, function, name, ": given without the table, expected both");
  for (const TensorView<float, 4>& numbers : {gradient.cos, gradient.sin}) {
    if (!numbers.data) continue;
    check_output(function, name, numbers, table->cos.shape, "the shape of the table");
    outputs.push_back(extent(name, numbers));
  }
}

void check_rows_of_results(const char* function, const char* name, const AnyView& x, const Shape<4>& shape) {
  check_shape(function, name, x.shape, shape, "[B, H, T, E]");
  check_data(function, name, x.data, x.shape);
  check_rows(function, name, x.shape, x.strides);
}

}  // namespace

void check_forward(const char* function, const AttentionCall& call, const ForwardOutput& output,
                   const List<Extent>& more_outputs, const List<Extent>& more_inputs) {
  const Shape<3> rows{call.batch, call.heads, call.queries};
  check_output(function, call.names.out, output.out, {rows[0], rows[1], rows[2], call.value_channels}, "[B, H, T, E]");
  if (output.lse.data) {
    check_shape(function, "lse", output.lse.shape, rows, "[B, H, T]");
    check_distinct(function, "lse", output.lse.shape, output.lse.strides);
  }
  if (output.softmax.data)
    check_output(function, "softmax", output.softmax, {rows[0], rows[1], rows[2], 2}, "[B, H, T, 2]");
  if (output.weights.data)
    check_output(function, "weights", output.weights, {rows[0], rows[1], rows[2], call.keys}, "[B, H, T, S]");
  List<Extent> outputs = more_outputs;
  outputs.insert(outputs.end(), {extent(call.names.out, output.out), extent("lse", output.lse),
                                 extent("softmax", output.softmax), extent("weights", output.weights)});
  check_all_apart(function, call, outputs, more_inputs);
}

void check_backward(const char* function, const AttentionCall& call, const BackwardInput& input,
                    const BackwardOutput& output, const List<Extent>& more_outputs, const List<Extent>& more_inputs) {
  const Shape<3> rows{call.batch, call.heads, call.queries};
  const Shape<4> out_shape{rows[0], rows[1], rows[2], call.value_channels};
  check_rows_of_results(function, call.names.out, input.out, out_shape);
  check_rows_of_results(function, call.names.grad_out, input.grad_out, out_shape);
  check_shape(function, "softmax", input.softmax.shape, {rows[0], rows[1], rows[2], 2}, "[B, H, T, 2]");
  check_data(function, "softmax", input.softmax.data, input.softmax.shape);
  if (input.grad_lse.data) check_shape(function, "grad_lse", input.grad_lse.shape, rows, "[B, H, T]");
  check_output(function, call.names.grad_q, output.q, call.q.shape, "[B, H, T, D]");
  check_output(function, call.names.grad_k, output.k, call.k.shape, "[B, G, S, D]");
  check_output(function, call.names.grad_v, output.v, call.v.shape, "[B, G, S, E]");
  List<Extent> outputs = more_outputs, inputs = more_inputs;
  outputs.insert(outputs.end(), {extent(call.names.grad_q, output.q), extent(call.names.grad_k, output.k),
                                 extent(call.names.grad_v, output.v)});
  check_table_gradient(function, "grad_q_rotary", call.options.q_rotary, output.q_rotary, outputs);
  check_table_gradient(function, "grad_k_rotary", call.options.k_rotary, output.k_rotary, outputs);
  for_each_term([&](auto term) {
    if constexpr (requires { term.check_gradient(function, call, output, outputs); })
      term.check_gradient(function, call, output, outputs);
  });
  inputs.insert(inputs.end(), {extent(call.names.out, input.out), extent(call.names.grad_out, input.grad_out),
                               extent("softmax", input.softmax), extent("grad_lse", input.grad_lse)});
  check_all_apart(function, call, outputs, inputs);
}

}  // namespace phasor::detail
