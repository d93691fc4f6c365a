// Rotary settings of a Hugging Face model, from its config.json.
//
// Old keys (rope_theta, rope_scaling with type or rope_type, partial_rotary_factor, original_max_position_embeddings)
// and new ones (rope_parameters, also nested by layer type) are read, with the defaults and aliases that transformers
// 5.22 has for some hundred model types. A model type that is not known is read with a note of what was assumed; one
// known to rotate by rules of its own is refused. Reading is strict: an unknown type, a missing or ill-typed key, a
// factor below 1, a list of the wrong length, a duplicate key is an error that names the key, the value and what is
// allowed. One difference: partial_rotary_factor always counts, while transformers ignores it for type "default" in
// many model classes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "phasor/position/rope.h"

namespace phasor {

struct LayerRope {
  std::string layer_type;          // "full_attention", "sliding_attention", ...; "" for all layers
  std::optional<RopeConfig> rope;  // nothing: these layers do not rotate (NoPE)
};

struct HuggingFaceRope {
  std::string model_type;
  std::vector<LayerRope> layers;
  std::vector<std::int64_t> layers_without_rope;  // by index, from no_rope_layers
  std::vector<std::string> notes;                 // what was assumed, or given and not used

  // The settings of a layer type; with "" the only ones there are.
  const RopeConfig& rope(std::string_view layer_type = "") const&;
  RopeConfig rope(std::string_view layer_type = "") && { return std::as_const(*this).rope(layer_type); }
};

// From the text of a config.
HuggingFaceRope read_rope_config(std::string_view json);

// From a file: a config.json, or a folder that has one.
HuggingFaceRope load_rope_config(const std::filesystem::path& file);

// A scaling alone, under the same keys: {"rope_type": "yarn", "factor": 4.0}. Any of rope_types(). As in Hugging Face,
// original_max_position_embeddings, when the type uses it and it is not given, is max_position_embeddings.
RopeScaling read_rope_scaling(std::string_view json, std::int64_t max_position_embeddings = 0);

}  // namespace phasor
