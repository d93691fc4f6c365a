// phasor atlas: the encodings' own pictures, as one page.
#include "report/atlas.h"

#include <cstdio>
#include <optional>

#include "commands.h"
#include "files/atomic_file.h"
#include "table.h"

namespace phasor::tool {
namespace {

struct Options {
  std::optional<std::string> config;
  std::string output = "atlas.html";
};

std::string subject(const std::string& config, const HuggingFaceRope& model) {
  return model.model_type.empty() ? printable(config) : printable(config) + ", " + printable(model.model_type);
}

void write_atlas(const Options& options) {
  std::string page;
  if (options.config) {
    const HuggingFaceRope model = load_rope_config(*options.config);
    page = report::atlas_page(subject(*options.config, model), report::rotating_layers(model));
  } else {
    page = report::atlas_page("the original paper", {report::plain_rope()});
  }
  write_file(options.output, page);
  std::printf("%s\n", options.output.c_str());
}

}  // namespace

void add_atlas(CLI::App& app) {
  auto* command = app.add_subcommand("atlas", "Write an HTML page with pictures of the encodings");
  auto options = std::make_shared<Options>();
  command->add_option("--config", options->config,
                      "Hugging Face config.json, or its folder (default: RoPE as in its paper)");
  command->add_option("--output", options->output, "HTML file to write")->capture_default_str();
  command->callback([options] { write_atlas(*options); });
}

}  // namespace phasor::tool
