// A block of the W2 transformer: tokens are Gaussians, mu and log_sigma, and attention is by distance.
#include <phasor/phasor.h>

#include <cstdio>

using phasor::Tensor;

int main() {
  constexpr std::int64_t kBatch = 2, kTokens = 64, kHidden = 512, kHeads = 8;
  phasor::InitialValues initial(42);  // equal seeds make equal models
  const phasor::W2Block block(
      {.hidden_size = kHidden, .num_attention_heads = kHeads, .intermediate_size = 2048, .norm_eps = 1e-6}, initial);

  Tensor<float, 3> mu({kBatch, kTokens, kHidden}), log_sigma(mu.shape()), out_mu(mu.shape()), out_log_sigma(mu.shape());
  phasor::Philox(1).fill_normal(mu), phasor::Philox(2).fill_normal(log_sigma, -1.0f, 0.1f);

  // Rotations of the means, made once and shared by all layers of a model.
  phasor::PositionPlan plan;
  plan.rotate_q = phasor::rotary_table({.head_dim = kHidden / kHeads}, phasor::consecutive_positions(kTokens));

  phasor::Workspace workspace;
  block.forward({mu.view(), log_sigma.view()}, plan, {}, {out_mu.view(), out_log_sigma.view()}, nullptr, workspace);

  for (const auto* out : {&out_mu, &out_log_sigma}) {
    const auto [b, t, c] = out->shape();
    std::printf("(%lld, %lld, %lld)  %.4f %.4f ...\n", static_cast<long long>(b), static_cast<long long>(t),
                static_cast<long long>(c), (*out)(0, 0, 0), (*out)(0, 0, 1));
  }
}
