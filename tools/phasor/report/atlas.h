// The encodings' own pictures, computed by the library.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "phasor/position/hugging_face.h"
#include "phasor/position/rope.h"
#include "report/page.h"

namespace phasor::report {

// One rotary embedding to picture.
struct AtlasRope {
  std::string name;  // of the layers that have it, or empty
  RopeConfig rope;
};

// RoPE as the paper has it: heads of 64 channels, theta 10000, a context of 2048 tokens.
AtlasRope plain_rope();

// The layers of a Hugging Face model that rotate; at least one must.
std::vector<AtlasRope> rotating_layers(const HuggingFaceRope& model);

// Sinusoidal positions, each of the rotary embeddings, the first of them extended to longer contexts, biases.
std::vector<Section> atlas_sections(const std::vector<AtlasRope>& ropes);

// The sections as a page of their own. `subject`: whose rotary embeddings they are.
std::string atlas_page(const std::string& subject, const std::vector<AtlasRope>& ropes);

// The sections one by one.
Section sinusoidal_section();
Section rope_section(const AtlasRope& rope, std::size_t place);
Section scaling_section(const RopeConfig& rope);
Section bias_section();

// The length in tokens a model was trained for before any scaling; 2048 when the config does not say.
std::int64_t original_context(const RopeConfig& rope);
// The same rotation with no scaling.
RopeConfig without_scaling(const RopeConfig& rope);

}  // namespace phasor::report
