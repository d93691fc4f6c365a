#include "text_writer.h"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace phasor::tool {
namespace {

void print(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

}  // namespace

TextWriter::TextWriter(TextForm form) : form_(std::move(form)), stops_(form_.stop_texts) {
  if (form_.kind != TextForm::Kind::text) return;
  decoder_.emplace(*form_.tokenizer);
  for (const std::int32_t token : form_.before) decoder_->put(token);  // a space may depend on what is before it
}

std::string TextWriter::text_of(std::int32_t token) {
  if (form_.kind == TextForm::Kind::ids) return (tokens_ > 1 ? " " : "") + std::to_string(token);
  if (std::ranges::count(form_.stop_tokens, token) > 0) return {};
  return decoder_ ? decoder_->put(token) : std::string(1, static_cast<char>(token));
}

// With the first token: what is wrong with the options shows before it.
void TextWriter::begin() {
  if (std::exchange(begun_, true)) return;
  first_ = Clock::now();
  print(form_.heading);
}

bool TextWriter::put(std::int32_t token) {
  begin();
  tokens_++;
  print(stops_.put(text_of(token)));
  std::fflush(stdout);
  return !stops_.found();
}

void TextWriter::finish() {
  begin();
  if (decoder_) print(stops_.put(decoder_->finish()));
  print(stops_.finish());
  print("\n");
  std::fflush(stdout);
}

}  // namespace phasor::tool
