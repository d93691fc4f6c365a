// The checks that `phasor verify` runs: each compares what was found with what was expected.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "table.h"

namespace phasor::tool {

struct Check {
  std::string name, found, expected;
  bool passed;
};

// A number that must be within `tolerance` of another.
inline Check near(std::string name, double found, double expected, double tolerance) {
  const std::string allowed = tolerance == 0.0 ? "" : " +- " + number(tolerance, 1);
  return {std::move(name), number(found, 8), number(expected, 8) + allowed, std::fabs(found - expected) <= tolerance};
}

// A number that must not exceed another.
inline Check at_most(std::string name, double found, double limit) {
  return {std::move(name), number(found, 3), "at most " + number(limit, 3), found <= limit};
}

inline Check equal(std::string name, const std::string& found, const std::string& expected) {
  return {std::move(name), found, expected, found == expected};
}

std::vector<Check> position_checks();
std::vector<Check> layer_checks();

}  // namespace phasor::tool
