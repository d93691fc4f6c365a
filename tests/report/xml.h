// A reader of XML that knows just enough to say that a text is well-formed, and to count and look at its elements.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace phasor::report {

struct XmlElement {
  std::string name;
  std::map<std::string, std::string> attributes;  // as written
  std::string text;                               // between its tags, without that of elements within
};

class XmlReader {
 public:
  // All elements in the order of their start tags; a fault fails the test.
  static std::vector<XmlElement> read(std::string_view text) {
    XmlReader reader(text);
    if (text.starts_with("<!DOCTYPE html>")) reader.at_ = text.find('>') + 1;
    while (reader.at_ < text.size() && !::testing::Test::HasFatalFailure()) reader.step();
    EXPECT_TRUE(reader.open_.empty()) << "not closed: "
                                      << (reader.open_.empty() ? "" : reader.elements_[reader.open_.back()].name);
    return reader.elements_;
  }

 private:
  explicit XmlReader(std::string_view text) : text_(text) {}

  bool skip(std::string_view expected) {
    if (!text_.substr(at_).starts_with(expected)) return false;
    at_ += expected.size();
    return true;
  }

  std::string name() {
    const std::size_t first = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '-'))
      at_++;
    return std::string(text_.substr(first, at_ - first));
  }

  void step() {
    if (skip("</")) {
      const std::string closed = name();
      ASSERT_TRUE(skip(">"));
      ASSERT_FALSE(open_.empty()) << "</" << closed << "> closes nothing";
      ASSERT_EQ(closed, elements_[open_.back()].name);
      open_.pop_back();
    } else if (skip("<")) {
      start_tag();
    } else {
      characters();
    }
  }

  void start_tag() {
    XmlElement element{name(), {}, {}};
    ASSERT_FALSE(element.name.empty()) << "at " << text_.substr(at_, 40);
    while (skip(" ")) {
      const std::string key = name();
      ASSERT_TRUE(skip("=\"")) << element.name << " " << key;
      const std::size_t end = text_.find('"', at_);
      ASSERT_NE(end, std::string_view::npos);
      const std::string value(text_.substr(at_, end - at_));
      ASSERT_EQ(value.find('<'), std::string::npos) << key;
      ASSERT_TRUE(element.attributes.insert({key, value}).second) << key << " twice in " << element.name;
      at_ = end + 1;
    }
    const bool empty = skip("/");
    ASSERT_TRUE(skip(">")) << element.name << " at " << text_.substr(at_, 40);
    if (!empty) open_.push_back(elements_.size());
    elements_.push_back(element);
  }

  void characters() {
    const std::size_t end = std::min(text_.find('<', at_), text_.size());
    const std::string_view found = text_.substr(at_, end - at_);
    for (std::size_t i = found.find('&'); i != std::string_view::npos; i = found.find('&', i + 1))
      ASSERT_LT(found.find(';', i), i + 7) << "a bare & in " << found.substr(i, 40);
    if (!open_.empty()) elements_[open_.back()].text += found;
    at_ = end;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::vector<std::size_t> open_;
  std::vector<XmlElement> elements_;
};

inline std::vector<XmlElement> with_class(const std::vector<XmlElement>& elements, std::string_view name) {
  std::vector<XmlElement> found;
  for (const XmlElement& element : elements) {
    const auto classes = element.attributes.find("class");
    if (classes != element.attributes.end() &&
        (" " + classes->second + " ").find(" " + std::string(name) + " ") != std::string::npos)
      found.push_back(element);
  }
  return found;
}

inline std::vector<XmlElement> named(const std::vector<XmlElement>& elements, std::string_view name) {
  std::vector<XmlElement> found;
  for (const XmlElement& element : elements)
    if (element.name == name) found.push_back(element);
  return found;
}

// No attribute holds what a number that is not one is written as.
inline void expect_real_coordinates(const std::vector<XmlElement>& elements) {
  for (const XmlElement& element : elements)
    for (const char* key : {"x", "y", "x1", "y1", "x2", "y2", "cx", "cy", "r", "d", "width", "height", "viewBox"}) {
      const auto found = element.attributes.find(key);
      if (found == element.attributes.end()) continue;
      EXPECT_FALSE(found->second.empty()) << element.name << " " << key;
      for (const char* wrong : {"nan", "inf"})
        EXPECT_EQ(found->second.find(wrong), std::string::npos) << element.name << " " << key;
    }
}

}  // namespace phasor::report
