// Text for people: aligned columns, numbers with a sensible number of digits.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace phasor::tool {

class Table {
 public:
  // Headings starting with '>' are right-aligned.
  explicit Table(std::vector<std::string> headings);
  void add(std::vector<std::string> row);
  void print() const;

 private:
  std::vector<std::vector<std::string>> rows_;
  std::vector<bool> right_;
};

std::string number(double value, int digits = 6);  // 0.000115478, 500000
std::string tokens(double value);                  // 6.2832, 65,750
// Text from a file, with control characters shown as ?, so that it cannot steer the terminal.
std::string printable(std::string text);

std::string count(std::int64_t value);  // 131,072

}  // namespace phasor::tool
