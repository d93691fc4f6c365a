// Writes what a parsed Jinja template says.
#pragma once

#include <ctime>
#include <string>
#include <vector>

#include "syntax.h"

namespace phasor::text::jinja {

// `variables` is an object. `now` is what strftime_now tells.
std::string write(const std::vector<Statement>& statements, const Json& variables, std::time_t now);

}  // namespace phasor::text::jinja
