// phasor embed: a vector for each line of a text, by an encoder such as BERT.
#include "phasor/models/embed.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <memory>

#include "commands.h"
#include "files/atomic_file.h"
#include "flags.h"
#include "phasor/core/check.h"
#include "phasor/core/mapped_file.h"
#include "phasor/models/text_files.h"
#include "text_model.h"

namespace phasor::tool {
namespace {

struct Options {
  WeightOptions model;
  std::optional<std::string> text, output, pooling;
  bool no_normalize = false;
  std::int64_t batch = EmbedSettings().batch;
};

std::string read_all(const std::optional<std::string>& path) {
  if (!path) return {std::istreambuf_iterator<char>(std::cin), {}};
  const MappedFile file(*path);
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

// The end of the last line begins no other.
std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const bool carriage_return = end > begin && text[end - 1] == '\r';
    lines.push_back(text.substr(begin, end - begin - (carriage_return ? 1 : 0)));
    begin = end + 1;
  }
  return lines;
}

// The array of a row, in the shortest digits that name each float.
std::string json_of(std::span<const float> row) {
  std::string json;
  std::array<char, 32> digits;
  for (const float value : row) {
    PHASOR_CHECK(std::isfinite(value), "embed", "model: gives ", value, ", expected finite numbers");
    char* end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
    json += json.empty() ? "[" : ", ";
    json.append(digits.data(), end);
  }
  return json + "]";
}

// NumPy's format, version 1: a header padded with spaces to a multiple of 64, then the floats.
void write_npy(const std::string& path, const Tensor<float, 2>& vectors) {
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + std::to_string(vectors.shape()[0]) +
                       ", " + std::to_string(vectors.shape()[1]) + "), }";
  constexpr std::size_t kBefore = 10, kMultiple = 64;
  header.append(kMultiple - 1 - (kBefore + header.size()) % kMultiple, ' ');
  header += '\n';
  const std::string size{static_cast<char>(header.size() % 256), static_cast<char>(header.size() / 256)};
  AtomicFile file(path);
  file.write("\x93NUMPY\x01" + std::string(1, '\0') + size + header);
  file.write(std::as_bytes(std::span(vectors.data(), static_cast<std::size_t>(vectors.size()))));
  file.commit();
}

void embed_lines(const Options& options) {
  const std::string& folder = options.model.folder;
  PHASOR_CHECK(!is_trained_here(folder), "embed", folder,
               ": written by phasor train, expected an encoder of Hugging Face");
  const Transformer model = Transformer::from_pretrained(folder, precision_from_name(options.model.precision));
  EmbedSettings settings = load_embed_settings(folder, model.config());
  if (options.pooling) settings.pooling = pooling_from_name(*options.pooling);
  if (options.no_normalize) settings.normalize = false;
  settings.batch = options.batch;
  const Tokenizer tokenizer = load_tokenizer(folder, model.config());
  Workspace workspace;
  const Tensor<float, 2> vectors = embed(model, tokenizer, lines_of(read_all(options.text)), settings, workspace);
  if (options.output) return write_npy(*options.output, vectors);
  for (std::int64_t n = 0; n < vectors.shape()[0]; n++)
    std::puts(json_of({&vectors(n, 0), static_cast<std::size_t>(vectors.shape()[1])}).c_str());
}

}  // namespace

void add_embed(CLI::App& app) {
  auto* command = app.add_subcommand("embed", "Make a vector of each line of a text");
  auto options = std::make_shared<Options>();
  add_weight_options(*command, options->model, "Folder of an encoder of Hugging Face or of sentence-transformers");
  command->add_option("--text", options->text, "File of text (default: standard input)");
  command->add_option("--output", options->output, "Write a NumPy file, x.npy (default: print arrays of JSON)")
      ->check([](const std::string& path) { return path.ends_with(".npy") ? "" : path + ", expected a name in .npy"; });
  command->add_option("--pooling", options->pooling, "Of a line's tokens: mean or cls (default: as the folder says)")
      ->check([](const std::string& name) {
        return name == "mean" || name == "cls" ? "" : name + ", expected mean or cls";
      });
  command->add_flag("--no-normalize", options->no_normalize, "Vectors as they are (default: as the folder says)");
  command->add_option("--batch", options->batch, "Number of lines that are computed together")
      ->capture_default_str()
      ->check(whole_number(1, 1 << 16));
  command->callback([options] { embed_lines(*options); });
}

}  // namespace phasor::tool
