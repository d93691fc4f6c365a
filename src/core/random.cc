#include "phasor/core/random.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace phasor {
namespace {

struct Product {
  std::uint32_t high, low;
};

Product multiply(std::uint32_t a, std::uint32_t b) {
  const std::uint64_t product = std::uint64_t{a} * b;
  return {static_cast<std::uint32_t>(product >> 32), static_cast<std::uint32_t>(product)};
}

float to_unit(std::uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24f; }

}  // namespace

std::array<std::uint32_t, 4> Philox::block(std::uint64_t counter) const {
  constexpr std::uint32_t kMultiplier0 = 0xD2511F53u, kMultiplier1 = 0xCD9E8D57u;
  constexpr std::uint32_t kWeyl0 = 0x9E3779B9u, kWeyl1 = 0xBB67AE85u;  // golden ratio, sqrt(3) - 1
  std::array<std::uint32_t, 4> x{static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32),
                                 static_cast<std::uint32_t>(stream_), static_cast<std::uint32_t>(stream_ >> 32)};
  auto key0 = static_cast<std::uint32_t>(seed_);
  auto key1 = static_cast<std::uint32_t>(seed_ >> 32);
  for (int round = 0; round < 10; round++) {
    const Product a = multiply(kMultiplier0, x[0]), b = multiply(kMultiplier1, x[2]);
    x = {b.high ^ x[1] ^ key0, b.low, a.high ^ x[3] ^ key1, a.low};
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return x;
}

float Philox::uniform(std::uint64_t i) const { return to_unit(block(i / 4)[i % 4]); }

// Box-Muller: numbers 2k and 2k + 1 are the cosine and the sine of one point.
float Philox::normal(std::uint64_t i) const {
  const std::array<std::uint32_t, 4> bits = block(i / 4);
  const std::size_t first = i % 4 / 2 * 2;
  const double radius_uniform = 1.0 - to_unit(bits[first]);  // in (0, 1]
  const double angle = 2.0 * std::numbers::pi * to_unit(bits[first + 1]);
  const double radius = std::sqrt(-2.0 * std::log(radius_uniform));
  return static_cast<float>(radius * (i % 2 == 0 ? std::cos(angle) : std::sin(angle)));
}

void Philox::fill_uniform(std::span<float> values, float low, float high) const {
  for (std::size_t i = 0; i < values.size(); i += 4) {
    const std::array<std::uint32_t, 4> bits = block(i / 4);
    for (std::size_t j = i; j < std::min(i + 4, values.size()); j++)
      values[j] = low + (high - low) * to_unit(bits[j - i]);
  }
}

void Philox::fill_normal(std::span<float> values, float mean, float deviation) const {
  for (std::size_t i = 0; i < values.size(); i++) values[i] = mean + deviation * normal(i);
}

}  // namespace phasor
