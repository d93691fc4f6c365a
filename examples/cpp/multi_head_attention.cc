// Multi-head attention with RoPE: self-attention, cross-attention, a causal and a padding mask, weights.
#include <phasor/phasor.h>

#include <cstdio>
#include <numeric>

using phasor::Tensor;

constexpr std::int64_t kBatch = 2, kEmbed = 256, kHeads = 8, kHeadDim = kEmbed / kHeads;

Tensor<float, 3> random_tokens(std::int64_t count, std::uint64_t seed) {
  Tensor<float, 3> x({kBatch, count, kEmbed});
  phasor::Philox(seed).fill_normal(x);
  return x;
}

phasor::AnyRotaryTable rotations(std::int64_t count) {  // of adjacent pairs
  return phasor::adjacent_table({.head_dim = kHeadDim, .pairing = phasor::Pairing::adjacent},
                                phasor::consecutive_positions(count));
}

int main() {
  phasor::InitialValues initial(0);
  const phasor::MultiHeadAttention attention({.embed_dim = kEmbed, .num_heads = kHeads, .dropout = 0.1}, initial);
  phasor::Workspace workspace;

  // Self-attention: 32 tokens, each sees those before it; the second sequence has 20 tokens, the rest is padding.
  const Tensor<float, 3> x = random_tokens(32, 1);
  phasor::PositionPlan plan;
  plan.rotate_q = rotations(32);
  const std::int64_t lengths[] = {32, 20};
  Tensor<float, 3> y(x.shape());
  Tensor<float, 4> weights({kBatch, kHeads, 32, 32});
  attention.forward({.query = x.view()}, plan, {.causal = true, .key_lengths = lengths}, y.view(), nullptr, workspace,
                    weights.view());
  const float* row = &weights(1, 0, 31, 0);
  std::printf("self: y %.4f %.4f, weights of the last query sum to %.4f, on padding %.4f\n", y(0, 31, 0), y(0, 31, 1),
              std::accumulate(row, row + 32, 0.0f), std::accumulate(row + 20, row + 32, 0.0f));

  // Cross-attention: 16 queries read 48 keys, with tables of their own.
  const Tensor<float, 3> queries = random_tokens(16, 2), memory = random_tokens(48, 3);
  plan.rotate_q = rotations(16);
  plan.rotate_k = rotations(48);
  Tensor<float, 3> read(queries.shape());
  attention.forward({.query = queries.view(), .key = memory.view()}, plan, {}, read.view(), nullptr, workspace);
  std::printf("cross: y %.4f %.4f\n", read(1, 15, 0), read(1, 15, 1));
}
