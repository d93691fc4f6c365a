// Any text given to the config reader either becomes settings that can be used, or std::invalid_argument.
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string_view>

#include "phasor/position/hugging_face.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const phasor::HuggingFaceRope read = phasor::read_rope_config({reinterpret_cast<const char*>(data), size});
    for (const phasor::LayerRope& layer : read.layers)
      if (layer.rope)
        for (const std::int64_t length : {0, 4097}) phasor::rope_frequencies(*layer.rope, length);
  } catch (const std::invalid_argument&) {
  }
  return 0;
}
