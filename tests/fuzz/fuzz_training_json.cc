// Any text given to the readers of a checkpoint's JSON either becomes settings that can be used, and come back the
// same, or std::invalid_argument. The first byte chooses the reader.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string_view>

#include "phasor/models/transformer_json.h"
#include "phasor/training/settings.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    if (data[0] == 'c') {
      const phasor::TransformerConfig config = phasor::transformer_from_json(text, "fuzz").checked();
      const std::string json = phasor::transformer_to_json(config);
      if (phasor::transformer_to_json(phasor::transformer_from_json(json, "again").checked()) != json) std::abort();
    } else {
      const phasor::TrainingState state = phasor::training_from_json(text, "fuzz");
      const phasor::TrainSettings& settings = state.settings;
      if (settings.batch * settings.length * settings.accumulation <= 0) std::abort();
      phasor::learning_rate(settings.schedule, settings.schedule.steps - 1);
      const std::string json = phasor::training_to_json(state);
      if (phasor::training_to_json(phasor::training_from_json(json, "again")) != json) std::abort();
    }
  } catch (const std::invalid_argument&) {
  }
  return 0;
}
