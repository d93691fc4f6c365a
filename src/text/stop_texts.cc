#include "phasor/text/stop_texts.h"

#include <algorithm>
#include <utility>

#include "phasor/core/check.h"

namespace phasor {

StopTexts::StopTexts(std::vector<std::string> texts) : texts_(std::move(texts)) {
  for (const std::string& each : texts_)
    PHASOR_CHECK(!each.empty(), "StopTexts", "stop text: empty, expected at least one byte");
}

std::string StopTexts::put(std::string_view part) {
  if (found_) return {};
  held_ += part;
  std::size_t stop = std::string::npos, maybe = held_.size();
  for (const std::string& each : texts_) {
    stop = std::min(stop, held_.find(each));
    // The earliest place from which the end of what is held begins this text.
    std::size_t begin = held_.size() - std::min(held_.size(), each.size() - 1);
    while (!each.starts_with(std::string_view(held_).substr(begin))) begin++;
    maybe = std::min(maybe, begin);
  }
  found_ = stop != std::string::npos;
  const std::size_t shown = found_ ? stop : maybe;
  std::string out = held_.substr(0, shown);
  held_.erase(0, shown);
  return out;
}

std::string StopTexts::finish() { return found_ ? std::string() : std::exchange(held_, {}); }

}  // namespace phasor
