// The settings of an encoding as JSON: what a row of the registry needs for it, once the settings list their fields.
#pragma once

#include "json/fields.h"
#include "phasor/position/encoding.h"

namespace phasor {

constexpr EnumWords<Pairing, 2> enum_words(Pairing) {
  return {{{Pairing::half, "half"}, {Pairing::adjacent, "adjacent"}}};
}

template <class Settings>
void write_settings(const EncodingConfig& config, FieldWriter& archive) {
  fields(archive, config.as<Settings>());
}

template <class Settings>
EncodingConfig read_settings(FieldReader& archive) {
  Settings settings;
  fields(archive, settings);
  return settings;
}

}  // namespace phasor
