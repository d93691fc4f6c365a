#include <phasor/text/tokenizer.h>

#include <cstdio>

int main() {
  const auto tokenizer = phasor::Tokenizer::from_json(
      R"({"model": {"type": "WordPiece", "unk_token": "?", "continuing_subword_prefix": "##",
          "max_input_chars_per_word": 9, "vocab": {"?": 0, "hello": 1}},
          "normalizer": {"type": "NFKC"}, "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "\\s"},
          "behavior": "Removed", "invert": false}})",
      "text.cc");
  for (const int id : tokenizer.encode("hello world")) std::printf("%d\n", id);
}
