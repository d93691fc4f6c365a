#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "post_processor.h"
#include "read_by_type.h"

namespace phasor::text {
namespace {

// Kinds that only change offsets, which are not given, change nothing here.
using Found = std::optional<Template>;

std::int32_t to_id(FieldReader& reader, const std::string& path, const Json& id) {
  constexpr std::int64_t kLargest = std::numeric_limits<std::int32_t>::max();
  if (!id.is_number_unsigned() || id.get<std::uint64_t>() > kLargest)
    reader.refuse_part(path, json_text(id), "an id: a whole number up to " + std::to_string(kLargest));
  return id.get<std::int32_t>();
}

// ["[CLS]", 101]
std::int32_t read_token(FieldReader& reader, const char* key) {
  const Json* value = reader.find(key);
  if (value == nullptr || !value->is_array() || value->size() != 2 || !(*value)[0].is_string())
    reader.refuse_key(key, "a token and its id");
  return to_id(reader, std::string(key) + "[1]", (*value)[1]);
}

Found read_bert(FieldReader& reader) {
  const TemplatePiece cls{-1, {read_token(reader, "cls")}, 0};
  const std::int32_t sep = read_token(reader, "sep");
  return Template{{cls, {0, {}, 0}, {-1, {sep}, 0}}, {cls, {0, {}, 0}, {-1, {sep}, 0}, {1, {}, 1}, {-1, {sep}, 1}}};
}

Found read_roberta(FieldReader& reader) {
  const TemplatePiece cls{-1, {read_token(reader, "cls")}, 0}, sep{-1, {read_token(reader, "sep")}, 0};
  bool trim_offsets = false, add_space = false;  // both of offsets
  reader("trim_offsets", trim_offsets);
  reader("add_prefix_space", add_space);
  return Template{{cls, {0, {}, 0}, sep}, {cls, {0, {}, 0}, sep, sep, {1, {}, 0}, sep}};
}

Found read_byte_level(FieldReader& reader) {
  bool add_space = false, trim_offsets = false, use_regex = true;  // all of offsets
  reader("add_prefix_space", add_space);
  reader("trim_offsets", trim_offsets);
  reader.since("use_regex", use_regex, true);
  return std::nullopt;
}

std::map<std::string, std::vector<std::int32_t>> read_special_tokens(FieldReader reader, const Json& tokens) {
  std::map<std::string, std::vector<std::int32_t>> special;
  for (const auto& [name, _] : tokens.items()) {
    FieldReader token = reader.object(name.c_str());
    std::string id;
    std::vector<std::string> texts;
    token("id", id);
    token("tokens", texts);
    const Json* ids = token.find("ids");
    if (ids == nullptr || !ids->is_array() || ids->size() != texts.size())
      token.refuse_key("ids", "one for each of tokens");
    for (std::size_t i = 0; i < ids->size(); i++)
      special[name].push_back(to_id(token, "ids[" + std::to_string(i) + "]", (*ids)[i]));
    token.finish();
  }
  return special;
}

std::vector<TemplatePiece> read_pieces(FieldReader& reader, const char* key,
                                       const std::map<std::string, std::vector<std::int32_t>>& special, bool has_pair) {
  std::vector<TemplatePiece> pieces;
  for (FieldReader& each : reader.objects(key)) {
    const bool is_text = each.find("Sequence") != nullptr;
    FieldReader piece = each.object(is_text ? "Sequence" : "SpecialToken");
    std::string id;
    piece("id", id);
    const Json* type = piece.find("type_id");
    TemplatePiece& made = pieces.emplace_back();
    made.type_id = to_id(piece, "type_id", type == nullptr ? Json() : *type);
    if (is_text) {
      if (id != "A" && !(id == "B" && has_pair)) piece.refuse_key("id", has_pair ? "A or B" : "A");
      made.text = id == "A" ? 0 : 1;
    } else {
      const auto found = special.find(id);
      if (found == special.end()) piece.refuse_key("id", "one of special_tokens");
      made.ids = found->second;
    }
    piece.finish();
    each.finish();
  }
  return pieces;
}

Found read_template(FieldReader& reader) {
  const Json* tokens = reader.find("special_tokens");
  if (tokens == nullptr || !tokens->is_object()) reader.refuse_key("special_tokens", "an object");
  std::optional<bool> add_space, trim_offsets, use_regex;  // left from ByteLevel in some files: all of offsets
  reader("add_prefix_space", add_space);
  reader("trim_offsets", trim_offsets);
  reader("use_regex", use_regex);
  const auto special = read_special_tokens(reader.object("special_tokens"), *tokens);
  return Template{read_pieces(reader, "single", special, false), read_pieces(reader, "pair", special, true)};
}

Found read_found(FieldReader& reader);

Found read_sequence(FieldReader& reader) {
  Found found;
  for (FieldReader& each : reader.objects("processors")) {
    Found next = read_found(each);
    if (next && found) each.refuse_key("type", "at most one processor that adds tokens");
    if (next) found = std::move(next);
  }
  return found;
}

Found read_found(FieldReader& reader) {
  static const Readers<Found> readers{{"TemplateProcessing", read_template},
                                      {"BertProcessing", read_bert},
                                      {"RobertaProcessing", read_roberta},
                                      {"ByteLevel", read_byte_level},
                                      {"Sequence", read_sequence}};
  return read_by_type(reader, readers);
}

}  // namespace

Template read_post_processor(FieldReader reader) { return read_found(reader).value_or(Template{}); }

}  // namespace phasor::text
