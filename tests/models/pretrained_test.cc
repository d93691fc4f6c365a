// Llama and Qwen3 of transformers with the same weights: logits, gradients and texts (tests/golden/make_pretrained.py).
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "models/golden_model.h"
#include "phasor/core/simd_target.h"
#include "phasor/layers/loss.h"
#include "phasor/models/generate.h"
#include "phasor/models/safetensors.h"
#include "support/every_target.h"
#include "support/expect_error.h"
#include "support/source_folder.h"
#include "support/temporary_folder.h"

namespace phasor {
namespace {

namespace fs = std::filesystem;

const fs::path kFolder = in_source_folder("tests/golden/pretrained");

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
  Transformer model = Transformer::from_pretrained(kFolder / GetParam());
  const GoldenModel expected(kFolder / GetParam());
  const Tensor<std::int32_t, 2> input = expected.tokens("tokens");
  const std::int64_t rows = input.size(), vocabulary = model.config().vocab_size;
  Tensor<float, 3> logits({input.shape()[0], input.shape()[1], vocabulary}), gradient(logits.shape());
  Workspace workspace;
  Transformer::Saved saved;
  model.forward(input.view(), logits.view(), &saved, workspace);
  expect_near("logits", logits, expected.floats("logits"), 1e-5);

  std::vector<std::int32_t> targets;
  for (std::int64_t i = 0; i < rows; i++)
    targets.push_back((i + 1) % input.shape()[1] == 0 ? kIgnoredTarget : input.data()[i + 1]);
  const CrossEntropy loss = cross_entropy({logits.data(), {rows, vocabulary}}, targets,
                                          {.grad_logits = {gradient.data(), {rows, vocabulary}}}, workspace);
  EXPECT_NEAR(loss.loss, expected.floats("loss")[0], 1e-5);
  model.backward(saved, gradient.view(), workspace);
  for (const NamedWeight& each : model.weights()) {
    const std::string name = "gradient." + stored_name(each.name);
    // A bias of keys that are not rotated changes no weight; of the rest of such sums only rounding is left.
    expect_near(name, each.weight->gradient(), expected.floats(name), 1e-4);
  }
}

TEST_P(Pretrained, WritesTheSameText) {
  const Transformer model = Transformer::from_pretrained(kFolder / GetParam());
  const GoldenModel expected(kFolder / GetParam());
  const Tensor<std::int32_t, 2> prompt = expected.tokens("tokens"), written = expected.tokens("generated");
  Workspace workspace;
  const std::vector<std::int32_t> found =
      generate(model, {prompt.data(), 7}, {.max_tokens = written.size(), .stop_tokens = {2}}, workspace);
  EXPECT_EQ(found, std::vector<std::int32_t>(written.begin(), written.end()));
}

// ---- the same models stored otherwise ----

Tensor<float, 3> logits_of(const Transformer& model, const GoldenModel& expected) {
  const Tensor<std::int32_t, 2> input = expected.tokens("tokens");
  Tensor<float, 3> logits({input.shape()[0], input.shape()[1], model.config().vocab_size});
  Workspace workspace;
  model.forward(input.view(), logits.view(), nullptr, workspace);
  return logits;
}

// The model's tensors in one file, as T, under the names that `name` gives them.
template <class T>
void store_as(const fs::path& from, const fs::path& to, const std::function<std::string(const std::string&)>& name) {
  const TensorFolder tensors(from);
  std::vector<std::vector<T>> values;
  std::vector<StoredTensor> converted;
  for (const StoredTensor& tensor : tensors.tensors()) {
    std::vector<float> whole(static_cast<std::size_t>(element_count(tensor)));
    read_floats(tensor, whole);
    std::vector<T>& stored = values.emplace_back();
    for (const float value : whole) stored.push_back(T(value));
    const StoredType type = std::is_same_v<T, float>  ? StoredType::f32
                            : std::is_same_v<T, bf16> ? StoredType::bf16
                                                      : StoredType::f16;
    converted.push_back({name(tensor.name), type, tensor.shape, std::as_bytes(std::span(stored))});
  }
  fs::copy_file(from / "config.json", to / "config.json");
  save_tensors(to / "model.safetensors", converted);
}

// Twelve roundings stand one behind the other: the table, in each of two layers the projections into attention, out of
// it, into and out of the feed-forward, then the head, and two to spare for norms. Each is off by at most `unit`.
template <class T>
void expect_rounded_model(const char* name, double unit) {
  TemporaryFolder folder;
  store_as<T>(kFolder / name, folder.path(), [](const std::string& each) { return each; });
  Transformer model = Transformer::from_pretrained(folder.path(), Precision::float32);
  Transformer exact = Transformer::from_pretrained(kFolder / name);
  const NamedWeights found = model.weights(), whole = exact.weights();
  for (std::size_t w = 0; w < found.size(); w++)
    for (std::size_t i = 0; i < found[w].weight->value().size(); i++)
      ASSERT_EQ(found[w].weight->value()[i], static_cast<float>(T(whole[w].weight->value()[i]))) << found[w].name;
  const GoldenModel expected(kFolder / name);
  const Tensor<float, 3> logits = logits_of(model, expected);
  expect_near("logits", logits, expected.floats("logits"), 12 * unit);
}

TEST_P(Pretrained, FromBf16) { expect_rounded_model<bf16>(GetParam(), 0x1p-9); }
TEST_P(Pretrained, FromF16) { expect_rounded_model<f16>(GetParam(), 0x1p-12); }

// ---- kept in bf16 ----

std::vector<float> floats_of(const Tensor<float, 3>& x) { return {x.begin(), x.end()}; }

// A model whose file has BF16: as it is, and widened.
class Bf16Model {
 public:
  explicit Bf16Model(const char* name) : expected_(kFolder / name) {
    store_as<bf16>(kFolder / name, folder_.path(), [](const std::string& each) { return each; });
    kept.emplace(Transformer::from_pretrained(folder_.path()));
    widened.emplace(Transformer::from_pretrained(folder_.path(), Precision::float32));
  }

  std::vector<float> logits(const Transformer& model) const { return floats_of(logits_of(model, expected_)); }
  const GoldenModel& expected() const { return expected_; }

  std::optional<Transformer> kept, widened;

 private:
  TemporaryFolder folder_;
  GoldenModel expected_;
};

TEST_P(Pretrained, MatricesStayInBf16) {
  Bf16Model model(GetParam());
  const NamedWeights kept = model.kept->weights(), widened = model.widened->weights();
  for (std::size_t w = 0; w < kept.size(); w++) {
    const Weight &narrow = *kept[w].weight, &wide = *widened[w].weight;
    ASSERT_EQ(narrow.is_bf16(), narrow.shape().size() == 2) << kept[w].name;
    ASSERT_FALSE(wide.is_bf16());
    for (std::int64_t i = 0; narrow.is_bf16() && i < narrow.size(); i++)
      ASSERT_EQ(static_cast<float>(narrow.bf16_matrix().data[i]), wide.value()[static_cast<std::size_t>(i)]);
  }
  EXPECT_EQ(model.kept->suitable_storage(), CacheStorage::bf16);
  EXPECT_EQ(model.widened->suitable_storage(), CacheStorage::float32);
}

// Without instructions for bf16 the arithmetic is that of the widened model. With them, activations are rounded at the
// ten products of two layers, their norms and the head: each is off by at most 2^-9.
TEST_P(Pretrained, LogitsInBf16AreThoseOfTheSameWeightsInFloat) {
  const Bf16Model model(GetParam());
  std::vector<std::string> targets = simd_targets();
  targets.emplace_back("EMU_BF16");
  for (const std::string& target : targets) {
    set_simd_target(target);
    const bool rounds = target == "AMX" || target == "AVX512_BF16" || target == "EMU_BF16";
    expect_near(target, model.logits(*model.kept), model.logits(*model.widened), rounds ? 12 * 0x1p-9 : 1e-5);
    set_default_precision(Precision::float32);
    expect_near(target + ", float", model.logits(*model.kept), model.logits(*model.widened), 1e-5);
    set_default_precision(Precision::storage);
  }
  set_simd_target("");
}

// f16 is widened when it is multiplied: no digit is lost.
TEST_P(Pretrained, MatricesStayInF16) {
  const TemporaryFolder folder;
  store_as<f16>(kFolder / GetParam(), folder.path(), [](const std::string& each) { return each; });
  Transformer kept = Transformer::from_pretrained(folder.path());
  const Transformer widened = Transformer::from_pretrained(folder.path(), Precision::float32);
  for (const NamedWeight& each : kept.weights())
    EXPECT_EQ(each.weight->is_f16(), each.weight->shape().size() == 2) << each.name;
  EXPECT_EQ(kept.suitable_storage(), CacheStorage::f16);
  const GoldenModel expected(kFolder / GetParam());
  for (const std::string& target : simd_targets()) {
    set_simd_target(target);
    expect_near(target, logits_of(kept, expected), floats_of(logits_of(widened, expected)), 1e-6);
  }
  set_simd_target("");
  const Tensor<std::int32_t, 2> prompt = expected.tokens("tokens");
  Workspace workspace;
  const GenerateOptions options{.max_tokens = 12, .storage = CacheStorage::float32};
  EXPECT_EQ(generate(kept, {prompt.data(), 7}, options, workspace),
            generate(widened, {prompt.data(), 7}, options, workspace));
}

TEST_P(Pretrained, FloatsMayBeRoundedToBf16) {
  Bf16Model model(GetParam());
  Transformer rounded = Transformer::from_pretrained(kFolder / GetParam(), Precision::bf16);
  const NamedWeights found = rounded.weights(), expected = model.kept->weights();
  for (std::size_t w = 0; w < found.size(); w++) {
    const Weight &here = *found[w].weight, &there = *expected[w].weight;
    ASSERT_EQ(here.is_bf16(), there.is_bf16()) << found[w].name;
    for (std::int64_t i = 0; here.is_bf16() && i < here.size(); i++)
      ASSERT_EQ(here.bf16_matrix().data[i].bits, there.bf16_matrix().data[i].bits) << found[w].name;
  }
}

// Decoding widens weights, a prompt may round activations, and the cache is bf16.
TEST_P(Pretrained, DecodingInBf16IsThatOfTheSameWeightsInFloat) {
  const Bf16Model model(GetParam());
  const Tensor<std::int32_t, 2> prompt = model.expected().tokens("tokens");
  for (const std::string& target : simd_targets()) {
    set_simd_target(target);
    std::vector<float> last[2];
    for (const Transformer* each : {&*model.kept, &*model.widened}) {
      Transformer::Cache cache = each->make_cache({.capacity = 16, .storage = each->suitable_storage()});
      Tensor<float, 2> logits({1, each->config().vocab_size});
      Workspace workspace;
      each->decode({prompt.data(), {1, 7}}, cache, logits.view(), workspace);
      each->decode({prompt.data() + 7, {1, 1}}, cache, logits.view(), workspace);
      last[each == &*model.widened].assign(logits.begin(), logits.end());
    }
    expect_near(target, last[0], last[1], 12 * 0x1p-9);
  }
  set_simd_target("");
}

TEST_P(Pretrained, WeightsOfBf16AreNotTrained) {
  Bf16Model model(GetParam());
  const Tensor<std::int32_t, 2> input = model.expected().tokens("tokens");
  Tensor<float, 3> logits({input.shape()[0], input.shape()[1], model.kept->config().vocab_size});
  Workspace workspace;
  Transformer::Saved saved;
  model.kept->forward(input.view(), logits.view(), &saved, workspace);
  EXPECT_ERROR(model.kept->backward(saved, logits.view(), workspace), "[Weight] weight: kept in bf16",
               "expected floats, which training needs");
}

INSTANTIATE_TEST_SUITE_P(Transformers, Pretrained, testing::Values("llama", "qwen3"));

// transformers computes all of it in bf16. With activations of float the error is smaller, also where products round
// them.
TEST(Bf16, LogitsAreAsNearToThoseInFloatAsTransformersAre) {
  const GoldenModel expected(kFolder / "llama_bf16");
  const Transformer model = Transformer::from_pretrained(expected.folder());
  const std::vector<float> theirs = expected.floats("logits"), exact = expected.floats("logits_in_float");
  const auto error = [&](const std::vector<float>& logits) {
    double sum = 0;
    for (std::size_t i = 0; i < exact.size(); i++) sum += std::pow(static_cast<double>(logits[i]) - exact[i], 2);
    return std::sqrt(sum);
  };
  on_every_target_and_emulations([&] {
    const std::vector<float> logits = floats_of(logits_of(model, expected));
    ASSERT_EQ(logits.size(), exact.size());
    EXPECT_LE(error(logits), error(theirs));
    expect_near("logits", logits, theirs, 12 * 0x1p-9);
  });
}

TEST(Tied, TheTableMayBeStoredAsTheHead) {
  TemporaryFolder folder;
  store_as<float>(kFolder / "qwen3", folder.path(), [](const std::string& name) {
    return name == "model.embed_tokens.weight" ? "lm_head.weight" : name;
  });
  const TensorFolder stored(folder.path());
  ASSERT_EQ(stored.find("model.embed_tokens.weight"), nullptr);
  const GoldenModel expected(kFolder / "qwen3");
  const Tensor<float, 3> logits = logits_of(Transformer::from_pretrained(folder.path()), expected);
  expect_near("logits", logits, expected.floats("logits"), 1e-5);
}

// MiniMind's own code computes what Qwen3 does; its config has keys of its own.
TEST(MiniMind, LogitsAreThoseOfQwen3) {
  const TemporaryFolder folder;
  for (const fs::directory_entry& file : fs::directory_iterator(kFolder / "qwen3"))
    if (file.path().filename() != "config.json") fs::copy_file(file.path(), folder.path() / file.path().filename());
  std::ofstream(folder.path() / "config.json") << R"({"model_type": "minimind", "vocab_size": 61, "hidden_size": 32,
      "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 48,
      "max_position_embeddings": 64, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "inference_rope_scaling": false,
      "use_moe": false, "flash_attn": true, "dropout": 0.0, "hidden_act": "silu"})";
  const GoldenModel expected(kFolder / "qwen3");
  expect_near("logits", logits_of(Transformer::from_pretrained(folder.path()), expected), expected.floats("logits"),
              1e-5);
}

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

// Keys that change what a model computes: asked for where this type does not have them.
TEST_F(Broken, KeysOfOtherModels) {
  edit("\"mlp_bias\"", "\"quantization_config\": {\"bits\": 4}, \"mlp_bias\"");
  EXPECT_ERROR(Transformer::from_pretrained(folder_), "config.json: quantization_config: {\"bits\":4}",
               "models of type llama do not have");
  edit("\"quantization_config\": {\"bits\": 4}", "\"num_experts\": 0, \"alibi\": false, \"logit_scale\": null");
  Transformer::from_pretrained(folder_);
}
TEST_F(Broken, UnknownActivation) {
  edit("\"silu\"", "\"quick_gelu\"");
  EXPECT_ERROR(Transformer::from_pretrained(folder_), "config.json: hidden_act: \"quick_gelu\"",
               "expected one of gelu");
}
TEST_F(Broken, WrongShape) {
  edit("\"intermediate_size\": 48", "\"intermediate_size\": 56");
  EXPECT_ERROR(Transformer::from_pretrained(folder_), "gate_proj.weight is [48, 32]", "expected [56, 32]");
}
TEST_F(Broken, MissingKey) {
  edit("\"vocab_size\"", "\"other_size\"");
  EXPECT_ERROR(Transformer::from_pretrained(folder_), "config.json: vocab_size: missing", "expected it");
}
TEST_F(Broken, OtherArchitecture) {
  edit("\"model_type\": \"llama\"", "\"model_type\": \"mamba\"");
  EXPECT_ERROR(Transformer::from_pretrained(folder_), "config.json: model_type is \"mamba\"",
               "expected one of bert, bloom");
}
// Memory is not asked for before the files are looked at.
TEST_F(Broken, SizesThatNobodyHas) {
  edit("\"vocab_size\": 61", "\"vocab_size\": 1000000000000");
  EXPECT_ERROR(Transformer::from_pretrained(folder_), "vocab_size: 1000000000000", "expected 1 to 2147483647");
  edit("\"vocab_size\": 1000000000000", "\"vocab_size\": 2000000000");
  EXPECT_ERROR(Transformer::from_pretrained(folder_), "config.json: a model of 640", "expected one of the 19616");
  edit("\"vocab_size\": 2000000000", "\"vocab_size\": 61");
  edit("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 60000");
  EXPECT_ERROR(Transformer::from_pretrained(folder_), "config.json: a model of 4608", "expected one of the 19616");
}
TEST_F(Broken, LayersThatAreNotThere) {
  edit("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3");
  EXPECT_ERROR(Transformer::from_pretrained(folder_), "model.layers.2.");
}
TEST_F(Broken, TensorsThatHaveNoPlace) {
  edit("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1");
  EXPECT_ERROR(Transformer::from_pretrained(folder_), "has a tensor model.layers.1.",
               "which this architecture does not");
}
TEST_F(Broken, NoWeights) {
  fs::remove(folder_ / "model.safetensors");
  EXPECT_ERROR(Transformer::from_pretrained(folder_), "model.safetensors");
}

}  // namespace
}  // namespace phasor
