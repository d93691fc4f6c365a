#include "module.h"

NB_MODULE(_phasor, module) {
  module.doc() = "phasor's C++ functions on arrays given by the caller. The package phasor is made of them.";
  phasor::python::bind_core(module);
  phasor::python::bind_position(module);
  phasor::python::bind_rope(module);
  phasor::python::bind_attention(module);
  phasor::python::bind_merge(module);
  phasor::python::bind_w2(module);
  phasor::python::bind_kv_cache(module);
  phasor::python::bind_paged_kv_cache(module);
  phasor::python::bind_tokenizer(module);
  phasor::python::bind_model(module);
  phasor::python::bind_jax(module);
}
