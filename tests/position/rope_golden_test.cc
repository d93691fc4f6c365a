// Every configuration that transformers turned into numbers: ours must be the same.
#include <cmath>
#include <map>
#include <set>

#include "phasor/core/dtype.h"
#include "phasor/position/alibi.h"
#include "phasor/position/hugging_face.h"
#include "phasor/position/relative.h"
#include "phasor/position/rope.h"
#include "support/expect_error.h"
#include "support/golden.h"

namespace phasor {
namespace {

using Json = nlohmann::json;

// Configurations that transformers accepts and we refuse, with what our error names.
const std::map<std::string, std::string>& refused() {
  static const std::map<std::string, std::string> cases{
      {"deepseek-v4 main", "model_type: \"deepseek_v4\""},
      {"deepseek-v4 compress", "model_type: \"deepseek_v4\""},
      {"yarn null truncate", "truncate: null"},    // transformers: false, although the default is true
      {"longrope factor below 1", "factor: 0.5"},  // transformers: a warning
  };
  return cases;
}

Tensor<std::int64_t, 3> positions_of(const Json& golden) {
  if (golden["positions"].is_null()) {
    const Json& axes = golden["positions_axes"];
    Tensor<std::int64_t, 3> positions(
        {static_cast<std::int64_t>(axes.size()), 1, static_cast<std::int64_t>(axes[0].size())});
    for (std::size_t a = 0; a < axes.size(); a++)
      for (std::size_t t = 0; t < axes[a].size(); t++) positions(a, 0, t) = axes[a][t].get<std::int64_t>();
    return positions;
  }
  const Json& list = golden["positions"];
  Tensor<std::int64_t, 3> positions({1, 1, static_cast<std::int64_t>(list.size())});
  for (std::size_t t = 0; t < list.size(); t++) positions(0, 0, t) = list[t].get<std::int64_t>();
  return positions;
}

RopeConfig config_of(const Json& golden) {
  const std::string type = golden["layer_type"].is_null() ? "" : golden["layer_type"].get<std::string>();
  return read_rope_config(golden["config"].dump()).rope(type);
}

std::int64_t length_of(const Json& golden, const Tensor<std::int64_t, 3>& positions) {
  if (!golden["length"].is_null()) return golden["length"].get<std::int64_t>();
  return *std::max_element(positions.begin(), positions.end()) + 1;
}

// The golden's frequencies, one for each pair: the axial case lists those of one axis.
std::vector<float> frequencies_of(const Json& golden, AxisLayout axes) {
  const std::vector<float> listed = floats(golden["inv_freq"]);
  std::vector<float> result = listed;
  if (axes == AxisLayout::axial) result.insert(result.end(), listed.begin(), listed.end());
  return result;
}

class RopeGolden : public ::testing::TestWithParam<std::size_t> {
 protected:
  const Json& golden() const { return rope_goldens()["cases"][GetParam()]; }
};

TEST_P(RopeGolden, EqualsTransformers) {
  const std::string name = golden()["name"];
  SCOPED_TRACE(name);
  if (const auto found = refused().find(name); found != refused().end()) {
    EXPECT_ERROR(config_of(golden()), found->second);
    return;
  }
  RopeConfig config = config_of(golden());
  EXPECT_EQ(std::string(pairing_name(config.pairing)), golden()["pairing"].get<std::string>());
  const Tensor<std::int64_t, 3> positions = positions_of(golden());
  const std::int64_t length = length_of(golden(), positions);

  // Exact frequencies: transformers' are float32, a few units in the last place off.
  const RopeFrequencies exact = rope_frequencies(config, length);
  config.angles = Angles::float32;
  const RopeFrequencies parity = rope_frequencies(config, length);
  EXPECT_NEAR(exact.attention_factor, golden()["attention_scaling"].get<double>(), 1e-12);
  const std::vector<float> expected = frequencies_of(golden(), config.axes);
  ASSERT_EQ(exact.inv_freq.size(), golden()["cos"][0].size());
  ASSERT_EQ(exact.inv_freq.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); i++) {
    EXPECT_NEAR(exact.inv_freq[i], expected[i], 2e-6 * expected[i]) << "pair " << i;
    EXPECT_EQ(static_cast<float>(parity.inv_freq[i]), expected[i]) << "pair " << i;
  }

  // Tables in its arithmetic, up to position 1,048,575: the last bit of its sines and cosines.
  const AnyRotaryTable any = rotary_table(config, positions.view(), length);
  const RotaryView table(any);
  for (std::int64_t t = 0; t < positions.shape()[2]; t++) {
    const std::vector<float> cos = floats(golden()["cos"][static_cast<std::size_t>(t)]);
    const std::vector<float> sin = floats(golden()["sin"][static_cast<std::size_t>(t)]);
    for (std::size_t i = 0; i < cos.size(); i++) {
      ASSERT_NEAR(table.cos(0, 0, t, i), cos[i], 1.3e-7) << "token " << t << ", pair " << i;
      ASSERT_NEAR(table.sin(0, 0, t, i), sin[i], 1.3e-7) << "token " << t << ", pair " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, RopeGolden, ::testing::Range<std::size_t>(0, rope_goldens()["cases"].size()),
                         [](const auto& param) {
                           std::string name = rope_goldens()["cases"][param.param]["name"];
                           for (char& c : name)
                             if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
                           return std::to_string(param.param) + "_" + name;
                         });

// What transformers refuses, we refuse.
TEST(RopeGoldens, RefusesWhatTransformersRefuses) {
  for (const Json& bad : rope_goldens()["rejected"]) {
    const std::string name = bad["name"];
    SCOPED_TRACE(name);
    if (name == "layer types of another length" || name == "unknown layer type") continue;  // not rotary settings
    EXPECT_THROW(read_rope_config(bad["config"].dump()), std::invalid_argument) << bad["config"].dump().substr(0, 300);
  }
}

TEST(RopeGoldens, CoverTheEcosystem) {
  std::set<std::string> types, models;
  for (const Json& golden : rope_goldens()["cases"]) {
    models.insert(golden["config"]["model_type"].get<std::string>());
    if (refused().contains(golden["name"].get<std::string>())) continue;
    types.insert(config_of(golden).scaling.type);
  }
  EXPECT_GE(models.size(), 15u);
  EXPECT_EQ(types.size(), rope_types().size());
}

// GPT-J keeps its own table of sines and cosines.
TEST(RopeGoldens, GptJ) {
  const Json& golden = rope_goldens()["gptj"];
  RopeConfig config = read_rope_config(golden["config"].dump()).rope();
  EXPECT_EQ(config.pairing, Pairing::adjacent);
  config.angles = Angles::float32;
  const Tensor<std::int64_t, 3> positions = positions_of(golden);
  const AdjacentTable table = adjacent_table(config, positions.view());
  for (std::size_t t = 0; t < golden["positions"].size(); t++) {
    const std::vector<float> cos = floats(golden["cos"][t]), sin = floats(golden["sin"][t]);
    ASSERT_EQ(static_cast<std::size_t>(table.cos.shape()[2]), cos.size());
    for (std::size_t i = 0; i < cos.size(); i++) {
      EXPECT_NEAR(table.cos(0, t, i), cos[i], 1.3e-7) << t << ' ' << i;
      EXPECT_NEAR(table.sin(0, t, i), sin[i], 1.3e-7) << t << ' ' << i;
    }
  }
}

// No object remembers: every length of a run that grows, shrinks and grows again gives the frequencies of that length.
// transformers agrees on the way up and after its reset; in between it keeps those of the longest length seen.
TEST(RopeGoldens, DynamicHasNoMemory) {
  for (const Json& run : rope_goldens()["dynamic_runs"]) {
    RopeConfig config = read_rope_config(run["config"].dump()).rope();
    config.angles = Angles::float32;
    std::int64_t longest = 0;
    std::size_t compared = 0;
    for (std::size_t i = 0; i < run["lengths"].size(); i++) {
      const std::int64_t length = run["lengths"][i].get<std::int64_t>();
      if (length < config.max_position_embeddings) longest = 0;
      if (length < longest) continue;
      longest = length;
      compared++;
      const RopeFrequencies ours = rope_frequencies(config, length);
      const std::vector<float> theirs = floats(run["inv_freq"][i]);
      for (std::size_t p = 0; p < theirs.size(); p++)
        EXPECT_EQ(static_cast<float>(ours.inv_freq[p]), theirs[p]) << "length " << length << ", pair " << p;
    }
    EXPECT_GE(compared, 2u);
  }
}

// Every model type that transformers knows, by its default configuration: read to the same numbers, or refused.
TEST(RopeGoldens, ModelTypesAreReadRightOrRefused) {
  std::size_t read = 0;
  std::string refused_types;
  for (const Json& golden : read_golden("models.json")) {
    const std::string model = golden["config"]["model_type"];
    SCOPED_TRACE(model);
    HuggingFaceRope rope;
    try {
      rope = read_rope_config(golden["config"].dump());
    } catch (const std::invalid_argument& error) {
      refused_types += "\n  " + std::string(error.what()).substr(0, 160);
      continue;
    }
    read++;
    for (const auto& [layer_type, list] : golden["inv_freq"].items()) {
      RopeConfig config = rope.rope(layer_type);
      if (!golden["pairing"].is_null()) {
        EXPECT_EQ(std::string(pairing_name(config.pairing)), golden["pairing"].get<std::string>());
      }
      config.angles = Angles::float32;
      std::vector<float> expected = floats(list), found;
      if (config.axes == AxisLayout::axial) expected.insert(expected.end(), expected.begin(), expected.end());
      for (const double w : rope_frequencies(config).inv_freq) found.push_back(static_cast<float>(w));
      EXPECT_EQ(found, expected);
    }
  }
  EXPECT_GE(read, 159u) << "refused:" << refused_types;
}

TEST(OtherGoldens, AlibiSlopes) {
  for (const auto& [model, by_heads] : rope_goldens()["slopes"].items())
    for (const auto& [heads, list] : by_heads.items()) {
      const std::vector<float> ours = alibi_slopes(std::stoll(heads)), theirs = floats(list);
      ASSERT_EQ(ours.size(), theirs.size());
      for (std::size_t h = 0; h < ours.size(); h++) {
        if (model == "falcon")  // rounds them to bfloat16
          EXPECT_EQ(static_cast<float>(bf16(ours[h])), theirs[h]) << heads;
        else  // BLOOM raises a rounded base to a power: up to 7e-7 off the exact slope
          EXPECT_NEAR(ours[h], theirs[h], 1e-6 * ours[h]) << model << heads;
      }
    }
}

TEST(OtherGoldens, T5Buckets) {
  const Json& golden = rope_goldens()["t5_buckets"];
  for (const bool bidirectional : {true, false}) {
    const Json& buckets = golden[bidirectional ? "bidirectional" : "causal"];
    ASSERT_EQ(buckets.size(), golden["relative"].size());
    for (std::size_t i = 0; i < buckets.size(); i++)
      EXPECT_EQ(t5_bucket(golden["relative"][i].get<std::int64_t>(), {.bidirectional = bidirectional}),
                buckets[i].get<std::int64_t>())
          << "distance " << golden["relative"][i];
  }
}

}  // namespace
}  // namespace phasor
