#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>

#include "arrays.h"
#include "module.h"
#include "phasor/core/parallel.h"
#include "phasor/core/precision.h"
#include "phasor/core/simd_target.h"
#include "phasor/version.h"

namespace phasor::python {

void bind_core(nb::module_& module) {
  module.attr("__version__") = PHASOR_VERSION;
  module.def("num_threads", &num_threads);
  module.def("set_num_threads", &set_num_threads, nb::arg("count"));
  module.def("precision", [] { return std::string(precision_name(default_precision())); });
  module.def(
      "set_precision", [](const std::string& name) { set_default_precision(precision_from_name(name)); },
      nb::arg("name"));
  module.def("share_openmp_threads", &share_openmp_threads);
  module.def(
      "address",
      [](nb::handle array) { return reinterpret_cast<std::uintptr_t>(Array("address", "array", array).data()); },
      nb::arg("array"), "Where the functions of this module see an array's memory: for tests that nothing is copied.");
  module.def("simd_target", &simd_target);
  module.def("simd_targets", &simd_targets);
  module.def(
      "set_simd_target", [](const std::string& name) { set_simd_target(name); }, nb::arg("name"));
}

}  // namespace phasor::python
