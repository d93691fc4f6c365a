// The pages say what the registry says.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "phasor/position/encoding.h"
#include "phasor/position/rope.h"
#include "support/source_folder.h"

namespace phasor {
namespace {

std::string text_of(const std::string& name) {
  std::ifstream file(in_source_folder(name));
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string escaped(std::string_view text) {  // a bar ends a cell of a Markdown table
  std::string result;
  for (const char c : text) result += c == '|' ? std::string("\\|") : std::string(1, c);
  return result;
}

TEST(Docs, EncodingsPageHasEveryRowOfTheRegistry) {
  const std::string text = text_of("docs/encodings.md");
  for (const Encoding& row : encodings()) {
    const std::string expected = "| `" + std::string(row.name) + "` | " + escaped(row.acts_on) + " | " +
                                 escaped(row.formula) + " | " + escaped(row.gradient) + " | " + escaped(row.source) +
                                 " |";
    EXPECT_NE(text.find(expected), std::string::npos) << "docs/encodings.md lacks the row\n" << expected;
  }
}

TEST(Docs, EncodingsPageHasEveryRopeType) {
  const std::string text = text_of("docs/encodings.md");
  for (const RopeType& type : rope_types()) {
    const std::string begin = "| `" + std::string(type.name) + "` | " + escaped(type.formula) + " | ";
    const auto at = text.find(begin);
    ASSERT_NE(at, std::string::npos) << "docs/encodings.md lacks the row\n" << begin;
    const std::string line = text.substr(at, text.find('\n', at) - at);
    for (const auto& keys : {type.required, type.optional})
      for (const std::string_view key : keys)
        EXPECT_NE(line.find("`" + std::string(key) + "`"), std::string::npos) << type.name << " lacks " << key;
  }
}

TEST(Docs, PhasorHeaderHasEveryPublicHeader) {
  const std::string text = text_of("include/phasor/phasor.h");
  const std::filesystem::path include = in_source_folder("include");
  for (const auto& entry : std::filesystem::recursive_directory_iterator(include)) {
    const std::string name = entry.path().lexically_relative(include).generic_string();
    if (!entry.is_regular_file() || name == "phasor/phasor.h") continue;
    EXPECT_NE(text.find("#include \"" + name + "\"\n"), std::string::npos) << "phasor.h lacks " << name;
  }
}

}  // namespace
}  // namespace phasor
