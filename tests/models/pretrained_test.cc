// Llama and Qwen3 of transformers with the same weights: logits, gradients and texts (tests/golden/make_pretrained.py).
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "phasor/layers/loss.h"
#include "phasor/models/generate.h"
#include "phasor/models/safetensors.h"
#include "support/expect_error.h"

namespace phasor {
namespace {

namespace fs = std::filesystem;

const fs::path kFolder = fs::path(PHASOR_SOURCE_DIR) / "tests/golden/pretrained";

std::vector<float> floats(const TensorFile& file, const std::string& name) {
  std::vector<float> values(static_cast<std::size_t>(element_count(file.at(name))));
  read_floats(file.at(name), values);
  return values;
}

Tensor<std::int32_t, 2> tokens(const TensorFile& file, const std::string& name) {
  const StoredTensor& tensor = file.at(name);
  Tensor<std::int32_t, 2> result({tensor.shape[0], tensor.shape[1]});
  std::memcpy(result.data(), tensor.bytes.data(), tensor.bytes.size());
  return result;
}

// Within `tolerance` of the largest value.
void expect_near(const std::string& name, std::span<const float> found, std::span<const float> expected,
                 double tolerance) {
  ASSERT_EQ(found.size(), expected.size()) << name;
  double largest = 0, worst = 0;
  for (std::size_t i = 0; i < found.size(); i++) {
    largest = std::max(largest, std::fabs(static_cast<double>(expected[i])));
    worst = std::max(worst, std::fabs(static_cast<double>(found[i]) - expected[i]));
  }
  EXPECT_LE(worst, tolerance * largest) << name << ", largest " << largest;
}

// Our names and theirs come in the same order of layers, but for where embedding, norm and head stand.
std::string stored_name(std::string name) {
  const std::pair<const char*, const char*> parts[] = {{"blocks.", "model.layers."},
                                                       {".attention_norm.", ".input_layernorm."},
                                                       {".attention.", ".self_attn."},
                                                       {".ffn_norm.", ".post_attention_layernorm."},
                                                       {".ffn.", ".mlp."},
                                                       {"embedding.weight", "model.embed_tokens.weight"},
                                                       {"head.weight", "lm_head.weight"}};
  for (const auto& [ours, theirs] : parts)
    if (const std::size_t at = name.find(ours); at != std::string::npos) name.replace(at, std::strlen(ours), theirs);
  return name == "norm.weight" ? "model.norm.weight" : name;
}

class Pretrained : public testing::TestWithParam<const char*> {};

TEST_P(Pretrained, LogitsAndGradientsAreThoseOfTransformers) {
  Decoder model = Decoder::from_pretrained(kFolder / GetParam());
  const TensorFile expected(kFolder / GetParam() / "expected.safetensors");
  const Tensor<std::int32_t, 2> input = tokens(expected, "tokens");
  const std::int64_t rows = input.size(), vocabulary = model.config().vocab_size;
  Tensor<float, 3> logits({input.shape()[0], input.shape()[1], vocabulary}), gradient(logits.shape());
  Workspace workspace;
  Decoder::Saved saved;
  model.forward(input.view(), logits.view(), &saved, workspace);
  expect_near("logits", {logits.data(), static_cast<std::size_t>(logits.size())}, floats(expected, "logits"), 1e-5);

  std::vector<std::int32_t> targets;
  for (std::int64_t i = 0; i < rows; i++)
    targets.push_back((i + 1) % input.shape()[1] == 0 ? kIgnoredTarget : input.data()[i + 1]);
  const CrossEntropy loss = cross_entropy({logits.data(), {rows, vocabulary}}, targets,
                                          {.grad_logits = {gradient.data(), {rows, vocabulary}}}, workspace);
  EXPECT_NEAR(loss.loss, floats(expected, "loss")[0], 1e-5);
  model.backward(saved, gradient.view(), workspace);
  for (const NamedWeight& each : model.weights()) {
    const std::string name = "gradient." + stored_name(each.name);
    // A bias of keys that are not turned changes no weight; of the rest of such sums only rounding is left.
    expect_near(name, each.weight->gradient(), floats(expected, name), 1e-4);
  }
}

TEST_P(Pretrained, WritesTheSameText) {
  const Decoder model = Decoder::from_pretrained(kFolder / GetParam());
  const TensorFile expected(kFolder / GetParam() / "expected.safetensors");
  const Tensor<std::int32_t, 2> prompt = tokens(expected, "tokens"), written = tokens(expected, "generated");
  Workspace workspace;
  const std::vector<std::int32_t> found =
      generate(model, {prompt.data(), 7}, {.new_tokens = written.size(), .stop_token = 2}, workspace);
  EXPECT_EQ(found,
            std::vector<std::int32_t>(written.begin(), written.begin() + static_cast<std::ptrdiff_t>(found.size())));
}

INSTANTIATE_TEST_SUITE_P(Transformers, Pretrained, testing::Values("llama", "qwen3"));

// ---- what is refused ----

class Broken : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("phasor_pretrained_" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::copy(kFolder / "llama", folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  // Replaces text of config.json.
  void edit(const std::string& from, const std::string& to) const {
    std::ifstream in(folder_ / "config.json");
    std::string text((std::istreambuf_iterator<char>(in)), {});
    const std::size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    std::ofstream(folder_ / "config.json") << text.replace(at, from.size(), to);
  }

  fs::path folder_;
};

TEST_F(Broken, WrongShape) {
  edit("\"intermediate_size\": 48", "\"intermediate_size\": 56");
  EXPECT_ERROR(Decoder::from_pretrained(folder_), "gate_proj.weight is [48, 32], expected [56, 32]");
}
TEST_F(Broken, MissingKey) {
  edit("\"vocab_size\"", "\"other_size\"");
  EXPECT_ERROR(Decoder::from_pretrained(folder_), "config.json: vocab_size is missing, expected an integer");
}
TEST_F(Broken, OtherArchitecture) {
  edit("\"model_type\": \"llama\"", "\"model_type\": \"gpt2\"");
  EXPECT_ERROR(Decoder::from_pretrained(folder_), "expected llama or qwen3");
}
TEST_F(Broken, LayersThatAreNotThere) {
  edit("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3");
  EXPECT_ERROR(Decoder::from_pretrained(folder_), "model.layers.2.");
}
TEST_F(Broken, TensorsThatHaveNoPlace) {
  edit("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1");
  EXPECT_ERROR(Decoder::from_pretrained(folder_), "has a tensor model.layers.1.", "which this architecture does not");
}
TEST_F(Broken, NoWeights) {
  fs::remove(folder_ / "model.safetensors");
  EXPECT_ERROR(Decoder::from_pretrained(folder_), "model.safetensors");
}

}  // namespace
}  // namespace phasor
