// What a model is trained on: batches of token numbers and of the answers expected for them.
//
// A batch is a pure function of the dataset, its seed, the split, the shape and the batch's index, so that resuming
// continues where it stopped and nothing depends on the order of calls. No row of the validation split is one of the
// training split.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "phasor/core/tensor.h"

namespace phasor {

inline constexpr std::int32_t kNoTarget = -100;  // nothing is to be predicted here; PyTorch's ignore_index

struct Batch {
  Tensor<std::int32_t, 2> tokens;   // [B, T]
  Tensor<std::int32_t, 2> targets;  // [B, T]: what a model should say at each token, or kNoTarget

  Batch(std::int64_t rows, std::int64_t length) : tokens({rows, length}), targets({rows, length}) {}
};

enum class Split { train, validation };

class Dataset {
 public:
  virtual ~Dataset() = default;

  // Tokens are 0 .. vocabulary() - 1.
  virtual std::int64_t vocabulary() const = 0;
  // Every target is the one right answer, so the share of rows without a mistake can be counted.
  virtual bool exact_match() const = 0;
  // A target is the token that comes next, so a model that sees later tokens could read it off.
  virtual bool next_token() const = 0;
  // Batch `index`, of the shape that `batch` has: rows index * B .. index * B + B - 1 of the split.
  void fill(std::int64_t index, Split split, Batch& batch) const;

 private:
  // Row `row` of the rows of this length.
  virtual void fill_row(std::int64_t row, Split split, std::span<std::int32_t> tokens,
                        std::span<std::int32_t> targets) const = 0;
  virtual void check_length(std::int64_t length) const = 0;
};

// ---- text ----

struct TextConfig {
  double validation_fraction = 0.1;  // not trained on
  std::uint64_t seed = 0;
};

// Bytes of a file as tokens (vocabulary 256), or of all text files below a folder, one after the other by name. Of a
// folder, files whose name begins with a dot and files that are not UTF-8 text are left out. Rows begin at random
// places; targets are the bytes that come next.
//
// The text is cut into equal parts of 64 KiB to 128 KiB (shorter ones: one part), and the end of each part is held back
// for validation: so validation sees the whole text, and no byte is in both splits. Each split is one text, its pieces
// one after the other.
std::unique_ptr<Dataset> text_dataset(const std::filesystem::path& path, const TextConfig& config = {});

// What tells one text from another: a training that continues with a text that has changed is not the same training.
struct TextSize {
  std::int64_t bytes = 0;
  std::uint64_t hash = 0;  // of all bytes, FNV-1a
  bool operator==(const TextSize&) const = default;
};

struct TextSummary {
  TextSize size = {};
  std::int64_t files = 0;
  std::int64_t skipped = 0;  // files of a folder that are not UTF-8 text
};
TextSummary text_summary(const std::filesystem::path& path);

// ---- tokens of a text ----

struct TokenTextConfig {
  std::vector<std::int32_t> prefix = {};  // before the text of each row: the tokens that a tokenizer begins texts with
};

// Rows one after the other, for evaluation: both splits are the whole text. Every token is a target once, but for the
// first of a text without a prefix. Tokens that do not fill a row at the end are left out; row `rows(length)` is row 0
// again.
class TokenText : public Dataset {
 public:
  TokenText(std::vector<std::int32_t> tokens, const TokenTextConfig& config = {});
  std::int64_t rows(std::int64_t length) const;

  std::int64_t vocabulary() const override;
  bool exact_match() const override { return false; }
  bool next_token() const override { return true; }

 private:
  std::int64_t step(std::int64_t length) const;  // tokens of the text in a row
  void fill_row(std::int64_t row, Split split, std::span<std::int32_t> tokens,
                std::span<std::int32_t> targets) const override;
  void check_length(std::int64_t length) const override;

  std::vector<std::int32_t> tokens_, prefix_;
};

// ---- tasks that need no file and can be solved by position alone, or by position and content ----

struct TaskConfig {
  std::int64_t symbols = 32;  // random tokens are 0 .. symbols - 1
  std::int64_t distance = 4;  // k, of task "ago"
  std::uint64_t seed = 0;
};

// Random numbers of one row, in order.
class Draw;

// One row of the registry.
struct Task {
  std::string_view name;
  std::string_view about;            // a line for people
  std::string_view example_tokens;   // a short row: letters are symbols, | is the separator
  std::string_view example_targets;  // its targets; . is kNoTarget
  bool separator;                    // one token more than symbols: number `symbols`
  bool next_token;

  // The shortest row that has an answer.
  std::int64_t (*shortest)(const TaskConfig&);
  // How many symbols can be answers: guessing among them is right once in so many times.
  std::int64_t (*answers)(const TaskConfig&);
  // Fills a row; targets are kNoTarget at first.
  void (*fill)(const TaskConfig&, Draw&, std::span<std::int32_t> tokens, std::span<std::int32_t> targets);
};

std::span<const Task> tasks();
const Task& task(std::string_view name);
std::unique_ptr<Dataset> task_dataset(std::string_view name, const TaskConfig& config = {});

}  // namespace phasor
