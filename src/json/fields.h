// Structs as JSON objects. A struct lists its fields once, in its own namespace, and both directions go by that list:
//
//   static void fields(auto& archive, Is<AlibiConfig> auto& of) {
//     archive("causal", of.causal);
//   }
//
// Reading is strict: a missing, unknown or ill-typed key is an error that names the source, the key and what was
// expected. Only an optional may be missing. A number that is not finite is null. An enum E is written as a word, with
// a list `enum_words(E)`.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "json/strict_json.h"

namespace phasor {

// Const when it is written.
template <class T, class Struct>
concept Is = std::is_same_v<std::remove_const_t<T>, Struct>;

template <class Enum, std::size_t Count>
using EnumWords = std::array<std::pair<Enum, std::string_view>, Count>;

// Keys of a written object stay in the order of the fields.
using OrderedJson = nlohmann::ordered_json;

class FieldWriter {
 public:
  template <class T>
  void operator()(const char* key, const T& value) {
    object_[key] = written(value);
  }
  template <class T>
  void operator()(const char* key, const std::optional<T>& value) {
    if (value) object_[key] = written(*value);
  }
  // A field that files of earlier versions lack: there it has the value that they meant.
  template <class T>
  void since(const char* key, const T& value, const T&) {
    (*this)(key, value);
  }
  // A field that had another name in earlier versions.
  template <class T>
  void renamed(const char*, const char* key, const T& value) {
    (*this)(key, value);
  }
  OrderedJson take() { return std::move(object_); }

 private:
  template <class T>
  static OrderedJson written(const T& value) {
    if constexpr (std::is_floating_point_v<T>) {
      return std::isfinite(value) ? OrderedJson(value) : OrderedJson(nullptr);
    } else if constexpr (std::is_enum_v<T>) {
      for (const auto& [each, word] : enum_words(value))
        if (each == value) return std::string(word);
      fail("to_json", "enum: a value without a word, expected one that has");
    } else if constexpr (std::is_integral_v<T> || std::is_same_v<T, std::string>) {
      return value;
    } else if constexpr (requires { value.begin(); }) {
      OrderedJson list = OrderedJson::array();
      for (const auto& each : value) list.push_back(written(each));
      return list;
    } else {
      FieldWriter writer;
      fields(writer, value);
      return writer.take();
    }
  }

  OrderedJson object_ = OrderedJson::object();
};

class FieldReader {
 public:
  // `source` is what messages begin with, as the file; `path` where in it the object stands, empty at the top.
  FieldReader(const Json& object, const char* function, std::string source, std::string path = {})
      : object_(object), function_(function), source_(std::move(source)), path_(std::move(path)) {}

  template <class T>
  void operator()(const char* key, T& value) {
    const auto found = object_.find(key);
    known_.insert(key);
    if (found == object_.end()) fail(function_, source_, ": ", at(key), ": missing, expected it");
    read(*found, at(key), value);
  }
  template <class T>
  void operator()(const char* key, std::optional<T>& value) {
    known_.insert(key);
    value.reset();
    if (object_.contains(key)) (*this)(key, value.emplace());
  }

  template <class T>
  void since(const char* key, T& value, const T& before) {
    known_.insert(key);
    value = before;
    if (object_.contains(key)) (*this)(key, value);
  }

  template <class T>
  void renamed(const char* before, const char* key, T& value) {
    (*this)(object_.contains(before) && !object_.contains(key) ? before : key, value);
  }

  // A value that is read by its caller, or a null pointer.
  const Json* find(const char* key) {
    known_.insert(key);
    const auto found = object_.find(key);
    return found == object_.end() ? nullptr : &*found;
  }
  // The object under a key, and the objects of a list: each has its own fields, and its own finish().
  FieldReader object(const char* key) {
    const Json* value = find(key);
    if (value == nullptr) fail(function_, source_, ": ", at(key), ": missing, expected it");
    return object_at(*value, at(key));
  }
  std::vector<FieldReader> objects(const char* key) {
    const Json* list = find(key);
    if (list == nullptr || !list->is_array()) refuse_key(key, "a list");
    std::vector<FieldReader> readers;
    for (std::size_t i = 0; i < list->size(); i++)
      readers.push_back(object_at((*list)[i], at(key) + "[" + std::to_string(i) + "]"));
    return readers;
  }

  // For callers that check a value: it is under this key, or at this path from here.
  [[noreturn]] void refuse_key(const std::string& key, const std::string& expected) const {
    const auto found = object_.find(key);
    refuse(at(key), found == object_.end() ? "missing" : json_text(*found), expected);
  }
  [[noreturn]] void refuse_part(const std::string& path, const std::string& given, const std::string& expected) const {
    refuse(at(path), given, expected);
  }

  bool asked_for(const std::string& key) const { return known_.contains(key); }

  // A key that no field asked for is a mistake in the file.
  void finish() const {
    std::string names;
    for (const std::string& name : known_) names += (names.empty() ? "" : ", ") + name;
    for (const auto& [key, value] : object_.items())
      if (!known_.contains(key)) refuse(at(json_text(key)), "not known", names.empty() ? "no key" : names);
  }

 private:
  FieldReader object_at(const Json& value, const std::string& path) const {
    if (!value.is_object()) refuse(path, json_text(value), "an object");
    return {value, function_, source_, path};
  }

  std::string at(const std::string& key) const { return path_.empty() ? key : path_ + "." + key; }

  [[noreturn]] void refuse(const std::string& path, const std::string& given, const std::string& expected) const {
    fail(function_, source_, ": ", path, ": ", given, ", expected ", expected);
  }

  template <class T>
  void read(const Json& from, const std::string& path, T& value) const {
    const auto expect = [&](bool holds, const char* expected) {
      if (!holds) refuse(path, json_text(from), expected);
    };
    if constexpr (std::is_same_v<T, bool>) {
      expect(from.is_boolean(), "true or false");
      value = from.get<bool>();
    } else if constexpr (std::is_floating_point_v<T>) {
      expect(from.is_number() || from.is_null(), "a number, or null for one that is not finite");
      value = from.is_null() ? std::numeric_limits<T>::quiet_NaN() : from.get<T>();
    } else if constexpr (std::is_same_v<T, std::uint64_t>) {
      expect(from.is_number_unsigned(), "a whole number, not negative");
      value = from.get<T>();
    } else if constexpr (std::is_integral_v<T>) {
      const bool fits = !from.is_number_unsigned() || from.get<std::uint64_t>() <= std::uint64_t{INT64_MAX};
      expect(from.is_number_integer() && fits, "a whole number");
      value = from.get<T>();
    } else if constexpr (std::is_same_v<T, std::string>) {
      expect(from.is_string(), "a string");
      value = from.get<std::string>();
    } else if constexpr (std::is_enum_v<T>) {
      read_enum(from, path, value);
    } else if constexpr (requires { value.emplace_back(); }) {
      expect(from.is_array(), "a list");
      value.clear();
      for (std::size_t i = 0; i < from.size(); i++)
        read(from[i], path + "[" + std::to_string(i) + "]", value.emplace_back());
    } else {
      expect(from.is_object(), "an object");
      FieldReader reader(from, function_, source_, path);
      fields(reader, value);
      reader.finish();
    }
  }

  template <class Enum>
  void read_enum(const Json& from, const std::string& path, Enum& value) const {
    std::string words;
    for (const auto& [each, word] : enum_words(Enum{})) {
      words += (words.empty() ? "" : ", ") + std::string(word);
      if (from.is_string() && from.get_ref<const std::string&>() == word) {
        value = each;
        return;
      }
    }
    refuse(path, json_text(from), "one of " + words);
  }

  const Json& object_;
  const char* function_;
  std::string source_, path_;
  std::set<std::string> known_;
};

template <class Struct>
OrderedJson fields_to_json(const Struct& value) {
  FieldWriter writer;
  fields(writer, value);
  return writer.take();
}

template <class Struct>
void read_fields(const Json& object, const char* function, const std::string& source, Struct& value) {
  FieldReader reader(object, function, source);
  fields(reader, value);
  reader.finish();
}

template <class Struct>
Struct fields_from_json(const Json& object, const char* function, const std::string& source) {
  Struct value;
  read_fields(object, function, source, value);
  return value;
}

}  // namespace phasor
