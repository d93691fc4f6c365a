// Writes what a model generates to standard output, token by token.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "phasor/text/stop_texts.h"
#include "phasor/text/tokenizer.h"

namespace phasor::tool {

// How tokens become text.
struct TextForm {
  enum class Kind { ids, bytes, text };
  Kind kind = Kind::ids;
  std::optional<Tokenizer> tokenizer{};     // of text
  std::string heading{};                    // written before the first token: what the text continues
  std::vector<std::int32_t> before{};       // the tokens of the heading
  std::vector<std::int32_t> stop_tokens{};  // are not written as text
  std::vector<std::string> stop_texts{};
};

class TextWriter {
 public:
  using Clock = std::chrono::steady_clock;

  explicit TextWriter(TextForm form);
  // Whether the text goes on.
  bool put(std::int32_t token);
  // What is held back, and the end of the line.
  void finish();

  std::int64_t tokens() const { return tokens_; }
  Clock::time_point first() const { return first_; }  // when the first token came

 private:
  std::string text_of(std::int32_t token);
  void begin();

  TextForm form_;
  std::optional<StreamDecoder> decoder_{};
  StopTexts stops_;
  std::int64_t tokens_ = 0;
  Clock::time_point first_{};
  bool begun_ = false;
};

}  // namespace phasor::tool
