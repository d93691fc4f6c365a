// phasor perplexity: how well a model foretells a text, by length and by position, also with another scaling of RoPE
// and with the cache that generation would read.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "by_position.h"
#include "commands.h"
#include "flags.h"
#include "model_options.h"
#include "phasor/core/check.h"
#include "phasor/core/mapped_file.h"
#include "phasor/training/evaluation.h"
#include "table.h"
#include "text_model.h"

namespace phasor::tool {
namespace {

struct Options {
  TextModelOptions model;
  std::string text;
  std::vector<std::int64_t> lengths{1024};
  std::optional<std::int64_t> rows;
  std::optional<std::string> scaling;
  std::optional<double> factor;
};

struct Text {
  std::vector<std::int32_t> tokens, prefix;
  std::int64_t bytes = 0;
};

Text read_text(const TextModel& model, const std::string& path) {
  const MappedFile file(path);
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  PHASOR_CHECK(!text.empty(), "perplexity", "--text: ", path, " is empty, expected a text");
  return {.tokens = model.encode(text, false),
          .prefix = model.encode("", true),
          .bytes = static_cast<std::int64_t>(text.size())};
}

void scale_rope(Transformer& model, const Options& options) {
  PHASOR_CHECK(options.scaling || !options.factor, "perplexity",
               "--factor: given without --rope-scaling, expected both");
  if (!options.scaling) return;
  const std::int64_t trained = model.config().max_position_embeddings;
  const auto longest = static_cast<double>(std::ranges::max(options.lengths));
  const double factor = options.factor.value_or(std::max(1.0, longest / static_cast<double>(trained)));
  model.set_encoding(scaled_rope(model.config().encoding, *options.scaling, factor, trained));
}

// Few rows at once where each has many logits; with a cache, where a token has few, enough to read weights seldom.
std::int64_t batch_of(const TransformerConfig& config, std::int64_t length, bool cache) {
  constexpr std::int64_t kMostLogits = std::int64_t{1} << 26, kMostRows = 16;
  return cache ? kMostRows : std::clamp<std::int64_t>(kMostLogits / (config.vocab_size * length), 1, kMostRows);
}

Evaluation evaluate_text(const Transformer& model, const TokenText& text, std::int64_t length, const Options& options) {
  Workspace workspace;
  const std::int64_t all = text.rows(length), rows = std::min(options.rows.value_or(all), all);
  PHASOR_CHECK(rows >= 1, "perplexity", "--length: ", length, ", expected at most what --text has");
  const std::int64_t batch = std::min(rows, batch_of(model.config(), length, options.model.cache.has_value()));
  return evaluate(model, text, {.length = length, .rows = rows, .batch = batch, .cache = options.model.storage()},
                  workspace);
}

void perplexity(const Options& options) {
  TextModel text_model(options.model);
  Transformer& model = text_model.transformer("perplexity");
  text_model.read_tokenizer("--text");
  const Text text = read_text(text_model, options.text);
  scale_rope(model, options);
  std::printf("%s: %s\n%s: %s tokens, %s bytes\n\n", printable(options.model.folder).c_str(),
              model.config().describe_encodings().c_str(), printable(options.text).c_str(),
              count(static_cast<std::int64_t>(text.tokens.size())).c_str(), count(text.bytes).c_str());
  const double tokens_per_byte = static_cast<double>(text.tokens.size()) / static_cast<double>(text.bytes);
  const TokenText rows(text.tokens, {.prefix = text.prefix});
  Table table({">length", ">rows", ">tokens", ">loss", ">perplexity", ">bits per byte"});
  Evaluation found;
  for (const std::int64_t length : options.lengths) {
    found = evaluate_text(model, rows, length, options);
    table.add({count(length), count(found.rows), count(found.counted), number(found.loss, 5),
               number(std::exp(found.loss), 5), number(found.loss / std::log(2.0) * tokens_per_byte, 4)});
  }
  table.print();
  Table positions({"positions", ">tokens", ">loss", ">perplexity"});
  for (const PositionGroup& group : by_position(found))
    positions.add({group.positions, count(group.counted), number(group.loss, 5), number(std::exp(group.loss), 5)});
  std::printf("\nlength %s by position\n", count(options.lengths.back()).c_str());
  positions.print();
}

}  // namespace

void add_perplexity(CLI::App& app) {
  auto* command = app.add_subcommand("perplexity", "Measure how well a model foretells a text");
  auto options = std::make_shared<Options>();
  add_text_model_options(*command, options->model,
                         "Token by token with a cache of float, bf16, f16 or int8 (default: whole rows, no cache)");
  command->add_option("--text", options->text, "File of text")->required();
  command->add_option("--length", options->lengths, "Tokens of a row; several lengths are separated by commas")
      ->delimiter(',')
      ->capture_default_str()
      ->check(whole_number(1, INT32_MAX));
  command->add_option("--rows", options->rows, "Number of rows, from the beginning of the text (default: all)")
      ->check(whole_number(1, INT32_MAX));
  command->add_option("--rope-scaling", options->scaling,
                      "RoPE scaling instead of the model's: linear, ntk, dynamic, yarn");
  command->add_option("--factor", options->factor, "Scaling factor (default: --length / max_position_embeddings)")
      ->check(real_number("more than 0 and finite", [](double f) { return f > 0 && std::isfinite(f); }));
  command->callback([options] { perplexity(*options); });
}

}  // namespace phasor::tool
