// Jinja templates, parsed.
#pragma once

#include <string_view>
#include <vector>

#include "syntax.h"

namespace phasor::text::jinja {

std::vector<Statement> parse(std::string_view source);

}  // namespace phasor::text::jinja
