// Reading configs: layer types, notes, and every way a config can be wrong.
#include "phasor/position/hugging_face.h"

#include <unistd.h>

#include <fstream>

#include "support/expect_error.h"

namespace phasor {
namespace {

std::string with(const std::string& keys) {
  return R"({"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "max_position_embeddings": 2048)" +
         (keys.empty() ? "" : ", " + keys) + "}";
}

TEST(HuggingFace, ReadsFilesAndFolders) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("phasor_hugging_face_test_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "config.json") << with(R"("rope_theta": 5e5)");
  EXPECT_EQ(load_rope_config(folder).rope().theta, 5e5);
  EXPECT_EQ(load_rope_config(folder / "config.json").rope().head_dim, 128);
  EXPECT_ERROR(load_rope_config(folder / "missing.json"), "missing.json", "cannot be read");
  EXPECT_ERROR(load_rope_config(std::string(5000, 'a')), "cannot be read");
  std::filesystem::remove_all(folder);
}

TEST(HuggingFace, LayerTypes) {
  const HuggingFaceRope gemma = read_rope_config(
      R"({"model_type": "gemma3_text", "rope_theta": 1e6, "rope_local_base_freq": 1e4,
          "rope_scaling": {"rope_type": "linear", "factor": 8.0}})");
  ASSERT_EQ(gemma.layers.size(), 2u);
  EXPECT_EQ(gemma.rope("full_attention").scaling.type, "linear");
  EXPECT_EQ(gemma.rope("sliding_attention").scaling.type, "default");
  EXPECT_EQ(gemma.rope("sliding_attention").theta, 1e4);
  EXPECT_ERROR(gemma.rope(), "layer_type: \"\"", "full_attention, sliding_attention");
  EXPECT_ERROR(gemma.rope("global"), "\"global\"", "full_attention");
}

TEST(HuggingFace, LayersThatDoNotRotate) {
  const HuggingFaceRope nested = read_rope_config(
      R"({"model_type": "my_own", "head_dim": 64,
          "rope_parameters": {"full_attention": null, "sliding_attention": {"rope_theta": 1e4}}})");
  EXPECT_FALSE(nested.layers[0].rope.has_value());
  EXPECT_ERROR(nested.rope("full_attention"), "full_attention", "do not rotate");
  EXPECT_EQ(nested.rope("sliding_attention").head_dim, 64);

  const HuggingFaceRope smollm = read_rope_config(
      R"({"model_type": "smollm3", "hidden_size": 64, "num_attention_heads": 1, "num_hidden_layers": 9})");
  EXPECT_EQ(smollm.layers_without_rope, (std::vector<std::int64_t>{3, 7}));
  const HuggingFaceRope listed = read_rope_config(
      R"({"model_type": "smollm3", "hidden_size": 64, "num_attention_heads": 1, "no_rope_layers": [1, 0, 1]})");
  EXPECT_EQ(listed.layers_without_rope, (std::vector<std::int64_t>{1}));
  const HuggingFaceRope cohere = read_rope_config(
      R"({"model_type": "cohere2", "hidden_size": 64, "num_attention_heads": 1,
          "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]})");
  EXPECT_EQ(cohere.layers_without_rope, (std::vector<std::int64_t>{1}));
  const std::string exaone =
      R"({"model_type": "exaone4", "hidden_size": 64, "num_attention_heads": 1, "num_hidden_layers": 8)";
  EXPECT_EQ(read_rope_config(exaone + "}").layers_without_rope, (std::vector<std::int64_t>{3, 7}));
  EXPECT_TRUE(read_rope_config(exaone + R"(, "sliding_window": null})").layers_without_rope.empty());
  EXPECT_ERROR(read_rope_config(R"({"model_type": "smollm3", "head_dim": 8, "no_rope_layers": [5]})"), "contains 5");
  EXPECT_EQ(read_rope_config(R"({"model_type": "smollm3", "head_dim": 8})").notes.size(), 1u);
}

TEST(HuggingFace, SaysWhatItAssumesAndLeavesOut) {
  const HuggingFaceRope read =
      read_rope_config(with(R"("rope_scaling": {"type": "yarn", "factor": 4.0, "finetuned": true})"));
  ASSERT_EQ(read.notes.size(), 2u);
  EXPECT_NE(read.notes[0].find("max_position_embeddings 2048 is assumed"), std::string::npos);
  EXPECT_EQ(read.notes[1], "finetuned: not used by type yarn");
  EXPECT_TRUE(read_rope_config(with("")).notes.empty());
  const HuggingFaceRope unknown = read_rope_config(R"({"model_type": "my_own", "head_dim": 64, "rope_theta": 1e4})");
  ASSERT_EQ(unknown.notes.size(), 1u);
  EXPECT_NE(unknown.notes[0].find("half-split pairs"), std::string::npos);
}

TEST(HuggingFace, BadValuesNameTheKeyAndWhatIsAllowed) {
  const auto scaling = [](const std::string& value) { return with("\"rope_scaling\": " + value); };
  EXPECT_ERROR(read_rope_config(scaling(R"({"type": "ntk_yarn", "factor": 2})")), "rope_type: \"ntk_yarn\"",
               "default, linear, dynamic, yarn, longrope, llama3, proportional");
  EXPECT_ERROR(read_rope_config(scaling(R"({"type": "ntk", "factor": 2})")), "rope_type: \"ntk\"");
  EXPECT_ERROR(read_rope_config(scaling(R"({"type": "linear"})")), "factor: missing", "linear");
  EXPECT_ERROR(read_rope_config(scaling(R"({"type": "linear", "factor": "8"})")), "factor: \"8\"", "a number");
  EXPECT_ERROR(read_rope_config(scaling(R"({"type": "linear", "factor": true})")), "factor: true", "a number");
  EXPECT_ERROR(read_rope_config(scaling(R"({"type": "linear", "factor": 0.5})")), "factor: 0.5", "at least 1");
  EXPECT_ERROR(read_rope_config(scaling(R"({"type": 5})")), "type: 5", "a string");
  EXPECT_ERROR(read_rope_config(scaling(R"("linear")")), "rope_scaling: \"linear\"", "an object");
  EXPECT_ERROR(read_rope_config(scaling(R"({"rope_type": "llama3", "factor": 8})")), "low_freq_factor: missing");
  EXPECT_ERROR(read_rope_config(scaling(R"({"rope_type": "llama3", "factor": 8, "low_freq_factor": 4,
                                            "high_freq_factor": 1})")),
               "high_freq_factor: 1", "low_freq_factor 4");
  EXPECT_ERROR(read_rope_config(scaling(R"({"type": "longrope", "short_factor": [1, 2], "long_factor": [1, 2],
                                            "original_max_position_embeddings": 64})")),
               "short_factor: 2 numbers", "expected 64");
  EXPECT_ERROR(read_rope_config(scaling(R"({"type": "longrope", "short_factor": [1, "a"], "long_factor": [1]})")),
               "short_factor: \"a\"", "a number");
  EXPECT_ERROR(read_rope_config(scaling(R"({"type": "yarn", "factor": 4, "original_max_position_embeddings": 1.5})")),
               "original_max_position_embeddings: 1.5", "a whole number");
  EXPECT_ERROR(read_rope_config(scaling(R"({"type": "yarn", "factor": 4, "truncate": 1})")), "truncate: 1",
               "true or false");
  EXPECT_ERROR(read_rope_config(scaling(R"({"type": "yarn", "factor": 4, "beta_fast": 1, "beta_slow": 2})")),
               "beta_fast: 1", "beta_slow 2");
  EXPECT_ERROR(read_rope_config(with(R"("rope_theta": "big")")), "rope_theta: \"big\"", "a number");
  EXPECT_ERROR(read_rope_config(with(R"("rope_theta": null)")), "rope_theta: null", "a number");
  EXPECT_ERROR(read_rope_config(with(R"("rope_theta": -1)")), "theta: -1", "above 1");
  EXPECT_ERROR(read_rope_config(with(R"("partial_rotary_factor": 1.5)")), "partial_rotary_factor: 1.5", "at most 1");
  EXPECT_ERROR(read_rope_config(with(R"("head_dim": 127)")), "rotary_dim: 127", "even");
  EXPECT_ERROR(read_rope_config(with(R"("head_dim": -8)")), "head_dim: -8");
  EXPECT_ERROR(read_rope_config(with(R"("head_dim": 1000000000000)")), "head_dim: 1000000000000", "2 to 65536");
  EXPECT_ERROR(read_rope_config(with(R"("head_dim": 1e300)")), "head_dim: 1e+300", "a whole number");
  EXPECT_ERROR(read_rope_config(with(R"("rope_parameters": {"full_attention": {"rope_theta": 1e4}})")),
               "full_attention: {", "llama has one rotary embedding");
  EXPECT_ERROR(read_rope_config(with(R"("partial_rotary_factor": 0.001)")),
               "partial_rotary_factor: 0.001 of head_dim 128", "0 channels");
  EXPECT_ERROR(read_rope_config(with(R"("partial_rotary_factor": 0.7)")), "0.7 of head_dim 128 is 89 channels");
  EXPECT_ERROR(read_rope_config(with(R"("rotary_dim": 0)")), "rotary_dim: 0", "even number from 2");
  EXPECT_ERROR(read_rope_config(scaling(R"({"type": "linear", "factor": 2, "more": {}})")), "more: {}", "no object");
  EXPECT_ERROR(read_rope_config(scaling(R"({"type": "yarn", "factor": 2, "attention_factor": 1e300})")),
               "attention factor");
}

TEST(HuggingFace, RulesOfModelTypes) {
  // Kimi K2 is a DeepSeek-V3 by another name.
  const RopeConfig kimi = read_rope_config(R"({"model_type": "kimi_k25", "text_config": {"model_type": "kimi_k2",
      "qk_rope_head_dim": 64, "rope_theta": 50000, "max_position_embeddings": 262144, "rope_scaling": {"type": "yarn",
      "factor": 64.0, "original_max_position_embeddings": 4096, "mscale": 1.0, "mscale_all_dim": 1.0}}})")
                              .rope();
  EXPECT_EQ(kimi.pairing, Pairing::adjacent);
  EXPECT_TRUE(kimi.scores_follow_mscale);
  // The vision tower's hidden_size is the language model's.
  EXPECT_EQ(
      read_rope_config(R"({"model_type": "qwen2_vl_vision", "embed_dim": 1280, "hidden_size": 3584, "num_heads": 16})")
          .rope()
          .head_dim,
      80);
  EXPECT_EQ(read_rope_config(R"({"model_type": "pixtral", "head_dim": 64, "rope_parameters": {"rope_type": "axial",
                                 "rope_theta": 10000.0}})")
                .rope()
                .axes,
            AxisLayout::alternating);
  EXPECT_EQ(
      read_rope_config(R"({"model_type": "gptj", "n_embd": 352, "n_head": 8, "rotary_dim": 30})").rope().rotary_dim,
      30);
  EXPECT_ERROR(
      read_rope_config(R"({"model_type": "phi3", "head_dim": 96, "rope_scaling": {"type": "linear", "factor": 2}})"),
      "rope_type: \"linear\"", "default, longrope");
  EXPECT_ERROR(read_rope_config(R"({"model_type": "gemma3_text", "rope_parameters": {"full_attention": {},
                                    "slidng_attention": {"rope_theta": 77}}})"),
               "slidng_attention", "sliding_attention");
  EXPECT_ERROR(read_rope_config(R"({"model_type": "phi3", "head_dim": 4, "original_max_position_embeddings": 1,
      "rope_scaling": {"type": "longrope", "short_factor": [1, 1], "long_factor": [1, 1], "factor": 4}})"),
               "original_max_position_embeddings: 1");
}

TEST(HuggingFace, ModelsItCannotReadAreNamed) {
  EXPECT_ERROR(read_rope_config(R"({"model_type": "gpt2", "n_embd": 768, "n_head": 12})"), "\"gpt2\"", "rope_theta");
  EXPECT_ERROR(read_rope_config(R"({"model_type": "nanochat", "rope_theta": 1e4})"), "\"nanochat\"",
               "rules of its own");
  EXPECT_ERROR(read_rope_config(R"({"model_type": "falcon", "alibi": true})"), "alibi: true");
  EXPECT_ERROR(read_rope_config(R"({"model_type": "llama"})"), "head_dim: missing", "num_attention_heads");
  EXPECT_ERROR(read_rope_config(R"({"model_type": "llama", "hidden_size": 100, "num_attention_heads": 3})"),
               "num_attention_heads: 3", "hidden_size 100");
}

TEST(HuggingFace, ScalingAlone) {
  const RopeScaling yarn = read_rope_scaling(R"({"type": "yarn", "factor": 4, "truncate": false})", 2048);
  EXPECT_EQ(yarn.type, "yarn");
  EXPECT_EQ(yarn.factor, 4.0);
  EXPECT_EQ(yarn.truncate, false);
  EXPECT_EQ(yarn.original_max_position_embeddings, 2048);
  const RopeScaling given = read_rope_scaling(R"({"rope_type": "yarn", "original_max_position_embeddings": 7})", 9);
  EXPECT_EQ(given.original_max_position_embeddings, 7);
  const RopeScaling none = read_rope_scaling("{}", 2048);
  EXPECT_EQ(none.type, "default");
  EXPECT_FALSE(none.original_max_position_embeddings);
  EXPECT_EQ(read_rope_scaling(R"({"rope_type": "ntk", "factor": 2})").type, "ntk");
  EXPECT_ERROR(read_rope_scaling(R"({"rope_type": "spiral"})"), "spiral", "yarn");
  EXPECT_ERROR(read_rope_scaling(R"({"rope_theta": 5})"), "rope_theta: 5", "settings of a scaling");
  EXPECT_ERROR(read_rope_scaling(R"({"factor": "big"})"), "factor: \"big\"", "a number");
  EXPECT_ERROR(read_rope_scaling("[]"), "expected");
}

TEST(HuggingFace, BrokenTextIsAnErrorAndNeverACrash) {
  EXPECT_ERROR(read_rope_config(""), "not JSON");
  EXPECT_ERROR(read_rope_config("[1, 2]"), "[1,2]", "an object");
  const std::string whole = with(R"("rope_scaling": {"type": "linear", "factor": 2.0})");
  for (std::size_t length = 0; length < whole.size(); length++)
    EXPECT_ERROR(read_rope_config(whole.substr(0, length)), "[read_rope_config]");
  EXPECT_ERROR(read_rope_config(with(R"("rope_theta": 1e4, "rope_theta": 1e5)")), "\"rope_theta\" is given twice");
  EXPECT_ERROR(read_rope_config(with(R"("rope_scaling": {"type": "linear", "factor": 2, "factor": 4})")),
               "\"factor\" is given twice");
  EXPECT_ERROR(read_rope_config(std::string(10'000, '[') + std::string(10'000, ']')), "nested deeper than 64");
  EXPECT_ERROR(read_rope_config(R"({"a":)" + std::string(10'000, '[')), "nested deeper than 64");
  EXPECT_ERROR(read_rope_config(std::string((16 << 20) + 1, ' ')), "16777217 bytes", "at most");
  EXPECT_ERROR(read_rope_config("{\"model_type\": \"\xff\"}"), "not JSON");
}

}  // namespace
}  // namespace phasor
