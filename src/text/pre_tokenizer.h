// Pre-tokenizers: how a text is split into the pieces that the model sees one by one.
#pragma once

#include <functional>

#include "json/fields.h"
#include "pieces.h"

namespace phasor::text {

using PreTokenizer = std::function<void(Pieces&)>;

// The pre-tokenizer that an object of tokenizer.json describes.
PreTokenizer read_pre_tokenizer(FieldReader reader);

// Metaspace as pre-tokenizer and as decoder.
struct Metaspace {
  enum class Prepend { always, first, never };
  std::string replacement{};  // one character
  Prepend prepend = Prepend::always;
  bool split = true;
};
Metaspace read_metaspace_fields(FieldReader& reader);

}  // namespace phasor::text
