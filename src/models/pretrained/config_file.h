// A config.json of Hugging Face, read key by key.
//
// Files have many keys that change nothing here (dates, names, settings of training), so keys that nobody asks for are
// legal. But where such a key is known to change what some model computes, and asks for it, the file is refused: it
// means something that this architecture does not have.
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "json/fields.h"
#include "phasor/layers/feed_forward.h"

namespace phasor::pretrained {

constexpr const char* kReader = "from_pretrained";

class ConfigFile {
 public:
  // The folder's config.json. A null is a key that was not given. `text_config` is read instead, where there is one.
  explicit ConfigFile(const std::filesystem::path& folder);
  ConfigFile(const ConfigFile&) = delete;
  ConfigFile& operator=(const ConfigFile&) = delete;

  const std::string& source() const { return source_; }
  std::string model_type() const { return model_type_; }
  bool has(const char* key) const { return json_.contains(key); }
  // Of a number that null turns off.
  double number_unless_null(const char* key, double otherwise) {
    return number(key, nulls_.contains(key) ? 0 : otherwise);
  }
  std::int64_t integer_unless_null(const char* key, std::int64_t otherwise) {
    return integer(key, nulls_.contains(key) ? 0 : otherwise);
  }

  // The value of a key, which must be there, or may be missing.
  template <class T>
  T get(const char* key) {
    T value{};
    reader_(key, value);
    return value;
  }
  template <class T>
  T get(const char* key, const T& otherwise) {
    T value{};
    reader_.since(key, value, otherwise);
    return value;
  }
  // Whole numbers so small that readers may add some, and multiply by small ones.
  std::int64_t integer(const char* key) { return checked(key, get<std::int64_t>(key)); }
  std::int64_t integer(const char* key, std::int64_t otherwise) { return checked(key, get(key, otherwise)); }
  std::int64_t positive(const char* key, std::int64_t otherwise);
  // The first of these that is there.
  std::int64_t integer(std::initializer_list<const char*> keys);
  bool flag(const char* key, bool otherwise) { return get(key, otherwise); }
  double number(const char* key, double otherwise) { return get(key, otherwise); }
  std::string text(const char* key, const std::string& otherwise) { return get(key, otherwise); }
  // Keys that another reader of the same file reads.
  void read_elsewhere(std::initializer_list<const char*> keys) {
    for (const char* key : keys) reader_.find(key);
  }
  FieldReader object(const char* key) { return reader_.object(key); }

  // Activations by the names of transformers.
  Activation activation(const char* key, const std::string& otherwise);
  // A key that has one value only, which is also the default.
  template <class T>
  void expect(const char* key, const T& only) {
    if (!(get(key, only) == only)) refuse(key, json_text(Json(only)));
  }
  [[noreturn]] void refuse(const char* key, const std::string& expected) { reader_.refuse_key(key, expected); }

  // Refuses keys that ask for something and were not read.
  void finish() const;

 private:
  ConfigFile(std::string source, Json json);
  std::int64_t checked(const char* key, std::int64_t value);

  std::string source_, model_type_;
  Json json_;
  std::set<std::string> nulls_;
  FieldReader reader_;
};

}  // namespace phasor::pretrained
