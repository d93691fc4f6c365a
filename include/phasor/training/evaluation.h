// How well a model does: loss and right answers, as a whole and by position.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "phasor/models/transformer.h"
#include "phasor/training/dataset.h"

namespace phasor {

struct EvaluationSettings {
  std::int64_t length = 0;  // tokens of a row; need not be that of training
  std::int64_t rows = 64;
  std::int64_t batch = 16;  // rows at once
  Split split = Split::validation;
  // Token by token with a cache of this kind, as a model writes; without it, all tokens of a row at once.
  std::optional<CacheStorage> cache = {};
};

// At one position, over the rows that have a target there.
struct PositionResult {
  std::int64_t position = 0;
  std::int64_t counted = 0;
  double loss = 0.0;      // mean
  double accuracy = 0.0;  // the share whose likeliest token is the target
};

struct Evaluation {
  double loss = 0.0;            // mean over counted targets
  double token_accuracy = 0.0;  // the share of them that are right
  double row_accuracy = 0.0;    // the share of rows without a mistake (exact match)
  std::int64_t counted = 0, rows = 0;
  std::vector<PositionResult> by_position = {};  // positions that have targets
};

// Rows 0 .. rows - 1 of the split. Of equal logits the first counts as likeliest.
Evaluation evaluate(const Transformer& model, const Dataset& dataset, const EvaluationSettings& settings,
                    Workspace& workspace);

}  // namespace phasor
