// phasor encodings: the registry.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "phasor/position/encoding.h"
#include "phasor/position/rope.h"

namespace phasor::tool {
namespace {

std::string joined(std::span<const std::string_view> words) {
  std::string text;
  for (const std::string_view word : words) text += (text.empty() ? "" : ", ") + std::string(word);
  return text;
}

void print_json() {
  nlohmann::ordered_json encodings_json, types_json;
  for (const Encoding& row : encodings())
    encodings_json.push_back({{"name", row.name},
                              {"acts_on", row.acts_on},
                              {"formula", row.formula},
                              {"gradient", row.gradient},
                              {"source", row.source}});
  for (const RopeType& type : rope_types())
    types_json.push_back({{"name", type.name},
                          {"formula", type.formula},
                          {"required", std::vector<std::string>(type.required.begin(), type.required.end())},
                          {"optional", std::vector<std::string>(type.optional.begin(), type.optional.end())},
                          {"in_hugging_face", type.in_hugging_face},
                          {"source", type.source}});
  const nlohmann::ordered_json all{{"encodings", encodings_json}, {"rope_types", types_json}};
  std::printf("%s\n", all.dump(2).c_str());
}

void print_line(const char* label, std::string_view text) {
  if (!text.empty()) std::printf("    %-10s%.*s\n", label, static_cast<int>(text.size()), text.data());
}

void print_text() {
  std::printf("Position encodings\n");
  for (const Encoding& row : encodings()) {
    std::printf("\n  %s\n", std::string(row.name).c_str());
    print_line("acts on", row.acts_on);
    print_line("formula", row.formula);
    print_line("gradient", row.gradient);
    print_line("source", row.source);
  }
  std::printf("\nRoPE types: what becomes of the frequencies w\n");
  for (const RopeType& type : rope_types()) {
    std::printf("\n  %s%s\n", std::string(type.name).c_str(),
                type.in_hugging_face ? "" : " (not in Hugging Face configs)");
    print_line("formula", type.formula);
    print_line("requires", joined(type.required));
    print_line("accepts", joined(type.optional));
    print_line("source", type.source);
  }
  std::printf(
      "\nPairings: half (i, i + R/2), adjacent (2i, 2i + 1).\n"
      "Axes: single, M-RoPE chunked and interleaved, 2-D axial and alternating.\n");
}

}  // namespace

void add_encodings(CLI::App& app) {
  auto* command = app.add_subcommand("encodings", "List the position encodings and RoPE types");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "Print JSON");
  command->callback([json] { *json ? print_json() : print_text(); });
}

}  // namespace phasor::tool
