// Post-processors: the special tokens around a text or a pair of texts. All kinds are a template.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "json/fields.h"

namespace phasor::text {

// One of the texts (0 or 1), or ids of its own.
struct TemplatePiece {
  int text = -1;
  std::vector<std::int32_t> ids{};
  std::int32_t type_id = 0;
};

struct Template {
  std::vector<TemplatePiece> single{{0, {}, 0}};
  std::vector<TemplatePiece> pair{{0, {}, 0}, {1, {}, 1}};

  std::size_t added(bool is_pair) const {
    std::size_t count = 0;
    for (const TemplatePiece& piece : is_pair ? pair : single) count += piece.ids.size();
    return count;
  }
};

// The template that an object of tokenizer.json describes.
Template read_post_processor(FieldReader reader);

}  // namespace phasor::text
