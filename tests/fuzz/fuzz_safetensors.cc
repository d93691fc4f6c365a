// Any bytes given to the safetensors reader either become tensors within these bytes, all of whose values can be read,
// or std::invalid_argument.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <vector>

#include "phasor/models/safetensors.h"

namespace {

void check(const phasor::StoredTensor& tensor) {
  unsigned sum = 0;
  for (const std::byte byte : tensor.bytes) sum += std::to_integer<unsigned>(byte);  // seen by the address sanitizer
  volatile unsigned used = sum;
  (void)used;
  std::vector<float> values(static_cast<std::size_t>(phasor::element_count(tensor)));
  try {
    phasor::read_floats(tensor, values);
  } catch (const std::invalid_argument&) {
    using Type = phasor::StoredType;
    for (const Type type : {Type::f32, Type::f16, Type::bf16, Type::f64})
      if (tensor.type == type) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const phasor::TensorFile file({reinterpret_cast<const std::byte*>(data), size}, "fuzz");
    std::size_t covered = 0;
    for (const phasor::StoredTensor& tensor : file.tensors()) {
      check(tensor);
      if (file.find(tensor.name) != &tensor) std::abort();
      covered += tensor.bytes.size();
    }
    if (covered + 8 > size) std::abort();
  } catch (const std::invalid_argument&) {
  }
  return 0;
}
