// Counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy
// as 1, 2, 3", SC 2011). Number i of a stream is a pure function of (seed, stream, i), so any order, blocking
// or thread count gives the same numbers.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace phasor {

class Philox {
 public:
  explicit Philox(std::uint64_t seed, std::uint64_t stream = 0) : seed_(seed), stream_(stream) {}

  // Block `counter` of this stream: four independent 32-bit numbers.
  std::array<std::uint32_t, 4> block(std::uint64_t counter) const;

  // Number i of the stream: uniform in [0, 1), a multiple of 2^-24; normal with mean 0 and deviation 1.
  float uniform(std::uint64_t i) const;
  float normal(std::uint64_t i) const;

  // values[i] = low + (high - low) * uniform(i); values[i] = mean + deviation * normal(i).
  void fill_uniform(std::span<float> values, float low = 0.0f, float high = 1.0f) const;
  void fill_normal(std::span<float> values, float mean = 0.0f, float deviation = 1.0f) const;

 private:
  std::uint64_t seed_;
  std::uint64_t stream_;
};

}  // namespace phasor
