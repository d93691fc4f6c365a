// What holds for every page.
#pragma once

#include <set>

#include "xml.h"

namespace phasor::report {

// Well-formed, real coordinates, ids that differ, links that lead somewhere, no script, nothing to fetch.
inline std::vector<XmlElement> expect_good_page(const std::string& page) {
  const std::vector<XmlElement> elements = XmlReader::read(page);
  expect_real_coordinates(elements);
  EXPECT_TRUE(named(elements, "script").empty());
  std::set<std::string> ids;
  for (const XmlElement& element : elements) {
    const auto id = element.attributes.find("id");
    if (id == element.attributes.end()) continue;
    EXPECT_TRUE(ids.insert(id->second).second) << id->second;
  }
  for (const XmlElement& element : elements)
    for (const char* key : {"href", "src"}) {
      if (!element.attributes.contains(key)) continue;
      const std::string& address = element.attributes.at(key);
      const bool within = address.starts_with("#") && ids.contains(address.substr(1));
      EXPECT_TRUE(within || address.starts_with("data:image/png;base64,")) << address.substr(0, 60);
    }
  EXPECT_EQ(page.find("url("), std::string::npos);
  EXPECT_EQ(page.find("@import"), std::string::npos);
  return elements;
}

}  // namespace phasor::report
