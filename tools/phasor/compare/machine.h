// What a comparison ran on, and the memory it took.
#pragma once

#include <cstdint>
#include <string>

namespace phasor::tool {

std::string machine_text();  // "AMD EPYC 7B13, 2 threads, AVX2"
std::string today_text();    // "2026-01-31"

// The most memory this process has held at once since reset_peak_memory(), in bytes. Where the system cannot begin
// anew (only Linux can), it is since the process began.
void reset_peak_memory();
std::int64_t peak_memory();

}  // namespace phasor::tool
