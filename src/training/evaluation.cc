#include "phasor/training/evaluation.h"

#include <algorithm>
#include <vector>

#include "check_fit.h"
#include "phasor/core/check.h"
#include "phasor/core/parallel.h"
#include "phasor/layers/loss.h"

namespace phasor {
namespace {

// Sums over rows, by position. In double, in the order of the rows.
class Sums {
 public:
  explicit Sums(std::int64_t length) : positions_(static_cast<std::size_t>(length)) {}

  void add_row(std::span<const std::int32_t> targets, std::span<const float> losses,
               std::span<const std::uint8_t> right) {
    bool all_right = true;
    for (std::size_t t = 0; t < targets.size(); t++) {
      if (targets[t] == kNoTarget) continue;
      positions_[t].counted++;
      positions_[t].loss += losses[t];
      positions_[t].right += right[t];
      all_right = all_right && right[t] != 0;
    }
    rows_++;
    rows_right_ += all_right ? 1 : 0;
  }

  Evaluation result() const {
    Evaluation result{.rows = rows_};
    std::int64_t right = 0;
    for (std::size_t t = 0; t < positions_.size(); t++) {
      const At& at = positions_[t];
      if (at.counted == 0) continue;
      const auto counted = static_cast<double>(at.counted);
      result.by_position.push_back(
          {static_cast<std::int64_t>(t), at.counted, at.loss / counted, static_cast<double>(at.right) / counted});
      result.counted += at.counted;
      result.loss += at.loss;
      right += at.right;
    }
    const auto counted = static_cast<double>(std::max<std::int64_t>(1, result.counted));
    result.loss /= counted;
    result.token_accuracy = static_cast<double>(right) / counted;
    result.row_accuracy = static_cast<double>(rows_right_) / static_cast<double>(rows_);
    return result;
  }

 private:
  struct At {
    std::int64_t counted = 0, right = 0;
    double loss = 0.0;
  };
  std::vector<At> positions_;
  std::int64_t rows_ = 0, rows_right_ = 0;
};

// What a model says to each token of a batch.
struct Answers {
  std::vector<float> losses;
  std::vector<std::uint8_t> right;  // whether the likeliest token is the target

  explicit Answers(std::int64_t tokens)
      : losses(static_cast<std::size_t>(tokens)), right(static_cast<std::size_t>(tokens)) {}
};

// Logits of tokens [N, V] and their targets; the answers are written at `first`, `first` + `step`, ...
void score(TensorView<const float, 2> logits, std::span<const std::int32_t> targets, Answers& answers,
           std::int64_t first, std::int64_t step, Workspace& workspace) {
  const auto [count, vocabulary] = logits.shape;
  std::vector<float> losses(static_cast<std::size_t>(count));
  cross_entropy(logits, targets, {.row_losses = losses}, workspace);
  parallel_for(count, [&, vocabulary = vocabulary](std::int64_t n) {
    const float* scores = logits.data + n * logits.strides[0];
    const auto at = static_cast<std::size_t>(first + n * step), of = static_cast<std::size_t>(n);
    answers.losses[at] = losses[of];
    answers.right[at] = std::max_element(scores, scores + vocabulary) - scores == targets[of] ? 1 : 0;
  });
}

void answer_at_once(const Transformer& model, const Batch& batch, Answers& answers, Workspace& workspace) {
  const Workspace::Scope scope(workspace);
  const auto [rows, length] = batch.tokens.shape();
  const std::int64_t vocabulary = model.config().vocab_size;
  const TensorView<float, 3> logits = workspace.take(Shape<3>{rows, length, vocabulary});
  model.forward(batch.tokens.view(), logits, nullptr, workspace);
  score({logits.data, {rows * length, vocabulary}},
        std::span(batch.targets.data(), static_cast<std::size_t>(rows * length)), answers, 0, 1, workspace);
}

void answer_by_token(const Transformer& model, const Batch& batch, CacheStorage storage, Answers& answers,
                     Workspace& workspace) {
  const Workspace::Scope scope(workspace);
  const auto [rows, length] = batch.tokens.shape();
  const TensorView<float, 2> logits = workspace.take(Shape<2>{rows, model.config().vocab_size});
  Transformer::Cache cache =
      model.make_cache({.batch = rows, .capacity = length, .storage = storage, .keys = model.suitable_keys(length)});
  std::vector<std::int32_t> targets(static_cast<std::size_t>(rows));
  for (std::int64_t t = 0; t < length; t++) {
    model.decode({batch.tokens.data() + t, {rows, 1}, {length, 1}}, cache, logits, workspace);
    for (std::int64_t r = 0; r < rows; r++) targets[static_cast<std::size_t>(r)] = batch.targets(r, t);
    score(logits, targets, answers, t, length, workspace);
  }
}

}  // namespace

Evaluation evaluate(const Transformer& model, const Dataset& dataset, const EvaluationSettings& settings,
                    Workspace& workspace) {
  constexpr const char* kName = "evaluate";
  PHASOR_CHECK(settings.length >= 1, kName, "length: ", settings.length, ", expected 1 or more");
  PHASOR_CHECK(settings.rows >= 1, kName, "rows: ", settings.rows, ", expected 1 or more");
  PHASOR_CHECK(settings.batch >= 1, kName, "batch: ", settings.batch, ", expected 1 or more");
  detail::check_fit(kName, model, dataset);
  const std::int64_t length = settings.length, rows = std::min(settings.batch, settings.rows);
  const auto row_size = static_cast<std::size_t>(length);
  Batch batch(rows, length);
  Answers answers(rows * length);
  Sums sums(length);
  for (std::int64_t first = 0; first < settings.rows; first += rows) {
    dataset.fill(first / rows, settings.split, batch);
    if (settings.cache)
      answer_by_token(model, batch, *settings.cache, answers, workspace);
    else
      answer_at_once(model, batch, answers, workspace);
    for (std::int64_t r = 0; r < std::min(rows, settings.rows - first); r++) {
      const auto begin = static_cast<std::size_t>(r * length);
      sums.add_row({batch.targets.data() + begin, row_size}, {answers.losses.data() + begin, row_size},
                   {answers.right.data() + begin, row_size});
    }
  }
  return sums.result();
}

}  // namespace phasor
