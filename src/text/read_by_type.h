// Parts of tokenizer.json are objects whose "type" says what else they have.
#pragma once

#include <map>
#include <string>

#include "json/fields.h"

namespace phasor::text {

template <class Part>
using Readers = std::map<std::string, Part (*)(FieldReader&)>;

template <class Part>
Part read_by_type(FieldReader& reader, const Readers<Part>& readers) {
  std::string type, types;
  reader("type", type);
  const auto found = readers.find(type);
  for (const auto& [each, _] : readers) types += (types.empty() ? "" : ", ") + each;
  if (found == readers.end()) reader.refuse_key("type", "one of " + types);
  Part part = found->second(reader);
  reader.finish();
  return part;
}

}  // namespace phasor::text
