// A model of two transformers, such as T5 or the original Transformer: the encoder reads a source text, and every token
// of the decoder sees the encoder's states. For inference.
//
//   const EncoderDecoder model = EncoderDecoder::from_pretrained("t5-small");
//   std::vector<std::int32_t> ids = generate(model, source, {.stop_tokens = {1}}, workspace);
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <vector>

#include "phasor/models/generate.h"
#include "phasor/models/transformer.h"

namespace phasor {

class EncoderDecoder {
 public:
  // In the files of Hugging Face: t5 and marian. Precision as in Transformer::from_pretrained.
  static EncoderDecoder from_pretrained(const std::filesystem::path& folder, Precision precision = default_precision());
  // Whether a folder has such a model, and not one for Transformer::from_pretrained.
  static bool is_in(const std::filesystem::path& folder);

  // The decoder's blocks have cross-attention and the encoder's width. Texts of the decoder begin with `start_token`.
  EncoderDecoder(Transformer encoder, Transformer decoder, std::int32_t start_token);

  const Transformer& encoder() const { return encoder_; }
  const Transformer& decoder() const { return decoder_; }
  std::int32_t start_token() const { return start_token_; }

  // Encodes source tokens [B, S], the first lengths[b] of each sequence or all, and returns a cache for
  // decoder().decode whose tokens see them.
  Transformer::Cache read(TensorView<const std::int32_t, 2> source, std::span<const std::int64_t> lengths,
                          const LayerCacheConfig& config, Workspace& workspace) const;

 private:
  Transformer encoder_, decoder_;
  std::int32_t start_token_;
};

// The decoder's cache for a text of at most max_tokens; it has read the source.
Transformer::Cache generation_cache(const EncoderDecoder& model, std::span<const std::int32_t> source,
                                    const GenerateOptions& options, Workspace& workspace);

// The tokens that the decoder writes for a source text, without the start token.
std::vector<std::int32_t> generate(const EncoderDecoder& model, std::span<const std::int32_t> source,
                                   const GenerateOptions& options, Workspace& workspace,
                                   const std::function<bool(std::int32_t)>& on_token = {});

}  // namespace phasor
