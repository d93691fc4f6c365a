// Rows of any tensor as rows of float, and back: the only place that handles element types and rotations.
#pragma once

#include <cstdint>

#include "call.h"

namespace phasor::detail {

// Rows first .. first + count - 1 of head h in batch b, as floats rotated by the table's rows of the same tokens (if
// there is a table): to[i * stride + c].
void read_rows(const AnyView& x, std::int64_t b, std::int64_t h, std::int64_t first, std::int64_t count,
               const std::optional<RotaryView>& rotation, float* to, std::int64_t stride);

// The same rounded to bf16, with zeros from the last channel to the stride.
void read_narrow_rows(const AnyView& x, std::int64_t b, std::int64_t h, std::int64_t first, std::int64_t count,
                      const std::optional<RotaryView>& rotation, bf16* to, std::int64_t stride);

// The other way: floats rounded and stored.
void write_rows(const AnyOutput& x, std::int64_t b, std::int64_t h, std::int64_t first, std::int64_t count,
                const float* from, std::int64_t stride);

// Converts gradients of rotated rows to gradients of the rows, in place: the transpose of the rotation.
void rotate_back(const std::optional<RotaryView>& rotation, std::int64_t b, std::int64_t h, std::int64_t first,
                 std::int64_t count, std::int64_t channels, float* rows, std::int64_t stride);

}  // namespace phasor::detail
