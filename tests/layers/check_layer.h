// What every layer over rows has to show: values of the double reference, gradients of its central differences, on
// every SIMD target, with rows that lie apart, and the same bits for any number of threads.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "phasor/core/parallel.h"
#include "phasor/core/random.h"
#include "phasor/layers/initial_values.h"
#include "phasor/layers/workspace.h"
#include "reference/layers.h"
#include "support/every_target.h"
#include "support/guarded.h"

namespace phasor {

using reference::Matrix;
using reference::Values;

template <int Rank>
void fill_random(Guarded<float, Rank>& tensor, std::uint64_t seed, float spread = 1.0f) {
  std::vector<float> numbers(static_cast<std::size_t>(tensor.view.size()));
  Philox(seed).fill_normal(numbers, 0.0f, spread);
  std::size_t i = 0;
  tensor.for_each([&](float& element) { element = numbers[i++]; });
}

template <int Rank>
Values values_of(const Guarded<float, Rank>& tensor) {
  Values values;
  tensor.for_each([&](float element) { values.push_back(static_cast<double>(element)); });
  return values;
}

inline Values values_of(std::span<const float> numbers) { return {numbers.begin(), numbers.end()}; }

// A float result is a sum of some terms; each rounding is at most 2^-24 of the largest value around. Where all values
// are what is left when terms cancel, `largest` says how large those were.
inline double tolerance(const Values& expected, std::int64_t terms, double largest = 0) {
  for (const double value : expected) largest = std::max(largest, std::fabs(value));
  return static_cast<double>(terms + 32) * 0x1p-24 * largest;
}

inline void expect_near(const char* name, const Values& found, const Values& expected, double most) {
  ASSERT_EQ(found.size(), expected.size()) << name;
  for (std::size_t i = 0; i < found.size(); i++)
    ASSERT_TRUE(std::fabs(found[i] - expected[i]) <= most)
        << name << '[' << i << "]: " << found[i] << ", expected " << expected[i] << " within " << most;
}

// Central differences at some places of a tensor.
struct Differences {
  std::vector<std::size_t> places;
  Values slopes;
};

inline Differences differences(const std::function<double(const Values&)>& loss, Values at) {
  constexpr std::size_t kMost = 16;
  constexpr double kStep = 1e-5;
  Differences result;
  for (std::size_t n = 0; n < std::min(kMost, at.size()); n++) {
    const std::size_t i = at.size() <= kMost ? n : Philox(n).block(7)[0] % at.size();
    const double before = at[i];
    at[i] = before + kStep;
    const double above = loss(at);
    at[i] = before - kStep;
    result.places.push_back(i);
    result.slopes.push_back((above - loss(at)) / (2 * kStep));
    at[i] = before;
  }
  return result;
}

inline void expect_slopes(const std::string& name, const Values& found, const Differences& expected, std::int64_t terms,
                          double largest = 0) {
  Values at_places;
  for (const std::size_t i : expected.places) at_places.push_back(found[i]);
  expect_near(name.c_str(), at_places, expected.slopes, tolerance(expected.slopes, terms, largest) + 1e-9);
}

inline void set_random_weights(NamedWeights& weights, std::uint64_t seed) {
  for (NamedWeight& named : weights) {
    const std::span<float> values = named.weight->value();
    const bool matrix = named.weight->shape().size() == 2;
    const auto inputs = static_cast<float>(matrix ? named.weight->shape()[1] : 1);
    Philox(seed++).fill_normal(values, 0.0f, 1.0f / std::sqrt(inputs));
  }
}

// One forward and backward step of a layer, and what it is compared with.
struct RowLayer {
  std::int64_t rows = 0, inputs = 0, outputs = 0;
  std::int64_t terms = 0;   // of the longest sum
  double term_of_grad = 0;  // how large terms of grad_x are that may cancel
  NamedWeights weights{};
  std::function<void(TensorView<const float, 2> x, TensorView<float, 2> y, TensorView<const float, 2> grad_y,
                     TensorView<float, 2> grad_x)>
      step{};
  std::function<Matrix(const Matrix& x, const std::vector<Values>& weights)> reference{};
};

class RowLayerCheck {
 public:
  explicit RowLayerCheck(RowLayer layer)
      : layer_(std::move(layer)),
        x_({layer_.rows, layer_.inputs}, {.gap = 3}),
        grad_y_({layer_.rows, layer_.outputs}, {.gap = 5}) {
    set_random_weights(layer_.weights, 100);
    fill_random(x_, 1);
    fill_random(grad_y_, 2);
    for (const NamedWeight& named : layer_.weights) weights_.push_back(values_of(named.weight->value()));
  }

  void run() {
    const Values y = forward(values_of(x_), weights_).values;
    expect_differences();
    on_every_target([&] {
      const Result single = result(1);
      expect_near("y", single.y, y, tolerance(y, layer_.terms));
      expect_slopes("grad_x", single.grad_x, of_x_, layer_.terms, layer_.term_of_grad);
      for (std::size_t w = 0; w < weights_.size(); w++)
        expect_slopes("gradient of " + layer_.weights[w].name, single.weights[w], of_weights_[w], layer_.terms);
      for (const int threads : {2, 3, 5}) EXPECT_TRUE(result(threads) == single) << threads << " threads";
    });
    set_num_threads(0);
  }

 private:
  struct Result {
    Values y, grad_x;
    std::vector<Values> weights;
    bool operator==(const Result&) const = default;
  };

  // Gradients of weights begin at a number of their own, since they are added to.
  Result result(int threads) {
    constexpr float kBefore = 0.25f;
    set_num_threads(threads);
    for (NamedWeight& named : layer_.weights) std::ranges::fill(named.weight->gradient(), kBefore);
    Guarded<float, 2> y({layer_.rows, layer_.outputs}, {.gap = 2}), grad_x({layer_.rows, layer_.inputs}, {.gap = 1});
    layer_.step(x_.view, y.view, grad_y_.view, grad_x.view);
    y.expect_guards("y");
    grad_x.expect_guards("grad_x");
    Result made{values_of(y), values_of(grad_x), {}};
    for (NamedWeight& named : layer_.weights) {
      made.weights.push_back(values_of(named.weight->gradient()));
      for (double& value : made.weights.back()) value -= static_cast<double>(kBefore);
    }
    return made;
  }

  Matrix forward(const Values& x, const std::vector<Values>& weights) const {
    return layer_.reference(Matrix(static_cast<std::size_t>(layer_.rows), static_cast<std::size_t>(layer_.inputs), x),
                            weights);
  }

  void expect_differences() {
    const Values grad_y = values_of(grad_y_), x = values_of(x_);
    const auto loss = [&](const Values& at, const std::vector<Values>& weights) {
      const Matrix y = forward(at, weights);
      double sum = 0;
      for (std::size_t i = 0; i < grad_y.size(); i++) sum += grad_y[i] * y.values[i];
      return sum;
    };
    of_x_ = differences([&](const Values& at) { return loss(at, weights_); }, x);
    for (std::size_t w = 0; w < weights_.size(); w++) {
      std::vector<Values> changed = weights_;
      of_weights_.push_back(differences(
          [&](const Values& at) {
            changed[w] = at;
            return loss(x, changed);
          },
          weights_[w]));
    }
  }

  RowLayer layer_;
  Guarded<float, 2> x_, grad_y_;
  std::vector<Values> weights_;
  Differences of_x_;
  std::vector<Differences> of_weights_;
};

}  // namespace phasor
