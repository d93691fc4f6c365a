// Decoding with a grouped attention layer as Qwen3 has it: new tokens are rotated at their positions and appended, and
// the result equals that of the whole sequence at once.
#include <phasor/phasor.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

using phasor::Tensor;

int main() {
  constexpr std::int64_t kTokens = 48, kPrompt = 40, kHidden = 256, kHeadDim = 64;
  phasor::InitialValues initial(7);
  const phasor::AttentionLayer layer({.hidden_size = kHidden,
                                      .num_attention_heads = 8,
                                      .num_key_value_heads = 2,
                                      .head_dim = kHeadDim,
                                      .qk_norm = true},
                                     initial);
  phasor::Workspace workspace;
  Tensor<float, 3> x({1, kTokens, kHidden}), whole(x.shape()), decoded(x.shape());
  phasor::Philox(1).fill_normal(x);

  const auto plan_of = [](std::int64_t first, std::int64_t count) {
    phasor::PositionPlan plan;
    plan.rotate_q = phasor::rotary_table({.head_dim = kHeadDim}, phasor::consecutive_positions(count, first));
    return plan;
  };
  layer.forward({.query = x.view()}, plan_of(0, kTokens), {.causal = true}, whole.view(), nullptr, workspace);

  // The prompt at once, then token by token.
  phasor::LayerCache cache = layer.make_cache({.capacity = kTokens});
  for (std::int64_t first = 0; first < kTokens;) {
    const std::int64_t count = first == 0 ? kPrompt : 1;
    layer.decode(x.view().slice(1, first, count), plan_of(first, count), {}, cache,
                 decoded.view().slice(1, first, count), workspace);
    first += count;
  }

  float largest = 0;
  for (std::int64_t i = 0; i < whole.size(); i++)
    largest = std::max(largest, std::fabs(whole.data()[i] - decoded.data()[i]));
  std::printf("%lld tokens in the cache, largest difference from the whole sequence %s 1e-5\n",
              static_cast<long long>(cache.longest()), largest < 1e-5f ? "below" : "ABOVE");
  return largest < 1e-5f ? 0 : 1;
}
