// The wavelengths of RoPE in tokens, and what YaRN makes of them for a context four times as long.
#include <phasor/phasor.h>

#include <cstdio>
#include <numbers>

int main() {
  const phasor::RopeConfig plain{.head_dim = 128, .theta = 1e6};
  phasor::RopeConfig yarn = plain;
  yarn.scaling = {.type = "yarn", .factor = 4.0, .original_max_position_embeddings = 32768};
  const auto before = phasor::rope_frequencies(plain), after = phasor::rope_frequencies(yarn);
  for (const std::size_t pair : {0, 16, 32, 48, 63})
    std::printf("pair %2zu: %11.1f -> %11.1f\n", pair, 2 * std::numbers::pi / before.inv_freq[pair],
                2 * std::numbers::pi / after.inv_freq[pair]);
}
