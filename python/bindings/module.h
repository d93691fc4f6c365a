// The parts of the module phasor._phasor, one for each folder of the library.
#pragma once

#include <nanobind/nanobind.h>

namespace phasor::python {

void bind_core(nanobind::module_& module);
void bind_position(nanobind::module_& module);
void bind_rope(nanobind::module_& module);
void bind_attention(nanobind::module_& module);
void bind_merge(nanobind::module_& module);
void bind_w2(nanobind::module_& module);
void bind_kv_cache(nanobind::module_& module);
void bind_paged_kv_cache(nanobind::module_& module);
void bind_model(nanobind::module_& module);
void bind_tokenizer(nanobind::module_& module);
void bind_jax(nanobind::module_& module);  // XLA's handlers

}  // namespace phasor::python
