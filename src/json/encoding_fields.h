// An encoding as an object of fields: its name, then its settings as its row of the registry lists them.
#pragma once

#include <string>

#include "json/fields.h"
#include "phasor/position/encoding.h"

namespace phasor {

inline void fields(FieldWriter& archive, const EncodingConfig& of) {
  archive("name", std::string(of.name()));
  encoding(of.name()).write(of, archive);
}

inline void fields(FieldReader& archive, EncodingConfig& of) {
  std::string name;
  archive("name", name);
  of = encoding(name).read(archive);
}

}  // namespace phasor
