// Any text given to the config reader either becomes settings that can be used, or std::invalid_argument.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string_view>

#include "phasor/position/hugging_face.h"

namespace {

// What the reader accepts makes tables of finite numbers.
void check_tables(const phasor::RopeConfig& rope, std::int64_t length) {
  phasor::Tensor<std::int64_t, 3> positions({phasor::axis_count(rope), 1, 2});
  for (std::int64_t a = 0; a < positions.shape()[0]; a++) positions(a, 0, 1) = length - 1;
  const phasor::AnyRotaryTable any = phasor::rotary_table(rope, positions.view());
  const phasor::RotaryView table(any);
  for (std::int64_t t = 0; t < 2; t++)
    for (std::int64_t i = 0; i < table.pairs(); i++)
      if (!std::isfinite(table.cos(0, 0, t, i)) || !std::isfinite(table.sin(0, 0, t, i))) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const phasor::HuggingFaceRope read = phasor::read_rope_config({reinterpret_cast<const char*>(data), size});
    for (const phasor::LayerRope& layer : read.layers)
      if (layer.rope)
        for (const std::int64_t length : {1, 4097}) check_tables(*layer.rope, length);
  } catch (const std::invalid_argument&) {
  }
  return 0;
}
