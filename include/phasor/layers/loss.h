// The loss of a classification, such as the next token: log-softmax and its gradient in one call.
#pragma once

#include <cstdint>
#include <span>

#include "phasor/core/tensor.h"
#include "phasor/layers/workspace.h"

namespace phasor {

// A row with this target is not counted.
constexpr std::int32_t kIgnoredTarget = -100;

struct CrossEntropy {
  double loss = 0;           // the mean over counted rows, 0 when there are none
  std::int64_t counted = 0;  // rows not left out
};

struct CrossEntropyOutput {
  TensorView<float, 2> grad_logits{};  // [N, V], written: of the mean, so 0 in rows left out. May be logits itself
  std::span<float> row_losses{};       // N losses, 0 in rows left out
};

// logits are [N, V], targets N numbers in 0 .. V - 1 or kIgnoredTarget. Loss of a row: log(sum of e^logit) less the
// logit of the target. Outputs without data are left out.
CrossEntropy cross_entropy(TensorView<const float, 2> logits, std::span<const std::int32_t> targets,
                           const CrossEntropyOutput& output, Workspace& workspace);

}  // namespace phasor
