// Normalizers: what a text becomes before it is split.
#pragma once

#include <functional>
#include <string>

#include "json/fields.h"

namespace phasor::text {

// A text between added tokens. at_start: its first character comes from the first one of the whole text; Metaspace
// asks.
struct Section {
  std::string text{};
  bool at_start = false;
};

using Normalizer = std::function<void(Section&)>;

// The normalizer that an object of tokenizer.json describes.
Normalizer read_normalizer(FieldReader reader);

// SentencePiece's table of replacements, from base64.
Normalizer read_charsmap(FieldReader& reader);

}  // namespace phasor::text
