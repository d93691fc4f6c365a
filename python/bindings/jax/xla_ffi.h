// XLA's foreign function interface, as far as our handlers read it: the C structs that XLA passes, by the layout which
// jaxlib's header xla/ffi/api/c_api.h gives (major version 0). Declared here, so that every build of the package offers
// JAX and none needs jaxlib; python/tests_jax/layout.cc compares both.
//
// XLA appends members to structs within a major version, and each struct says how large it is. `is_known` checks the
// sizes that the layout of a call depends on.
#pragma once

#include <cstddef>
#include <cstdint>

namespace phasor::xla {

constexpr int kMajorVersion = 0;

enum class ExtensionType : std::int32_t { metadata = 1 };

struct Extension {
  std::size_t struct_size;
  ExtensionType type;
  Extension* next;
};

struct Version {
  std::size_t struct_size;
  Extension* extension;
  int major, minor;
};

enum class ErrorCode : std::int32_t { invalid_argument = 3, resource_exhausted = 8, internal = 13 };

struct Error;
struct ErrorArguments {
  std::size_t struct_size;
  Extension* extension;
  const char* message;
  ErrorCode code;
};

// The first functions of XLA that a handler may call.
struct Api {
  std::size_t struct_size;
  Extension* extension;
  Version version;
  const void* internal;
  Error* (*create_error)(ErrorArguments*);
};

enum class DataType : std::int32_t {
  boolean = 1,
  int32 = 4,
  int64 = 5,
  uint32 = 8,
  float16 = 10,
  float32 = 11,
  float64 = 12,
  bfloat16 = 16
};

struct Buffer {
  std::size_t struct_size;
  Extension* extension;
  DataType type;
  void* data;
  std::int64_t rank;
  std::int64_t* shape;
};

struct Text {
  const char* data;
  std::size_t size;
};

struct Scalar {
  DataType type;
  void* value;
};

enum class AttributeType : std::int32_t { array = 1, dictionary = 2, scalar = 3, text = 4 };

struct Buffers {  // arguments, or results
  std::size_t struct_size;
  Extension* extension;
  std::int64_t count;
  std::int32_t* types;
  void** items;  // Buffer*
};

struct Attributes {
  std::size_t struct_size;
  Extension* extension;
  std::int64_t count;
  AttributeType* types;
  Text** names;  // sorted
  void** items;  // Scalar* or Text*
};

struct Call {
  std::size_t struct_size;
  Extension* extension;
  const Api* api;
  void* context;
  std::int32_t stage;
  Buffers arguments, results;
  Attributes attributes;
};

// What a handler is asked for when it is registered: the extension of a call without arguments.
struct Metadata {
  std::size_t struct_size;
  Version version;
  std::uint32_t traits;
};
struct MetadataExtension {
  Extension base;
  Metadata* metadata;
};

using Handler = Error*(Call*);

inline bool is_known(const Call& call) {
  return call.struct_size >= sizeof(Call) && call.arguments.struct_size == sizeof(Buffers) &&
         call.results.struct_size == sizeof(Buffers) && call.attributes.struct_size == sizeof(Attributes);
}

}  // namespace phasor::xla
