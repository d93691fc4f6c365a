// The three products of a linear layer, 1024 rows from 512 to 2048 channels: y = x W^T, and the gradients of x and W;
// the first also with W of bf16, and then also of 1 and 16 rows.
#include <benchmark/benchmark.h>

#include "counting.h"
#include "products/multiply.h"
#include "random_tensor.h"

namespace phasor::bench {
namespace {

constexpr std::int64_t kRows = 1024, kInputs = 512, kOutputs = 2048;

struct LinearTensors {
  Tensor<float, 2> x = random_tensor<float, 2>({kRows, kInputs}, 1);
  Tensor<float, 2> weight = random_tensor<float, 2>({kOutputs, kInputs}, 2);
  Tensor<float, 2> y = random_tensor<float, 2>({kRows, kOutputs}, 3);
};

using Product = void (*)(LinearTensors&);

void forward(LinearTensors& t) {
  products::multiply({.a = t.x.view(), .b = t.weight.view().transposed(0, 1), .c = t.y.view()});
}

void input_gradient(LinearTensors& t) { products::multiply({.a = t.y.view(), .b = t.weight.view(), .c = t.x.view()}); }

void weight_gradient(LinearTensors& t) {
  products::multiply({.a = t.y.view().transposed(0, 1), .b = t.x.view(), .c = t.weight.view(), .accumulate = true});
}

void multiply(benchmark::State& state, Product product) {
  LinearTensors tensors;
  for (auto _ : state) {
    product(tensors);
    benchmark::ClobberMemory();
  }
  count_operations(state, 2.0 * kRows * kInputs * kOutputs);
}

// W of bf16, x of float.
void forward_bf16(benchmark::State& state) {
  const std::int64_t rows = state.range(0);
  const auto x = random_tensor<float, 2>({rows, kInputs}, 1);
  const auto weight = random_tensor<bf16, 2>({kOutputs, kInputs}, 2);
  auto y = random_tensor<float, 2>({rows, kOutputs}, 3);
  for (auto _ : state) {
    products::multiply({.a = x.view(), .b = weight.view().transposed(0, 1), .c = y.view()});
    benchmark::ClobberMemory();
  }
  count_operations(state, 2.0 * static_cast<double>(rows * kInputs * kOutputs));
}

BENCHMARK_CAPTURE(multiply, forward, forward)->Name("matmul/1024x512x2048/forward")->UseRealTime();
BENCHMARK(forward_bf16)->Name("matmul/bf16/512x2048/forward/rows")->Arg(1024)->UseRealTime();
BENCHMARK_CAPTURE(multiply, input, input_gradient)->Name("matmul/1024x512x2048/input_gradient")->UseRealTime();
BENCHMARK_CAPTURE(multiply, weight, weight_gradient)->Name("matmul/1024x512x2048/weight_gradient")->UseRealTime();

}  // namespace
}  // namespace phasor::bench
