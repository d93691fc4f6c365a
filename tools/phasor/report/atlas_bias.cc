// Pictures of what ALiBi and T5 add to scores.
#include <cmath>
#include <limits>

#include "phasor/position/alibi.h"
#include "phasor/position/encoding.h"
#include "phasor/position/relative.h"
#include "report/atlas.h"
#include "report/numbers.h"

namespace phasor::report {
namespace {

constexpr std::int64_t kHeads = 8, kTokens = 64;

Figure alibi_map() {
  constexpr std::int64_t kHead = 2;
  const Tensor<std::int64_t, 3> positions = consecutive_positions(kTokens);
  const PositionPlan plan = lower(AlibiConfig{}, {}, {.queries = positions.view(), .shape = {.heads = kHeads}});
  HeatMap map{.title = "ALiBi: the bias of head " + std::to_string(kHead) + " of " + std::to_string(kHeads),
              .values = {kTokens, kTokens, {}},
              .x = {.label = "key"},
              .y = {.label = "query"},
              .value_label = "added to the score",
              .width = 290};
  for (std::int64_t query = 0; query < kTokens; query++)
    for (std::int64_t key = 0; key < kTokens; key++)
      map.values.values.push_back(key <= query ? plan.bias->table(kHead, key - query - plan.bias->first_distance)
                                               : std::numeric_limits<double>::quiet_NaN());
  return figure_of(
      "alibi-map",
      "The further a key lies behind the query, the more is taken off its score, in a straight line. Nothing "
      "is learned, and nothing new happens beyond the training length. Later keys are masked.",
      map);
}

Figure alibi_lines() {
  LineChart chart{.title = "ALiBi: the bias of each head",
                  .x = {.label = "distance in tokens"},
                  .y = {.label = "added to the score"},
                  .series = {}};
  const std::vector<float> slopes = alibi_slopes(kHeads);
  for (std::size_t head = 0; head < slopes.size(); head++) {
    Series series{"head " + std::to_string(head), {}};
    for (std::int64_t distance = 0; distance <= kTokens; distance++)
      series.points.push_back({static_cast<double>(distance), -slopes[head] * static_cast<double>(distance)});
    chart.series.push_back(series);
  }
  return figure_of("alibi-lines",
                   "Head 0 looks at its closest neighbours only; the last heads see far almost unhindered.", chart);
}

Figure slopes_figure() {
  LineChart chart{
      .title = "ALiBi: slopes by head", .x = {.label = "head"}, .y = {.label = "slope", .log = true}, .series = {}};
  for (const std::int64_t heads : {8, 16}) {
    Series series{std::to_string(heads) + " heads", {}};
    for (const float slope : alibi_slopes(heads))
      series.points.push_back({static_cast<double>(series.points.size()), slope});
    chart.series.push_back(series);
  }
  return figure_of(
      "alibi-slopes",
      "Each head's slope is a fixed part of the one before, from steep to almost flat; more heads share the "
      "same range in finer steps.",
      chart);
}

Figure t5_figure() {
  constexpr std::int64_t kFarthest = 160;
  LineChart chart{.title = "T5: the bucket of each distance",
                  .x = {.label = "key position minus query position"},
                  .y = {.label = "bucket"},
                  .series = {},
                  .steps = true};
  for (const bool bidirectional : {true, false}) {
    const T5Config config{.bidirectional = bidirectional};
    Series series{bidirectional ? "encoder (both directions)" : "decoder (keys before the query)", {}};
    for (std::int64_t distance = -kFarthest; distance <= (bidirectional ? kFarthest : 0); distance++)
      series.points.push_back({static_cast<double>(distance), static_cast<double>(t5_bucket(distance, config))});
    chart.series.push_back(series);
  }
  return figure_of(
      "t5-buckets",
      "Each bucket has one learned bias for each head. Near distances have a bucket of their own, far ones "
      "share wider and wider ones; beyond 128 all share the last.",
      chart);
}

}  // namespace

Section bias_section() {
  return {"biases", "Biases by distance", "ALiBi and T5 leave q and k alone and add a number to their score instead.",
          gallery({alibi_map(), alibi_lines(), slopes_figure(), t5_figure()})};
}

}  // namespace phasor::report
