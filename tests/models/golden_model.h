// A folder of a model of transformers with what it computes, in expected.safetensors.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "phasor/models/safetensors.h"
#include "support/source_folder.h"

namespace phasor {

class GoldenModel {
 public:
  explicit GoldenModel(const std::filesystem::path& folder)
      : folder_(folder), expected_(folder / "expected.safetensors") {}

  const std::filesystem::path& folder() const { return folder_; }

  std::vector<float> floats(const std::string& name) const {
    std::vector<float> values(static_cast<std::size_t>(element_count(expected_.at(name))));
    read_floats(expected_.at(name), values);
    return values;
  }
  Tensor<std::int32_t, 2> tokens(const std::string& name) const {
    const StoredTensor& tensor = expected_.at(name);
    Tensor<std::int32_t, 2> result({tensor.shape.at(0), tensor.shape.at(1)});
    std::memcpy(result.data(), tensor.bytes.data(), tensor.bytes.size());
    return result;
  }
  std::vector<std::int64_t> integers(const std::string& name) const {
    const StoredTensor& tensor = expected_.at(name);
    std::vector<std::int64_t> values(static_cast<std::size_t>(element_count(tensor)));
    std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
    return values;
  }

 private:
  std::filesystem::path folder_;
  TensorFile expected_;
};

// Within `tolerance` of the largest value, or `least` where all are about 0.
inline void expect_near(const std::string& name, std::span<const float> found, std::span<const float> expected,
                        double tolerance, double least = 0.0) {
  ASSERT_EQ(found.size(), expected.size()) << name;
  double largest = 0, worst = 0;
  for (std::size_t i = 0; i < found.size(); i++) {
    largest = std::max(largest, std::fabs(static_cast<double>(expected[i])));
    const double error = std::fabs(static_cast<double>(found[i]) - expected[i]);
    worst = error <= worst ? worst : error;  // NaN too
  }
  EXPECT_LE(worst, std::max(tolerance * largest, least)) << name << ", largest " << largest;
}
inline void expect_near(const std::string& name, const Tensor<float, 3>& found, std::span<const float> expected,
                        double tolerance) {
  expect_near(name, std::span(found.data(), static_cast<std::size_t>(found.size())), expected, tolerance);
}

}  // namespace phasor
