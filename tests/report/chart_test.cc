#include <cmath>
#include <limits>

#include "report/axis.h"
#include "report/heat_map.h"
#include "report/line_chart.h"
#include "report/markup.h"
#include "support/expect_error.h"
#include "xml.h"

namespace phasor::report {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<XmlElement> elements_of(const std::string& markup) { return XmlReader::read("<div>" + markup + "</div>"); }

std::vector<XmlElement> drawn(const LineChart& chart) {
  const auto elements = elements_of(line_chart(chart));
  expect_real_coordinates(elements);
  return elements;
}

Series line(const char* name, std::vector<double> ys) {
  Series series{name, {}};
  for (const double y : ys) series.points.push_back({static_cast<double>(series.points.size()), y});
  return series;
}

// Series are groups; the legend has samples of the same class outside.
std::size_t groups(const std::vector<XmlElement>& elements) {
  return named(with_class(elements, "series"), "g").size();
}

TEST(Markup, EscapesWhatMarkupMeans) {
  EXPECT_EQ(escape("a<b> & \"c\" 'd'"), "a&lt;b&gt; &amp; &quot;c&quot; &#39;d&#39;");
  EXPECT_EQ(escape("2·π – ⁻³ 😀"), "2·π – ⁻³ 😀");
}

TEST(Markup, ReplacesWhatXmlCannotHold) {
  const std::string replaced = "\xEF\xBF\xBD";
  EXPECT_EQ(escape(std::string("a\x1b\0b", 4)), "a" + replaced + replaced + "b");
  EXPECT_EQ(escape("\xff"), replaced);
  EXPECT_EQ(escape("\xc0\x80"), replaced + replaced);                                // 0, written too long
  EXPECT_EQ(escape("\xed\xa0\x80"), replaced + replaced + replaced);                 // half a surrogate pair
  EXPECT_EQ(escape("\xe2\x82"), replaced + replaced);                                // cut short
  EXPECT_EQ(escape("\xf4\x90\x80\x80"), replaced + replaced + replaced + replaced);  // past the last character
}

TEST(Markup, WritesElementsThatHtmlAndXmlReadAlike) {
  EXPECT_EQ(element("p", {{"class", "a\"b"}}), "<p class=\"a&quot;b\"></p>");
  EXPECT_EQ(element("img", {}), "<img/>");
}

TEST(Markup, CoordinatesAreShortAndFinite) {
  EXPECT_EQ(coordinate(12.5), "12.5");
  EXPECT_EQ(coordinate(-0.001), "0");
  EXPECT_EQ(coordinate(100.0), "100");
  EXPECT_EQ(coordinate(1.0 / 3.0), "0.33");
  EXPECT_ERROR(coordinate(kNan), "coordinate", "value", "finite");
}

TEST(Markup, Base64IsThatOfRfc4648) {
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("f"), "Zg==");
  EXPECT_EQ(base64("fo"), "Zm8=");
  EXPECT_EQ(base64("foobar"), "Zm9vYmFy");
  EXPECT_EQ(base64("\xff\xef\xbf"), "/++/");
}

TEST(Axis, TicksAreRoundNumbers) {
  const Scale scale(Axis{}, 0.03, 0.97, 0, 100);
  EXPECT_EQ(scale.ticks().size(), 6u);
  EXPECT_EQ(scale.tick_text(scale.ticks()[0]), "0");
  EXPECT_EQ(scale.tick_text(scale.ticks()[1]), "0.2");
  EXPECT_EQ(scale.tick_text(scale.ticks()[5]), "1");
}

TEST(Axis, LogTicksAreDecades) {
  const Scale scale(Axis{.log = true}, 1e-5, 1.0, 0, 100);
  ASSERT_EQ(scale.ticks().size(), 6u);
  EXPECT_EQ(scale.tick_text(scale.ticks()[0]), "10⁻⁵");
  EXPECT_EQ(scale.tick_text(scale.ticks()[5]), "1");
  EXPECT_NEAR(scale.pixel(1e-5), 0.0, 1e-9);
  EXPECT_NEAR(scale.pixel(std::sqrt(1e-5)), 50.0, 1e-9);
  EXPECT_FALSE(scale.can_show(0.0));
}

TEST(Axis, LogEndsMoveOutToOneTwoOrFive) {
  const Scale scale(Axis{.log = true}, 0.03, 3.0, 0, 100);  // 0.02 .. 5
  EXPECT_NEAR(scale.pixel(0.02), 0.0, 1e-9);
  EXPECT_NEAR(scale.pixel(5.0), 100.0, 1e-9);
  EXPECT_GT(scale.pixel(0.021), 0.0);
  EXPECT_LT(scale.pixel(4.9), 100.0);
}

TEST(Axis, StaysFiniteWhateverTheData) {
  for (const bool log : {false, true})
    for (const double low : {kNan, 0.0, 5.0, -3.0, 1e-300})
      for (const double high : {kNan, 0.0, 5.0, 1e300}) {
        const Scale scale(Axis{.log = log}, low, high, 0, 100);
        EXPECT_LT(scale.ticks().size(), 50u) << low << " " << high;
        for (const double value : {1.0, 5.0, 1e9}) EXPECT_TRUE(std::isfinite(scale.pixel(value))) << log << low << high;
      }
}

TEST(LineChart, DrawsEverySeriesAndItsLegend) {
  const auto elements =
      drawn({"t", {}, {}, {line("one", {1, 2, 3}), line("two", {3, 2, 1}), line("three", {2, 2, 2})}});
  EXPECT_EQ(groups(elements), 3u);
  EXPECT_EQ(with_class(elements, "item").size(), 3u);
  EXPECT_EQ(with_class(elements, "marker").size(), 9u + 3u);  // points and legend
}

TEST(LineChart, SeriesDifferInColourAndDash) {
  std::vector<Series> many;
  for (int i = 0; i < 20; i++) many.push_back(line("s", {1, 2}));
  std::map<std::string, int> seen;
  for (const XmlElement& group : named(with_class(drawn({"t", {}, {}, many}), "series"), "g"))
    seen[group.attributes.at("class")]++;
  EXPECT_EQ(seen.size(), 20u);
}

TEST(LineChart, NoSeriesEmptySeriesAndSinglePoint) {
  EXPECT_EQ(groups(drawn({"t", {}, {}, {}})), 0u);
  const auto elements = drawn({"t", {}, {}, {line("empty", {}), line("single", {4})}});
  EXPECT_EQ(groups(elements), 2u);
  EXPECT_EQ(with_class(elements, "line").size(), 1u + 2u);
  EXPECT_EQ(groups(drawn({"t", {.log = true}, {.log = true}, {line("zero only", {0})}})), 1u);
}

TEST(LineChart, ValuesThatCannotBeShownAreGaps) {
  const auto elements = drawn({"t", {}, {}, {line("gaps", {1, kNan, 2, 3, kInfinity, 4})}});
  EXPECT_EQ(with_class(elements, "line").size(), 3u);
  const auto on_log = drawn({"t", {}, {.log = true}, {line("gaps", {1, 0, 2, -3, 4})}});
  EXPECT_EQ(with_class(on_log, "line").size(), 3u);
  EXPECT_EQ(groups(drawn({"t", {}, {}, {line("nothing", {kNan, kNan})}})), 1u);
}

TEST(LineChart, SpreadIsABandAndIsWithinTheAxis) {
  LineChart chart{"t", {}, {.label = "y"}, {{"s", {{0, 1, 0.5, 1.5}, {1, 2, -8.0, 9.0}}}}};
  const auto elements = drawn(chart);
  ASSERT_EQ(with_class(elements, "band").size(), 1u);
  EXPECT_NE(line_chart(chart).find("(-8 to 9)"), std::string::npos);
  bool below_zero = false;
  for (const XmlElement& text : named(elements, "text")) below_zero = below_zero || text.text == "-5";
  EXPECT_TRUE(below_zero);
}

TEST(LineChart, MarksAreLinesWithText) {
  const auto elements = drawn({"t", {}, {}, {line("s", {1, 2})}, {{128, "trained at 128"}}, {{0.1, "chance"}}});
  EXPECT_EQ(with_class(elements, "mark").size(), 2u);
  EXPECT_EQ(with_class(elements, "note").at(0).text, "trained at 128");
}

TEST(LineChart, HostileNamesStayText) {
  const std::string hostile = "</title><script>alert(1)</script>\"&";
  const auto elements =
      drawn({hostile, {.label = hostile}, {.label = hostile}, {line(hostile.c_str(), {1, 2}), line("b", {1})}});
  EXPECT_TRUE(named(elements, "script").empty());
}

TEST(LineChart, LongSeriesTellValuesAtAFewPlaces) {
  const auto elements = drawn({"t", {}, {}, {line("long", std::vector<double>(1000, 1.0))}});
  EXPECT_EQ(with_class(elements, "marker").size(), 0u);
  EXPECT_LE(with_class(elements, "spot").size(), 24u);
  EXPECT_GE(with_class(elements, "spot").size(), 20u);
}

TEST(Thinned, TakesMeansOfNeighbours) {
  const std::vector<Point> points = thinned({{0, 1}, {1, 3}, {2, 5}, {3, 7}}, 2);
  ASSERT_EQ(points.size(), 2u);
  EXPECT_EQ(points[0].x, 0.5);
  EXPECT_EQ(points[0].y, 2.0);
  EXPECT_EQ(points[1].y, 6.0);
  EXPECT_EQ(thinned({{0, 1}}, 2).size(), 1u);
}

TEST(HeatMap, HasPictureRowsAndBar) {
  const HeatMap map{.title = "t", .values = {2, 3, {0, 1, 2, 3, 4, 5}}, .x = {.label = "x"}, .y = {.label = "y"}};
  const auto elements = elements_of(heat_map(map));
  expect_real_coordinates(elements);
  EXPECT_EQ(named(elements, "image").size(), 1u);
  EXPECT_EQ(with_class(elements, "strip").size(), 2u);
  EXPECT_EQ(with_class(elements, "bar").size(), 1u);
  EXPECT_NE(heat_map(map).find("y 1: from 3 at x 0 to 5 at x 2"), std::string::npos);
}

TEST(HeatMap, MissingValuesAndConstantMaps) {
  for (const auto& values : {std::vector<double>{kNan, kNan}, {2, 2}, {kNan, 1}, {0, 1e308}})
    expect_real_coordinates(elements_of(heat_map({.title = "t", .values = {1, 2, values}, .x = {}, .y = {}})));
}

TEST(HeatMap, RefusesWrongSizes) {
  EXPECT_ERROR(heat_map({.title = "t", .values = {0, 0, {}}, .x = {}, .y = {}}), "png", "matrix", "0 x 0");
  EXPECT_ERROR(heat_map({.title = "t", .values = {2, 2, {1}}, .x = {}, .y = {}}), "matrix", "with 1 values");
}

}  // namespace
}  // namespace phasor::report
