// Where the sources are: tests read configs, golden numbers and pages from there.
#pragma once

#include <string>

namespace phasor {

// The file or folder of this name, relative to the root of the repository.
std::string in_source_folder(const std::string& name);

}  // namespace phasor
