// Every position encoding, behind one contract: a few pure functions in one registry row.
//
//   EncodingConfig config = AlibiConfig{.causal = true};
//   std::vector<Weight> weights = parameters(config, shape);
//   PositionPlan plan = lower(config, weights, placement);
//   lower_backward(config, weights, placement, gradient);  // adds to the gradients of the weights
//
// Nothing downstream asks which encoding it was. A new encoding is a file, a line in the registry, a test and a row
// in docs/encodings.md.
#pragma once

#include <any>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "phasor/core/check.h"
#include "phasor/core/weight.h"
#include "phasor/position/plan.h"

namespace phasor {

// The model an encoding works in.
struct ModelShape {
  std::int64_t heads = 1;
  std::int64_t head_dim = 64;
  std::int64_t model_dim = 64;     // C, the width of token embeddings
  std::int64_t max_length = 2048;  // the longest sequence it is made for
  bool causal = false;             // tokens see none after them
  // Of token embeddings at the beginning of training, where it is known: a table that is added begins as large, so that
  // neither drowns the other.
  std::optional<double> embedding_deviation = {};
};

// Positions of the tokens. Keys have the positions of the queries, unless given.
struct Placement {
  TensorInput<std::int64_t, 3> queries;                   // [axes, B, T]
  std::optional<TensorInput<std::int64_t, 3>> keys = {};  // [axes, B, S]
  ModelShape shape = {};
};

// The settings of one encoding: RopeConfig, AlibiConfig, ... Such a type names its row in `kEncoding`.
class EncodingConfig {
 public:
  template <class Settings>
  requires requires { Settings::kEncoding; }
  EncodingConfig(Settings settings) : name_(Settings::kEncoding), settings_(std::move(settings)) {}

  std::string_view name() const { return name_; }

  template <class Settings>
  const Settings& as() const& {
    const auto* settings = std::any_cast<Settings>(&settings_);
    PHASOR_CHECK(settings != nullptr, "EncodingConfig", "settings: of encoding ", name_, ", expected ",
                 Settings::kEncoding);
    return *settings;
  }
  template <class Settings>
  Settings as() && {
    return std::as_const(*this).template as<Settings>();
  }

 private:
  std::string_view name_;
  std::any settings_;
};

// No encoding at all (NoPE): order is seen only through the causal mask.
struct NoneConfig {
  static constexpr std::string_view kEncoding = "none";
};

// Private to the library (src/json/fields.h).
class FieldReader;
class FieldWriter;

// One row of the registry.
struct Encoding {
  std::string_view name;
  std::string_view formula;
  std::string_view acts_on;  // token embeddings, q and k, scores
  std::string_view source;
  std::string_view gradient;

  // Settings that suit a model of this shape.
  EncodingConfig (*defaults)(const ModelShape&);
  // The longest sequence that it can encode; none: any length.
  std::optional<std::int64_t> (*longest)(const EncodingConfig&);
  // Whether it has weights. Plans of one that has none depend on the placement alone, and may be kept for later calls;
  // the others must be lowered again whenever the weights change.
  bool (*learns)(const EncodingConfig&);
  // What it learns, with initial values drawn from `seed`.
  std::vector<Weight> (*parameters)(const EncodingConfig&, const ModelShape&, std::uint64_t seed);
  PositionPlan (*lower)(const EncodingConfig&, std::span<const Weight>, const Placement&);
  // Adds to the gradients of the weights what the gradient of the plan makes of them.
  void (*lower_backward)(const EncodingConfig&, std::span<Weight>, const Placement&, const PlanGradient&);
  // A line for people.
  std::string (*describe)(const EncodingConfig&);
  // The settings as fields of a JSON object, and back.
  void (*write)(const EncodingConfig&, FieldWriter&);
  EncodingConfig (*read)(FieldReader&);
};

std::span<const Encoding> encodings();
const Encoding& encoding(std::string_view name);

// The functions of a config's own row.
std::optional<std::int64_t> longest(const EncodingConfig& config);
bool learns(const EncodingConfig& config);
std::vector<Weight> parameters(const EncodingConfig& config, const ModelShape& shape, std::uint64_t seed = 0);
PositionPlan lower(const EncodingConfig& config, std::span<const Weight> weights, const Placement& placement);
void lower_backward(const EncodingConfig& config, std::span<Weight> weights, const Placement& placement,
                    const PlanGradient& gradient);
std::string describe(const EncodingConfig& config);

// Name and settings: {"name": "alibi", "causal": true, "learnable": false}. Reading is strict.
std::string encoding_to_json(const EncodingConfig& config);
EncodingConfig encoding_from_json(std::string_view json, std::string_view source);

}  // namespace phasor
