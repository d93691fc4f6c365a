// Encodings other than RoPE, and the rotation kernel.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <complex>
#include <string>

#include "arrays.h"
#include "module.h"
#include "options.h"
#include "phasor/position/alibi.h"
#include "phasor/position/encoding.h"
#include "phasor/position/forms.h"
#include "phasor/position/pairing.h"
#include "phasor/position/relative.h"
#include "phasor/position/rotary.h"
#include "phasor/position/sinusoidal.h"

namespace phasor::python {
namespace {

void rotate(nb::handle x_object, nb::handle table, nb::handle out_object, bool transpose) {
  static constexpr const char* kName = "apply_rotary";
  const Array x(kName, "x", x_object), out(kName, "out", out_object, Access::write);
  const RotationArgument rotation(kName, "table", table);
  if (!rotation.view()) fail_type_error(kName, "table: None, expected a RotaryTable");
  x.visit([&]<class T>(T) {
    const auto x_view = x.view<const T, 4>();
    const auto out_view = out.view<T, 4>();
    const nb::gil_scoped_release released;
    apply_rotary(x_view, *rotation.view(), out_view, transpose ? Rotation::transpose : Rotation::forward);
  });
}

// The bucket of each distance first .. first + count - 1.
std::vector<std::int64_t> t5_buckets(std::int64_t first, std::int64_t count, std::int64_t buckets,
                                     std::int64_t max_distance, bool bidirectional) {
  const T5Config config{buckets, max_distance, bidirectional};
  std::vector<std::int64_t> result;
  for (std::int64_t i = 0; i < count; i++) result.push_back(t5_bucket(first + i, config));
  return result;
}

// Name, formula, what it acts on, source, gradient.
nb::list registry() {
  nb::list rows;
  const auto text = [](std::string_view part) { return nb::str(part.data(), part.size()); };
  for (const Encoding& row : encodings())
    rows.append(
        nb::make_tuple(text(row.name), text(row.formula), text(row.acts_on), text(row.source), text(row.gradient)));
  return rows;
}

}  // namespace

void bind_position(nb::module_& module) {
  using nb::arg;
  module.def("apply_rotary", &rotate, array_arg("x"), array_arg("table"), array_arg("out"), nb::kw_only(),
             arg("transpose") = false);
  module.def(
      "sinusoidal",
      [](std::int64_t length, std::int64_t dim, double theta) {
        return to_numpy(sinusoidal_table(length, dim, theta));
      },
      arg("length"), arg("dim"), arg("theta") = 10000.0);
  module.def(
      "alibi_slopes", [](std::int64_t heads) { return to_numpy(alibi_slopes(heads)); }, arg("heads"));
  module.def("t5_buckets", &t5_buckets, arg("first"), arg("count"), nb::kw_only(), arg("buckets"), arg("max_distance"),
             arg("bidirectional"));
  module.def(
      "pairing_permutation",
      [](nb::handle to, std::int64_t head_dim, std::int64_t rotary_dim) {
        return pairing_permutation(pairing_of("convert_pairing", to), head_dim, rotary_dim);
      },
      arg("to"), arg("head_dim"), arg("rotary_dim") = 0);
  module.def(
      "precompute_freqs_cis",
      [](std::int64_t dim, std::int64_t end, double theta) { return to_numpy(precompute_freqs_cis(dim, end, theta)); },
      arg("dim"), arg("end"), arg("theta") = 10000.0);
  module.def("encodings", &registry);
}

}  // namespace phasor::python
