#include "phasor/training/checkpoint.h"

#include <gtest/gtest.h>

#include "phasor/core/random.h"
#include "phasor/models/decoder_json.h"
#include "phasor/position/alibi.h"
#include "phasor/position/rope.h"
#include "phasor/training/trainer.h"
#include "small_model.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace phasor {
namespace {

TEST(EncodingJson, EveryRowOfTheRegistryComesBack) {
  const ModelShape shape{.heads = 2, .head_dim = 16, .model_dim = 32, .max_length = 64, .causal = true};
  for (const Encoding& row : encodings()) {
    const std::string json = encoding_to_json(row.defaults(shape));
    const EncodingConfig back = encoding_from_json(json, "test");
    EXPECT_EQ(back.name(), row.name);
    EXPECT_EQ(encoding_to_json(back), json);
  }
}

TEST(EncodingJson, KeepsEverySetting) {
  RopeConfig rope{.head_dim = 16,
                  .theta = 5e5,
                  .rotary_dim = 8,
                  .pairing = Pairing::adjacent,
                  .scaling = {.type = "yarn", .factor = 3.7, .original_max_position_embeddings = 32, .truncate = false},
                  .max_position_embeddings = 99,
                  .angles = Angles::float32,
                  .scores_follow_mscale = true};
  const EncodingConfig config = encoding_from_json(encoding_to_json(rope), "test");
  const auto& back = config.as<RopeConfig>();
  EXPECT_EQ(back.theta, 5e5);
  EXPECT_EQ(back.rotary_dim, 8);
  EXPECT_EQ(back.pairing, Pairing::adjacent);
  EXPECT_EQ(back.scaling.type, "yarn");
  EXPECT_EQ(back.scaling.factor, 3.7);
  EXPECT_EQ(back.scaling.original_max_position_embeddings, 32);
  EXPECT_EQ(back.scaling.truncate, false);
  EXPECT_FALSE(back.scaling.beta_fast.has_value());
  EXPECT_EQ(back.max_position_embeddings, 99);
  EXPECT_EQ(back.angles, Angles::float32);
  EXPECT_TRUE(back.scores_follow_mscale);
  EXPECT_TRUE(
      encoding_from_json(R"({"name": "alibi", "causal": true, "learnable": false})", "t").as<AlibiConfig>().causal);
}

TEST(EncodingJson, Errors) {
  EXPECT_ERROR(encoding_from_json("{}", "c.json"), "c.json: no name");
  EXPECT_ERROR(encoding_from_json(R"({"name": "spiral"})", "c.json"), "spiral", "rope");
  EXPECT_ERROR(encoding_from_json(R"({"name": "alibi", "causal": true})", "c.json"), "c.json: learnable: missing");
  EXPECT_ERROR(encoding_from_json(R"({"name": "alibi", "causal": 1, "learnable": false})", "c.json"),
               "c.json: causal: 1, expected true or false");
  EXPECT_ERROR(encoding_from_json(R"({"name": "none", "extra": 1})", "c.json"), "c.json: \"extra\": not known");
  EXPECT_ERROR(encoding_from_json(R"({"name": "sinusoidal", "theta": "x"})", "c.json"), "theta: \"x\"", "a number");
}

TEST(Checkpoint, ModelComesBack) {
  TemporaryFolder folder;
  for (const auto& [name, score] : {std::pair("rope", Score::dot), std::pair("learned", Score::dot),
                                    std::pair("t5", Score::dot), std::pair("rope", Score::w2)}) {
    Decoder model(small_config(11, name, score), 7);
    save_model(folder / "model", model);
    Decoder back = load_model(folder / "model");
    EXPECT_TRUE(same_bits(values_of(model), values_of(back)));
    EXPECT_EQ(decoder_to_json(model.config()), decoder_to_json(back.config()));
  }
}

TEST(Checkpoint, TrainingComesBack) {
  TemporaryFolder folder;
  const TrainingState start = small_training(6);
  const auto data = make_dataset(*start.data);
  Decoder model(small_config(data->vocabulary()), 1);
  Trainer trainer(model, *data, start);
  for (int i = 0; i < 4; i++) trainer.step();
  trainer.save(folder / "run");
  EXPECT_EQ(training_to_json(load_training_state(folder / "run")), training_to_json(trainer.state()));
}

TEST(Checkpoint, ErrorsNameTheFileAndTheFault) {
  TemporaryFolder folder;
  EXPECT_ERROR(load_model(folder / "none"), "none");
  Decoder model(small_config(11), 7);
  save_model(folder / "model", model);
  EXPECT_ERROR(load_training_state(folder / "model"), "training.json");

  const std::string config = contents_of(folder / "model/config.json");
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = config;
    changed.replace(changed.find(from), from.size(), to);
    folder.add("model/config.json", changed);
  };
  with("\"vocab_size\": 11", "\"vocab_size\": 12");
  EXPECT_ERROR(load_model(folder / "model"), "model.safetensors: embedding", "[11, 32]", "[12, 32]");
  with("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1");
  EXPECT_ERROR(load_model(folder / "model"), "model.safetensors: has blocks.1", "config.json");
  with("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3");
  EXPECT_ERROR(load_model(folder / "model"), "blocks.2");
  with("\"hidden_size\": 32", "\"hidden_size\": \"wide\"");
  EXPECT_ERROR(load_model(folder / "model"), "config.json: hidden_size: \"wide\"", "a whole number");
  with("\"dot\"", "\"cosine\"");
  EXPECT_ERROR(load_model(folder / "model"), "score: \"cosine\"", "dot, w2");
  with("\"phasor\"", "\"llama\"");
  EXPECT_ERROR(load_model(folder / "model"), "model_type \"llama\"", "\"phasor\"");
  folder.add("model/config.json", "{");
  EXPECT_ERROR(load_model(folder / "model"), "config.json: not JSON");
}

TEST(Checkpoint, BadTrainingFilesAreRefused) {
  TemporaryFolder folder;
  const TrainingState start = small_training(6);
  const auto data = make_dataset(*start.data);
  Decoder model(small_config(data->vocabulary()), 1);
  Trainer trainer(model, *data, start);
  trainer.step();
  trainer.save(folder / "run");
  TrainingState state = trainer.state();
  state.steps_done = 7;
  folder.add("run/training.json", training_to_json(state));
  EXPECT_ERROR(load_training_state(folder / "run"), "training.json", "steps_done 7, expected 0 to 6");
  state.steps_done = 1;
  state.losses.clear();
  folder.add("run/training.json", training_to_json(state));
  EXPECT_ERROR(load_training_state(folder / "run"), "training.json", "0 losses, expected one for each of steps_done 1");
  std::filesystem::remove(folder / "run/training.safetensors");
  AdamW optimizer(model.weights(), {});
  EXPECT_ERROR(restore_optimizer(folder / "run", start, optimizer), "training.safetensors");
}

TEST(Dataset, IsMadeFromItsConfig) {
  EXPECT_EQ(make_dataset({.task = "copy", .symbols = 8})->vocabulary(), 9);
  EXPECT_ERROR(make_dataset({}), "[make_dataset] task, text: none given");
  EXPECT_ERROR(make_dataset({.task = "copy", .text = "x"}), "both given");
  EXPECT_ERROR(make_dataset({.task = "juggle"}), "juggle", "copy");
}

}  // namespace
}  // namespace phasor
