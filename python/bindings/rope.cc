#include "phasor/position/rope.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <string>
#include <utility>
#include <variant>

#include "arrays.h"
#include "module.h"
#include "phasor/position/hugging_face.h"

namespace phasor::python {
namespace {

RopeConfig make_config(std::int64_t head_dim, double theta, const std::string& scaling,
                       std::int64_t max_position_embeddings, std::int64_t rotary_dim, nb::handle pairing) {
  RopeConfig config{.head_dim = head_dim,
                    .theta = theta,
                    .rotary_dim = rotary_dim,
                    .pairing = pairing_of("Rope", pairing),
                    .scaling = read_rope_scaling(scaling, max_position_embeddings),
                    .max_position_embeddings = max_position_embeddings};
  validate(config);
  return config;
}

std::pair<nb::object, nb::object> table(const RopeConfig& config, nb::handle positions_object,
                                        std::optional<std::int64_t> length) {
  const auto positions = Array("rotary_table", "positions", positions_object).view<const std::int64_t, 3>();
  const auto make = [&] {
    const nb::gil_scoped_release released;
    return rotary_table(config, positions, length);
  };
  return std::visit([](auto made) { return std::pair(to_numpy(std::move(made.cos)), to_numpy(std::move(made.sin))); },
                    make());
}

std::int64_t rotated_channels(const RopeConfig& config) {
  return 2 * static_cast<std::int64_t>(rope_frequencies(config).inv_freq.size());
}

}  // namespace

void bind_rope(nb::module_& module) {
  using nb::arg;
  nb::class_<RopeConfig>(module, "RopeConfig")
      .def_static("make", &make_config, arg("head_dim"), arg("theta"), arg("scaling_json"),
                  arg("max_position_embeddings"), arg("rotary_dim"), arg("pairing"))
      .def_static(
          "read",
          [](const std::string& json, const std::string& layer_type) {
            return read_rope_config(json).rope(layer_type);
          },
          arg("json"), arg("layer_type"))
      .def_ro("head_dim", &RopeConfig::head_dim)
      .def_ro("theta", &RopeConfig::theta)
      .def_ro("max_position_embeddings", &RopeConfig::max_position_embeddings)
      .def_prop_ro("rotary_dim", &rotated_channels)
      .def_prop_ro("pairing", [](const RopeConfig& config) { return std::string(pairing_name(config.pairing)); })
      .def_prop_ro("scaling_type", [](const RopeConfig& config) { return config.scaling.type; })
      .def_prop_ro("axes", &axis_count)
      .def(
          "frequencies",
          [](const RopeConfig& config, std::int64_t length) {
            const RopeFrequencies frequencies = rope_frequencies(config, length);
            return std::pair(to_numpy(frequencies.inv_freq), frequencies.attention_factor);
          },
          arg("length") = 0)
      .def(
          "score_scale",
          [](const RopeConfig& config, std::int64_t head_dim) { return rope_score_scale(config, head_dim); },
          arg("head_dim"))
      .def("table", &table, arg("positions"), arg("length").none() = nb::none());
}

}  // namespace phasor::python
