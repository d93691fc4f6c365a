// What transformers knows of a model type and its config.json may leave out.
#pragma once

#include <array>
#include <string_view>

#include "phasor/position/rope.h"

namespace phasor {

enum class Interleave { never, always, unless_disabled };  // adjacent pairs; `rope_interleave: false` disables

// Whose rope_scaling a model with two layer types means.
enum class LegacyScaling { full_attention, both, refused };

// Which layers rotate: all, all but every 4th (or as no_rope_layers says), those with sliding attention.
enum class Rotates { all, no_rope_layers, sliding_attention };

struct ModelRule {
  std::string_view model_type;  // without the suffix _text
  double theta = 10000.0;
  double sliding_theta = 0.0;  // not 0: settings differ between full_attention and sliding_attention layers
  LegacyScaling legacy = LegacyScaling::full_attention;
  double partial = 1.0;
  Interleave interleave = Interleave::never;
  std::int64_t head_dim = 0;         // not 0: used when the config has none, instead of hidden_size / heads
  std::int64_t global_head_dim = 0;  // not 0: of full_attention layers, when the config has none
  bool scores_follow_mscale = false;
  Rotates rotates = Rotates::all;
  AxisLayout axes = AxisLayout::single;
  std::array<std::int64_t, 3> sections = {};
  std::string_view theta_key = "rope_theta";
  bool only_longrope = false;        // "su" and "yarn" are old names of it
  bool mrope_is_default = false;     // the type "mrope" is an old name of default
  bool alpha_is_ntk = false;         // dynamic with alpha: a fixed base theta alpha^(d/(d-2))
  std::string_view parameters = {};  // used when the config has neither rope_parameters nor rope_scaling
};

// The rule of a model type; nullptr when it is not known. A model type whose rotation follows rules of its own, which
// we do not have, is an error.
const ModelRule* find_model_rule(std::string_view model_type);

}  // namespace phasor
