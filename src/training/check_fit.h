// Whether a model can be trained on a dataset, or scored by it.
#pragma once

#include "phasor/core/check.h"
#include "phasor/models/transformer.h"
#include "phasor/training/dataset.h"

namespace phasor::detail {

inline void check_fit(const char* function, const Transformer& model, const Dataset& dataset) {
  const std::int64_t known = model.config().vocab_size;
  PHASOR_CHECK(dataset.vocabulary() <= known, function, "dataset: ", dataset.vocabulary(),
               " different tokens, expected at most the model's ", known);
  PHASOR_CHECK(model.config().causal || !dataset.next_token(), function,
               "dataset: asks for the next token, which a bidirectional model sees, expected another task");
}

}  // namespace phasor::detail
