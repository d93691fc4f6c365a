// write_made_up_report FOLDER: results.json of the made-up comparison, and the page made from that file. For looking
// at.
#include <cstdio>
#include <exception>
#include <string>

#include "files/atomic_file.h"
#include "made_up_comparison.h"

int main(int argc, char** argv) {
  try {
    const std::string folder = argc == 2 ? argv[1] : ".";
    using namespace phasor::report;
    phasor::write_file(folder + "/results.json", to_json(made_up_comparison()));
    const Comparison comparison = load_comparison(folder + "/results.json");
    phasor::write_file(folder + "/comparison.html", comparison_page(comparison));
    ranking_table(comparison).print();
    for (const std::string& note : ranking_notes(comparison)) std::printf("%s\n", note.c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
