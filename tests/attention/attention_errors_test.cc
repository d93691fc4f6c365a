// Bad input to attention: each rule broken alone, and the message that names it.
#include <functional>
#include <string>

#include "attention/tensors.h"
#include "support/expect_error.h"

namespace phasor {
namespace {

using Options = AttentionOptions;

// A legal call: q [2, 4, 3, 8], k [2, 2, 5, 8], v [2, 2, 5, 6]. Tests change one thing.
struct Call {
  Tensors t{{.batch = 2, .heads = 4, .groups = 2, .queries = 3, .keys = 5, .width = 8, .value_width = 6}};
  TensorView<const float, 4> q = t.q.view(), k = t.k.view(), v = t.v.view();
  AttentionOutput<float> output{t.out.view(), t.lse.view(), t.softmax.view(), t.weights.view()};
  AttentionBackwardInput<float> input = t.result();
  AttentionGradients<float> gradients{.q = t.grad_q.view(), .k = t.grad_k.view(), .v = t.grad_v.view()};
  Options options;

  void forward() { attention_forward(q, k, v, output, options); }
  void backward() { attention_backward(q, k, v, input, gradients, options); }
  void check() const { check_attention(q, k, v, options); }
};

template <class Change>
void expect_forward_error(const Change& change, std::initializer_list<std::string> parts) {
  Call call;
  call.forward();
  change(call);
  expect_error([&] { call.forward(); }, "forward", parts);
}

template <class Change>
void expect_backward_error(const Change& change, std::initializer_list<std::string> parts) {
  Call call;
  call.forward();
  call.backward();
  change(call);
  expect_error([&] { call.backward(); }, "backward", parts);
}

// Rules about q, k, v and the options hold for both, and check_attention knows them.
template <class Change>
void expect_both_errors(const Change& change, std::initializer_list<std::string> parts) {
  expect_forward_error(change, parts);
  expect_backward_error(change, parts);
  Call call;
  call.check();
  change(call);
  expect_error([&] { call.check(); }, "check", parts);
}

TEST(AttentionErrors, NameTheFunction) {
  expect_forward_error([](Call& c) { c.k.shape[1] = 3; }, {"[attention_forward]"});
  expect_backward_error([](Call& c) { c.k.shape[1] = 3; }, {"[attention_backward]"});
  Call call;
  call.k.shape[1] = 3;
  expect_error([&] { call.check(); }, "check", {"[check_attention]"});
}

TEST(AttentionErrors, ShapesOfQueriesKeysAndValues) {
  static const Tensor<float, 4> three({2, 3, 5, 8}), three_values({2, 3, 5, 6});
  expect_both_errors([](Call& c) { c.k = three.view(), c.v = three_values.view(); },
                     {"k: ", "[2, 3, 5, 8]", "[2, 4, 3, 8]"});
  expect_both_errors([](Call& c) { c.k.shape[1] = c.v.shape[1] = 0; }, {"k: ", "[2, 0, 5, 8]"});
  expect_both_errors([](Call& c) { c.k.shape[0] = 1; }, {"k: ", "[1, 2, 5, 8]"});
  expect_both_errors([](Call& c) { c.k.shape[3] = 7; }, {"k: ", "[2, 2, 5, 7]"});
  expect_both_errors([](Call& c) { c.v.shape[0] = 1; }, {"v: ", "[1, 2, 5, 6]"});
  expect_both_errors([](Call& c) { c.v.shape[1] = 1; }, {"v: ", "[2, 1, 5, 6]"});
  expect_both_errors([](Call& c) { c.v.shape[2] = 4; }, {"v: ", "[2, 2, 4, 6]"});
}

TEST(AttentionErrors, Channels) {
  expect_both_errors([](Call& c) { c.q.shape[3] = c.k.shape[3] = 0; }, {"q: ", "[2, 4, 3, 0]", "512"});
  expect_both_errors([](Call& c) { c.v.shape[3] = 0; }, {"v: ", "[2, 2, 5, 0]", "512"});
  static const Tensor<float, 4> q({2, 4, 3, 513}), k({2, 2, 5, 513});
  expect_both_errors([](Call& c) { c.q = q.view(), c.k = k.view(); }, {"q: ", "[2, 4, 3, 513]", "512"});
  expect_both_errors([](Call& c) { c.v = k.view(); }, {"v: ", "[2, 2, 5, 513]", "512"});
}

TEST(AttentionErrors, LastStride) {
  expect_both_errors([](Call& c) { c.q.strides[3] = 2; }, {"q: ", "stride 2", "expected"});
  expect_both_errors([](Call& c) { c.k.strides[3] = 5; }, {"k: ", "stride 5"});
  expect_both_errors([](Call& c) { c.v.strides[3] = 0; }, {"v: ", "stride 0"});
  expect_forward_error([](Call& c) { c.output.out.strides[3] = 2; }, {"out: ", "stride 2"});
  expect_forward_error([](Call& c) { c.output.weights.strides[3] = 2; }, {"weights: ", "stride 2"});
  expect_backward_error([](Call& c) { c.input.out.strides[3] = 2; }, {"out: ", "stride 2"});
  expect_backward_error([](Call& c) { c.input.grad_out.strides[3] = 2; }, {"grad_out: ", "stride 2"});
  expect_backward_error([](Call& c) { c.gradients.q.strides[3] = 2; }, {"grad_q: ", "stride 2"});
  expect_backward_error([](Call& c) { c.gradients.k.strides[3] = 2; }, {"grad_k: ", "stride 2"});
  expect_backward_error([](Call& c) { c.gradients.v.strides[3] = 2; }, {"grad_v: ", "stride 2"});
}

TEST(AttentionErrors, ShapesOfOutputs) {
  expect_forward_error([](Call& c) { c.output.out.shape[3] = 5; }, {"out: ", "[2, 4, 3, 5]", "[2, 4, 3, 6]"});
  expect_forward_error([](Call& c) { c.output.lse.shape[2] = 2; }, {"lse: ", "[2, 4, 2]", "[2, 4, 3]"});
  expect_forward_error([](Call& c) { c.output.softmax.shape[3] = 3; }, {"softmax: ", "[2, 4, 3, 3]", "[2, 4, 3, 2]"});
  expect_forward_error([](Call& c) { c.output.weights.shape[3] = 4; }, {"weights: ", "[2, 4, 3, 4]", "[2, 4, 3, 5]"});
  expect_forward_error([](Call& c) { c.output.out = {}; }, {"out: "});
}

TEST(AttentionErrors, ShapesOfTheBackwardPass) {
  expect_backward_error([](Call& c) { c.input.out.shape[2] = 2; }, {"out: ", "[2, 4, 2, 6]", "[2, 4, 3, 6]"});
  expect_backward_error([](Call& c) { c.input.grad_out.shape[1] = 2; }, {"grad_out: ", "[2, 2, 3, 6]", "[2, 4, 3, 6]"});
  expect_backward_error([](Call& c) { c.input.softmax.shape[1] = 2; }, {"softmax: ", "[2, 2, 3, 2]", "[2, 4, 3, 2]"});
  expect_backward_error([](Call& c) { c.input.grad_lse = c.t.lse.view(), c.input.grad_lse.shape[0] = 1; },
                        {"grad_lse: ", "[1, 4, 3]", "[2, 4, 3]"});
  expect_backward_error([](Call& c) { c.gradients.q.shape[3] = 7; }, {"grad_q: ", "[2, 4, 3, 7]", "[2, 4, 3, 8]"});
  expect_backward_error([](Call& c) { c.gradients.k.shape[2] = 4; }, {"grad_k: ", "[2, 2, 4, 8]", "[2, 2, 5, 8]"});
  expect_backward_error([](Call& c) { c.gradients.v.shape[0] = 1; }, {"grad_v: ", "[1, 2, 5, 6]", "[2, 2, 5, 6]"});
}

TEST(AttentionErrors, MissingTensors) {
  expect_both_errors([](Call& c) { c.q.data = nullptr; }, {"q: "});
  expect_both_errors([](Call& c) { c.k.data = nullptr; }, {"k: "});
  expect_both_errors([](Call& c) { c.v.data = nullptr; }, {"v: "});
  expect_forward_error([](Call& c) { c.output.out.data = nullptr; }, {"out: "});
  expect_backward_error([](Call& c) { c.input.out.data = nullptr; }, {"out: "});
  expect_backward_error([](Call& c) { c.input.softmax.data = nullptr; }, {"softmax: "});
  expect_backward_error([](Call& c) { c.input.grad_out.data = nullptr; }, {"grad_out: "});
  expect_backward_error([](Call& c) { c.gradients.q.data = nullptr; }, {"grad_q: "});
  expect_backward_error([](Call& c) { c.gradients.k.data = nullptr; }, {"grad_k: "});
  expect_backward_error([](Call& c) { c.gradients.v.data = nullptr; }, {"grad_v: "});
}

TEST(AttentionErrors, GradientsOfWhatIsNotThere) {
  static Tensor<float, 4> four({1, 1, 1, 1});
  static Tensor<float, 3> three({1, 1, 5});
  static Tensor<float, 2> two({4, 3});
  static Tensor<float, 1> one({4});
  expect_backward_error([](Call& c) { c.gradients.mask = four.view(); }, {"grad_mask: "});
  expect_backward_error([](Call& c) { c.gradients.key_bias = three.view(); }, {"grad_key_bias: "});
  expect_backward_error([](Call& c) { c.gradients.relative_bias = two.view(); }, {"grad_relative_bias: "});
  expect_backward_error([](Call& c) { c.gradients.alibi_slopes = one.view(); }, {"grad_alibi_slopes: "});
  expect_backward_error([](Call& c) { c.gradients.sinks = one.view(); }, {"grad_sinks: "});
  static const float sinks[4] = {};
  static const Tensor<float, 4> mask({1, 1, 3, 5});
  static const Tensor<float, 3> bias({2, 2, 5});
  static const Tensor<float, 2> table({4, 7});
  expect_backward_error([](Call& c) { c.options.mask = mask.view(), c.gradients.mask = four.view(); },
                        {"grad_mask: ", "[1, 1, 1, 1]", "[1, 1, 3, 5]"});
  expect_backward_error([](Call& c) { c.options.key_bias = bias.view(), c.gradients.key_bias = three.view(); },
                        {"grad_key_bias: ", "[1, 1, 5]", "[2, 2, 5]"});
  expect_backward_error(
      [](Call& c) { c.options.relative_bias.emplace(table.view(), 0), c.gradients.relative_bias = two.view(); },
      {"grad_relative_bias: ", "[4, 3]", "[4, 7]"});
  expect_backward_error(
      [](Call& c) { c.options.sinks = sinks, c.gradients.sinks = one.view(), c.gradients.sinks.shape[0] = 2; },
      {"grad_sinks: ", "[2]", "[4]"});
}

TEST(AttentionErrors, SharedMemory) {
  expect_forward_error([](Call& c) { c.output.out.strides[0] = 0; }, {"out: ", "stride 0"});
  expect_forward_error([](Call& c) { c.output.out.strides[2] = 0; }, {"out: ", "stride 0"});
  expect_forward_error([](Call& c) { c.output.lse.strides[1] = 0; }, {"lse: ", "stride 0"});
  expect_forward_error([](Call& c) { c.output.weights.strides[1] = 0; }, {"weights: ", "stride 0"});
  expect_backward_error([](Call& c) { c.gradients.k.strides[1] = 0; }, {"grad_k: ", "stride 0"});
  expect_forward_error([](Call& c) { c.output.out.data = c.t.q.data(); }, {"out: ", "overlap", "q"});
  expect_forward_error([](Call& c) { c.v.data = c.t.out.data(); }, {"out: ", "overlap", "v"});
  expect_forward_error([](Call& c) { c.output.weights.data = c.t.k.data(); }, {"weights: ", "overlap", "k"});
  expect_forward_error([](Call& c) { c.output.lse.data = c.t.out.data() + 1; }, {"lse", "overlap", "out"});
  expect_backward_error([](Call& c) { c.gradients.q.data = c.t.q.data(); }, {"grad_q: ", "overlap"});
  expect_backward_error([](Call& c) { c.gradients.v.data = c.t.k.data() + 5; }, {"grad_v: ", "overlap", "k"});
  expect_backward_error(
      [](Call& c) {
        c.gradients.k = c.gradients.q.slice(1, 0, 2).slice(2, 0, 3), c.k = c.k.slice(2, 0, 3), c.v = c.v.slice(2, 0, 3),
        c.gradients.v = c.gradients.v.slice(2, 0, 3);
      },
      {"grad_", "overlap"});
  expect_backward_error([](Call& c) { c.input.softmax.data = c.t.grad_q.data(); }, {"grad_q: ", "overlap", "softmax"});
}

// Rows of the one begin in the gap after rows of the other, and reach into its next rows.
TEST(AttentionErrors, SharedMemoryOfInterleavedRows) {
  Tensor<float, 1> memory({64});
  const Tensor<float, 4> other({1, 1, 4, 4});
  for (const std::int64_t shift : {1, 3, 5, 7, 8, 9}) {
    const TensorView<const float, 4> q(memory.data(), {1, 1, 4, 4}, {32, 32, 8, 1});
    const TensorView<float, 4> out(memory.data() + shift, {1, 1, 4, 4}, {32, 32, 8, 1});
    SCOPED_TRACE(shift);
    EXPECT_ERROR(attention_forward(q, other.view(), other.view(), {.out = out}), "out: ", "overlap");
  }
  const TensorView<const float, 4> q(memory.data(), {1, 1, 4, 4}, {32, 32, 8, 1});
  attention_forward(q, other.view(), other.view(), {.out = {memory.data() + 4, {1, 1, 4, 4}, {32, 32, 8, 1}}});
}

TEST(AttentionErrors, Positions) {
  static const std::int64_t three[] = {1, 2, 3}, long_keys[] = {5, 6}, negative[] = {-1, 2},
                            far[] = {std::int64_t{1} << 62};
  expect_both_errors([](Call& c) { c.options.query_offsets = three; }, {"query_offsets: ", "3", "2"});
  expect_both_errors([](Call& c) { c.options.key_lengths = three; }, {"key_lengths: ", "3", "2"});
  expect_both_errors([](Call& c) { c.options.key_lengths = long_keys; }, {"key_lengths: ", "6", "5"});
  expect_both_errors([](Call& c) { c.options.key_lengths = negative; }, {"key_lengths: ", "-1"});
  expect_both_errors([](Call& c) { c.options.query_offsets = far; }, {"4611686018427387904"});
  expect_both_errors([](Call& c) { c.options.window.left = -1; }, {"window: ", "-1"});
  expect_both_errors([](Call& c) { c.options.window.right = -7; }, {"window: ", "-7"});
}

TEST(AttentionErrors, RaggedBatches) {
  static const std::int64_t good_q[] = {0, 1, 3}, good_k[] = {0, 2, 5}, descending[] = {0, 4, 3},
                            other_end[] = {0, 1, 4}, first[] = {1, 2, 3}, more[] = {0, 1, 2, 5}, one[] = {0};
  const auto ragged = [](Call& c, std::span<const std::int64_t> q, std::span<const std::int64_t> k) {
    c.q = c.q.slice(0, 0, 1), c.k = c.k.slice(0, 0, 1), c.v = c.v.slice(0, 0, 1);
    c.output = {c.output.out.slice(0, 0, 1), c.output.lse.slice(0, 0, 1), {}, c.output.weights.slice(0, 0, 1)};
    c.options.query_starts = q;
    c.options.key_starts = k;
  };
  Call legal;
  ragged(legal, good_q, good_k);
  legal.forward();
  expect_both_errors([&](Call& c) { c.options.query_starts = good_q, c.options.key_starts = good_k; },
                     {"query_starts: ", "[2, 4, 3, 8]", "1"});
  expect_both_errors([&](Call& c) { ragged(c, descending, good_k); }, {"query_starts: "});
  expect_both_errors([&](Call& c) { ragged(c, other_end, good_k); }, {"query_starts: ", "4", "3"});
  expect_both_errors([&](Call& c) { ragged(c, first, good_k); }, {"query_starts: ", "1", "0"});
  expect_both_errors([&](Call& c) { ragged(c, one, one); }, {"query_starts: "});
  expect_both_errors([&](Call& c) { ragged(c, good_q, good_q); }, {"key_starts: ", "3", "5"});
  expect_both_errors([&](Call& c) { ragged(c, good_q, more); }, {"key_starts: ", "4", "3"});
  expect_both_errors([&](Call& c) { ragged(c, good_q, {}); }, {"key_starts: "});
  expect_both_errors([&](Call& c) { ragged(c, {}, good_k); }, {"query_starts: "});
}

TEST(AttentionErrors, Numbers) {
  for (const double rate : {-0.1, 1.0, 1.5, static_cast<double>(NAN)})
    expect_both_errors([=](Call& c) { c.options.dropout = rate; }, {"dropout: "});
  for (const double cap : {-1.0, 1e-40, 1e38, static_cast<double>(NAN), static_cast<double>(INFINITY)})
    expect_both_errors([=](Call& c) { c.options.softcap = cap; }, {"softcap: "});
  for (const double scale : {1e38, -1e38, static_cast<double>(NAN), static_cast<double>(INFINITY)})
    expect_both_errors([=](Call& c) { c.options.scale = scale; }, {"scale: "});
  expect_both_errors([](Call& c) { c.options.scale = 1e20, c.options.softcap = 1e-20; }, {"softcap: 1e-20", "1e+20"});
  static const float sinks[3] = {};
  expect_both_errors([](Call& c) { c.options.sinks = sinks; }, {"sinks: ", "3", "4"});
  expect_both_errors([](Call& c) { c.options.alibi_slopes = sinks; }, {"alibi_slopes: ", "3", "4"});
  static const Tensor<float, 2> table({4, 9});
  static const float slopes[4] = {};
  expect_both_errors([](Call& c) { c.options.alibi_slopes = slopes, c.options.relative_bias.emplace(table.view(), 0); },
                     {"alibi_slopes: ", "relative_bias"});
}

TEST(AttentionErrors, Masks) {
  static const Tensor<float, 4> mask({2, 4, 3, 5}), wrong({2, 2, 3, 5}), long_mask({1, 1, 3, 6});
  static const Tensor<bool, 4> visible({1, 1, 3, 5}), short_visible({1, 1, 2, 5});
  expect_both_errors([](Call& c) { c.options.mask = wrong.view(); }, {"mask: ", "[2, 2, 3, 5]", "[2, 4, 3, 5]"});
  expect_both_errors([](Call& c) { c.options.mask = long_mask.view(); }, {"mask: ", "[1, 1, 3, 6]"});
  expect_both_errors([](Call& c) { c.options.mask = mask.view(), c.options.mask.added.strides[3] = 2; },
                     {"mask: ", "stride 2"});
  expect_both_errors([](Call& c) { c.options.mask = short_visible.view(); },
                     {"mask: ", "[1, 1, 2, 5]", "[2, 4, 3, 5]"});
  expect_both_errors([](Call& c) { c.options.mask = visible.view(), c.options.mask.visible.strides[3] = 3; },
                     {"mask: ", "stride 3"});
}

TEST(AttentionErrors, Biases) {
  static const Tensor<float, 3> heads({2, 3, 5}), short_bias({2, 2, 4}), batch({3, 2, 5}), bias({2, 2, 5});
  expect_both_errors([](Call& c) { c.options.key_bias = heads.view(); }, {"key_bias: ", "[2, 3, 5]"});
  expect_both_errors([](Call& c) { c.options.key_bias = short_bias.view(); }, {"key_bias: ", "[2, 2, 4]"});
  expect_both_errors([](Call& c) { c.options.key_bias = batch.view(); }, {"key_bias: ", "[3, 2, 5]"});
  expect_both_errors([](Call& c) { c.options.key_bias = bias.view(), c.options.key_bias.strides[2] = 2; },
                     {"key_bias: ", "stride 2"});
  static const Tensor<float, 3> scales({2, 2, 3}), short_scales({1, 1, 2});
  expect_both_errors([](Call& c) { c.options.query_scale = scales.view(); }, {"query_scale: ", "[2, 2, 3]", "4"});
  expect_both_errors([](Call& c) { c.options.query_scale = short_scales.view(); }, {"query_scale: ", "[1, 1, 2]", "3"});
  static const Tensor<float, 2> two({2, 9}), none({4, 0}), table({4, 9});
  expect_both_errors([](Call& c) { c.options.relative_bias.emplace(two.view(), 0); },
                     {"relative_bias: ", "[2, 9]", "4"});
  expect_both_errors([](Call& c) { c.options.relative_bias.emplace(none.view(), 0); }, {"relative_bias: ", "[4, 0]"});
  expect_both_errors(
      [](Call& c) { c.options.relative_bias.emplace(table.view(), 0), c.options.relative_bias->table.strides[1] = 2; },
      {"relative_bias: ", "stride 2"});
}

TEST(AttentionErrors, Rotation) {
  static const Tensor<float, 3> good_q({1, 3, 4}), good_k({1, 5, 4}), short_q({1, 2, 4}), short_k({1, 4, 4}),
      wide({1, 5, 5}), batches({3, 5, 4}), narrow({1, 5, 3});
  const auto rotary = [](const Tensor<float, 3>& t) { return RotaryView(t.view(), t.view(), Pairing::half); };
  Call legal;
  legal.options.q_rotary = rotary(good_q);
  legal.options.k_rotary = rotary(good_k);
  legal.forward();
  expect_both_errors([&](Call& c) { c.options.q_rotary = rotary(short_q); }, {"q_rotary: ", "[1, 1, 2, 4]", "3"});
  expect_both_errors([&](Call& c) { c.options.k_rotary = rotary(short_k); }, {"k_rotary: ", "[1, 1, 4, 4]", "5"});
  expect_both_errors([&](Call& c) { c.options.q_rotary = rotary(wide); }, {"q_rotary: ", "10", "8"});
  expect_both_errors([&](Call& c) { c.options.k_rotary = rotary(wide); }, {"k_rotary: ", "10", "8"});
  expect_both_errors([&](Call& c) { c.options.q_rotary = rotary(batches); }, {"q_rotary: ", "3", "2"});
  expect_both_errors([&](Call& c) { c.options.k_rotary = RotaryView(good_k.view(), narrow.view(), Pairing::half); },
                     {"k_rotary: ", "[1, 1, 5, 4]", "[1, 1, 5, 3]"});
  expect_both_errors([&](Call& c) { c.options.k_rotary = rotary(good_k), c.options.k_rotary->sin.strides[3] = 2; },
                     {"k_rotary: ", "stride"});
}

}  // namespace
}  // namespace phasor
