#include <phasor/phasor.h>

#include <cstdio>

int main() {
  const auto model = phasor::read_rope_config(R"({"model_type": "qwen3", "rope_theta": 1000000})");
  const auto positions = phasor::consecutive_positions(16);  // one sequence, 0 .. 15
  const auto table = phasor::rotary_table(model.rope(), positions.view());

  phasor::Tensor<float, 4> q({1, 32, 16, 128});  // [batch, heads, tokens, head size]
  phasor::Philox(42).fill_normal(q);
  phasor::apply_rotary(q.view(), table);  // in place, on all cores
  std::printf("%.4f %.4f %.4f\n", q(0, 0, 15, 0), q(0, 0, 15, 1), q(0, 0, 15, 2));
}
