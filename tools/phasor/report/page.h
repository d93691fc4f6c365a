// A page that stands alone: style sheet within, no script, nothing fetched.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace phasor::report {

// The numbers of a picture as text. Headings starting with '>' are right-aligned.
struct TextTable {
  std::vector<std::string> headings;
  std::vector<std::vector<std::string>> rows;
};

std::string html_table(const TextTable& table);

struct Figure {
  std::string id, title;
  std::string text;     // one or two sentences: what to see
  std::string picture;  // markup
  TextTable numbers;    // folded away under the picture
};

std::string figure(const Figure& figure);

struct Section {
  std::string id, title, text;
  std::string content;  // markup
};

// Figures side by side where there is room.
std::string gallery(const std::vector<Figure>& figures);

std::string page(std::string_view title, std::string_view subtitle, const std::vector<Section>& sections);

extern const std::string_view kStyleSheet;

}  // namespace phasor::report
