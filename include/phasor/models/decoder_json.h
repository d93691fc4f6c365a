// The settings of a decoder as JSON: the config.json of a checkpoint. Names are DecoderConfig's; the encoding is an
// object with its name and settings. Reading is strict.
#pragma once

#include <string>
#include <string_view>

#include "phasor/models/decoder.h"

namespace phasor {

std::string decoder_to_json(const DecoderConfig& config);
DecoderConfig decoder_from_json(std::string_view json, std::string_view source);

}  // namespace phasor
