#include "report/comparison.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "made_up_comparison.h"
#include "page_checks.h"
#include "support/expect_error.h"

namespace phasor::report {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::vector<std::string> ranked_names(const Comparison& comparison) {
  std::vector<std::string> names;
  for (const std::size_t i : ranking(comparison)) names.push_back(comparison.encodings[i].name);
  return names;
}

// Two lengths, one seed: a name and its two scores, NaN for not possible.
Comparison scored(std::vector<std::tuple<std::string, double, double>> rows) {
  Comparison comparison;
  comparison.settings.length = 8;
  comparison.settings.eval_lengths = {8, 16};
  for (const auto& [name, near, far] : rows) {
    EncodingResult encoding{.name = name};
    encoding.scores.push_back({8, {near}});
    encoding.scores.push_back({16});
    if (std::isnan(far))
      encoding.scores[1].not_possible = "too long";
    else
      encoding.scores[1].by_seed = {far};
    comparison.encodings.push_back(encoding);
  }
  return comparison;
}

TEST(Ranking, GoesByTheLongestLengthThenTheNext) {
  EXPECT_EQ(ranked_names(scored({{"a", 0.9, 0.1}, {"b", 0.5, 0.3}, {"c", 0.8, 0.1}, {"d", 1.0, kNan}})),
            (std::vector<std::string>{"b", "a", "c", "d"}));
}

TEST(Ranking, LowerMayBeBetter) {
  Comparison comparison = scored({{"a", 1, 2.0}, {"b", 1, 1.0}, {"c", 1, kNan}});
  comparison.settings.higher_is_better = false;
  EXPECT_EQ(ranked_names(comparison), (std::vector<std::string>{"b", "a", "c"}));
}

TEST(Ranking, AScoreThatIsNoNumberComesAfterAllThatAre) {
  Comparison comparison = scored({{"none", 1, kNan}, {"diverged", 1, 0.0}, {"bad", 1, -5.0}});
  comparison.encodings[1].scores[1].by_seed = {0.5, kNan};
  EXPECT_EQ(ranked_names(comparison), (std::vector<std::string>{"bad", "diverged", "none"}));
}

TEST(Ranking, EqualsKeepTheirOrder) {
  EXPECT_EQ(ranked_names(scored({{"b", 1, 1}, {"a", 1, 1}})), (std::vector<std::string>{"b", "a"}));
}

TEST(Ranking, TableAndNotesNameEveryEncoding) {
  testing::internal::CaptureStdout();
  ranking_table(made_up_comparison()).print();
  const std::string text = testing::internal::GetCapturedStdout();
  for (const MadeUpEncoding& encoding : kMadeUp)
    EXPECT_NE(text.find(encoding.name), std::string::npos) << encoding.name;
  EXPECT_NE(text.find("accuracy at 128"), std::string::npos);
  const std::vector<std::string> notes = ranking_notes(made_up_comparison());
  ASSERT_EQ(notes.size(), 4u);
  EXPECT_EQ(notes[0], "mean +- sample standard deviation over 3 seeds");
  EXPECT_EQ(notes[1], "learned at 256, 512, 1,024: not possible, its table ends at position 127");
  EXPECT_EQ(notes[2], "rope+ntk: the model trained as rope");
}

TEST(Spread, MeanAndSampleDeviation) {
  const Spread found = spread({3.0, 1.0, 5.0});
  EXPECT_EQ(found.mean, 3.0);
  EXPECT_EQ(found.deviation, 2.0);
  EXPECT_EQ(spread({3.0}).mean, 3.0);
  EXPECT_FALSE(spread({3.0}).deviation.has_value());
  EXPECT_TRUE(std::isnan(spread({}).mean));
}

// 2 is the deviation of 1, 3, 5, as 2 is half their range: 0, 0, 6 tell the two apart.
TEST(Ranking, PlusMinusIsTheSampleDeviation) {
  Comparison comparison = scored({{"a", 0, 0}});
  comparison.settings.seeds = {1, 2, 3};
  for (LengthScore& score : comparison.encodings[0].scores) score.by_seed = {0.0, 0.0, 6.0};
  testing::internal::CaptureStdout();
  ranking_table(comparison).print();
  EXPECT_NE(testing::internal::GetCapturedStdout().find("2.000 +-3.464"), std::string::npos);
  EXPECT_NE(comparison_page(comparison).find("± 3.464"), std::string::npos);
  EXPECT_NE(comparison_page(comparison).find("sample standard deviation"), std::string::npos);
}

// ---- the page ----

std::size_t groups(const std::vector<XmlElement>& elements) {
  return named(with_class(elements, "series"), "g").size();
}

std::size_t atlas_groups() {
  Comparison empty = made_up_comparison();
  empty.encodings.clear();
  return groups(expect_good_page(comparison_page(empty)));
}

TEST(ComparisonPage, DrawsEveryEncodingInEveryChart) {
  const Comparison comparison = made_up_comparison();
  const std::string page = comparison_page(comparison);
  const auto elements = expect_good_page(page);
  // Lengths and positions: all ten. Losses: the eight that were trained.
  EXPECT_EQ(groups(elements) - atlas_groups(), 10u + 10u + 8u + 8u);
  EXPECT_EQ(with_class(elements, "maps").size(), 10u);
  EXPECT_EQ(with_class(elements, "none").size(), 3u);  // learned beyond its table
  EXPECT_EQ(with_class(elements, "best").size(), 4u);
  EXPECT_NE(page.find("trained at 128"), std::string::npos);
  EXPECT_NE(page.find(comparison.settings.command), std::string::npos);
  EXPECT_NE(page.find(comparison.settings.machine), std::string::npos);
  EXPECT_NE(page.find("query 12 “m”: most on key"), std::string::npos);
}

TEST(ComparisonPage, StyleOfAnEncodingIsTheSameInAllCharts) {
  const std::string page = comparison_page(made_up_comparison());
  // w2-alibi is the tenth encoding, also in the charts where the two untrained ones are missing.
  std::size_t found = 0;
  for (std::size_t at = page.find("<title>w2-alibi</title>"); at != std::string::npos;
       at = page.find("<title>w2-alibi</title>", at + 1)) {
    EXPECT_TRUE(page.substr(0, at).ends_with("<g class=\"series c9 d1\">")) << page.substr(at - 60, 60);
    found++;
  }
  EXPECT_EQ(found, 4u);
}

TEST(ComparisonPage, OneEncodingOneSeedOnePoint) {
  Comparison comparison = scored({{"only", 0.5, 0.25}});
  comparison.encodings[0].runs = {{1, 0.1, {{1, 2.0}}}};
  comparison.encodings[0].by_position = {16, {{3, 0.5}}};
  comparison.encodings[0].attention = {{0, 0, 1, 1, {1.0}}};
  const auto elements = expect_good_page(comparison_page(comparison));
  EXPECT_EQ(groups(elements) - atlas_groups(), 3u);
  EXPECT_TRUE(with_class(elements, "spread").empty());
}

TEST(ComparisonPage, TakesWhatIsMissing) {
  expect_good_page(comparison_page(scored({})));
  expect_good_page(comparison_page(scored({{"a", 0.5, kNan}, {"b", kNan, kNan}})));
  Comparison comparison = scored({{"no scores", 0, 0}, {"diverged", 0.5, 0.5}});
  comparison.encodings[0].scores.clear();
  comparison.encodings[1].scores[0].by_seed = {kNan, kNan};
  comparison.encodings[1].runs = {{1, 0.1, {{1, 2.0, kNan}, {2, kNan}, {3, std::numeric_limits<double>::infinity()}}}};
  comparison.encodings[1].attention = {{0, 0, 2, 2, {1.0, 0.0, kNan, kNan}}};
  expect_good_page(comparison_page(comparison));
}

TEST(ComparisonPage, EscapesTextFromAnywhere) {
  Comparison comparison = made_up_comparison();
  const std::string hostile = "</title></style><script>alert('&')</script>\x1b";
  for (std::string* text : {&comparison.settings.task, &comparison.settings.metric, &comparison.settings.command,
                            &comparison.settings.machine, &comparison.sample[3], &comparison.encodings[0].name})
    *text = hostile;
  comparison.encodings[1].scores[1].not_possible = hostile;
  expect_good_page(comparison_page(comparison));
}

// ---- results.json ----

TEST(ResultsJson, ReadsWhatItWrites) {
  const std::string json = to_json(made_up_comparison());
  const Comparison read = read_comparison(json, "results.json");
  EXPECT_EQ(to_json(read), json);
  EXPECT_EQ(read.encodings[1].scores[1].not_possible, "its table ends at position 127");
  EXPECT_EQ(read.encodings[3].runs[2].losses[4].train_loss,
            made_up_comparison().encodings[3].runs[2].losses[4].train_loss);
  EXPECT_EQ(comparison_page(read).size(), comparison_page(read_comparison(to_json(read), "again")).size());
}

TEST(ResultsJson, ANumberThatIsNotFiniteIsNull) {
  Comparison comparison = scored({{"a", 0.5, 0.5}});
  comparison.encodings[0].runs = {{1, 0.1, {{1, kNan, std::numeric_limits<double>::infinity()}}}};
  const std::string json = to_json(comparison);
  EXPECT_NE(json.find("\"train_loss\":null,\"validation_loss\":null"), std::string::npos);
  const LossPoint point = read_comparison(json, "f").encodings[0].runs[0].losses[0];
  EXPECT_TRUE(std::isnan(point.train_loss));
  EXPECT_TRUE(std::isnan(*point.validation_loss));
}

TEST(ResultsJson, ErrorsNameFileAndKey) {
  const std::string good = to_json(scored({{"a", 0.5, 0.5}, {"b", 0.5, 0.25}}));
  const auto changed = [&](const std::string& from, const std::string& to) {
    const auto at = good.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return std::string(good).replace(at, from.size(), to);
  };
  const auto refused = [&](const std::string& json, std::initializer_list<std::string> parts) {
    expect_error([&] { read_comparison(json, "r.json"); }, "read_comparison", parts);
    expect_error([&] { read_comparison(json, "r.json"); }, "read_comparison", {"[read_comparison] r.json: "});
  };
  refused("", {"not JSON"});
  refused("[1]", {"expected an object"});
  refused(good.substr(0, good.size() / 2), {"not JSON"});
  refused(std::string(100, '['), {"nested deeper"});
  refused(changed("\"layers\":0", "\"layers\":0.5"), {"settings.model.layers", "0.5", "a whole number"});
  refused(changed("\"layers\":0", "\"layers\":9223372036854775808"), {"settings.model.layers", "a whole number"});
  refused(changed("\"layers\":0,", ""), {"settings.model.layers", "missing"});
  refused(changed("\"layers\":0", "\"layers\":0,\"layers\":1"), {"layers", "given twice"});
  refused(changed("\"layers\":", "\"layer\":1,\"layers\":"), {"settings.model.\"layer\": not known", "layers"});
  refused(changed("\"higher_is_better\":true", "\"higher_is_better\":1"),
          {"settings.higher_is_better", "true or false"});
  refused(changed("\"task\":\"\"", "\"task\":null"), {"settings.task", "null", "a string"});
  refused(changed("\"sample\":[]", "\"sample\":{}"), {"sample", "a list"});
  refused(changed("\"by_seed\":[0.25]", "\"by_seed\":[\"x\"]"),
          {"encodings[1].scores[1].by_seed[0]", "\"x\"", "a number"});
  refused(changed("\"by_seed\":[0.25]", "\"by_seed\":[]"), {"encodings[1].scores[1].by_seed", "not_possible"});
  refused(changed("\"attention_score\":\"dot\"", "\"attention_score\":\"cosine\""),
          {"encodings[0].attention_score", "cosine", "dot or w2"});
  refused(changed("\"name\":\"b\"", "\"name\":\"a\""), {"encodings[1].name", "a second time"});
  refused(changed("\"name\":\"b\"", "\"name\":\"\""), {"encodings[1].name", "empty"});
  refused(changed("\"length\":8", "\"length\":0"), {"settings.length", "at least 1"});
  refused(changed("\"attention\":[]", R"("attention":[{"layer":0,"head":0,"queries":2,"keys":2,"weights":[1,0,1]}])"),
          {"encodings[0].attention[0].weights", "3", "queries * keys"});
  EXPECT_ERROR(load_comparison("no_such_file.json"), "load_comparison", "no_such_file.json cannot be read");
}

}  // namespace
}  // namespace phasor::report
