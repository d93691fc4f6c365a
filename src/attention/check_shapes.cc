#include "check_shapes.h"

#include <array>
#include <numeric>

namespace phasor::detail {
namespace {

std::pair<const std::byte*, const std::byte*> range(const Extent& x) {
  const std::byte *low = x.data, *high = x.data;
  for (std::size_t i = 0; i < 4; i++) {
    const std::int64_t reach = (x.shape[i] - 1) * x.strides[i] * x.element_bytes;
    (reach < 0 ? low : high) += reach;
  }
  return {low, high + x.element_bytes};
}

bool is_empty(const Extent& x) {
  return x.data == nullptr || std::ranges::any_of(x.shape, [](std::int64_t size) { return size == 0; });
}

// For tensors of the same strides: the distance between their first elements, counted in steps of each dimension from
// the largest stride down. A dimension in which it is as large as the dimension itself keeps them apart.
bool interleave(const Extent& a, const Extent& b) {
  if (a.strides != b.strides || a.element_bytes != b.element_bytes) return false;
  std::array<std::size_t, 4> order{0, 1, 2, 3};
  std::ranges::sort(order, [&](std::size_t i, std::size_t j) { return a.strides[i] > a.strides[j]; });
  std::int64_t distance = std::abs(a.data - b.data) / a.element_bytes;
  for (const std::size_t i : order) {
    if (a.strides[i] <= 0 || std::max(a.shape[i], b.shape[i]) <= 1) continue;
    const std::int64_t steps = distance / a.strides[i];
    if (steps >= std::max(a.shape[i], b.shape[i])) return true;
    distance -= steps * a.strides[i];
  }
  return distance != 0;
}

}  // namespace

void check_apart(const char* function, const Extent& output, const Extent& other) {
  if (is_empty(output) || is_empty(other)) return;
  const auto [output_low, output_high] = range(output);
  const auto [other_low, other_high] = range(other);
  PHASOR_CHECK(output_high <= other_low || other_high <= output_low || interleave(output, other), function, output.name,
               ": its memory overlaps that of ", other.name, ", expected memory of its own");
}

}  // namespace phasor::detail
