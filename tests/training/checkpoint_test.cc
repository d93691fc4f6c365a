#include "phasor/training/checkpoint.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <memory>
#include <thread>

#include "phasor/core/random.h"
#include "phasor/models/safetensors.h"
#include "phasor/models/transformer_json.h"
#include "phasor/position/alibi.h"
#include "phasor/position/relative.h"
#include "phasor/position/rope.h"
#include "phasor/position/sinusoidal.h"
#include "phasor/training/trainer.h"
#include "small_model.h"
#include "support/expect_error.h"
#include "support/sanitized.h"
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
  EXPECT_ERROR(encoding_from_json("{}", "c.json"), "c.json: name: missing");
  EXPECT_ERROR(encoding_from_json(R"({"name": "spiral"})", "c.json"), "spiral", "rope");
  EXPECT_ERROR(encoding_from_json(R"({"name": "alibi", "causal": true})", "c.json"), "c.json: learnable: missing");
  EXPECT_ERROR(encoding_from_json(R"({"name": "alibi", "causal": 1, "learnable": false})", "c.json"),
               "c.json: causal: 1", "expected true or false");
  EXPECT_ERROR(encoding_from_json(R"({"name": "none", "extra": 1})", "c.json"), "c.json: \"extra\": not known");
  EXPECT_ERROR(encoding_from_json(R"({"name": "sinusoidal", "theta": "x"})", "c.json"), "theta: \"x\"", "a number");
}

TEST(Checkpoint, ModelComesBack) {
  TemporaryFolder folder;
  for (const auto& [name, score] : {std::pair("rope", Score::dot), std::pair("learned", Score::dot),
                                    std::pair("t5", Score::dot), std::pair("rope", Score::w2)}) {
    Transformer model(small_config(11, name, score), 7);
    save_model(folder / "model", model);
    Transformer back = load_model(folder / "model");
    EXPECT_TRUE(same_bits(values_of(model), values_of(back)));
    EXPECT_EQ(transformer_to_json(model.config()), transformer_to_json(back.config()));
  }
}

// Also a model whose layers have several encodings, with their weights.
TEST(Checkpoint, EncodingsOfLayersComeBack) {
  TemporaryFolder folder;
  TransformerConfig config = small_config(11, "t5");
  config.layer_encodings = {{.layers = {0}, .encoding = RelativeConfig{.max_distance = 3}},
                            {.layers = {1}, .encoding = NoneConfig{}}};
  Transformer model(config, 7);
  for (const NamedWeight& each : model.weights())
    if (each.name == "layer_positions.0.table") Philox(3).fill_normal(each.weight->value());
  save_model(folder / "model", model);
  Transformer back = load_model(folder / "model");
  EXPECT_TRUE(same_bits(values_of(model), values_of(back)));
  ASSERT_EQ(back.config().layer_encodings.size(), 2u);
  EXPECT_EQ(back.config().layer_encodings[0].layers, std::vector<std::int64_t>{0});
  EXPECT_EQ(back.config().layer_encodings[0].encoding.as<RelativeConfig>().max_distance, 3);
  EXPECT_EQ(transformer_to_json(model.config()), transformer_to_json(back.config()));
}

// Files of version 0.1 have one encoding for all layers.
TEST(Checkpoint, ConfigsOfEarlierVersionsHaveOneEncoding) {
  TransformerConfig config = small_config(11, "rope");
  std::string json = transformer_to_json(config);
  const std::string added = ",\n  \"layer_encodings\": []";
  ASSERT_NE(json.find(added), std::string::npos) << json;
  json.erase(json.find(added), added.size());
  EXPECT_EQ(transformer_to_json(transformer_from_json(json, "config.json")), transformer_to_json(config));
  json.replace(json.find("\"name\": \"rope\""), 14, "\"name\": \"spin\"");
  EXPECT_ERROR(transformer_from_json(json, "config.json"), "\"spin\"", "expected one of");
}

// In files of version 0.1 the table of log_sigma has another name, also among the moments.
TEST(Checkpoint, TheTableOfLogSigmaHadAnotherName) {
  TemporaryFolder folder;
  const TrainingState start = small_training(6);
  const auto data = make_dataset(*start.data);
  Transformer model(small_config(data->vocabulary(), "rope", Score::w2), 1);
  Trainer trainer(model, *data, start);
  for (int i = 0; i < 2; i++) trainer.step();
  trainer.save(folder / "run");
  for (const char* name : {"model.safetensors", "training.safetensors"}) {
    const TensorFile file(folder / "run" / name);
    std::vector<StoredTensor> tensors(file.tensors().begin(), file.tensors().end());
    int renamed = 0;
    for (StoredTensor& tensor : tensors)
      if (const std::size_t at = tensor.name.find("log_sigma_embedding"); at != std::string::npos)
        tensor.name.replace(at, 19, "log_variance_embedding"), renamed++;
    ASSERT_GT(renamed, 0) << name;
    save_tensors(folder / "run" / name, tensors, file.metadata());
  }
  const Checkpoint old(folder / "run");
  Transformer back = old.model();
  EXPECT_TRUE(same_bits(values_of(model), values_of(back)));
  Trainer resumed(back, *data, old);
  resumed.step(), trainer.step();
  EXPECT_TRUE(same_bits(values_of(model), values_of(back)));
}

TEST(Checkpoint, TrainingComesBack) {
  TemporaryFolder folder;
  const TrainingState start = small_training(6);
  const auto data = make_dataset(*start.data);
  Transformer model(small_config(data->vocabulary()), 1);
  Trainer trainer(model, *data, start);
  for (int i = 0; i < 4; i++) trainer.step();
  trainer.save(folder / "run");
  EXPECT_EQ(training_to_json(load_training_state(folder / "run")), training_to_json(trainer.state()));
}

TEST(Checkpoint, ErrorsNameTheFileAndTheFault) {
  TemporaryFolder folder;
  EXPECT_ERROR(load_model(folder / "none"), "none");
  Transformer model(small_config(11), 7);
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
  EXPECT_ERROR(load_model(folder / "model"), "model_type \"llama\"", "\"phasor\"", "Transformer::from_pretrained");
  for (const char* heads : {"1000000", "16777216"}) {
    with("\"num_attention_heads\": 2,\n  \"num_key_value_heads\": 2",
         "\"num_attention_heads\": " + std::string(heads) + ",\n  \"num_key_value_heads\": 2");
    EXPECT_ERROR(load_model(folder / "model"), "config.json: a model of", "numbers or more", "expected one of the");
  }
  folder.add("model/config.json", "{");
  EXPECT_ERROR(load_model(folder / "model"), "config.json: not JSON");
}

TEST(Checkpoint, BadTrainingFilesAreRefused) {
  TemporaryFolder folder;
  const TrainingState start = small_training(6);
  const auto data = make_dataset(*start.data);
  Transformer model(small_config(data->vocabulary()), 1);
  Trainer trainer(model, *data, start);
  trainer.step();
  trainer.save(folder / "run");
  TrainingState state = trainer.state();
  state.steps_done = 7;
  folder.add("run/training.json", training_to_json(state));
  EXPECT_ERROR(load_training_state(folder / "run"), "training.json", "steps_done 7", "expected 0 to 6");
  state.steps_done = 1;
  state.losses.clear();
  folder.add("run/training.json", training_to_json(state));
  EXPECT_ERROR(load_training_state(folder / "run"), "training.json", "0 losses", "steps_done 1");
  std::filesystem::remove(folder / "run/training.safetensors");
  AdamW optimizer(model.weights(), {});
  EXPECT_ERROR(Checkpoint(folder / "run").restore_optimizer(optimizer), "training.safetensors");
}

// What no training can have is refused when it is read, by the path of the setting.
TEST(Checkpoint, SettingsAreChecked) {
  const auto refused = [](auto change, const char* name, const char* value) {
    TrainingState state = small_training(6);
    change(state.settings);
    EXPECT_ERROR(training_from_json(training_to_json(state), "t.json"), std::string("t.json: settings.") + name + ": ",
                 value);
  };
  refused([](TrainSettings& s) { s.length = 0; }, "length", "0, expected 1 to");
  refused([](TrainSettings& s) { s.batch = INT64_MAX; }, "batch", "9223372036854775807, expected 1 to");
  refused([](TrainSettings& s) { s.schedule.steps = INT64_MAX; }, "schedule.steps", "expected 1 to 1000000000");
  refused([](TrainSettings& s) { s.schedule.warmup_steps = 7; }, "schedule.warmup_steps", "7, expected 0 to");
  refused([](TrainSettings& s) { s.schedule.peak = NAN; }, "schedule.peak", "nan");
  refused([](TrainSettings& s) { s.adamw.beta2 = 1.0; }, "adamw.beta2", "1, expected 0 to less than 1");
  refused([](TrainSettings& s) { s.clip_norm = -1.0; }, "clip_norm", "-1");
}

// Two trainings saved alternately in one folder: a reader gets all of one or all of the other. Weights, moments and
// state that were opened one by one would be mixed within the first few dozens.
TEST(Checkpoint, IsReadAsOneWhileItIsReplaced) {
  const TemporaryFolder folder;
  const TrainingState start = small_training(6);
  const auto data = make_dataset(*start.data);
  std::vector<std::unique_ptr<Transformer>> models;
  std::vector<std::unique_ptr<Trainer>> trainers;
  for (const int steps : {1, 3}) {
    models.push_back(std::make_unique<Transformer>(small_config(data->vocabulary()), 1));
    trainers.push_back(std::make_unique<Trainer>(*models.back(), *data, start));
    for (int i = 0; i < steps; i++) trainers.back()->step();
  }
  trainers[0]->save(folder / "run");
  std::atomic<bool> done = false;
  std::thread writer([&] {
    for (std::size_t i = 1; !done; i++) trainers[i % 2]->save(folder / "run");
  });
  for (int i = 0; i < (kSanitized ? 40 : 200); i++) {
    const Checkpoint checkpoint(folder / "run");
    Transformer model = checkpoint.model();
    Trainer resumed(model, *data, checkpoint);
    const std::size_t which = resumed.state().steps_done == 1 ? 0 : 1;
    EXPECT_TRUE(same_bits(values_of(model), values_of(*models[which]))) << "the weights of another save";
    resumed.step();  // with the moments of another save it would go elsewhere
    if (which == 1) continue;
    Transformer again(small_config(data->vocabulary()), 1);
    Trainer expected(again, *data, start);
    expected.step();
    expected.step();
    EXPECT_TRUE(same_bits(values_of(model), values_of(again))) << "the moments of another save";
  }
  done = true;
  writer.join();
}

// Files of an earlier version say nothing of an amplitude, and meant 1.
TEST(EncodingJson, EarlierSinusoidalConfigsKeepTheirMeaning) {
  const auto amplitude = [](const char* json) {
    return encoding_from_json(json, "c.json").as<SinusoidalConfig>().amplitude;
  };
  EXPECT_EQ(amplitude(R"({"name": "sinusoidal", "theta": 10000.0})"), 1.0);
  EXPECT_EQ(amplitude(R"({"name": "sinusoidal", "theta": 10000.0, "amplitude": 0.5})"), 0.5);
}

TEST(Dataset, IsMadeFromItsConfig) {
  EXPECT_EQ(make_dataset({.task = "copy", .symbols = 8})->vocabulary(), 9);
  EXPECT_ERROR(make_dataset({}), "[make_dataset]", "task, text: none given");
  EXPECT_ERROR(make_dataset({.task = "copy", .text = "x"}), "both given");
  EXPECT_ERROR(make_dataset({.task = "juggle"}), "juggle", "copy");
}

}  // namespace
}  // namespace phasor
