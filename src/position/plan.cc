#include "phasor/position/plan.h"

#include <numeric>

namespace phasor {

std::string_view pairing_name(Pairing pairing) { return pairing == Pairing::half ? "half" : "adjacent"; }

Tensor<std::int64_t, 3> consecutive_positions(std::int64_t count, std::int64_t first) {
  PHASOR_CHECK(count >= 0, "consecutive_positions", "count: ", count, ", expected 0 or more");
  Tensor<std::int64_t, 3> positions({1, 1, count});
  std::iota(positions.begin(), positions.end(), first);
  return positions;
}

}  // namespace phasor
