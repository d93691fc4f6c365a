// In which type products multiply. Sums are float in each of them.
#pragma once

#include <string_view>

namespace phasor {

enum class Precision {
  storage,  // as operands are stored: bf16 with bf16 where the CPU has instructions for it, floats with floats
  float32,  // float: 16-bit operands are widened
  bf16,     // floats are rounded to bf16 too
};

std::string_view precision_name(Precision precision);  // "storage", "float", "bf16"
Precision precision_from_name(std::string_view name);  // refuses other names

// Of calls that do not choose: storage at first. Not to be set while other threads compute.
Precision default_precision();
void set_default_precision(Precision precision);

}  // namespace phasor
