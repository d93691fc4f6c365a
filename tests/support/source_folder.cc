#include "support/source_folder.h"

namespace phasor {

std::string in_source_folder(const std::string& name) { return PHASOR_SOURCE_DIR "/" + name; }

}  // namespace phasor
