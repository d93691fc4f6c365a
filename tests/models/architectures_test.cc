// Every architecture beside transformers with the same weights: logits, gradients, states and texts
// (tests/golden/make_architectures.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "models/golden_model.h"
#include "phasor/layers/loss.h"
#include "phasor/models/encoder_decoder.h"
#include "phasor/models/generate.h"
#include "phasor/models/safetensors.h"
#include "phasor/models/text_files.h"
#include "phasor/models/transformer.h"
#include "support/temporary_folder.h"

namespace phasor {
namespace {

namespace fs = std::filesystem;

const fs::path kFolder = in_source_folder("tests/golden/architectures");

// The gradients of transformers, under the names of weights in files, are read as the weights of a model are: cut,
// transposed and permuted alike. Norms of 1 + w are read with 1 added.
Transformer gradients_as_model(const fs::path& folder) {
  const TemporaryFolder copy;
  fs::copy_file(folder / "config.json", copy.path() / "config.json");
  fs::copy_file(folder / "gradients.safetensors", copy.path() / "model.safetensors");
  Transformer model = Transformer::from_pretrained(copy.path(), Precision::float32);
  const bool one_more = model.config().norm_place == NormPlace::around;
  for (const NamedWeight& each : model.weights())
    if (one_more && each.weight->shape().size() == 1)
      for (float& value : each.weight->value()) value -= 1.0f;
  return model;
}

// The loss of predicting `targets`, whose gradients are compared.
void expect_gradients(Transformer& model, Transformer::Saved& saved, const Tensor<float, 3>& logits,
                      const std::vector<std::int32_t>& targets, const GoldenModel& golden, Workspace& workspace) {
  const std::int64_t rows = logits.shape()[0] * logits.shape()[1], vocabulary = logits.shape()[2];
  Tensor<float, 3> gradient(logits.shape());
  const CrossEntropy loss = cross_entropy({logits.data(), {rows, vocabulary}}, targets,
                                          {.grad_logits = {gradient.data(), {rows, vocabulary}}}, workspace);
  EXPECT_NEAR(loss.loss, golden.floats("loss")[0], 1e-5);
  model.backward(saved, gradient.view(), workspace);
  Transformer expected = gradients_as_model(golden.folder());
  const NamedWeights found = model.weights(), all = expected.weights();
  for (std::size_t i = 0; i < found.size(); i++)
    expect_near(found[i].name, found[i].weight->gradient(), all[i].weight->value(), 1e-4, 1e-6);
}

// Logits of all tokens, and gradients of the loss of predicting what `target` makes of the place of a token.
void expect_model(const char* name,
                  const std::function<std::int32_t(const Tensor<std::int32_t, 2>&, std::int64_t)>& target) {
  const GoldenModel golden(kFolder / name);
  Transformer model = Transformer::from_pretrained(golden.folder());
  const Tensor<std::int32_t, 2> tokens = golden.tokens("tokens");
  Tensor<float, 3> logits({tokens.shape()[0], tokens.shape()[1], model.config().vocab_size});
  Workspace workspace;
  Transformer::Saved saved;
  model.forward(tokens.view(), logits.view(), &saved, workspace);
  expect_near("logits", logits, golden.floats("logits"), 1e-5);
  std::vector<std::int32_t> targets;
  for (std::int64_t i = 0; i < tokens.size(); i++) targets.push_back(target(tokens, i));
  expect_gradients(model, saved, logits, targets, golden, workspace);
}

class CausalModel : public testing::TestWithParam<const char*> {};

TEST_P(CausalModel, LogitsAndGradientsAreThoseOfTransformers) {
  expect_model(GetParam(), [](const Tensor<std::int32_t, 2>& tokens, std::int64_t i) {
    return (i + 1) % tokens.shape()[1] == 0 ? kIgnoredTarget : tokens.data()[i + 1];
  });
}

TEST_P(CausalModel, WritesTheSameText) {
  const GoldenModel golden(kFolder / GetParam());
  const Transformer model = Transformer::from_pretrained(golden.folder());
  const Tensor<std::int32_t, 2> prompt = golden.tokens("tokens"), written = golden.tokens("generated");
  Workspace workspace;
  const std::vector<std::int32_t> found =
      generate(model, {prompt.data(), 7}, {.max_tokens = written.size(), .storage = CacheStorage::float32}, workspace);
  EXPECT_EQ(found, std::vector<std::int32_t>(written.begin(), written.end()));
}

INSTANTIATE_TEST_SUITE_P(Transformers, CausalModel,
                         testing::Values("qwen2", "qwen2_window", "mistral", "smollm3", "phi3", "gemma2", "gemma3_text",
                                         "gpt2", "gpt_neox", "gpt_neox_sequential", "bloom", "mpt"));

class Encoder : public testing::TestWithParam<const char*> {};

// Of sequences of different lengths, with and without token types.
TEST_P(Encoder, StatesAreThoseOfTransformers) {
  const GoldenModel golden(kFolder / GetParam());
  const Transformer model = Transformer::from_pretrained(golden.folder());
  const Tensor<std::int32_t, 2> tokens = golden.tokens("tokens");
  const std::vector<std::int64_t> lengths = golden.integers("lengths");
  const std::int64_t batch = tokens.shape()[0], length = tokens.shape()[1], width = model.config().hidden_size;
  Tensor<float, 3> states({batch, length, width});
  Workspace workspace;
  const auto expect_states = [&](const char* name) {
    const std::vector<float> expected = golden.floats(name);
    for (std::int64_t b = 0; b < batch; b++) {
      const auto count = static_cast<std::size_t>(lengths[static_cast<std::size_t>(b)] * width);
      expect_near(name, std::span(&states(b, 0, 0), count),
                  std::span(expected).subspan(static_cast<std::size_t>(b * length * width), count), 1e-5);
    }
  };
  model.encode(tokens.view(), states.view(), workspace, {.lengths = lengths});
  expect_states("states");
  if (model.config().type_vocab_size < 2) return;
  const Tensor<std::int32_t, 2> types = golden.tokens("token_types");
  model.encode(tokens.view(), states.view(), workspace, {.lengths = lengths, .token_types = types.view()});
  expect_states("states_of_types");
}

INSTANTIATE_TEST_SUITE_P(Transformers, Encoder, testing::Values("bert", "bert_states", "roberta", "modernbert"));

class MaskedModel : public testing::TestWithParam<const char*> {};

// The token before, and the last one at the beginning.
TEST_P(MaskedModel, LogitsAndGradientsAreThoseOfTransformers) {
  expect_model(GetParam(), [](const Tensor<std::int32_t, 2>& tokens, std::int64_t i) {
    const std::int64_t length = tokens.shape()[1];
    return tokens.data()[i % length == 0 ? i + length - 1 : i - 1];
  });
}

INSTANTIATE_TEST_SUITE_P(Transformers, MaskedModel, testing::Values("bert", "roberta", "modernbert"));

class Translation : public testing::TestWithParam<const char*> {};

// Logits of each target token, of sources of different lengths.
TEST_P(Translation, LogitsAreThoseOfTransformers) {
  const GoldenModel golden(kFolder / GetParam());
  const EncoderDecoder model = EncoderDecoder::from_pretrained(golden.folder());
  const Tensor<std::int32_t, 2> source = golden.tokens("source"), target = golden.tokens("target");
  const std::vector<std::int64_t> lengths = golden.integers("lengths");
  const std::int64_t batch = target.shape()[0], count = target.shape()[1];
  const std::int64_t vocabulary = model.decoder().config().vocab_size;
  Workspace workspace;
  Transformer::Cache cache = model.read(source.view(), lengths, {.capacity = count}, workspace);
  Tensor<float, 3> logits({batch, count, vocabulary});
  Tensor<float, 2> last({batch, vocabulary});
  for (std::int64_t t = 0; t < count; t++) {
    model.decoder().decode({target.data() + t, {batch, 1}, {count, 1}}, cache, last.view(), workspace);
    for (std::int64_t b = 0; b < batch; b++) std::copy_n(&last(b, 0), vocabulary, &logits(b, t, 0));
  }
  expect_near("logits", logits, golden.floats("logits"), 1e-5);
}

TEST_P(Translation, WritesTheSameText) {
  const GoldenModel golden(kFolder / GetParam());
  const EncoderDecoder model = EncoderDecoder::from_pretrained(golden.folder());
  const Tensor<std::int32_t, 2> source = golden.tokens("source"), written = golden.tokens("generated");
  std::vector<std::int32_t> expected(written.begin() + 1, written.end());  // after the start token
  Workspace workspace;
  EXPECT_EQ(generate(model, {source.data(), static_cast<std::size_t>(source.shape()[1])},
                     {.max_tokens = std::ssize(expected), .stop_tokens = load_stop_tokens(golden.folder())}, workspace),
            expected);
}

INSTANTIATE_TEST_SUITE_P(Transformers, Translation, testing::Values("t5", "t5_gated", "marian"));

}  // namespace
}  // namespace phasor
