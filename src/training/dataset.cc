#include "phasor/training/dataset.h"

#include <algorithm>

#include "phasor/core/check.h"

namespace phasor {

void Dataset::fill(std::int64_t index, Split split, Batch& batch) const {
  constexpr std::int64_t kMostRows = std::int64_t{1} << 62;
  const auto [rows, length] = batch.tokens.shape();
  PHASOR_CHECK(rows >= 1 && length >= 1 && batch.targets.shape() == batch.tokens.shape(), "fill", "batch: tokens ",
               shape_text(batch.tokens.shape()), " and targets ", shape_text(batch.targets.shape()),
               ", expected two of the same shape, not empty");
  PHASOR_CHECK(index >= 0 && index < kMostRows / rows, "fill", "index: ", index, ", expected 0 to ",
               kMostRows / rows - 1);
  check_length(length);
  const auto row_of = [length = length](Tensor<std::int32_t, 2>& tensor, std::int64_t r) {
    return std::span(tensor.data() + r * length, static_cast<std::size_t>(length));
  };
  for (std::int64_t r = 0; r < rows; r++)
    fill_row(index * rows + r, split, row_of(batch.tokens, r), row_of(batch.targets, r));
}

}  // namespace phasor
