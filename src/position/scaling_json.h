// The settings of a RoPE scaling from JSON.
#pragma once

#include "config_json.h"
#include "rope_keys.h"

namespace phasor {

// Reads one setting. null is as good as not given, where transformers takes it so.
void read_scaling_key(const RopeKey& key, const Json& value, RopeScaling& scaling);

}  // namespace phasor
