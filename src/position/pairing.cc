#include "phasor/position/pairing.h"

#include <numeric>

namespace phasor {

std::vector<std::int64_t> pairing_permutation(Pairing to, std::int64_t head_dim, std::int64_t rotary_dim) {
  const std::int64_t rotated = rotary_dim == 0 ? head_dim : rotary_dim;
  PHASOR_CHECK(head_dim >= 2, "convert_pairing", "head_dim: ", head_dim, ", expected 2 or more");
  PHASOR_CHECK(rotated >= 2 && rotated % 2 == 0 && rotated <= head_dim, "convert_pairing", "rotary_dim: ", rotated,
               ", expected an even number from 2 to head_dim ", head_dim);
  std::vector<std::int64_t> permutation(static_cast<std::size_t>(head_dim));
  std::iota(permutation.begin(), permutation.end(), 0);
  const std::int64_t pairs = rotated / 2;
  for (std::int64_t i = 0; i < pairs; i++)
    for (std::int64_t second = 0; second < 2; second++) {
      const std::int64_t half = i + second * pairs, adjacent = 2 * i + second;
      permutation[static_cast<std::size_t>(to == Pairing::half ? half : adjacent)] =
          to == Pairing::half ? adjacent : half;
    }
  return permutation;
}

}  // namespace phasor
