// Bad input of attention layers and blocks: errors name the layer, what was given and what was expected, and a failed
// decode changes nothing.
#include "layers/streams_check.h"
#include "phasor/position/rope.h"
#include "support/expect_error.h"

namespace phasor {
namespace {

struct Layers {
  InitialValues initial{1};
  AttentionLayer dot{{.hidden_size = 24, .num_attention_heads = 3}, initial};
  W2AttentionLayer w2{{.hidden_size = 24, .num_attention_heads = 3}, initial};
  Block block{{.hidden_size = 24, .num_attention_heads = 3, .intermediate_size = 8}, initial};
  W2Block w2_block{{.hidden_size = 24, .num_attention_heads = 3, .intermediate_size = 8}, initial};
  Workspace workspace;
  StreamTensors x = StreamTensors::random({2, 7, 24}, true, 1), y{{2, 7, 24}, true};
  Tensor<float, 3> wrong{{2, 7, 23}}, shorter{{2, 6, 24}};
  PositionPlan plan;

  ConstStreams one() const { return {.mu = x.mu.view()}; }
  Streams one_y() { return {.mu = y.mu.view()}; }
  ConstStreams two() const { return x.view(); }
};

TEST(LayerErrors, Configs) {
  InitialValues initial(1);
  EXPECT_ERROR(AttentionLayer({.hidden_size = 25, .num_attention_heads = 3}, initial), "[AttentionLayer]",
               "hidden_size: 25", "multiple of num_heads 3");
  EXPECT_ERROR(W2AttentionLayer({.hidden_size = 25, .num_attention_heads = 3}, initial), "[W2AttentionLayer]",
               "hidden_size: 25", "multiple of num_heads 3");
  EXPECT_ERROR(AttentionLayer({.hidden_size = 24, .num_attention_heads = 6, .num_key_value_heads = 4}, initial),
               "[AttentionLayer]", "num_key_value_heads: 4", "divisor of num_heads 6");
  EXPECT_ERROR(AttentionLayer({.hidden_size = 24, .num_attention_heads = 0}, initial), "[AttentionLayer]",
               "num_heads: 0");
  EXPECT_ERROR(AttentionLayer({.hidden_size = 0, .num_attention_heads = 1}, initial), "[AttentionLayer]",
               "hidden_size: 0");
  EXPECT_ERROR(AttentionLayer({.hidden_size = 24, .num_attention_heads = 3, .head_dim = 513}, initial),
               "[AttentionLayer]", "head_dim: 513", "1 to 512");
  EXPECT_ERROR(AttentionLayer({.hidden_size = 24, .num_attention_heads = 3, .head_dim = -2}, initial),
               "[AttentionLayer]", "head_dim: -2");
  EXPECT_ERROR(AttentionLayer({.hidden_size = 24, .num_attention_heads = 3, .dropout = 1.0}, initial),
               "[AttentionLayer]", "dropout: 1", "less than 1");
  EXPECT_ERROR(W2AttentionLayer({.hidden_size = 24, .num_attention_heads = 3, .dropout = -0.1}, initial),
               "[W2AttentionLayer]", "dropout: -0.1");
  EXPECT_ERROR(W2AttentionLayer({.hidden_size = 300, .num_attention_heads = 1}, initial), "[W2AttentionLayer]",
               "head_dim: 300", "1 to 256");
  EXPECT_ERROR(W2Block({.hidden_size = 24, .num_attention_heads = 3, .intermediate_size = 8, .qk_norm = true}, initial),
               "[W2Block]", "qk_norm");
  EXPECT_ERROR(Block({.hidden_size = 0, .num_attention_heads = 3, .intermediate_size = 8}, initial), "[Block]",
               "hidden_size: 0");
  EXPECT_ERROR(W2Block({.hidden_size = 24, .num_attention_heads = 3, .intermediate_size = 0}, initial), "[W2Block]",
               "intermediate_size: 0");
  EXPECT_ERROR(MultiHeadAttention({.embed_dim = 10, .num_heads = 3}, initial), "[AttentionLayer]", "hidden_size: 10");
}

TEST(LayerErrors, Shapes) {
  Layers l;
  const auto y = l.y.mu.view();
  EXPECT_ERROR(l.dot.forward({.query = l.wrong.view()}, l.plan, {}, y, nullptr, l.workspace), "[AttentionLayer]",
               "query: [2, 7, 23]", "[B, T, 24]");
  EXPECT_ERROR(l.dot.forward({.query = l.x.mu.view(), .key = l.wrong.view()}, l.plan, {}, y, nullptr, l.workspace),
               "[AttentionLayer]", "key: [2, 7, 23]", "[2, S, 24]");
  EXPECT_ERROR(l.dot.forward({.query = l.x.mu.view(), .value = l.shorter.view()}, l.plan, {}, y, nullptr, l.workspace),
               "[AttentionLayer]", "value: [2, 6, 24]", "[2, 7, 24]");
  EXPECT_ERROR(l.dot.forward({.query = l.x.mu.view()}, l.plan, {}, l.shorter.view(), nullptr, l.workspace),
               "[AttentionLayer]", "y: [2, 6, 24]", "[2, 7, 24]");
  const TensorView<const float, 3> apart{l.x.mu.data(), {2, 3, 24}, {120, 24, 1}};
  Tensor<float, 3> three({2, 3, 24});
  EXPECT_ERROR(l.dot.forward({.query = apart}, l.plan, {}, three.view(), nullptr, l.workspace), "[AttentionLayer]",
               "query: strides [120, 24, 1]");
  const Streams good = l.y.view();
  EXPECT_ERROR(l.w2.forward({l.x.mu.view(), l.shorter.view()}, l.plan, {}, good, nullptr, l.workspace),
               "[W2AttentionLayer]", "log_sigma: [2, 6, 24]", "[2, 7, 24]");
  EXPECT_ERROR(l.w2.forward(l.one(), l.plan, {}, good, nullptr, l.workspace), "[W2AttentionLayer]", "log_sigma");
  EXPECT_ERROR(l.w2.forward(l.two(), l.plan, {}, {y, l.shorter.view()}, nullptr, l.workspace), "[W2AttentionLayer]",
               "y.log_sigma: [2, 6, 24]");
  EXPECT_ERROR(l.block.forward(l.two(), l.plan, {}, l.one_y(), nullptr, l.workspace), "[Block]", "x: of two streams");
  EXPECT_ERROR(l.block.forward({.mu = l.wrong.view()}, l.plan, {}, l.one_y(), nullptr, l.workspace), "[Block]",
               "x: [2, 7, 23]", "[B, T, 24]");
  EXPECT_ERROR(l.block.forward(l.one(), l.plan, {}, {.mu = l.shorter.view()}, nullptr, l.workspace), "[Block]",
               "y: [2, 6, 24]");
  EXPECT_ERROR(l.w2_block.forward(l.two(), l.plan, {}, l.one_y(), nullptr, l.workspace), "[W2Block]",
               "y: of one stream", "expected two");
  EXPECT_ERROR(l.w2_block.forward({l.x.mu.view(), l.shorter.view()}, l.plan, {}, good, nullptr, l.workspace),
               "[W2Block]", "x.log_sigma: [2, 6, 24]");
}

TEST(LayerErrors, OptionsAndPlans) {
  Layers l;
  const auto forward = [&](const PositionPlan& plan, const AttentionOptions& options) {
    l.dot.forward({.query = l.x.mu.view()}, plan, options, l.y.mu.view(), nullptr, l.workspace);
  };
  const auto w2_forward = [&](const PositionPlan& plan, const AttentionOptions& options) {
    l.w2.forward(l.two(), plan, options, l.y.view(), nullptr, l.workspace);
  };
  const Tensor<float, 4> mask({2, 3, 7, 8});
  const PositionPlan rotation = default_plan("rope", kSmallShape, 7, 7);
  EXPECT_ERROR(forward({}, {.mask = mask.view()}), "[AttentionLayer]", "mask: shape [2, 3, 7, 8]", "[2, 3, 7, 7]");
  EXPECT_ERROR(w2_forward({}, {.mask = mask.view()}), "[W2AttentionLayer]", "mask: shape [2, 3, 7, 8]");
  EXPECT_ERROR(l.block.forward(l.one(), {}, {.mask = mask.view()}, l.one_y(), nullptr, l.workspace), "[AttentionLayer]",
               "mask: shape [2, 3, 7, 8]");
  EXPECT_ERROR(forward({}, {.scale = 1.0}), "[AttentionLayer]", "options", "the plan's");
  EXPECT_ERROR(w2_forward({}, {.scale = 1.0}), "[W2AttentionLayer]", "options", "the plan's");
  EXPECT_ERROR(forward({}, {.q_rotary = *rotation.rotate_q}), "[AttentionLayer]", "options", "the plan's");
  EXPECT_ERROR(forward({}, {.dropout = 0.1}), "[AttentionLayer]", "options.dropout: 0.1", "the layer's");
  EXPECT_ERROR(w2_forward({}, {.sinks = {1.0f, 2.0f}}), "[W2AttentionLayer]", "sinks: 2 numbers");
  EXPECT_ERROR(forward(default_plan("rope", kSmallShape, 6, 6), {}), "[AttentionLayer]", "q_rotary",
               "at least 7 tokens");
  EXPECT_ERROR(forward(default_plan("alibi", {.heads = 4, .head_dim = 8, .model_dim = 32}, 7, 7), {}),
               "[AttentionLayer]", "relative_bias", "3 heads");
  // An odd head cannot be rotated whole.
  InitialValues initial(1);
  const AttentionLayer odd({.hidden_size = 21, .num_attention_heads = 3}, initial);
  const Tensor<float, 3> x({2, 7, 21});
  Tensor<float, 3> y({2, 7, 21});
  EXPECT_ERROR(odd.forward({.query = x.view()}, rotation, {}, y.view(), nullptr, l.workspace), "[AttentionLayer]",
               "q_rotary: rotates 8 channels", "at most 7");
}

TEST(LayerErrors, Backward) {
  Layers l;
  const AttentionLayer::Saved none{};
  EXPECT_ERROR(l.dot.backward(none, l.x.mu.view(), {}, nullptr, l.workspace), "[AttentionLayer]", "saved: empty");
  EXPECT_ERROR(l.w2.backward({}, l.two(), l.y.view(), nullptr, l.workspace), "[W2AttentionLayer]", "saved: empty");
  EXPECT_ERROR(l.block.backward({}, l.one(), l.one_y(), nullptr, l.workspace), "[Block]", "saved: empty");
  EXPECT_ERROR(l.w2_block.backward({}, l.two(), l.y.view(), nullptr, l.workspace), "[W2Block]", "saved: empty");

  AttentionLayer::Saved saved;
  PositionPlan plan = default_plan("relative", kSmallShape, 7, 7);
  Tensor<float, 3> grad({2, 7, 24});
  l.dot.forward({.query = l.x.mu.view()}, plan, {}, l.y.mu.view(), &saved, l.workspace);
  EXPECT_ERROR(l.dot.backward(saved, l.shorter.view(), {}, nullptr, l.workspace), "[AttentionLayer]",
               "grad_y: [2, 6, 24]", "[2, 7, 24]");
  EXPECT_ERROR(l.dot.backward(saved, l.y.mu.view(), {.query = l.shorter.view()}, nullptr, l.workspace),
               "[AttentionLayer]", "grad_query: [2, 6, 24]", "[2, 7, 24]");
  EXPECT_ERROR(l.dot.backward(saved, l.y.mu.view(), {.key = grad.view()}, nullptr, l.workspace), "[AttentionLayer]",
               "grad_key: given without its input");
  PlanGradient other;
  other.bias = Tensor<float, 2>({3, 5});
  EXPECT_ERROR(l.dot.backward(saved, l.y.mu.view(), {}, &other, l.workspace), "[AttentionLayer]",
               "grad_plan.bias: [3, 5]", "[3, 13]");
  Tensor<float, 4> grad_mask({1, 1, 7, 7});
  EXPECT_ERROR(l.dot.backward(saved, l.y.mu.view(), {}, nullptr, l.workspace, grad_mask.view()), "[AttentionLayer]",
               "grad_mask: given without");

  W2AttentionLayer::Saved w2_saved;
  l.w2.forward(l.two(), plan, {}, l.y.view(), &w2_saved, l.workspace);
  StreamTensors short_grad({2, 6, 24}, true);
  EXPECT_ERROR(l.w2.backward(w2_saved, std::as_const(short_grad).view(), short_grad.view(), nullptr, l.workspace),
               "[W2AttentionLayer]", "grad_y: [2, 6, 24]", "[2, 7, 24]");
  W2Block::Saved block_saved;
  l.w2_block.forward(l.two(), plan, {}, l.y.view(), &block_saved, l.workspace);
  EXPECT_ERROR(l.w2_block.backward(block_saved, std::as_const(short_grad).view(), l.y.view(), nullptr, l.workspace),
               "[W2Block]", "grad_y: [2, 6, 24]");
}

// What a cache says about itself: lengths, and the rows it holds.
std::pair<std::vector<std::int64_t>, std::vector<float>> content(const LayerCache& cache) {
  std::vector<std::int64_t> lengths;
  std::vector<float> rows;
  for (const KvCache* each : {&cache.mu, cache.log_sigma ? &*cache.log_sigma : nullptr}) {
    if (each == nullptr) continue;
    lengths.insert(lengths.end(), each->lengths().begin(), each->lengths().end());
    for (const auto& view : {each->keys<float>(), each->values<float>()})
      for (const float value : reference::read<float>(view).values) rows.push_back(value);
  }
  return {lengths, rows};
}

TEST(LayerErrors, DecodeThatFailsChangesNothing) {
  Layers l;
  const PositionPlan plan = default_plan("rope", kSmallShape, 7, 7);
  LayerCache cache = l.dot.make_cache({.batch = 2, .capacity = 10});
  LayerCache w2_cache = l.w2.make_cache({.batch = 2, .capacity = 10});
  const auto decode = [&](const PositionPlan& p, const AttentionOptions& options) {
    l.dot.decode(l.x.mu.view(), p, options, cache, l.y.mu.view(), l.workspace);
  };
  const auto w2_decode = [&](const PositionPlan& p, const AttentionOptions& options) {
    l.w2.decode(l.two(), p, options, w2_cache, l.y.view(), l.workspace);
  };
  decode(plan, {});
  w2_decode(plan, {});
  const auto before = content(cache), w2_before = content(w2_cache);
  EXPECT_ERROR(decode(plan, {}), "[AttentionLayer]", "capacity: 10 tokens", "has 7", "room for 7 more");
  EXPECT_ERROR(w2_decode(plan, {}), "[W2AttentionLayer]", "capacity: 10 tokens", "room for 7 more");
  EXPECT_TRUE(content(cache) == before);
  EXPECT_TRUE(content(w2_cache) == w2_before);

  // Here tokens have been added already when the error is seen.
  for (LayerCache* each : {&cache, &w2_cache})
    for (const std::int64_t b : {0, 1}) each->truncate(b, 2);
  const auto two = content(cache), w2_two = content(w2_cache);
  const Tensor<float, 4> mask({1, 1, 7, 8});
  EXPECT_ERROR(decode(plan, {.mask = mask.view()}), "[AttentionLayer]", "mask: shape [1, 1, 7, 8]", "9]");
  EXPECT_ERROR(w2_decode(plan, {.mask = mask.view()}), "[W2AttentionLayer]", "mask: shape [1, 1, 7, 8]", "9]");
  EXPECT_TRUE(content(cache) == two);
  EXPECT_TRUE(content(w2_cache) == w2_two);
}

TEST(LayerErrors, Caches) {
  Layers l;
  LayerCache dot = l.dot.make_cache({.batch = 2, .capacity = 10}), w2 = l.w2.make_cache({.batch = 2, .capacity = 10});
  LayerCache unrotated = l.dot.make_cache({.batch = 2, .capacity = 10, .keys = CachedKeys::unrotated});
  LayerCache other = l.dot.make_cache({.batch = 3, .capacity = 10});
  const PositionPlan plan = default_plan("rope", kSmallShape, 7, 7);
  const std::vector<std::int64_t> lengths{3, 3};
  const auto x = std::as_const(l.x).mu.view();
  const auto y = l.y.mu.view();
  EXPECT_ERROR(l.dot.decode(x, plan, {}, w2, y, l.workspace), "[AttentionLayer]", "cache: of two streams");
  EXPECT_ERROR(l.w2.decode(l.two(), plan, {}, dot, l.y.view(), l.workspace), "[W2AttentionLayer]",
               "cache: of one stream");
  EXPECT_ERROR(l.dot.decode(x, plan, {}, unrotated, y, l.workspace), "[AttentionLayer]", "plan.rotate_k: absent");
  EXPECT_ERROR(l.dot.decode(x, plan, {}, other, y, l.workspace), "[AttentionLayer]", "k: shape [2, 3, 7, 8]", "[3, ");
  EXPECT_ERROR(l.dot.decode(x, plan, {.key_lengths = lengths}, dot, y, l.workspace), "[AttentionLayer]",
               "options: offsets, lengths", "the cache's");
  EXPECT_ERROR(l.w2.decode(l.two(), plan, {.query_offsets = lengths}, w2, l.y.view(), l.workspace),
               "[W2AttentionLayer]", "the cache's");
  EXPECT_ERROR(l.w2.make_cache({.capacity = 4, .storage = CacheStorage::bf16}), "[W2AttentionLayer]", "storage");
  EXPECT_ERROR(l.dot.make_cache({.capacity = -4}), "capacity: -4");
  EXPECT_ERROR(dot.truncate(0, 1), "length: 1", "0 to 0");
}

}  // namespace
}  // namespace phasor
