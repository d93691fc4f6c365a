// Any text given to the reader of a comparison's results either becomes one whose page and table can be made, or
// std::invalid_argument.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string_view>

#include "report/comparison.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const phasor::report::Comparison read =
        phasor::report::read_comparison({reinterpret_cast<const char*>(data), size}, "fuzz");
    phasor::report::ranking_notes(read);
    if (phasor::report::comparison_page(read).empty()) std::abort();
    phasor::report::read_comparison(phasor::report::to_json(read), "again");
  } catch (const std::invalid_argument&) {
  }
  return 0;
}
