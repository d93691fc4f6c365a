#include "table.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace phasor::tool {

Table::Table(std::vector<std::string> headings) {
  for (std::string& heading : headings) {
    right_.push_back(heading.starts_with('>'));
    if (right_.back()) heading.erase(0, 1);
  }
  rows_.push_back(std::move(headings));
}

void Table::add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }

void Table::print() const {
  std::vector<std::size_t> widths(right_.size(), 0);
  for (const auto& row : rows_)
    for (std::size_t i = 0; i < row.size(); i++) widths[i] = std::max(widths[i], row[i].size());
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); i++) {
      const std::string padding(widths[i] - row[i].size(), ' ');
      line += (i ? "  " : "") + (right_[i] ? padding + row[i] : row[i] + padding);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    std::printf("%s\n", line.c_str());
  }
}

std::string number(double value, int digits) {
  char text[40];
  std::snprintf(text, sizeof text, "%.*g", digits, value);
  return text;
}

std::string printable(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  return text;
}

std::string tokens(double value) {
  if (value > 1e15) return number(value, 5);
  return value < 1000.0 ? number(value, 5) : count(static_cast<std::int64_t>(std::llround(value)));
}

std::string count(std::int64_t value) {
  std::string text = std::to_string(value);
  for (std::size_t end = text.size(), first = value < 0 ? 1 : 0; end > first + 3; end -= 3) text.insert(end - 3, ",");
  return text;
}

}  // namespace phasor::tool
