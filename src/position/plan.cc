#include "phasor/position/plan.h"

#include <algorithm>
#include <numeric>

namespace phasor {

const PositionPlan PlanInput::kNoPositions;

std::string_view pairing_name(Pairing pairing) { return pairing == Pairing::half ? "half" : "adjacent"; }

void check_positions(const char* function, std::int64_t position) {
  constexpr std::int64_t kFurthest = std::int64_t{1} << 40;
  PHASOR_CHECK(position >= -kFurthest && position <= kFurthest, function, "positions: contain ", position,
               ", expected within +-2^40");
}

Tensor<std::int64_t, 3> consecutive_positions(std::int64_t count, std::int64_t first) {
  constexpr const char* kName = "consecutive_positions";
  PHASOR_CHECK(count >= 0 && count <= std::int64_t{1} << 40, kName, "count: ", count, ", expected 0 to 2^40");
  check_positions(kName, first);
  check_positions(kName, first + std::max<std::int64_t>(count - 1, 0));
  Tensor<std::int64_t, 3> positions({1, 1, count});
  std::iota(positions.begin(), positions.end(), first);
  return positions;
}

}  // namespace phasor
