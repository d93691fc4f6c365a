// The settings of a transformer as JSON: the config.json of a checkpoint. Names are TransformerConfig's; an encoding is
// an object with its name and settings. Reading is strict.
#pragma once

#include <string>
#include <string_view>

#include "phasor/models/safetensors.h"
#include "phasor/models/transformer.h"

namespace phasor {

std::string transformer_to_json(const TransformerConfig& config);
TransformerConfig transformer_from_json(std::string_view json, std::string_view source);

// Refuses a config, read from `source`, of a model far larger than its weights: memory is taken for what the files
// have, not for what a config says.
void check_size(const char* function, std::string_view source, const TransformerConfig& config,
                const StoredTensors& weights);

}  // namespace phasor
