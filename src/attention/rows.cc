#include "rows.h"

#include <algorithm>
#include <cstring>

#include "phasor/position/rotary.h"
#include "quantize.h"
#include "scratch/scratch.h"

namespace phasor::detail {
namespace {

void convert_row(const float* from, float* to, std::int64_t count) {
  std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(float));
}
template <class From, class To>
void convert_row(const From* from, To* to, std::int64_t count) {
  convert(std::span<const From>(from, static_cast<std::size_t>(count)),
          std::span<To>(to, static_cast<std::size_t>(count)));
}

template <class T>
void read_typed(const AnyView& x, std::int64_t b, std::int64_t h, std::int64_t first, std::int64_t count, float* to,
                std::int64_t stride) {
  x.for_runs(b, h, first, count, [&](std::int64_t offset, std::int64_t at, std::int64_t rows) {
    const T* from = reinterpret_cast<const T*>(x.data) + offset;
    for (std::int64_t i = 0; i < rows; i++) convert_row(from + i * x.strides[2], to + (at + i) * stride, x.shape[3]);
  });
}

template <class T>
void write_typed(const AnyOutput& x, std::int64_t b, std::int64_t h, std::int64_t first, std::int64_t count,
                 const float* from, std::int64_t stride) {
  x.for_runs(b, h, first, count, [&](std::int64_t offset, std::int64_t at, std::int64_t rows) {
    T* to = reinterpret_cast<T*>(x.data) + offset;
    for (std::int64_t i = 0; i < rows; i++) convert_row(from + (at + i) * stride, to + i * x.strides[2], x.shape[3]);
  });
}

void read_int8(const AnyView& x, std::int64_t b, std::int64_t h, std::int64_t first, std::int64_t count, float* to,
               std::int64_t stride) {
  x.for_scaled_runs(b, h, first, count,
                    [&](std::int64_t offset, const float* scales, std::int64_t at, std::int64_t rows) {
                      const auto* from = reinterpret_cast<const std::int8_t*>(x.data) + offset;
                      for (std::int64_t i = 0; i < rows; i++)
                        dequantize_row(from + i * x.strides[2], scales[i], to + (at + i) * stride, x.shape[3]);
                    });
}

void write_int8(const AnyOutput& x, std::int64_t b, std::int64_t h, std::int64_t first, std::int64_t count,
                const float* from, std::int64_t stride) {
  x.for_scaled_runs(b, h, first, count, [&](std::int64_t offset, float* scales, std::int64_t at, std::int64_t rows) {
    auto* to = reinterpret_cast<std::int8_t*>(x.data) + offset;
    for (std::int64_t i = 0; i < rows; i++)
      scales[i] = quantize_row(from + (at + i) * stride, to + i * x.strides[2], x.shape[3]);
  });
}

// The table's rows of these tokens, as a table of one sequence.
RotaryView table_rows(const RotaryView& table, std::int64_t b, std::int64_t h, std::int64_t first, std::int64_t count) {
  const auto rows = [&](const TensorView<const float, 4>& x) {
    return x.slice(0, x.shape[0] == 1 ? 0 : b, 1).slice(1, x.shape[1] == 1 ? 0 : h, 1).slice(2, first, count);
  };
  return {rows(table.cos), rows(table.sin), table.pairing};
}

TensorView<float, 4> as_tensor(float* rows, std::int64_t count, std::int64_t channels, std::int64_t stride) {
  return {rows, {1, 1, count, channels}, {count * stride, count * stride, stride, 1}};
}

}  // namespace

void read_rows(const AnyView& x, std::int64_t b, std::int64_t h, std::int64_t first, std::int64_t count,
               const std::optional<RotaryView>& rotation, float* to, std::int64_t stride) {
  switch (x.type) {
    case ElementType::float32:
      read_typed<float>(x, b, h, first, count, to, stride);
      break;
    case ElementType::bfloat16:
      read_typed<bf16>(x, b, h, first, count, to, stride);
      break;
    case ElementType::float16:
      read_typed<f16>(x, b, h, first, count, to, stride);
      break;
    case ElementType::int8:
      read_int8(x, b, h, first, count, to, stride);
      break;
  }
  if (rotation && count > 0)
    apply_rotary(as_tensor(to, count, x.shape[3], stride), table_rows(*rotation, b, h, first, count));
}

void read_narrow_rows(const AnyView& x, std::int64_t b, std::int64_t h, std::int64_t first, std::int64_t count,
                      const std::optional<RotaryView>& rotation, bf16* to, std::int64_t stride) {
  const std::int64_t channels = x.shape[3];
  for (std::int64_t i = 0; i < count; i++) std::fill(to + i * stride + channels, to + (i + 1) * stride, bf16());
  if (x.type == ElementType::bfloat16 && !rotation)
    return x.for_runs(b, h, first, count, [&](std::int64_t offset, std::int64_t at, std::int64_t rows) {
      const bf16* from = reinterpret_cast<const bf16*>(x.data) + offset;
      for (std::int64_t i = 0; i < rows; i++) std::copy_n(from + i * x.strides[2], channels, to + (at + i) * stride);
    });
  Arena arena;
  float* floats = arena.take(static_cast<std::size_t>(count * channels));
  read_rows(x, b, h, first, count, rotation, floats, channels);
  for (std::int64_t i = 0; i < count; i++) convert_row(floats + i * channels, to + i * stride, channels);
}

void write_rows(const AnyOutput& x, std::int64_t b, std::int64_t h, std::int64_t first, std::int64_t count,
                const float* from, std::int64_t stride) {
  switch (x.type) {
    case ElementType::float32:
      return write_typed<float>(x, b, h, first, count, from, stride);
    case ElementType::bfloat16:
      return write_typed<bf16>(x, b, h, first, count, from, stride);
    case ElementType::float16:
      return write_typed<f16>(x, b, h, first, count, from, stride);
    case ElementType::int8:
      return write_int8(x, b, h, first, count, from, stride);
  }
}

void rotate_back(const std::optional<RotaryView>& rotation, std::int64_t b, std::int64_t h, std::int64_t first,
                 std::int64_t count, std::int64_t channels, float* rows, std::int64_t stride) {
  if (!rotation || count == 0) return;
  apply_rotary(as_tensor(rows, count, channels, stride), table_rows(*rotation, b, h, first, count),
               Rotation::transpose);
}

}  // namespace phasor::detail
