// Folders that are not written as transformers writes them today: older names of tensors and files, heads that
// config.json calls tied and are not, and configs that ask for what cannot be.
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "models/golden_model.h"
#include "phasor/models/encoder_decoder.h"
#include "phasor/models/safetensors.h"
#include "phasor/models/transformer.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace phasor {
namespace {

namespace fs = std::filesystem;

const fs::path kFolder = in_source_folder("tests/golden/architectures");

std::string text_of(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

// A copy of a golden model whose tensors and config may be changed.
class Copy {
 public:
  explicit Copy(const char* name) : name_(name) {
    const TensorFolder files(kFolder / name);
    for (const StoredTensor& tensor : files.tensors()) {
      bytes_.emplace_back(tensor.bytes.begin(), tensor.bytes.end());
      tensors_.push_back(tensor);
    }
    fs::copy_file(kFolder / name / "config.json", folder_.path() / "config.json");
  }

  const fs::path& folder() const { return folder_.path(); }
  void rename(const std::function<void(std::string&)>& change) {
    for (StoredTensor& tensor : tensors_) change(tensor.name);
  }
  // `factor` times the values of another tensor, of floats.
  void add(const std::string& name, const std::string& like, float factor) {
    const TensorFolder files(kFolder / name_);
    const StoredTensor& from = files.at(like);
    std::vector<float> values(static_cast<std::size_t>(element_count(from)));
    read_floats(from, values);
    for (float& value : values) value *= factor;
    const auto bytes = std::as_bytes(std::span(values));
    bytes_.emplace_back(bytes.begin(), bytes.end());
    tensors_.push_back({name, from.type, from.shape, {}});
  }
  void save() {
    for (std::size_t i = 0; i < tensors_.size(); i++) tensors_[i].bytes = bytes_[i];
    save_tensors(folder() / "model.safetensors", tensors_);
  }
  // Puts keys before the first one of config.json, and takes others out by other names.
  void edit(const std::string& first, const std::vector<std::string>& without = {}) const {
    std::string text = text_of(kFolder / name_ / "config.json");
    for (const std::string& key : without) {
      const std::size_t at = text.find("\"" + key + "\"");
      ASSERT_NE(at, std::string::npos) << key;
      text.insert(at + 1, "not_");
    }
    text.insert(text.find('{') + 1, first.empty() ? "" : first + ",");
    std::ofstream(folder() / "config.json") << text;
  }

 private:
  std::string name_;
  std::vector<std::vector<std::byte>> bytes_;
  std::vector<StoredTensor> tensors_;
  TemporaryFolder folder_;
};

std::vector<float> logits_of(const fs::path& folder) {
  Workspace workspace;
  const std::vector<std::int32_t> tokens{3, 1, 4, 1, 5};
  if (EncoderDecoder::is_in(folder)) {
    const EncoderDecoder model = EncoderDecoder::from_pretrained(folder);
    Transformer::Cache cache = model.read({tokens.data(), {1, 5}}, {}, {.capacity = 5}, workspace);
    Tensor<float, 2> logits({1, model.decoder().config().vocab_size});
    model.decoder().decode({tokens.data(), {1, 5}}, cache, logits.view(), workspace);
    return {logits.begin(), logits.end()};
  }
  const Transformer model = Transformer::from_pretrained(folder);
  Tensor<float, 3> logits({1, 5, model.config().vocab_size});
  model.forward({tokens.data(), {1, 5}}, logits.view(), nullptr, workspace);
  return {logits.begin(), logits.end()};
}

void replace(std::string& name, const std::string& from, const std::string& to) {
  if (const std::size_t at = name.find(from); at != std::string::npos) name.replace(at, from.size(), to);
}

TEST(OlderFiles, GammaAndBetaOfBert) {
  Copy copy("bert");
  copy.rename([](std::string& name) {
    replace(name, "LayerNorm.weight", "LayerNorm.gamma");
    replace(name, "LayerNorm.bias", "LayerNorm.beta");
  });
  copy.save();
  const TensorFolder files(copy.folder());
  ASSERT_NE(files.find("bert.embeddings.LayerNorm.gamma"), nullptr);
  EXPECT_EQ(logits_of(copy.folder()), logits_of(kFolder / "bert"));
}

TEST(OlderFiles, TheTableOfATranslatorMayHaveTheNameOfAPart) {
  for (const char* part : {"encoder", "decoder"}) {
    Copy t5("t5"), marian("marian");
    t5.rename([&](std::string& name) { replace(name, "shared.", std::string(part) + ".embed_tokens."); });
    marian.rename([&](std::string& name) { replace(name, "shared.", std::string(part) + ".embed_tokens."); });
    t5.save();
    marian.save();
    EXPECT_EQ(logits_of(t5.folder()), logits_of(kFolder / "t5"));
    EXPECT_EQ(logits_of(marian.folder()), logits_of(kFolder / "marian"));
  }
}

// A head of twice the values gives twice the logits, also where config.json says that it is tied.
TEST(Tied, AHeadWithValuesOfItsOwnIsNot) {
  const std::vector<std::array<const char*, 3>> models{{"gpt2", "lm_head.weight", "transformer.wte.weight"},
                                                       {"smollm3", "lm_head.weight", "model.embed_tokens.weight"},
                                                       {"t5", "lm_head.weight", "shared.weight"},
                                                       {"t5_gated", "lm_head.weight", "shared.weight"}};
  for (const auto& [name, head, table] : models)
    for (const float factor : {1.0f, 2.0f}) {
      Copy copy(name);
      copy.add(head, table, factor);
      copy.save();
      std::vector<float> expected = logits_of(kFolder / name);
      for (float& value : expected) value *= factor;
      EXPECT_EQ(logits_of(copy.folder()), expected) << name << ", " << factor;
    }
}

TEST(Config, WhatCannotBeIsRefused) {
  struct Case {
    const char *model, *keys;
    std::vector<std::string> without;
    const char* error;
  };
  const std::vector<Case> cases{
      {"gemma3_text", "\"sliding_window_pattern\": 0", {}, "sliding_window_pattern: 0, expected 1 or more"},
      {"modernbert",
       "\"global_attn_every_n_layers\": 0",
       {"global_attn_every_n_layers"},
       "global_attn_every_n_layers: 0, expected 1 or more"},
      {"modernbert",
       "\"classifier_activation\": \"relu\"",
       {"classifier_activation"},
       "classifier_activation: \"relu\", expected that of hidden_activation"},
      {"gpt2", "\"n_embd\": 9000000000000000000", {"n_embd"}, "n_embd: 9000000000000000000, expected at most"},
      {"mistral", "\"sliding_window\": 1e300", {"sliding_window"}, "sliding_window: 1e+300, expected a whole number"},
      {"marian",
       "\"decoder_start_token_id\": 4294967296",
       {"decoder_start_token_id"},
       "decoder_start_token_id: 4294967296, expected 0 to"},
      {"smollm3",
       "\"use_sliding_window\": true, \"sliding_window\": 4",
       {"use_sliding_window", "sliding_window", "layer_types"},
       "layer_types: missing"}};
  for (const Case& each : cases) {
    Copy copy(each.model);
    copy.save();
    copy.edit(each.keys, each.without);
    EXPECT_ERROR(logits_of(copy.folder()), "config.json: " + std::string(each.error));
  }
}

TEST(Config, ANullIsNoWindow) {
  Copy copy("qwen2_window");
  copy.save();
  copy.edit("\"use_sliding_window\": true, \"sliding_window\": null",
            {"use_sliding_window", "sliding_window", "layer_types"});
  EXPECT_EQ(Transformer::from_pretrained(copy.folder()).config().sliding_window, 0);
}

TEST(ModelTypes, XlmRobertaAndCamembertAreRobertas) {
  for (const char* type : {"xlm-roberta", "camembert"}) {
    Copy copy("roberta");
    copy.edit("\"model_type\": \"" + std::string(type) + "\"", {"model_type"});
    copy.save();
    expect_near(type, logits_of(copy.folder()), logits_of(kFolder / "roberta"), 1e-7);
  }
}

}  // namespace
}  // namespace phasor
