// Weights of a model as files: NAME for the values, grad_NAME for the gradients.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "job.h"
#include "phasor/core/weight.h"

namespace phasor {

inline void read_weights(const Files& files, const NamedWeights& weights) {
  for (const NamedWeight& each : weights)
    std::ranges::copy(files.read<1>(each.name, {each.weight->size()}), each.weight->value().begin());
}

inline void write_gradients(const Files& files, const NamedWeights& weights, std::vector<std::string>& saved) {
  for (const NamedWeight& each : weights) {
    Tensor<float, 1> gradient({each.weight->size()});
    std::ranges::copy(each.weight->gradient(), gradient.begin());
    files.write("grad_" + each.name, gradient);
    saved.push_back("grad_" + each.name);
  }
}

}  // namespace phasor
