#include "call.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

#include "check_shapes.h"
#include "phasor/core/check.h"

namespace phasor::detail {
namespace {

constexpr std::int64_t kMostChannels = 512;
// Larger than any position: keeps sums of positions and window sizes far from overflow.
constexpr std::int64_t kFar = std::int64_t{1} << 50;

void check_inputs(const char* function, const AnyView& q, const AnyView& k, const AnyView& v) {
  check_data(function, "q", q.data, q.shape);
  check_data(function, "k", k.data, k.shape);
  check_data(function, "v", v.data, v.shape);
  check_rows(function, "q", q.shape, q.strides);
  check_rows(function, "k", k.shape, k.strides);
  check_rows(function, "v", v.shape, v.strides);
  PHASOR_CHECK(q.shape[3] >= 1 && q.shape[3] <= kMostChannels, function, "q: shape ", shape_text(q.shape),
               ", expected a last dimension of 1 to ", kMostChannels);
  PHASOR_CHECK(v.shape[3] >= 1 && v.shape[3] <= kMostChannels, function, "v: shape ", shape_text(v.shape),
               ", expected a last dimension of 1 to ", kMostChannels);
  PHASOR_CHECK(k.shape[0] == q.shape[0] && k.shape[3] == q.shape[3], function, "k: shape ", shape_text(k.shape),
               ", expected batch ", q.shape[0], " and last dimension ", q.shape[3], " as q of shape ",
               shape_text(q.shape), " has");
  PHASOR_CHECK(v.shape[0] == k.shape[0] && v.shape[1] == k.shape[1] && v.shape[2] == k.shape[2], function, "v: shape ",
               shape_text(v.shape), ", expected [B, G, S] as k of shape ", shape_text(k.shape), " has");
  PHASOR_CHECK(q.shape[1] >= 1 && k.shape[1] >= 1 && q.shape[1] % k.shape[1] == 0, function, "k: ", k.shape[1],
               " heads in shape ", shape_text(k.shape), ", expected a divisor of the ", q.shape[1],
               " heads of q of shape ", shape_text(q.shape));
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

void check_mask(const char* function, const char* name, const Shape<4>& shape, const Shape<4>& strides,
                const AttentionCall& call) {
  const Shape<4> full{call.batch, call.heads, call.queries, call.keys};
  bool fits = true;
  for (std::size_t i = 0; i < 4; i++) fits = fits && (shape[i] == 1 || shape[i] == full[i]);
  PHASOR_CHECK(fits, function, name, ": shape ", shape_text(shape), ", expected ", shape_text(full),
               " = [B, H, T, S], each dimension so or 1");
  check_rows(function, name, shape, strides);
}

void check_rotation(const char* function, const char* name, const RotaryView& table, const AnyView& x, char letter) {
  PHASOR_CHECK(table.cos.shape == table.sin.shape, function, name, ": cos of shape ", shape_text(table.cos.shape),
               " and sin of shape ", shape_text(table.sin.shape), ", expected the same");
  PHASOR_CHECK(table.cos.has_contiguous_rows() && table.sin.has_contiguous_rows(), function, name,
               ": last stride is not 1, expected 1");
  PHASOR_CHECK((table.cos.shape[0] == 1 || table.cos.shape[0] == x.shape[0]) && table.cos.shape[1] >= x.shape[2],
               function, name, ": shape ", shape_text(table.cos.shape), ", expected 1 or ", x.shape[0],
               " sequences of at least ", x.shape[2], " tokens as ", letter, " of shape ", shape_text(x.shape), " has");
  PHASOR_CHECK(2 * table.pairs() <= x.shape[3], function, name, ": rotates ", 2 * table.pairs(),
               " channels, expected at most ", x.shape[3], " as ", letter, " of shape ", shape_text(x.shape), " has");
}

void check_options(const char* function, const AttentionCall& call) {
  const AttentionOptions& o = call.options;
  PHASOR_CHECK(std::fabs(call.scale) <= kLargestFactor, function, "scale: ", call.scale, ", expected a number from ",
               -kLargestFactor, " to ", kLargestFactor);
  PHASOR_CHECK(o.window.left >= 0 && o.window.right >= 0, function, "window: (", o.window.left, ", ", o.window.right,
               "), expected sizes of at least 0");
  PHASOR_CHECK(o.softcap == 0 || (o.softcap >= 1 / kLargestFactor && o.softcap <= kLargestFactor), function,
               "softcap: ", o.softcap, ", expected a number from ", 1 / kLargestFactor, " to ", kLargestFactor,
               ", or 0 for none");
  PHASOR_CHECK(o.softcap == 0 || std::fabs(call.scale) / o.softcap <= kLargestFactor, function, "softcap: ", o.softcap,
               " beside scale ", call.scale, ", expected a ratio of at most ", kLargestFactor);
  PHASOR_CHECK(o.dropout.rate >= 0 && o.dropout.rate < 1, function, "dropout: rate ", o.dropout.rate,
               ", expected at least 0 and below 1");
  PHASOR_CHECK(o.sinks.empty() || static_cast<std::int64_t>(o.sinks.size()) == call.heads, function,
               "sinks: ", o.sinks.size(), " numbers, expected ", call.heads, ", one for each head of q");
  if (o.visible.data != nullptr) check_mask(function, "visible", o.visible.shape, o.visible.strides, call);
  if (o.mask.data) check_mask(function, "mask", o.mask.shape, o.mask.strides, call);
  if (o.key_bias.data) {
    const Shape<3>& shape = o.key_bias.shape;
    PHASOR_CHECK((shape[0] == 1 || shape[0] == call.batch) && (shape[1] == 1 || shape[1] == call.key_heads) &&
                     shape[2] == call.keys,
                 function, "key_bias: shape ", shape_text(shape), ", expected [", call.batch, " or 1, ", call.key_heads,
                 " or 1, ", call.keys, "] = [B or 1, G or 1, S]");
    check_rows(function, "key_bias", shape, o.key_bias.strides);
  }
  if (o.relative_bias) {
    const Shape<2>& shape = o.relative_bias->table.shape;
    PHASOR_CHECK(shape[0] == call.heads && shape[1] >= 1, function, "relative_bias: shape ", shape_text(shape),
                 ", expected ", call.heads, " heads and at least one distance");
    check_rows(function, "relative_bias", shape, o.relative_bias->table.strides);
    check_positions(function, o.relative_bias->first_distance);
  }
  if (o.rotate_q) check_rotation(function, "rotate_q", *o.rotate_q, call.q, 'q');
  if (o.rotate_k) check_rotation(function, "rotate_k", *o.rotate_k, call.k, 'k');
}

}  // namespace

AttentionCall make_call(const char* function, const AnyView& q, const AnyView& k, const AnyView& v,
                        const AttentionOptions& options) {
  check_inputs(function, q, k, v);
  AttentionCall call;
  call.q = q, call.k = k, call.v = v;
  call.batch = q.shape[0], call.heads = q.shape[1], call.queries = q.shape[2], call.channels = q.shape[3];
  call.key_heads = k.shape[1], call.keys = k.shape[2], call.value_channels = v.shape[3];
  call.scale = options.scale.value_or(1.0 / std::sqrt(static_cast<double>(call.channels)));
  call.left = std::min(options.window.left, kFar);
  call.right = std::min({options.window.right, options.causal ? std::int64_t{1} : kFar, kFar});
  call.options = options;
  check_options(function, call);
  const bool ragged = !options.query_starts.empty() || !options.key_starts.empty();
  call.sequences = ragged ? ragged_sequences(function, q, k, options) : dense_sequences(q, k);
  place_sequences(function, options, call.sequences);
  return call;
}

namespace {

void check_output(const char* function, const char* name, const AnyOutput& x, const Shape<4>& shape,
                  const char* meaning) {
  check_shape(function, name, x.shape, shape, meaning);
  check_data(function, name, x.data, x.shape);
  check_rows(function, name, x.shape, x.strides);
  check_distinct(function, name, x.shape, x.strides);
}

// No output shares memory with an input, those of the options included, or with another output.
void check_all_apart(const char* function, const AttentionCall& call, const List<Extent>& outputs,
                     List<Extent> inputs) {
  const AttentionOptions& o = call.options;
  inputs.insert(inputs.end(), {extent("q", call.q), extent("k", call.k), extent("v", call.v), extent("mask", o.mask),
                               extent("visible", o.visible), extent("key_bias", o.key_bias)});
  if (o.relative_bias) inputs.push_back(extent("relative_bias", o.relative_bias->table));
  for (const auto& rotation : {o.rotate_q, o.rotate_k})
    if (rotation) inputs.insert(inputs.end(), {extent("cos", rotation->cos), extent("sin", rotation->sin)});
  for (std::size_t i = 0; i < outputs.size(); i++) {
    for (const Extent& input : inputs) check_apart(function, outputs[i], input);
    for (std::size_t j = 0; j < i; j++) check_apart(function, outputs[i], outputs[j]);
  }
}

}  // namespace

void check_forward(const char* function, const AttentionCall& call, const ForwardOutput& output) {
  const Shape<3> rows{call.batch, call.heads, call.queries};
  check_output(function, "out", output.out, {rows[0], rows[1], rows[2], call.value_channels}, "[B, H, T, E]");
  if (output.lse.data) {
    check_shape(function, "lse", output.lse.shape, rows, "[B, H, T]");
    check_distinct(function, "lse", output.lse.shape, output.lse.strides);
  }
  if (output.weights.data)
    check_output(function, "weights", output.weights, {rows[0], rows[1], rows[2], call.keys}, "[B, H, T, S]");
  check_all_apart(function, call,
                  {extent("out", output.out), extent("lse", output.lse), extent("weights", output.weights)}, {});
}

void check_backward(const char* function, const AttentionCall& call, const BackwardInput& input,
                    const BackwardOutput& output) {
  const AttentionOptions& o = call.options;
  const Shape<3> rows{call.batch, call.heads, call.queries};
  const Shape<4> out_shape{rows[0], rows[1], rows[2], call.value_channels};
  check_shape(function, "result.out", input.out.shape, out_shape, "[B, H, T, E]");
  check_data(function, "result.out", input.out.data, input.out.shape);
  check_rows(function, "result.out", input.out.shape, input.out.strides);
  check_shape(function, "result.grad_out", input.grad_out.shape, out_shape, "[B, H, T, E]");
  check_data(function, "result.grad_out", input.grad_out.data, input.grad_out.shape);
  check_rows(function, "result.grad_out", input.grad_out.shape, input.grad_out.strides);
  check_shape(function, "result.lse", input.lse.shape, rows, "[B, H, T]");
  check_data(function, "result.lse", input.lse.data, input.lse.shape);
  if (input.grad_lse.data) check_shape(function, "result.grad_lse", input.grad_lse.shape, rows, "[B, H, T]");

  check_output(function, "gradients.q", output.q, call.q.shape, "[B, H, T, D] as q has");
  check_output(function, "gradients.k", output.k, call.k.shape, "[B, G, S, D] as k has");
  check_output(function, "gradients.v", output.v, call.v.shape, "[B, G, S, E] as v has");
  if (output.mask.data) {
    PHASOR_CHECK(o.mask.data, function, "gradients.mask: given without options.mask, expected both");
    check_output(function, "gradients.mask", output.mask, o.mask.shape, "the shape of options.mask");
  }
  if (output.key_bias.data) {
    PHASOR_CHECK(o.key_bias.data, function, "gradients.key_bias: given without options.key_bias, expected both");
    check_shape(function, "gradients.key_bias", output.key_bias.shape, o.key_bias.shape,
                "the shape of options.key_bias");
    check_distinct(function, "gradients.key_bias", output.key_bias.shape, output.key_bias.strides);
  }
  if (output.relative_bias.data) {
    PHASOR_CHECK(o.relative_bias, function,
                 "gradients.relative_bias: given without options.relative_bias, expected both");
    check_shape(function, "gradients.relative_bias", output.relative_bias.shape, o.relative_bias->table.shape,
                "the shape of options.relative_bias");
    check_distinct(function, "gradients.relative_bias", output.relative_bias.shape, output.relative_bias.strides);
  }
  if (output.sinks.data) {
    PHASOR_CHECK(!o.sinks.empty(), function, "gradients.sinks: given without options.sinks, expected both");
    check_shape(function, "gradients.sinks", output.sinks.shape, {call.heads}, "[H]");
  }
  check_all_apart(function, call,
                  {extent("gradients.q", output.q), extent("gradients.k", output.k), extent("gradients.v", output.v),
                   extent("gradients.mask", output.mask), extent("gradients.key_bias", output.key_bias),
                   extent("gradients.relative_bias", output.relative_bias), extent("gradients.sinks", output.sinks)},
                  {extent("result.out", input.out), extent("result.grad_out", input.grad_out),
                   extent("result.lse", input.lse), extent("result.grad_lse", input.grad_lse)});
}

}  // namespace phasor::detail
