#include "phasor/text/tokenizer.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "module.h"

namespace phasor::python {
namespace {

namespace nb = nanobind;

std::string_view text_of(const nb::bytes& bytes) { return {bytes.c_str(), bytes.size()}; }

nb::tuple tuple_of(const EncodedText& encoding) {
  return nb::make_tuple(encoding.ids, encoding.type_ids, encoding.attention_mask);
}

// Text is UTF-8 that a str gave, and becomes a str again.
nb::str str_of(const std::string& text) { return nb::str(text.data(), text.size()); }

// Runs without the GIL.
template <class Call>
auto released(const Call& call) {
  const nb::gil_scoped_release release;
  return call();
}

void bind_encoding(nb::class_<Tokenizer>& bound) {
  using nb::arg;
  bound
      .def(
          "encode",
          [](const Tokenizer& self, const nb::bytes& text, bool add_special_tokens) {
            const std::string_view view = text_of(text);
            return released([&] { return self.encode(view, add_special_tokens); });
          },
          arg("text"), arg("add_special_tokens"))
      .def(
          "encode_pair",
          [](const Tokenizer& self, const nb::bytes& first, const nb::bytes& second, bool add_special_tokens) {
            const std::string_view views[] = {text_of(first), text_of(second)};
            return tuple_of(released([&] { return self.encode_pair(views[0], views[1], add_special_tokens); }));
          },
          arg("first"), arg("second"), arg("add_special_tokens"))
      .def(
          "encode_batch",
          [](const Tokenizer& self, const nb::list& texts, bool add_special_tokens) {
            std::vector<std::string> copies;
            for (const nb::handle text : texts) copies.emplace_back(text_of(nb::cast<nb::bytes>(text)));
            nb::list results;
            for (const EncodedText& each : released([&] { return self.encode_batch(copies, add_special_tokens); }))
              results.append(tuple_of(each));
            return results;
          },
          arg("texts"), arg("add_special_tokens"));
}

}  // namespace

void bind_tokenizer(nb::module_& module) {
  using nb::arg;
  nb::class_<Tokenizer> bound(module, "Tokenizer");
  bound
      .def_static(
          "from_file", [](const std::string& path) { return released([&] { return Tokenizer::from_file(path); }); },
          arg("path"))
      .def(
          "decode",
          [](const Tokenizer& self, const std::vector<std::int32_t>& ids, bool skip_special_tokens) {
            return str_of(released([&] { return self.decode(ids, skip_special_tokens); }));
          },
          arg("ids"), arg("skip_special_tokens"))
      .def_prop_ro("vocab_size", &Tokenizer::vocab_size)
      .def(
          "token_to_id", [](const Tokenizer& self, const std::string& token) { return self.token_to_id(token); },
          arg("token"))
      .def("id_to_token", &Tokenizer::id_to_token, arg("id"));
  bind_encoding(bound);
  nb::class_<StreamDecoder>(module, "StreamDecoder")
      .def(nb::init<Tokenizer, bool>(), arg("tokenizer"), arg("skip_special_tokens"))
      .def(
          "put", [](StreamDecoder& self, std::int32_t id) { return str_of(self.put(id)); }, arg("id"))
      .def("finish", [](StreamDecoder& self) { return str_of(self.finish()); });
}

}  // namespace phasor::python
