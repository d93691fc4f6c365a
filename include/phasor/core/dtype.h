// The element types of tensors: float, and two 16-bit types that are storage only (all arithmetic is float).
//
// Conversion from float rounds to nearest, ties to even; overflow gives infinity; NaN stays NaN (quiet, with
// the upper bits of its payload). The scalar conversions here and the SIMD ones behind `convert` agree bit for bit.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <span>

namespace phasor {

// The upper half of a float: 8 exponent bits, 7 fraction bits.
struct bf16 {
  std::uint16_t bits = 0;

  bf16() = default;
  constexpr explicit bf16(float value) : bits(round(std::bit_cast<std::uint32_t>(value))) {}
  constexpr explicit operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
  static constexpr bf16 from_bits(std::uint16_t bits) {
    bf16 result;
    result.bits = bits;
    return result;
  }

 private:
  static constexpr std::uint16_t round(std::uint32_t f) {
    if ((f & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((f >> 16) | 0x0040u);
    return static_cast<std::uint16_t>((f + 0x7fffu + ((f >> 16) & 1u)) >> 16);
  }
};

// IEEE 754 binary16: 5 exponent bits, 10 fraction bits.
struct f16 {
  std::uint16_t bits = 0;

  f16() = default;
  constexpr explicit f16(float value) : bits(round(std::bit_cast<std::uint32_t>(value))) {}
  constexpr explicit operator float() const { return std::bit_cast<float>(widen(bits)); }
  static constexpr f16 from_bits(std::uint16_t bits) {
    f16 result;
    result.bits = bits;
    return result;
  }

 private:
  static constexpr std::uint16_t round(std::uint32_t f) {
    const std::uint32_t sign = (f >> 16) & 0x8000u;
    const std::uint32_t magnitude = f & 0x7fffffffu;
    if (magnitude > 0x7f800000u)  // NaN
      return static_cast<std::uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
    if (magnitude >= 0x47800000u)  // 2^16 and above: infinity
      return static_cast<std::uint16_t>(sign | 0x7c00u);
    if (magnitude < 0x38800000u) {  // below 2^-14: subnormal, a multiple of 2^-24
      // Adding 1/2 aligns the float's last fraction bit with 2^-24, and rounds as IEEE addition does.
      const float aligned = std::bit_cast<float>(magnitude) + 0.5f;
      return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(aligned) - 0x3f000000u));
    }
    const std::uint32_t odd = (magnitude >> 13) & 1u;
    return static_cast<std::uint16_t>(sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13));
  }

  static constexpr std::uint32_t widen(std::uint32_t h) {
    const std::uint32_t sign = (h & 0x8000u) << 16;
    const std::uint32_t magnitude = h & 0x7fffu;
    if (magnitude >= 0x7c00u)  // infinity, NaN (made quiet)
      return sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13) | (magnitude > 0x7c00u ? 0x400000u : 0u);
    if (magnitude < 0x400u)  // zero, subnormal: a multiple of 2^-24
      return sign | std::bit_cast<std::uint32_t>(static_cast<float>(magnitude) * 0x1p-24f);
    return sign | ((magnitude << 13) + 0x38000000u);
  }
};

template <class T>
concept Element = std::same_as<T, float> || std::same_as<T, bf16> || std::same_as<T, f16>;

// Whole arrays at SIMD speed; both spans have the same size.
void convert(std::span<const float> from, std::span<bf16> to);
void convert(std::span<const float> from, std::span<f16> to);
void convert(std::span<const bf16> from, std::span<float> to);
void convert(std::span<const f16> from, std::span<float> to);

}  // namespace phasor
