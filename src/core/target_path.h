// The place that a name leads to.
#pragma once

#include <filesystem>

namespace phasor {

// Absolute, links followed, without a trailing slash: the place whose name is replaced. Errors begin with `owner`.
std::filesystem::path target_path(const char* owner, const std::filesystem::path& path);

}  // namespace phasor
