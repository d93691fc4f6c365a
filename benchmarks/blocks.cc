// One transformer block, forward + backward: hidden size 512, 8 heads, feed-forward 2048, RoPE, causal.
#include <benchmark/benchmark.h>

#include <string>

#include "attention_case.h"
#include "counting.h"
#include "phasor/layers/block.h"
#include "phasor/position/encoding.h"
#include "phasor/position/rope.h"

namespace phasor::bench {
namespace {

constexpr BlockConfig kConfig{.hidden_size = 512, .num_attention_heads = 8, .intermediate_size = 2048};

// One stream, or two.
struct StreamTensors {
  Tensor<float, 3> mu, log_sigma;

  StreamTensors(const Shape<3>& shape, bool gaussian, std::size_t seed) : mu(random_tensor<float, 3>(shape, seed)) {
    if (gaussian) log_sigma = random_tensor<float, 3>(shape, seed + 10);
  }
  Streams view() { return {mu.view(), log_sigma.view()}; }
};

PositionPlan rope_plan(const AttentionShape& shape) {
  const Tensor<std::int64_t, 3> positions = consecutive_positions(shape.tokens);
  return lower(RopeConfig{.head_dim = shape.channels}, {},
               {.queries = positions.view(), .shape = {.heads = shape.heads, .head_dim = shape.channels}});
}

// Every weight meets every token three times (forward, and both gradients); attention comes on top.
template <class AnyBlock>
double operations(AnyBlock& block, const AttentionShape& shape, const AttentionOptions& options) {
  NamedWeights weights;
  block.list_weights("", weights);
  double count = 0.0;
  for (const NamedWeight& each : weights) count += static_cast<double>(each.weight->size());
  const std::int64_t channels = AnyBlock::kGaussian ? 2 * shape.channels : shape.channels;
  return 6.0 * count * static_cast<double>(shape.batch * shape.tokens) +
         kForwardAndBackward * forward_operations(shape, options, channels);
}

template <class AnyBlock>
void forward_and_backward(benchmark::State& state, const AttentionShape& shape) {
  InitialValues initial(1);
  AnyBlock block(kConfig, initial);
  const Shape<3> rows{shape.batch, shape.tokens, kConfig.hidden_size};
  StreamTensors x(rows, AnyBlock::kGaussian, 1), y(rows, AnyBlock::kGaussian, 2);
  StreamTensors grad_y(rows, AnyBlock::kGaussian, 3), grad_x(rows, AnyBlock::kGaussian, 4);
  const PositionPlan plan = rope_plan(shape);
  const AttentionOptions options{.causal = shape.causal};
  typename AnyBlock::Saved saved;
  Workspace workspace;
  const auto step = [&] {
    block.forward(x.view(), plan, options, y.view(), &saved, workspace);
    block.backward(saved, grad_y.view(), grad_x.view(), nullptr, workspace);
    benchmark::ClobberMemory();
  };
  step();  // the first allocates; training is all the others
  for (auto _ : state) step();
  count_operations(state, operations(block, shape, options));
}

const bool registered = [] {
  for (const AttentionShape& shape :
       {AttentionShape{.batch = 2, .tokens = 512, .causal = true}, AttentionShape{.tokens = 2048, .causal = true}}) {
    const std::string name = shape_name(shape);
    benchmark::RegisterBenchmark(("block/training/" + name).c_str(), forward_and_backward<Block>, shape)->UseRealTime();
    benchmark::RegisterBenchmark(("block/w2/training/" + name).c_str(), forward_and_backward<W2Block>, shape)
        ->UseRealTime();
  }
  return true;
}();

}  // namespace
}  // namespace phasor::bench
