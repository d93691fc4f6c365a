#include <utility>

#include "parts.h"
#include "phasor/text/tokenizer.h"
#include "utf8.h"

namespace phasor {

StreamDecoder::StreamDecoder(Tokenizer tokenizer, bool skip_special_tokens)
    : tokenizer_(std::move(tokenizer)), skip_special_tokens_(skip_special_tokens) {}

std::string StreamDecoder::decode_window() const {
  return tokenizer_.parts_->decode(window_, skip_special_tokens_, true);
}

// Decoders look at the token before (a space is dropped at the start of a text alone), so the tokens of the last part
// that was returned stay in the window. U+FFFD at the end may be half a character: it waits.
std::string StreamDecoder::put(std::int32_t id) {
  if (!tokenizer_.parts_->token_text(id, skip_special_tokens_)) return {};
  window_.push_back(id);
  const std::string text = decode_window();
  std::size_t whole = text.size();
  while (std::string_view(text).substr(0, whole).ends_with(text::kReplacement)) whole -= text::kReplacement.size();
  if (whole <= returned_) return {};
  const std::string part = text.substr(returned_, whole - returned_);
  returned_ = whole;
  if (whole == text.size()) {
    window_.erase(window_.begin(), window_.begin() + static_cast<std::ptrdiff_t>(context_));
    context_ = window_.size();
    returned_ = decode_window().size();
  }
  return part;
}

std::string StreamDecoder::finish() {
  const std::string text = decode_window();
  std::string part = text.size() > returned_ ? text.substr(returned_) : std::string();
  window_.clear();
  context_ = returned_ = 0;
  return part;
}

}  // namespace phasor
