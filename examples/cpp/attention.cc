#include <phasor/phasor.h>

#include <cstdio>

int main() {
  const auto model = phasor::read_rope_config(R"({"model_type": "qwen3", "rope_theta": 1000000})");
  const auto table = phasor::rotary_table(model.rope(), phasor::consecutive_positions(1024));
  phasor::Tensor<float, 4> q({1, 32, 1024, 128}), k({1, 8, 1024, 128}), v(k.shape()), out(q.shape());  // [B, H, T, D]
  phasor::Philox(1).fill_normal(q), phasor::Philox(2).fill_normal(k), phasor::Philox(3).fill_normal(v);
  phasor::attention_forward(q.view(), k.view(), v.view(), {.out = out.view()},
                            {.causal = true, .window = 256, .q_rotary = table, .k_rotary = table});
  std::printf("%.4f %.4f %.4f\n", out(0, 31, 1023, 0), out(0, 31, 1023, 1), out(0, 31, 1023, 2));
}
