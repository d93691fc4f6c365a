// Writing token by token: a cache of rotated keys in 16 bits, and one pass over it for each new token.
#include <phasor/phasor.h>

#include <cstdio>

using phasor::Tensor;

// What the layers of a model would compute from a token.
Tensor<float, 4> random_rows(std::int64_t heads, std::int64_t tokens, std::uint64_t seed) {
  Tensor<float, 4> rows({1, heads, tokens, 128});
  phasor::Philox(seed).fill_normal(rows);
  return rows;
}

int main() {
  constexpr std::int64_t kHeads = 32, kKeyHeads = 8, kPrompt = 1000;
  const auto model = phasor::read_rope_config(R"({"model_type": "llama", "head_dim": 128, "rope_theta": 500000})");
  phasor::KvCache cache(
      {.key_heads = kKeyHeads, .capacity = 4096, .channels = 128, .storage = phasor::CacheStorage::bf16});

  // The prompt: its keys are rotated and kept, all at once.
  const auto prompt = phasor::rotary_table(model.rope(), phasor::consecutive_positions(kPrompt));
  const auto keys = random_rows(kKeyHeads, kPrompt, 1), values = random_rows(kKeyHeads, kPrompt, 2);
  cache.append(keys.view(), values.view(), prompt);

  for (std::uint64_t step = 0; step < 3; step++) {
    const std::int64_t position = cache.longest();
    const auto table = phasor::rotary_table(model.rope(), phasor::consecutive_positions(1, position));
    const auto q = random_rows(kHeads, 1, 10 + step);
    const auto k = random_rows(kKeyHeads, 1, 20 + step), v = random_rows(kKeyHeads, 1, 30 + step);
    cache.append(k.view(), v.view(), table);

    Tensor<float, 4> out({1, kHeads, 1, 128});
    Tensor<float, 3> lse({1, kHeads, 1});
    phasor::attention_forward(q.view(), cache, {.out = out.view(), .lse = lse.view()}, {.q_rotary = table});
    std::printf("token %lld sees %lld tokens: out %.4f %.4f %.4f, log-sum-exp %.4f\n", static_cast<long long>(position),
                static_cast<long long>(cache.longest()), out(0, 0, 0, 0), out(0, 0, 0, 1), out(0, 0, 0, 2),
                lse(0, 0, 0));
  }
}
