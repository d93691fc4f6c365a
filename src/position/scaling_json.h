// The settings of a RoPE scaling from JSON.
#pragma once

#include "config_json.h"
#include "rope_keys.h"

namespace phasor {

// Reads one setting. null means "not given" where transformers treats it so.
void read_scaling_key(const RopeKey& key, const Json& value, RopeScaling& scaling);

}  // namespace phasor
