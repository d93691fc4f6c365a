#include "report/atlas.h"

#include <gtest/gtest.h>

#include "page_checks.h"
#include "phasor/position/hugging_face.h"
#include "support/expect_error.h"
#include "support/source_folder.h"

namespace phasor::report {
namespace {

bool has_id(const std::vector<XmlElement>& elements, const std::string& id) {
  for (const XmlElement& element : elements)
    if (element.attributes.contains("id") && element.attributes.at("id") == id) return true;
  return false;
}

TEST(Atlas, HasEveryPicture) {
  const auto elements = expect_good_page(atlas_page("a test", {plain_rope()}));
  for (const char* id : {"sinusoidal-map", "sinusoidal-curves", "rope-frequencies", "rope-wavelengths", "rope-angles",
                         "rope-table", "rope-similarity", "rope-decay", "scaling-ratios", "scaling-wavelengths",
                         "alibi-map", "alibi-lines", "alibi-slopes", "t5-buckets"})
    EXPECT_TRUE(has_id(elements, id)) << id;
  EXPECT_EQ(with_class(elements, "heat").size(), 4u);
  EXPECT_EQ(with_class(elements, "chart").size(), 10u);
  EXPECT_EQ(named(elements, "figure").size(), named(elements, "details").size());
}

TEST(Atlas, DrawsTheRightNumbers) {
  const std::string page = atlas_page("a test", {plain_rope()});
  // theta^(-62/64); the same divided by 8; a whole turn of the last pair; cosine of one radian.
  for (const char* part : {">0.0001334<", ">0.125<", ">47,117<", "position 1: from 0.54 at pair of dimensions 0 to 1",
                           // A position is most like itself; head 2 of 8 has slope 1/8; the last bucket.
                           "to 1 at position 3<", "query 63: from -7.88 at key 0 to 0 at key 63", ">31<"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
}

TEST(Atlas, HasASectionForEachKindOfLayer) {
  const HuggingFaceRope model = load_rope_config(in_source_folder("tests/configs/gemma3.json"));
  const std::string page = atlas_page("gemma3", rotating_layers(model));
  const auto elements = expect_good_page(page);
  EXPECT_TRUE(has_id(elements, "rope"));
  EXPECT_TRUE(has_id(elements, "rope-2"));
  EXPECT_NE(page.find("Rotary embedding of sliding_attention"), std::string::npos);
}

TEST(Atlas, TakesEveryScalingAndLayout) {
  const char* configs[] = {
      R"({"model_type": "llama", "head_dim": 128, "max_position_embeddings": 131072, "rope_theta": 5e5, "rope_scaling":
         {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 8192}})",
      R"({"model_type": "llama", "head_dim": 8, "max_position_embeddings": 64, "rope_scaling":
         {"rope_type": "dynamic", "factor": 2.0}})",
      R"({"model_type": "llama", "head_dim": 4, "max_position_embeddings": 4096, "rope_scaling":
         {"rope_type": "longrope", "short_factor": [1, 2], "long_factor": [3, 4], "original_max_position_embeddings": 128}})",
      R"({"model_type": "llama", "head_dim": 2, "max_position_embeddings": 64})",
      R"({"model_type": "llama", "head_dim": 64})"};
  for (const char* config : configs) expect_good_page(atlas_page("a test", rotating_layers(read_rope_config(config))));
}

TEST(Atlas, EscapesItsSubject) { expect_good_page(atlas_page("<script>&\"", {{"<b>", plain_rope().rope}})); }

TEST(Atlas, RefusesAModelThatDoesNotRotate) {
  EXPECT_ERROR(rotating_layers({}), "rotating_layers", "no layer rotates");
  EXPECT_ERROR(atlas_page("a test", {}), "ropes", "none");
}

}  // namespace
}  // namespace phasor::report
