#include "phasor/models/safetensors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "phasor/core/parallel.h"
#include "support/expect_error.h"
#include "support/source_folder.h"
#include "support/temporary_folder.h"

namespace phasor {
namespace {

const std::string kGolden = in_source_folder("tests/golden/safetensors/");

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }
std::size_t count_of(const StoredTensors& file) { return file.tensors().size(); }

std::vector<float> floats_of(const StoredTensor& tensor) {
  std::vector<float> values(static_cast<std::size_t>(element_count(tensor)));
  read_floats(tensor, values);
  return values;
}

// Tensors of a file that is gone do not compile.
template <class File>
concept HasTensors = requires(File&& file) {
  std::forward<File>(file).at("a");
};
static_assert(HasTensors<const TensorFile&> && !HasTensors<TensorFile>);

// ---- files that the safetensors package wrote ----

TEST(TensorFile, ReadsEveryType) {
  const TensorFile file(kGolden + "all_types.safetensors");
  const std::vector<std::pair<const char*, StoredType>> types{{"a bool", StoredType::boolean},
                                                              {"a uint8", StoredType::u8},
                                                              {"a int8", StoredType::i8},
                                                              {"a float8_e5m2", StoredType::f8_e5m2},
                                                              {"a float8_e4m3fn", StoredType::f8_e4m3},
                                                              {"a float8_e8m0fnu", StoredType::f8_e8m0},
                                                              {"a int16", StoredType::i16},
                                                              {"a uint16", StoredType::u16},
                                                              {"a float16", StoredType::f16},
                                                              {"a bfloat16", StoredType::bf16},
                                                              {"a int32", StoredType::i32},
                                                              {"a uint32", StoredType::u32},
                                                              {"a float32", StoredType::f32},
                                                              {"a complex64", StoredType::c64},
                                                              {"a float64", StoredType::f64},
                                                              {"a int64", StoredType::i64},
                                                              {"a uint64", StoredType::u64},
                                                              {"b uint8", StoredType::u8}};
  ASSERT_EQ(file.tensors().size(), types.size());
  for (const auto& [name, type] : types) {
    const StoredTensor& tensor = file.at(name);
    EXPECT_EQ(tensor.type, type) << name;
    EXPECT_EQ(tensor.shape, std::vector<std::int64_t>{2});
    EXPECT_EQ(static_cast<std::int64_t>(tensor.bytes.size()), 2 * type_bytes(type)) << name;
    for (std::size_t i = 1; i < tensor.bytes.size(); i++)  // the bytes of the file count up
      EXPECT_EQ(std::to_integer<int>(tensor.bytes[i]), std::to_integer<int>(tensor.bytes[0]) + static_cast<int>(i));
  }
  EXPECT_EQ(std::to_integer<int>(file.at("a uint64").bytes[0]), 0);
  EXPECT_EQ(std::to_integer<int>(file.at("a float16").bytes[0]), 92);
  EXPECT_EQ(std::to_integer<int>(file.at("a bool").bytes[0]), 116);
  EXPECT_EQ(file.metadata(), (TensorMetadata{{"format", "pt"}}));
}

TEST(TensorFile, ReadsFloatsOfFourTypes) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<float> expected{0.0f, -0.0f, 1.0f, -2.5f, 0.15625f, 0x1p-14f, kInfinity, -kInfinity};
  const TensorFile file(kGolden + "floats.safetensors");
  for (const char* name : {"f32", "f16", "bf16", "f64"}) {
    EXPECT_EQ(file.at(name).shape, (std::vector<std::int64_t>{2, 4}));
    const std::vector<float> values = floats_of(file.at(name));
    EXPECT_EQ(std::memcmp(values.data(), expected.data(), sizeof(float) * 8), 0) << name;  // bits: -0 is not 0
  }
  EXPECT_TRUE(file.metadata().empty());
}

TEST(TensorFile, ReadsScalarsEmptyTensorsAndAnyName) {
  const TensorFile file(kGolden + "shapes.safetensors");
  EXPECT_EQ(file.at("scalar").shape, std::vector<std::int64_t>{});
  EXPECT_EQ(floats_of(file.at("scalar")), std::vector<float>{7.0f});
  EXPECT_EQ(file.at("empty").shape, (std::vector<std::int64_t>{3, 0, 2}));
  EXPECT_TRUE(file.at("empty").bytes.empty());
  EXPECT_EQ(floats_of(file.at("Größe \"x\"\n\\/")), std::vector<float>{8.0f});
  EXPECT_EQ(file.metadata().at("note"), "line\nä");
  EXPECT_EQ(file.find("none"), nullptr);
  EXPECT_ERROR(file.at("none"), "shapes.safetensors: has no tensor \"none\" among its 3", "expected one");
}

TEST(SaveTensors, WritesTheSameBytesAsTheOriginal) {
  const TemporaryFolder folder;
  for (const char* name : {"all_types", "floats", "shapes", "sharded/model-00001-of-00002"}) {
    const std::string golden = kGolden + name + ".safetensors";
    const TensorFile file(golden);
    std::vector<StoredTensor> tensors(file.tensors().begin(), file.tensors().end());
    for (int order = 0; order < 2; order++, std::ranges::reverse(tensors)) {
      save_tensors(folder / "again", tensors, file.metadata());
      EXPECT_EQ(contents_of(folder / "again"), contents_of(golden)) << name;
    }
  }
  save_tensors(folder / "again", {});
  EXPECT_EQ(contents_of(folder / "again"), std::string("\x08\0\0\0\0\0\0\0{}      ", 16));
  EXPECT_EQ(count_of(TensorFile(folder / "again")), 0u);
}

// ---- round trips ----

TEST(SaveTensors, RoundTrip) {
  const TemporaryFolder folder;
  Tensor<float, 2> weights({300, 701});  // several tasks, and a rest
  Tensor<bf16, 1> half({5});
  Tensor<f16, 3> small({1, 2, 1});
  for (std::int64_t i = 0; i < weights.size(); i++) weights.data()[i] = static_cast<float>(i) * 0.37f - 1000.0f;
  for (std::int64_t i = 0; i < 5; i++) half(i) = bf16(static_cast<float>(i) + 0.5f);
  small(0, 1, 0) = f16(3.0f);
  const std::vector<StoredTensor> tensors{stored("weights", weights), stored("half", half), stored("small", small)};
  const TensorMetadata metadata{{"step", "12"}, {"quote", "\"\\\x01"}};
  save_tensors(folder / "model.safetensors", tensors, metadata);
  TensorFile read(folder / "model.safetensors");
  const TensorFile file = std::move(read);  // what it maps moves with it
  EXPECT_EQ(file.metadata(), metadata);
  EXPECT_EQ(file.at("weights").shape, (std::vector<std::int64_t>{300, 701}));
  for (const int threads : {1, 2}) {
    set_num_threads(threads);
    EXPECT_TRUE(std::ranges::equal(floats_of(file.at("weights")), weights));
  }
  set_num_threads(0);
  EXPECT_EQ(floats_of(file.at("half")), (std::vector<float>{0.5f, 1.5f, 2.5f, 3.5f, 4.5f}));
  EXPECT_EQ(floats_of(file.at("small")), (std::vector<float>{0.0f, 3.0f}));
  // Replacing the file leaves what is mapped as it was.
  save_tensors(folder / "model.safetensors", {});
  EXPECT_EQ(floats_of(file.at("small")), (std::vector<float>{0.0f, 3.0f}));
}

TEST(SaveTensors, RefusesWhatItCannotWrite) {
  const TemporaryFolder folder;
  const auto save = [&](const StoredTensor& tensor) { save_tensors(folder / "file", std::span(&tensor, 1)); };
  const std::string four(4, '\0');
  const StoredTensor good{"a", StoredType::f32, {1}, bytes_of(four)};
  EXPECT_ERROR(save({"a", StoredType::f32, {2}, bytes_of(four)}), "[save_tensors]", "tensor \"a\": 4 bytes",
               "expected 8");
  EXPECT_ERROR(save({"a", StoredType::f32, {-1, -1}, bytes_of(four)}), "shape [-1, -1]", "expected sizes of 0 or more");
  EXPECT_ERROR(save({"a", StoredType::f32, {1ll << 40, 1ll << 40}, {}}), "fewer elements than can be counted");
  EXPECT_ERROR(save({"__metadata__", StoredType::f32, {1}, bytes_of(four)}), "__metadata__", "expected another name");
  EXPECT_ERROR(save({"\xff", StoredType::f32, {1}, bytes_of(four)}), "is not UTF-8");
  EXPECT_ERROR(save_tensors(folder / "file", std::vector{good, good}), "two are named \"a\"",
               "expected different names");
  EXPECT_ERROR(save_tensors(folder / "none/file", std::vector{good}), "none/file: cannot be written (No such file");
  EXPECT_FALSE(std::filesystem::exists(folder / "file"));
}

TEST(ReadFloats, RefusesOtherTypesAndSizes) {
  const std::string four(4, '\0');
  std::vector<float> values(1);
  EXPECT_ERROR(read_floats({"a", StoredType::i32, {1}, bytes_of(four)}, values), "[read_floats]",
               "tensor a: of type I32", "expected F32, BF16, F16 or F64");
  EXPECT_ERROR(read_floats({"a", StoredType::f16, {2}, bytes_of(four)}, values), "values: 1 elements",
               "expected 2 as tensor a has");
  EXPECT_ERROR(read_floats({"a", StoredType::f32, {2}, bytes_of(four)}, values), "tensor a: 4 bytes",
               "expected those of shape [2] of F32");
}

// ---- faults, each alone ----

// A file with this header, of its right length, and so many bytes of data.
std::string file_with(const std::string& header, std::size_t data_bytes) {
  const std::uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + header + std::string(data_bytes, '\0');
}

std::string entry(const std::string& type, const std::string& shape, const std::string& offsets) {
  return R"({"dtype":)" + type + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

#define EXPECT_FAULT(contents, ...)                                                                  \
  do {                                                                                               \
    const std::string made = contents;                                                               \
    EXPECT_ERROR(TensorFile(bytes_of(made), "some.file"), "[TensorFile]", "some.file", __VA_ARGS__); \
  } while (false)

#define EXPECT_HEADER_FAULT(header, ...) EXPECT_FAULT(file_with(header, 8), __VA_ARGS__)

// An entry that is wrong in one way; the data has 8 bytes.
#define EXPECT_ENTRY_FAULT(type, shape, offsets, ...) \
  EXPECT_HEADER_FAULT(R"({"t":)" + entry(type, shape, offsets) + "}", "tensor \"t\" has ", __VA_ARGS__)

TEST(TensorFileFaults, TheGoodFileIsGood) {  // so that each fault below is the only one
  const std::string good = file_with(R"({"t":)" + entry(R"("F32")", "[2]", "[0,8]") + "}", 8);
  EXPECT_EQ(count_of(TensorFile(bytes_of(good), "some.file")), 1u);
}

TEST(TensorFileFaults, Length) {
  EXPECT_FAULT("", "0 bytes, expected at least the 8 of the header's length");
  EXPECT_FAULT("1234567", "7 bytes, expected at least the 8");
  EXPECT_FAULT(std::string("\x03\0\0\0\0\0\0\0{}", 10), "a header of 3 bytes, expected at most the 2 that follow");
  EXPECT_FAULT(std::string("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10), "a header of 18446744073709551615 bytes",
               "expected at most 100000000");
  EXPECT_FAULT(file_with("{}" + std::string(100'000'000, ' '), 0), "a header of 100000002 bytes");
  const std::string whole = contents_of(kGolden + "floats.safetensors");
  for (std::size_t length = 0; length < whole.size(); length++) EXPECT_FAULT(whole.substr(0, length), "expected");
}

TEST(TensorFileFaults, Header) {
  EXPECT_HEADER_FAULT("", "does not begin with {");
  EXPECT_HEADER_FAULT(" {}", "does not begin with {");
  EXPECT_HEADER_FAULT("[]", "does not begin with {");
  EXPECT_HEADER_FAULT("\xef\xbb\xbf{}", "does not begin with {");
  EXPECT_HEADER_FAULT("{", "not JSON");
  EXPECT_HEADER_FAULT("{}x", "not JSON");
  EXPECT_HEADER_FAULT(std::string("{}\0 ", 4), "not JSON, has a byte 0");
  EXPECT_HEADER_FAULT("{\"\xff\":1}", "not JSON at line 1, column 3");
  EXPECT_HEADER_FAULT("{\"\xed\xa0\x80\":1}", "not JSON at line 1, column ");  // half of a surrogate pair
  EXPECT_HEADER_FAULT("{\"t\":" + std::string(1000, '['), "nested deeper than 64");
  const std::string good = R"("t":)" + entry(R"("F32")", "[2]", "[0,8]");
  EXPECT_HEADER_FAULT("{" + good + "," + good + "}", "the key \"t\" is given twice, expected once");
  EXPECT_HEADER_FAULT(R"({"t":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "\"dtype\" is given");
}

TEST(TensorFileFaults, Metadata) {
  EXPECT_HEADER_FAULT(R"({"__metadata__":1})", "__metadata__ is 1, expected an object of strings");
  EXPECT_HEADER_FAULT(R"({"__metadata__":{"a":"b","c":2}})", "expected an object of strings");
  EXPECT_HEADER_FAULT(R"({"__metadata__":{},"__metadata__":{}})", "\"__metadata__\" is given twice");
}

TEST(TensorFileFaults, Entry) {
  EXPECT_HEADER_FAULT(R"({"t":7})", "tensor \"t\" has 7, expected an object");
  EXPECT_HEADER_FAULT(R"({"t":{"shape":[2],"data_offsets":[0,8]}})", "tensor \"t\" has no dtype, expected");
  EXPECT_HEADER_FAULT(R"({"t":{"dtype":"F32","data_offsets":[0,8]}})", "tensor \"t\" has no shape, expected");
  EXPECT_HEADER_FAULT(R"({"t":{"dtype":"F32","shape":[2]}})", "tensor \"t\" has no data_offsets, expected");
  EXPECT_HEADER_FAULT(R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1}})", "the key \"x\", expected");
}

TEST(TensorFileFaults, Type) {
  EXPECT_ENTRY_FAULT(R"("F31")", "[2]", "[0,8]", "dtype \"F31\", expected one of BOOL, U8,", "F32,", "U64");
  EXPECT_ENTRY_FAULT(R"("f32")", "[2]", "[0,8]", "dtype \"f32\"");
  EXPECT_ENTRY_FAULT("32", "[2]", "[0,8]", "dtype 32");
  EXPECT_ENTRY_FAULT(R"("F64")", "[2]", "[0,8]", "data_offsets [0,8], expected 16 bytes as shape [2] of F64 has");
}

TEST(TensorFileFaults, Shape) {
  const char* whole = "expected a list of whole numbers from 0 to 2^63 - 1";
  EXPECT_ENTRY_FAULT(R"("F32")", "2", "[0,8]", "shape 2", whole);
  EXPECT_ENTRY_FAULT(R"("F32")", "[-2]", "[0,8]", "shape [-2]", whole);
  EXPECT_ENTRY_FAULT(R"("F32")", "[2.0]", "[0,8]", "shape [2.0]", whole);
  EXPECT_ENTRY_FAULT(R"("F32")", "[\"2\"]", "[0,8]", "shape [\"2\"]", whole);
  EXPECT_ENTRY_FAULT(R"("F32")", "[9223372036854775808]", "[0,8]", "shape [9223372036854775808]", whole);
  EXPECT_ENTRY_FAULT(R"("F32")", "[3]", "[0,8]", "data_offsets [0,8], expected 12 bytes as shape [3] of F32 has");
  // 2^62 elements of 4 bytes, and 2^64 + 2 elements: both wrap round to what the offsets say.
  EXPECT_ENTRY_FAULT(R"("F32")", "[4611686018427387904]", "[0,0]", "fewer elements than can be counted");
  EXPECT_ENTRY_FAULT(R"("F32")", "[6148914691236517206,3]", "[0,8]", "fewer elements than can be counted");
  EXPECT_ENTRY_FAULT(R"("F32")", "[0,4294967296,4294967296]", "[0,0]", "fewer elements than can be counted");
}

TEST(TensorFileFaults, Offsets) {
  const char* whole = "expected a list of whole numbers from 0 to 2^63 - 1";
  EXPECT_ENTRY_FAULT(R"("F32")", "[2]", "[-8,0]", "data_offsets [-8,0]", whole);
  EXPECT_ENTRY_FAULT(R"("F32")", "[2]", "[0,8.0]", "data_offsets [0,8.0]", whole);
  EXPECT_ENTRY_FAULT(R"("F32")", "[2]", "[0,8e0]", "data_offsets [0,8.0]", whole);
  EXPECT_ENTRY_FAULT(R"("F32")", "[2]", "{}", "data_offsets {}", whole);
  EXPECT_ENTRY_FAULT(R"("F32")", "[2]", "[0]", "data_offsets [0], expected begin and end");
  EXPECT_ENTRY_FAULT(R"("F32")", "[2]", "[0,8,8]", "data_offsets [0,8,8], expected begin and end");
  EXPECT_ENTRY_FAULT(R"("F32")", "[2]", "[8,0]", "data_offsets [8,0], expected begin and end");
  EXPECT_ENTRY_FAULT(R"("F32")", "[2]", "[8,16]", "data_offsets [8,16], expected within the 8 bytes");
  EXPECT_ENTRY_FAULT(R"("F32")", "[2]", "[18446744073709551608,16]", whole);
}

TEST(TensorFileFaults, EveryByteBelongsToOneTensor) {
  const auto two = [](const std::string& a, const std::string& b) {
    return R"({"a":)" + entry(R"("U8")", "[4]", a) + R"(,"b":)" + entry(R"("U8")", "[4]", b) + "}";
  };
  const std::string good = file_with(two("[4,8]", "[0,4]"), 8);
  EXPECT_EQ(count_of(TensorFile(bytes_of(good), "some.file")), 2u);
  EXPECT_FAULT(file_with(two("[0,4]", "[3,7]"), 7),
               "\"b\" begins at byte 3, overlapping the one before it, expected 4");
  EXPECT_FAULT(file_with(two("[0,4]", "[0,4]"), 4), "begins at byte 0, overlapping the one before it, expected 4");
  EXPECT_FAULT(file_with(two("[0,4]", "[5,9]"), 9), "\"b\" begins at byte 5, after a hole, expected 4");
  EXPECT_FAULT(file_with(two("[1,5]", "[5,9]"), 9), "\"a\" begins at byte 1, after a hole, expected 0");
  EXPECT_FAULT(file_with(two("[0,4]", "[4,8]"), 9), "1 bytes after the last tensor, expected none");
  EXPECT_FAULT(file_with("{}", 3), "3 bytes after the last tensor, expected none");
}

// ---- folders ----

TEST(TensorFolder, SingleOrSharded) {
  const TensorFolder sharded(kGolden + "sharded");
  ASSERT_EQ(sharded.tensors().size(), 3u);
  EXPECT_EQ(floats_of(sharded.at("a")), (std::vector<float>{1.0f, 1.0f}));
  EXPECT_EQ(floats_of(sharded.at("b")), (std::vector<float>{2.0f, 2.0f}));
  EXPECT_EQ(floats_of(sharded.at("c")), (std::vector<float>{3.0f, 3.0f}));
  const TemporaryFolder folder;
  EXPECT_ERROR(TensorFolder(folder.path()), "[TensorFolder] " + folder.path().string(), "no weights",
               "expected model.safetensors or model.safetensors.index.json");
  folder.add("model.safetensors.index.json", "not read when there is a single file");
  folder.add("model.safetensors", contents_of(kGolden + "floats.safetensors"));
  EXPECT_EQ(count_of(TensorFolder(folder.path())), 4u);
}

TEST(TensorFolder, RefusesAWrongIndex) {
  const TemporaryFolder folder;
  const std::string shard = "model-00001-of-00002.safetensors";
  folder.add(shard, contents_of(kGolden + "sharded/" + shard));
  const auto with_index = [&](const std::string& index) {
    folder.add("model.safetensors.index.json", index);
    return TensorFolder(folder.path());
  };
  const auto with_file = [&](const std::string& file) { return with_index(R"({"weight_map":{"a":)" + file + "}}"); };
  EXPECT_EQ(count_of(with_file('"' + shard + '"')), 1u);  // "c" is not listed
  EXPECT_ERROR(with_index("{}"), "index.json: no weight_map", "expected an object");
  EXPECT_ERROR(with_index(R"({"weight_map":{}})"), "no weight_map");
  EXPECT_ERROR(with_index(R"({"weight_map":[]})"), "no weight_map");
  EXPECT_ERROR(with_index("{"), "index.json: not JSON");
  EXPECT_ERROR(with_index(R"({"weight_map":{"a":"x","a":"y"}})"), "\"a\" is given twice");
  EXPECT_ERROR(with_index(R"({"weight_map":{"b":")" + shard + R"("}})"), shard + ": has no tensor \"b\" among its 2");
  EXPECT_ERROR(with_file("\"none.safetensors\""), "none.safetensors", "No such file");
  for (const char* elsewhere : {"../x.safetensors", "/etc/x.safetensors", "a/b.safetensors", "..", "", "a..safetensors",
                                ".safetensors", "a\\\\b.safetensors", "config.json", "a\\u0000.safetensors"})
    EXPECT_ERROR(with_file('"' + std::string(elsewhere) + '"'), "[TensorFolder]", "weight_map has ", "for \"a\"",
                 "expected the name of a .safetensors file in this folder");
  EXPECT_ERROR(with_file("3"), "weight_map has 3 for \"a\"");
}

}  // namespace
}  // namespace phasor
