// Expressions of Jinja, parsed.
#pragma once

#include "tokens.h"

namespace phasor::text::jinja {

Expression parse_expression(Tokens& tokens);
// Without an if behind it: what a loop goes over has a condition there.
Expression parse_unconditional(Tokens& tokens);

}  // namespace phasor::text::jinja
