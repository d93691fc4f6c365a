// Well-formed text of HTML and SVG elements.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace phasor::report {

// Text from anywhere, safe between tags and in attributes. What XML cannot hold (control characters, bytes that are not
// UTF-8) becomes U+FFFD.
std::string escape(std::string_view text);

// A coordinate with at most two decimals: 12.5, -3, 0.07. It must be finite.
std::string coordinate(double value);

// Values are escaped here; the content is markup already.
using Attributes = std::initializer_list<std::pair<std::string_view, std::string>>;
std::string element(std::string_view name, Attributes attributes, std::string_view content = "");

std::string base64(std::string_view bytes);

}  // namespace phasor::report
