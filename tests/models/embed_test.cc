// Embeddings of texts: pooled states of transformers (tests/golden/architectures), of words that are single tokens;
// and what the files of sentence-transformers say.
#include "phasor/models/embed.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "models/golden_model.h"
#include "phasor/models/text_files.h"
#include "phasor/position/learned.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace phasor {
namespace {

const std::filesystem::path kFolder = in_source_folder("tests/golden/architectures");

// Token n is the word wn. The lengths that the file asks for are those of another use.
Tokenizer words(std::int64_t count) {
  std::string vocabulary;
  for (std::int64_t n = 0; n < count; n++)
    vocabulary += (n ? ", \"w" : "\"w") + std::to_string(n) + "\": " + std::to_string(n);
  return Tokenizer::from_json(
      R"({"truncation": {"max_length": 3, "strategy": "LongestFirst", "stride": 0},
          "padding": {"strategy": {"Fixed": 50}, "direction": "Right", "pad_id": 0, "pad_type_id": 0, "pad_token": "w0"},
          "pre_tokenizer": {"type": "WhitespaceSplit"},
          "model": {"type": "WordPiece", "unk_token": "w0", "continuing_subword_prefix": "##",
                    "max_input_chars_per_word": 100, "vocab": {)" +
          vocabulary + "}}}",
      "words");
}

std::string text_of(std::span<const std::int32_t> tokens) {
  std::string text;
  for (const std::int32_t token : tokens) text += "w" + std::to_string(token) + " ";
  return text;
}

std::vector<float> normalized(const std::vector<double>& row) {
  double squares = 0;
  for (const double value : row) squares += value * value;
  std::vector<float> result;
  result.reserve(row.size());
  for (const double value : row) result.push_back(static_cast<float>(value / std::sqrt(squares)));
  return result;
}

struct Expected {
  std::vector<std::string> texts;
  std::vector<std::vector<double>> means, firsts;
};

// Text 0 is the shorter of the two, so that its row must not follow the order of computation.
Expected expected_of(const GoldenModel& golden) {
  const Tensor<std::int32_t, 2> tokens = golden.tokens("tokens");
  const std::vector<std::int64_t> lengths = golden.integers("lengths");
  const std::vector<float> states = golden.floats("states");
  const std::size_t longest = static_cast<std::size_t>(tokens.shape()[1]), batch = lengths.size();
  const std::size_t width = states.size() / batch / longest;
  Expected expected;
  for (std::size_t b = 0; b < batch; b++) {
    const auto length = static_cast<std::size_t>(lengths[b]);
    expected.texts.push_back(text_of({&tokens(static_cast<std::int64_t>(b), 0), length}));
    std::vector<double> mean(width), first(width);
    for (std::size_t t = 0; t < length; t++)
      for (std::size_t c = 0; c < width; c++) {
        const double value = states[(b * longest + t) * width + c];
        mean[c] += value / static_cast<double>(length);
        if (t == 0) first[c] = value;
      }
    expected.means.push_back(mean);
    expected.firsts.push_back(first);
  }
  return expected;
}

class Embeddings : public testing::TestWithParam<const char*> {
 protected:
  void expect_rows(const EmbedSettings& settings, const std::vector<std::vector<double>>& rows) {
    const Tensor<float, 2> found = embed(model_, tokenizer_, expected_.texts, settings, workspace_);
    ASSERT_EQ(found.shape(), Shape<2>({std::ssize(expected_.texts), model_.config().hidden_size}));
    for (std::size_t n = 0; n < rows.size(); n++) {
      const std::span<const float> row(&found(static_cast<std::int64_t>(n), 0), rows[n].size());
      const std::vector<float> wanted =
          settings.normalize ? normalized(rows[n]) : std::vector<float>(rows[n].begin(), rows[n].end());
      expect_near("row " + std::to_string(n), row, wanted, 1e-5);
    }
  }

  GoldenModel golden_{kFolder / GetParam()};
  Transformer model_ = Transformer::from_pretrained(golden_.folder());
  Tokenizer tokenizer_ = words(model_.config().vocab_size);
  Expected expected_ = expected_of(golden_);
  Workspace workspace_;
};

TEST_P(Embeddings, ArePooledStatesOfTransformers) {
  for (const bool normalize : {true, false})
    for (const std::int64_t batch : {1, 2, 32}) {
      expect_rows({.normalize = normalize, .batch = batch}, expected_.means);
      expect_rows({.pooling = Pooling::mean, .normalize = normalize, .batch = batch}, expected_.means);
      expect_rows({.pooling = Pooling::cls, .normalize = normalize, .batch = batch}, expected_.firsts);
    }
}

TEST_P(Embeddings, TextsAreCutAtMaxTokens) {
  const EmbedSettings whole{.pooling = Pooling::mean}, cut{.pooling = Pooling::mean, .max_tokens = 2};
  const std::vector<std::string> long_text{"w5 w6 w7 w8"}, short_text{"w5 w6"};
  const Tensor<float, 2> one = embed(model_, tokenizer_, long_text, cut, workspace_);
  const Tensor<float, 2> two = embed(model_, tokenizer_, short_text, whole, workspace_);
  EXPECT_TRUE(std::equal(one.begin(), one.end(), two.begin()));
}

TEST_P(Embeddings, AreRefused) {
  const std::vector<std::string> texts{"w1", " "};
  EXPECT_ERROR(embed(model_, tokenizer_, texts, {}, workspace_), "texts: text 1 has no tokens");
  EXPECT_ERROR(embed(model_, tokenizer_, texts, {.batch = 0}, workspace_), "batch: 0, expected at least 1");
  EXPECT_EQ(embed(model_, tokenizer_, {}, {}, workspace_).shape(), Shape<2>({0, model_.config().hidden_size}));
}

INSTANTIATE_TEST_SUITE_P(Transformers, Embeddings, testing::Values("bert", "bert_states", "roberta", "modernbert"));

TEST(Embed, ACausalModelNeedsAPooling) {
  const Transformer model = Transformer::from_pretrained(kFolder / "gpt2");
  const Tokenizer tokenizer = words(model.config().vocab_size);
  const std::vector<std::string> texts{"w1 w2"};
  Workspace workspace;
  EXPECT_ERROR(embed(model, tokenizer, texts, {}, workspace), "pooling: none for a causal model");
  EXPECT_EQ(embed(model, tokenizer, texts, {.pooling = Pooling::mean}, workspace).shape()[0], 1);
  EXPECT_ERROR(embed(model, tokenizer, texts, {.pooling = Pooling::mean, .max_tokens = 65}, workspace),
               "max_tokens: 65, expected at most the 64 that the model's positions encode");
}

TEST(Embed, PoolingsHaveNames) {
  for (const Pooling pooling : {Pooling::mean, Pooling::cls})
    EXPECT_EQ(pooling_from_name(pooling_name(pooling)), pooling);
  EXPECT_ERROR(pooling_from_name("max"), "pooling: max, expected mean or cls");
}

class EmbedFiles : public testing::Test {
 protected:
  EmbedFiles() {
    std::filesystem::create_directory(folder_.path() / "1_Pooling");
    write("modules.json", modules({"Transformer", "Pooling", "Normalize"}));
    write("1_Pooling/config.json", R"({"word_embedding_dimension": 8, "pooling_mode_mean_tokens": true})");
  }
  void write(const char* name, const std::string& text) const { std::ofstream(folder_.path() / name) << text; }
  static std::string modules(const std::vector<std::string>& types) {
    std::string text;
    for (const std::string& type : types)
      text += (text.empty() ? "[" : ", ") +
              (R"({"idx": 0, "name": "0", "path": ")" + std::string(type == "Pooling" ? "1_Pooling" : "") +
               R"(", "type": "sentence_transformers.models.)" + type + "\"}");
    return text + "]";
  }
  EmbedSettings read() const {
    return load_embed_settings(folder_.path(),
                               {.max_position_embeddings = 64, .encoding = LearnedConfig{.max_length = 64}});
  }
  TemporaryFolder folder_;
};

TEST_F(EmbedFiles, SayPoolingAndNormalization) {
  EXPECT_EQ(read().pooling, Pooling::mean);
  EXPECT_TRUE(read().normalize);
  write("modules.json", modules({"Transformer", "Pooling"}));
  write("1_Pooling/config.json", R"({"pooling_mode_mean_tokens": false, "pooling_mode_cls_token": true})");
  EXPECT_EQ(read().pooling, Pooling::cls);
  EXPECT_FALSE(read().normalize);
  write("1_Pooling/config.json", R"({"embedding_dimension": 8, "pooling_mode": "cls", "include_prompt": true})");
  EXPECT_EQ(read().pooling, Pooling::cls);
  std::filesystem::remove(folder_.path() / "modules.json");
  EXPECT_FALSE(read().pooling.has_value());
  EXPECT_TRUE(read().normalize);
}

TEST_F(EmbedFiles, SayTheLongestText) {
  EXPECT_EQ(read().max_tokens, 64);
  write("tokenizer_config.json", R"({"model_max_length": 1000000000000000019884624838656})");
  EXPECT_EQ(read().max_tokens, 64);
  write("tokenizer_config.json", R"({"model_max_length": 32})");
  EXPECT_EQ(read().max_tokens, 32);
  write("sentence_bert_config.json", R"({"max_seq_length": null, "do_lower_case": false})");
  EXPECT_EQ(read().max_tokens, 32);
  write("sentence_bert_config.json", R"({"max_seq_length": 48, "do_lower_case": false})");
  EXPECT_EQ(read().max_tokens, 48);
  write("sentence_bert_config.json", R"({"max_seq_length": 65})");
  EXPECT_ERROR(read(), "sentence_bert_config.json: max_seq_length: 65, expected 1 to 64");
}

TEST_F(EmbedFiles, LeaveCaseToTheTokenizer) {
  write("sentence_bert_config.json", R"({"max_seq_length": 48, "do_lower_case": true})");
  for (const char* normalizer : {R"({"type": "BertNormalizer", "lowercase": true})", R"({"type": "Lowercase"})",
                                 R"({"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Lowercase"}]})"}) {
    write("tokenizer.json", R"({"normalizer": )" + std::string(normalizer) + "}");
    EXPECT_EQ(read().max_tokens, 48) << normalizer;
  }
  for (const char* normalizer : {R"(null)", R"({"type": "NFC"})", R"([1])", R"({"type": "Sequence", "normalizers": 3})",
                                 R"({"type": "Sequence", "normalizers": [{"type": "NFC"}]})"}) {
    write("tokenizer.json", R"({"normalizer": )" + std::string(normalizer) + "}");
    SCOPED_TRACE(normalizer);
    EXPECT_ERROR(read(), "do_lower_case: true");
  }
}

TEST_F(EmbedFiles, MayHaveTheNameOfRoberta) {
  write("sentence_roberta_config.json", R"({"max_seq_length": 48})");
  EXPECT_EQ(read().max_tokens, 48);
  write("sentence_bert_config.json", R"({"max_seq_length": 40})");
  EXPECT_EQ(read().max_tokens, 40);
}

TEST_F(EmbedFiles, AskForWhatIsNotHere) {
  write("sentence_bert_config.json", R"({"do_lower_case": true})");
  EXPECT_ERROR(read(), "sentence_bert_config.json: do_lower_case: true, expected false");
  write("tokenizer.json", R"({"normalizer": {"type": "BertNormalizer", "lowercase": false}})");
  EXPECT_ERROR(read(), "do_lower_case: true, expected false, or a normalizer in tokenizer.json");
  write("config_sentence_transformers.json", R"({"prompts": {"query": "?"}, "default_prompt_name": "query"})");
  EXPECT_ERROR(read(), "config_sentence_transformers.json: default_prompt_name: \"query\", expected none");
  for (const char* mode : {"lasttoken", "max", "weightedmean"}) {
    write("1_Pooling/config.json", R"({"pooling_mode": ")" + std::string(mode) + "\"}");
    EXPECT_ERROR(read(), "1_Pooling/config.json: pooling_mode: " + std::string(mode) + ", expected mean or cls");
  }
  write("1_Pooling/config.json", R"({"pooling_mode_lasttoken": true})");
  EXPECT_ERROR(read(), "pooling_mode: lasttoken, expected mean or cls");
  write("1_Pooling/config.json", R"({"pooling_mode_mean_tokens": true, "pooling_mode_cls_token": true})");
  EXPECT_ERROR(read(), "pooling_mode: cls, mean, expected mean or cls");
}

TEST_F(EmbedFiles, SayWhatTheTransformerComputes) {
  const auto config = [](const char* task, const char* output) {
    return R"({"transformer_task": ")" + std::string(task) +
           R"(", "modality_config": {"text": {"method": "forward", "method_output_name": ")" + output +
           R"("}}, "module_output_name": "token_embeddings"})";
  };
  write("sentence_bert_config.json", config("feature-extraction", "last_hidden_state"));
  EXPECT_EQ(read().pooling, Pooling::mean);
  write("sentence_bert_config.json", config("fill-mask", "last_hidden_state"));
  EXPECT_ERROR(read(), "transformer_task: \"fill-mask\", expected feature-extraction");
  write("sentence_bert_config.json", config("feature-extraction", "logits"));
  EXPECT_ERROR(read(), "modality_config.text.method_output_name: \"logits\", expected last_hidden_state");
  write("sentence_bert_config.json", R"({"modality_config": {"image": {}}})");
  EXPECT_ERROR(read(), "modality_config.text: missing");
}

TEST_F(EmbedFiles, HaveOtherModules) {
  write("modules.json", modules({"Transformer", "Pooling", "Dense", "Normalize"}));
  EXPECT_ERROR(read(), "modules.json: modules Transformer, Pooling, Dense, Normalize, expected Transformer, Pooling");
  write("modules.json", "[]");
  EXPECT_ERROR(read(), "modules.json: modules none");
  write("modules.json", "{}");
  EXPECT_ERROR(read(), "modules.json: modules: {}, expected a list");
  write("modules.json", R"([], "other": 1)");
  EXPECT_ERROR(read(), "modules.json: \"other\": not known");
  write("modules.json", R"([{"type": "x.Transformer", "path": "0_BERT"}, {"type": "x.Pooling", "path": "1_Pooling"}])");
  EXPECT_ERROR(read(), "modules[0].path: \"0_BERT\", expected \"\"");
  write("modules.json", R"([{"type": "x.Transformer", "path": ""}, {"type": "x.Pooling", "path": "../other"}])");
  EXPECT_ERROR(read(), "modules[1].path: \"../other\", expected the name of a folder");
  write("modules.json", R"([{"type": "x.Transformer", "path": ""}, {"type": "x.Pooling", "path": "2_Pooling"}])");
  EXPECT_ERROR(read(), "2_Pooling/config.json: no such file");
}

}  // namespace
}  // namespace phasor
