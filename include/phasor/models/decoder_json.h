// The settings of a decoder as JSON: the config.json of a checkpoint. Names are DecoderConfig's; an encoding is an
// object with its name and settings. Reading is strict.
#pragma once

#include <string>
#include <string_view>

#include "phasor/models/decoder.h"
#include "phasor/models/safetensors.h"

namespace phasor {

std::string decoder_to_json(const DecoderConfig& config);
DecoderConfig decoder_from_json(std::string_view json, std::string_view source);

// Refuses a config, read from `source`, of a model far larger than its weights: memory is taken for what the files
// have, not for what a config says.
void check_size(const char* function, std::string_view source, const DecoderConfig& config,
                const StoredTensors& weights);

}  // namespace phasor
