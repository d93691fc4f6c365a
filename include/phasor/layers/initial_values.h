// Initial values of a layer's weights. Every weight of a model draws from its own random stream, in the order of
// creation.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "phasor/core/weight.h"

namespace phasor {

enum class Init {
  fan_in,  // uniform within 1/sqrt(inputs): what torch.nn.Linear does
  normal,  // deviation 0.02: what transformers' language models do
  zeros,   // made at first use: for weights that are read from a file
};

// The random numbers that a new model draws from: equal seeds make equal models.
class InitialValues {
 public:
  explicit InitialValues(std::uint64_t seed, Init init = Init::fan_in) : seed_(seed), init_(init) {}
  // The weight of a layer with so many inputs, or with a normal distribution; zeros with Init::zeros.
  Weight weight(const char* name, std::vector<std::int64_t> shape, std::int64_t inputs);
  Weight normal_weight(const char* name, std::vector<std::int64_t> shape, float deviation);

  void fill(std::span<float> values, std::int64_t inputs);
  void fill_normal(std::span<float> values, float deviation);
  Init init() const { return init_; }

 private:
  std::uint64_t seed_, next_stream_ = 0;
  Init init_;
};

}  // namespace phasor
