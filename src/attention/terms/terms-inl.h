// All score terms: what happens to a score between the dot product and the softmax, in order. A term is a file with two
// parts. Its option (plain C++):
//
//   check(function, call)                              throws if the option does not fit the call
//   list_inputs(call, inputs)                          the tensors that it reads
//   check_gradient(function, call, output, outputs)    the same of its gradient, and the tensors that this writes
//   prepare(call)                                      what is computed once for a call
//   gradient(output)                                   the wanted gradient by head, which GradientSums sums and adds
//
// where functions that would do nothing are left out; and its vector code, compiled for each instruction set:
//
//   Load(block)                                        for the next block of queries
//   Apply or Rows (while products are in registers)    the scores of a tile
//   ApplyRow                                           the scores of one query, in decoding
//   ...Gradient: Add, EndBlock, EndHead                sums the gradient over tiles
//
// The double-precision reference of each is in tests/reference/attention.h. docs/adding.md adds a term step by step.
#include "terms/block_mask-inl.h"
#include "terms/distance_bias-inl.h"
#include "terms/dropout-inl.h"
#include "terms/edges-inl.h"
#include "terms/key_bias-inl.h"
#include "terms/mask-inl.h"
#include "terms/query_scale-inl.h"
#include "terms/sink.h"
#include "terms/softcap-inl.h"

#ifndef PHASOR_ATTENTION_TERMS_TERMS_H_
#define PHASOR_ATTENTION_TERMS_TERMS_H_

#include <tuple>

namespace phasor::detail {

using TermOptions = std::tuple<QueryScaleOption, SoftcapOption, KeyBiasOption, DistanceBiasOption, MaskOption,
                               BlockMaskOption, EdgesOption, SinkOption, DropoutOption>;
using TermSums = std::tuple<QueryScaleSums, KeyBiasSums, DistanceBiasSums, SinkSums>;

// Calls body(Option()) for each term.
template <class Body>
void for_each_term(const Body& body) {
  std::apply([&](auto... option) { (body(option), ...); }, TermOptions());
}

}  // namespace phasor::detail
#endif
