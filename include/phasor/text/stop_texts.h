// Texts that end a text as it is written: it ends before the first of them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace phasor {

// What put and finish return, put together, is all that was put, up to where the first stop text begins. What may be
// the beginning of one is held back.
class StopTexts {
 public:
  explicit StopTexts(std::vector<std::string> texts);
  std::string put(std::string_view part);
  bool found() const { return found_; }
  std::string finish();

 private:
  std::vector<std::string> texts_;
  std::string held_{};
  bool found_ = false;
};

}  // namespace phasor
