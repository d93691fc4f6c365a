#include "check_shapes.h"

#include <cstdlib>

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

// Two tensors of the same strides in some dimensions, as slices of one packed tensor have them.
struct Interleaved {
  List<std::size_t> common;               // those dimensions, from the largest stride down
  std::int64_t reach_a = 1, reach_b = 1;  // elements from the first to the last along the others
};

Interleaved common_strides(const Extent& a, const Extent& b) {
  Interleaved result;
  for (std::size_t i = 0; i < 4; i++) {
    if (a.strides[i] == b.strides[i] && a.strides[i] > 1) {
      result.common.push_back(i);
    } else {
      result.reach_a += (a.shape[i] - 1) * std::abs(a.strides[i]);
      result.reach_b += (b.shape[i] - 1) * std::abs(b.strides[i]);
    }
  }
  std::ranges::sort(result.common, [&](std::size_t i, std::size_t j) { return a.strides[i] > a.strides[j]; });
  return result;
}

// Whether each common dimension has a larger step than the range of the smaller ones.
bool is_nested(const Extent& a, const Extent& b, const Interleaved& both) {
  std::int64_t reach = std::max(both.reach_a, both.reach_b);
  for (std::size_t level = both.common.size(); level-- > 0;) {
    const std::size_t i = both.common[level];
    if (a.strides[i] < reach) return false;
    reach += (std::max(a.shape[i], b.shape[i]) - 1) * a.strides[i];
  }
  return true;
}

// Whether some element of a and one of b, which begins `distance` elements later, coincide: the distance is then a sum
// of steps along the common dimensions and a rest within reach. In each dimension only the two numbers of steps that
// leave a rest below one step are possible: bit `level` of `choice` selects one.
bool coincide(const Extent& a, const Extent& b, const Interleaved& both, std::int64_t distance, unsigned choice) {
  for (std::size_t level = 0; level < both.common.size(); level++) {
    const std::size_t i = both.common[level];
    const std::int64_t stride = a.strides[i], below = distance / stride - (distance % stride < 0 ? 1 : 0);
    const std::int64_t steps = below + ((choice >> level) & 1u);
    if (steps <= -b.shape[i] || steps >= a.shape[i]) return false;
    distance -= steps * stride;
  }
  return distance > -both.reach_b && distance < both.reach_a;
}

bool interleave(const Extent& a, const Extent& b) {
  if (a.element_bytes != b.element_bytes || (b.data - a.data) % a.element_bytes != 0) return false;
  const Interleaved both = common_strides(a, b);
  if (!is_nested(a, b, both)) return false;
  for (unsigned choice = 0; choice < (1u << both.common.size()); choice++)
    if (coincide(a, b, both, (b.data - a.data) / a.element_bytes, choice)) return false;
  return true;
}

void check_two_apart(const char* function, const Extent& output, const Extent& other) {
  if (is_empty(output) || is_empty(other)) return;
  const auto [output_low, output_high] = range(output);
  const auto [other_low, other_high] = range(other);
  PHASOR_CHECK(output_high <= other_low || other_high <= output_low || interleave(output, other), function, output.name,
               ": its memory overlaps that of ", other.name, ", expected memory of its own");
}

}  // namespace

void check_output(const char* function, const char* name, const AnyOutput& x, const Shape<4>& shape,
                  const char* meaning) {
  check_shape(function, name, x.shape, shape, meaning);
  check_data(function, name, x.data, x.shape);
  check_rows(function, name, x.shape, x.strides);
  check_distinct(function, name, x.shape, x.strides);
}

void check_apart(const char* function, const List<Extent>& outputs, const List<Extent>& inputs) {
  for (std::size_t i = 0; i < outputs.size(); i++) {
    for (const Extent& input : inputs) check_two_apart(function, outputs[i], input);
    for (std::size_t j = 0; j < i; j++) check_two_apart(function, outputs[i], outputs[j]);
  }
}

}  // namespace phasor::detail
