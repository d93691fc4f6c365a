// What is said about a command line that cannot be run.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

namespace phasor::tool {

// One line: what was given, and what was expected. The first word that nobody knows comes before what else is missing.
std::string usage_text(const CLI::App& app, const CLI::ParseError& error);

// Errors of the library begin with the function, "[AtomicFile] ", which says nothing to a user of the command line.
std::string_view without_function(std::string_view text);

}  // namespace phasor::tool
