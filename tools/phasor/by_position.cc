#include "by_position.h"

#include <algorithm>
#include <cstddef>

namespace phasor::tool {

std::vector<PositionGroup> by_position(const Evaluation& found) {
  constexpr std::size_t kGroups = 16;
  const std::size_t together = (found.by_position.size() + kGroups - 1) / kGroups;
  std::vector<PositionGroup> groups;
  for (std::size_t first = 0; first < found.by_position.size(); first += together) {
    const std::size_t end = std::min(first + together, found.by_position.size());
    PositionGroup& group = groups.emplace_back();
    for (std::size_t i = first; i < end; i++) {
      const PositionResult& at = found.by_position[i];
      group.loss += at.loss * static_cast<double>(at.counted);
      group.accuracy += at.accuracy * static_cast<double>(at.counted);
      group.counted += at.counted;
    }
    group.loss /= static_cast<double>(group.counted);
    group.accuracy /= static_cast<double>(group.counted);
    const std::string from = std::to_string(found.by_position[first].position);
    const std::string to = std::to_string(found.by_position[end - 1].position);
    group.positions = from == to ? from : from + "-" + to;
  }
  return groups;
}

}  // namespace phasor::tool
