// Models of Hugging Face folders.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "any_cache.h"
#include "arrays.h"
#include "module.h"
#include "phasor/models/embed.h"
#include "phasor/models/encoder_decoder.h"
#include "phasor/models/generate.h"
#include "phasor/models/text_files.h"
#include "phasor/text/stop_texts.h"

namespace phasor::python {
namespace {

using AnyModel = std::variant<Transformer, EncoderDecoder>;

AnyModel read_model(const std::filesystem::path& folder, Precision precision) {
  if (EncoderDecoder::is_in(folder)) return EncoderDecoder::from_pretrained(folder, precision);
  return Transformer::from_pretrained(folder, precision);
}

class Model {
 public:
  Model(const std::string& folder, const std::string& precision)
      : folder_(folder),
        model_(read_model(folder, precision_from_name(precision))),
        stop_tokens_(load_stop_tokens(folder)) {
    if (std::filesystem::exists(folder_ / "tokenizer.json")) tokenizer_ = load_tokenizer(folder_, writer().config());
  }

  const std::optional<Tokenizer>& tokenizer() const { return tokenizer_; }
  const std::vector<std::int32_t>& stop_tokens() const { return stop_tokens_; }
  const EncoderDecoder* encoder_decoder() const { return std::get_if<EncoderDecoder>(&model_); }
  // What writes text.
  const Transformer& writer() const {
    const EncoderDecoder* both = encoder_decoder();
    return both ? both->decoder() : std::get<Transformer>(model_);
  }

  void logits(nb::handle tokens_object, nb::handle out_object) const {
    const Array tokens("Model.logits", "ids", tokens_object), out("Model.logits", "out", out_object, Access::write);
    const auto tokens_view = tokens.view<const std::int32_t, 2>();
    const auto out_view = out.view<float, 3>();
    const nb::gil_scoped_release released;
    Workspace workspace;
    writer().forward(tokens_view, out_view, nullptr, workspace);
  }

  nb::object embed(const nb::list& texts, const std::optional<std::string>& pooling, std::optional<bool> normalize,
                   std::int64_t batch) const {
    std::vector<std::string> copies;
    for (const nb::handle each : texts) {
      const auto text = nb::cast<nb::bytes>(each);
      copies.emplace_back(text.c_str(), text.size());
    }
    Tensor<float, 2> vectors;
    {
      const nb::gil_scoped_release released;
      EmbedSettings settings = load_embed_settings(folder_, writer().config());
      if (pooling) settings.pooling = pooling_from_name(*pooling);
      settings.normalize = normalize.value_or(settings.normalize);
      settings.batch = batch;
      Workspace workspace;
      const Tokenizer tokenizer = tokenizer_ ? *tokenizer_ : load_tokenizer(folder_, writer().config());
      vectors = phasor::embed(writer(), tokenizer, copies, settings, workspace);
    }
    return to_numpy(std::move(vectors));
  }

 private:
  std::filesystem::path folder_;
  AnyModel model_;
  std::vector<std::int32_t> stop_tokens_;
  std::optional<Tokenizer> tokenizer_;
};

// A text that is being written. Between its tokens Python runs, so Ctrl-C ends it.
class Generation {
 public:
  Generation(const Model& model, std::vector<std::int32_t> prompt, const GenerateOptions& options)
      : writer_(model.writer()), options_(options), left_(options.max_tokens), text_(std::move(prompt)) {
    if (const EncoderDecoder* both = model.encoder_decoder()) {
      cache_ = generation_cache(*both, text_, options, workspace_);
      text_ = {both->start_token()};
    } else {
      cache_ = generation_cache(writer_, std::ssize(text_), options);
    }
    unread_ = std::ssize(text_);
    options_.max_tokens = 1;
  }

  // The next token; none after the last.
  std::optional<std::int32_t> next() {
    if (left_ == 0) return std::nullopt;
    const nb::gil_scoped_release released;
    continue_text(writer_, unread_, cache_, options_, text_, workspace_);
    unread_ = 1;
    options_.first_draw++;
    left_ = std::ranges::count(options_.stop_tokens, text_.back()) > 0 ? 0 : left_ - 1;
    return text_.back();
  }

 private:
  const Transformer& writer_;
  GenerateOptions options_;
  std::int64_t left_, unread_ = 0;  // tokens to write at most; tokens that the cache lacks
  std::vector<std::int32_t> text_;
  Transformer::Cache cache_;
  Workspace workspace_;
};

std::unique_ptr<Generation> begin(const Model& model, std::vector<std::int32_t> prompt, std::int64_t max_tokens,
                                  const Sampling& sampling, const std::optional<std::string>& cache) {
  GenerateOptions options{.max_tokens = max_tokens, .sampling = sampling, .stop_tokens = model.stop_tokens()};
  if (cache) options.storage = storage_of("generate", "cache", *cache);
  const nb::gil_scoped_release released;
  return std::make_unique<Generation>(model, std::move(prompt), options);
}

}  // namespace

void bind_model(nb::module_& module) {
  using nb::arg;
  nb::class_<StopTexts>(module, "StopTexts")
      .def(nb::init<std::vector<std::string>>(), arg("texts"))
      .def("put", &StopTexts::put, arg("part"))
      .def_prop_ro("found", &StopTexts::found)
      .def("finish", &StopTexts::finish);
  nb::class_<Generation>(module, "Generation").def("next", &Generation::next);
  nb::class_<Model>(module, "Model")
      .def(
          "__init__",
          [](Model* self, const std::string& folder, const std::string& precision) {
            const nb::gil_scoped_release released;
            new (self) Model(folder, precision);
          },
          arg("folder"), arg("precision"))
      .def_prop_ro("tokenizer", &Model::tokenizer)
      .def_prop_ro("stop_tokens", &Model::stop_tokens)
      .def_prop_ro("translates", [](const Model& self) { return self.encoder_decoder() != nullptr; })
      .def_prop_ro("vocab_size", [](const Model& self) { return self.writer().config().vocab_size; })
      .def_prop_ro("longest", [](const Model& self) { return self.writer().config().longest(); })
      .def("logits", &Model::logits, array_arg("ids"), array_arg("out"))
      .def("embed", &Model::embed, arg("texts"), arg("pooling").none(), arg("normalize").none(), arg("batch"))
      .def(
          "generate",
          [](const Model& self, std::vector<std::int32_t> ids, std::int64_t max_tokens, double temperature,
             std::int64_t top_k, double top_p, double min_p, double repetition_penalty, std::uint64_t seed,
             const std::optional<std::string>& cache) {
            return begin(self, std::move(ids), max_tokens,
                         {.temperature = temperature,
                          .top_k = top_k,
                          .top_p = top_p,
                          .min_p = min_p,
                          .repetition_penalty = repetition_penalty,
                          .seed = seed},
                         cache);
          },
          nb::keep_alive<0, 1>(), arg("ids"), arg("max_tokens"), arg("temperature"), arg("top_k"), arg("top_p"),
          arg("min_p"), arg("repetition_penalty"), arg("seed"), arg("cache").none());
}

}  // namespace phasor::python
