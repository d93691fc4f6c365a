// What transformers knows of a model type and its config.json may leave out.
#pragma once

#include <array>
#include <string_view>

#include "phasor/position/rope.h"

namespace phasor {

enum class Interleave { never, always, unless_disabled };  // adjacent pairs; `rope_interleave: false` disables

// Whose rope_scaling a model with two layer types means.
enum class LegacyScaling { full_attention, both, refused };

struct ModelRule {
  std::string_view model_type;  // without the suffix _text
  double theta = 10000.0;
  double sliding_theta = 0.0;  // not 0: settings differ between full_attention and sliding_attention layers
  LegacyScaling legacy = LegacyScaling::full_attention;
  double partial = 1.0;
  Interleave interleave = Interleave::never;
  std::int64_t head_dim = 0;  // not 0: used when the config has none, instead of hidden_size / heads
  bool scores_follow_mscale = false;
  bool rope_in_some_layers = false;  // by default every 4th layer has none (no_rope_layers)
  AxisLayout axes = AxisLayout::single;
  std::array<std::int64_t, 3> sections = {};
  std::string_view parameters = {};  // used when the config has neither rope_parameters nor rope_scaling
};

// The rule of a model type; nullptr when it is not known. A model type whose rotation follows rules of its own, which
// we do not have, is an error.
const ModelRule* find_model_rule(std::string_view model_type);

}  // namespace phasor
