#include "phasor/models/embed.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <vector>

#include "phasor/core/check.h"

namespace phasor {
namespace {

constexpr const char* kName = "embed";

constexpr std::array<std::pair<std::string_view, Pooling>, 2> kPoolings{
    {{"mean", Pooling::mean}, {"cls", Pooling::cls}}};

void check(const TransformerConfig& config, const EmbedSettings& settings) {
  PHASOR_CHECK(config.causal == false || settings.pooling.has_value(), kName,
               "pooling: none for a causal model, whose files do not say it; expected an encoder, mean or cls");
  PHASOR_CHECK(settings.batch >= 1, kName, "batch: ", settings.batch, ", expected at least 1");
  const std::optional<std::int64_t> longest = config.longest();
  PHASOR_CHECK(!longest || settings.max_tokens.value_or(0) <= *longest, kName,
               "max_tokens: ", settings.max_tokens.value_or(0), ", expected at most the ", longest.value_or(0),
               " that the model's positions encode");
}

void pool(TensorView<const float, 2> states, Pooling pooling, std::span<float> to) {
  if (pooling == Pooling::cls) {
    std::copy_n(states.data, to.size(), to.begin());
    return;
  }
  std::vector<double> sums(to.size());
  for (std::int64_t t = 0; t < states.shape[0]; t++)
    for (std::size_t c = 0; c < sums.size(); c++) sums[c] += states(t, static_cast<std::int64_t>(c));
  for (std::size_t c = 0; c < sums.size(); c++)
    to[c] = static_cast<float>(sums[c] / static_cast<double>(states.shape[0]));
}

void normalize_row(std::span<float> row) {
  constexpr double kLeast = 1e-12;  // torch's: zeros stay zeros
  const double squares =
      std::accumulate(row.begin(), row.end(), 0.0, [](double sum, double value) { return sum + value * value; });
  const double factor = 1.0 / std::max(kLeast, std::sqrt(squares));
  for (float& value : row) value = static_cast<float>(factor * value);
}

// The texts with these numbers, padded to the longest.
void embed_batch(const Transformer& model, std::span<const EncodedText> texts, std::span<const std::size_t> numbers,
                 const EmbedSettings& settings, TensorView<float, 2> to, Workspace& workspace) {
  const Workspace::Scope scope(workspace);
  std::vector<std::int64_t> lengths;
  for (const std::size_t number : numbers) lengths.push_back(std::ssize(texts[number].ids));
  Tensor<std::int32_t, 2> tokens({std::ssize(numbers), std::ranges::max(lengths)});
  for (std::size_t b = 0; b < numbers.size(); b++)
    std::ranges::copy(texts[numbers[b]].ids, &tokens(static_cast<std::int64_t>(b), 0));
  const std::int64_t width = model.config().hidden_size;
  const TensorView<float, 3> states = workspace.take(Shape<3>{tokens.shape()[0], tokens.shape()[1], width});
  model.encode(tokens.view(), states, workspace, {.lengths = lengths});
  for (std::size_t b = 0; b < numbers.size(); b++) {
    const std::span<float> row(&to(static_cast<std::int64_t>(numbers[b]), 0), static_cast<std::size_t>(width));
    pool({&states(static_cast<std::int64_t>(b), 0, 0), {lengths[b], width}}, settings.pooling.value_or(Pooling::mean),
         row);
    if (settings.normalize) normalize_row(row);
  }
}

}  // namespace

std::string_view pooling_name(Pooling pooling) {
  return std::ranges::find(kPoolings, pooling, &decltype(kPoolings)::value_type::second)->first;
}

Pooling pooling_from_name(std::string_view name) {
  const auto* found = std::ranges::find(kPoolings, name, &decltype(kPoolings)::value_type::first);
  PHASOR_CHECK(found != kPoolings.end(), kName, "pooling: ", name, ", expected mean or cls");
  return found->second;
}

Tensor<float, 2> embed(const Transformer& model, const Tokenizer& tokenizer, std::span<const std::string> texts,
                       const EmbedSettings& settings, Workspace& workspace) {
  const TransformerConfig& config = model.config();
  check(config, settings);
  const Tokenizer cut = tokenizer.cut_at(settings.max_tokens ? settings.max_tokens : config.longest());
  const std::vector<EncodedText> encoded = cut.encode_batch(texts);
  for (std::size_t i = 0; i < encoded.size(); i++)
    PHASOR_CHECK(!encoded[i].ids.empty(), kName, "texts: text ", i, " has no tokens, expected at least one");
  // Texts of about one length are computed together.
  std::vector<std::size_t> numbers(texts.size());
  std::iota(numbers.begin(), numbers.end(), std::size_t{0});
  std::ranges::stable_sort(numbers, {}, [&](std::size_t number) { return encoded[number].ids.size(); });
  Tensor<float, 2> vectors({std::ssize(texts), config.hidden_size});
  const auto batch = static_cast<std::size_t>(settings.batch);
  for (std::size_t first = 0; first < numbers.size(); first += batch)
    embed_batch(model, encoded, std::span(numbers).subspan(first, std::min(batch, numbers.size() - first)), settings,
                vectors.view(), workspace);
  return vectors;
}

}  // namespace phasor
