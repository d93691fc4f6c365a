#include "phasor/models/encoder_decoder.h"

#include <utility>

namespace phasor {
namespace {

constexpr const char* kModel = "EncoderDecoder";

}  // namespace

EncoderDecoder::EncoderDecoder(Transformer encoder, Transformer decoder, std::int32_t start_token)
    : encoder_(std::move(encoder)), decoder_(std::move(decoder)), start_token_(start_token) {
  const TransformerConfig &from = encoder_.config(), &to = decoder_.config();
  PHASOR_CHECK(to.cross_attention, kModel, "decoder: without cross_attention, expected with it");
  PHASOR_CHECK(from.hidden_size == to.hidden_size, kModel, "decoder: hidden_size ", to.hidden_size,
               ", expected the encoder's ", from.hidden_size);
  PHASOR_CHECK(start_token >= 0 && start_token < to.vocab_size, kModel, "start_token: ", start_token,
               ", expected 0 to ", to.vocab_size - 1);
}

Transformer::Cache EncoderDecoder::read(TensorView<const std::int32_t, 2> source, std::span<const std::int64_t> lengths,
                                        const LayerCacheConfig& config, Workspace& workspace) const {
  const Workspace::Scope scope(workspace);
  const TensorView<float, 3> states =
      workspace.take(Shape<3>{source.shape[0], source.shape[1], encoder_.config().hidden_size});
  encoder_.encode(source, states, workspace, {.lengths = lengths});
  LayerCacheConfig of_batch = config;
  of_batch.batch = source.shape[0];
  Transformer::Cache cache = decoder_.make_cache(of_batch);
  decoder_.read_states(states, lengths, cache, workspace);
  return cache;
}

Transformer::Cache generation_cache(const EncoderDecoder& model, std::span<const std::int32_t> source,
                                    const GenerateOptions& options, Workspace& workspace) {
  PHASOR_CHECK(!source.empty(), "generate", "source: no tokens, expected at least one");
  check_generate(model.decoder(), 1, options);  // the start token
  const LayerCacheConfig config{.capacity = options.max_tokens + 1,
                                .storage = options.storage.value_or(model.decoder().suitable_storage())};
  return model.read({source.data(), {1, std::ssize(source)}}, {}, config, workspace);
}

std::vector<std::int32_t> generate(const EncoderDecoder& model, std::span<const std::int32_t> source,
                                   const GenerateOptions& options, Workspace& workspace,
                                   const std::function<bool(std::int32_t)>& on_token) {
  Transformer::Cache cache = generation_cache(model, source, options, workspace);
  std::vector<std::int32_t> text{model.start_token()};
  continue_text(model.decoder(), 1, cache, options, text, workspace, on_token);
  return {text.begin() + 1, text.end()};
}

}  // namespace phasor
