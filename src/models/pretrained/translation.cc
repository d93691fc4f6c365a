// Encoder-decoder models: T5 (buckets of distances, no scale of scores) and Marian (the original Transformer).
#include <cmath>
#include <memory>

#include "architecture.h"
#include "phasor/models/encoder_decoder.h"
#include "phasor/models/transformer_json.h"
#include "phasor/position/relative.h"
#include "phasor/position/sinusoidal.h"

namespace phasor::pretrained {
namespace {

struct Configs {
  TransformerConfig encoder, decoder;
};

struct TwoPartArchitecture {
  std::string_view model_type;
  Configs (*read)(ConfigFile&, const TensorFolder&);
  std::span<const TensorName> encoder, decoder;
  std::span<const std::string_view> unused;
};

constexpr TensorName kT5Encoder[] = {
    {"embedding.*", "shared.*"},
    {"embedding.*", "encoder.embed_tokens.*"},  // the same table
    {"embedding.*", "decoder.embed_tokens.*"},
    {"positions.buckets", "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"},
    {"blocks.#.attention_norm.*", "encoder.block.#.layer.0.layer_norm.*"},
    {"blocks.#.attention.q_proj.*", "encoder.block.#.layer.0.SelfAttention.q.*"},
    {"blocks.#.attention.k_proj.*", "encoder.block.#.layer.0.SelfAttention.k.*"},
    {"blocks.#.attention.v_proj.*", "encoder.block.#.layer.0.SelfAttention.v.*"},
    {"blocks.#.attention.o_proj.*", "encoder.block.#.layer.0.SelfAttention.o.*"},
    {"blocks.#.ffn_norm.*", "encoder.block.#.layer.1.layer_norm.*"},
    {"blocks.#.ffn.fc1.*", "encoder.block.#.layer.1.DenseReluDense.wi.*"},
    {"blocks.#.ffn.fc2.*", "encoder.block.#.layer.1.DenseReluDense.wo.*"},
    {"blocks.#.ffn.gate_proj.*", "encoder.block.#.layer.1.DenseReluDense.wi_0.*"},
    {"blocks.#.ffn.up_proj.*", "encoder.block.#.layer.1.DenseReluDense.wi_1.*"},
    {"blocks.#.ffn.down_proj.*", "encoder.block.#.layer.1.DenseReluDense.wo.*"},
    {"norm.*", "encoder.final_layer_norm.*"},
};

constexpr TensorName kT5Decoder[] = {
    {"embedding.*", "shared.*"},
    {"embedding.*", "encoder.embed_tokens.*"},  // the same table
    {"embedding.*", "decoder.embed_tokens.*"},
    {"positions.buckets", "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"},
    {"blocks.#.attention_norm.*", "decoder.block.#.layer.0.layer_norm.*"},
    {"blocks.#.attention.q_proj.*", "decoder.block.#.layer.0.SelfAttention.q.*"},
    {"blocks.#.attention.k_proj.*", "decoder.block.#.layer.0.SelfAttention.k.*"},
    {"blocks.#.attention.v_proj.*", "decoder.block.#.layer.0.SelfAttention.v.*"},
    {"blocks.#.attention.o_proj.*", "decoder.block.#.layer.0.SelfAttention.o.*"},
    {"blocks.#.cross_attention_norm.*", "decoder.block.#.layer.1.layer_norm.*"},
    {"blocks.#.cross_attention.q_proj.*", "decoder.block.#.layer.1.EncDecAttention.q.*"},
    {"blocks.#.cross_attention.k_proj.*", "decoder.block.#.layer.1.EncDecAttention.k.*"},
    {"blocks.#.cross_attention.v_proj.*", "decoder.block.#.layer.1.EncDecAttention.v.*"},
    {"blocks.#.cross_attention.o_proj.*", "decoder.block.#.layer.1.EncDecAttention.o.*"},
    {"blocks.#.ffn_norm.*", "decoder.block.#.layer.2.layer_norm.*"},
    {"blocks.#.ffn.fc1.*", "decoder.block.#.layer.2.DenseReluDense.wi.*"},
    {"blocks.#.ffn.fc2.*", "decoder.block.#.layer.2.DenseReluDense.wo.*"},
    {"blocks.#.ffn.gate_proj.*", "decoder.block.#.layer.2.DenseReluDense.wi_0.*"},
    {"blocks.#.ffn.up_proj.*", "decoder.block.#.layer.2.DenseReluDense.wi_1.*"},
    {"blocks.#.ffn.down_proj.*", "decoder.block.#.layer.2.DenseReluDense.wo.*"},
    {"norm.*", "decoder.final_layer_norm.*"},
    {"head.*", "lm_head.*"},
};

// Of both, and a bias of cross-attention that T5's first files have and no one reads.
constexpr std::string_view kT5Unused[] = {"encoder.embed_tokens.", "decoder.embed_tokens.",
                                          "EncDecAttention.relative_attention_bias"};

constexpr TensorName kMarianEncoder[] = {
    {"embedding.*", "model.shared.*"},
    {"embedding.*", "model.encoder.embed_tokens.*"},  // the same table
    {"embedding.*", "model.decoder.embed_tokens.*"},
    {"blocks.#.attention_norm.*", "model.encoder.layers.#.self_attn_layer_norm.*"},
    {"blocks.#.attention.o_proj.*", "model.encoder.layers.#.self_attn.out_proj.*"},
    {"blocks.#.attention.*", "model.encoder.layers.#.self_attn.*"},
    {"blocks.#.ffn_norm.*", "model.encoder.layers.#.final_layer_norm.*"},
    {"blocks.#.ffn.*", "model.encoder.layers.#.*"},
};

constexpr TensorName kMarianDecoder[] = {
    {"embedding.*", "model.shared.*"},
    {"embedding.*", "model.encoder.embed_tokens.*"},  // the same table
    {"embedding.*", "model.decoder.embed_tokens.*"},
    {"blocks.#.attention_norm.*", "model.decoder.layers.#.self_attn_layer_norm.*"},
    {"blocks.#.attention.o_proj.*", "model.decoder.layers.#.self_attn.out_proj.*"},
    {"blocks.#.attention.*", "model.decoder.layers.#.self_attn.*"},
    {"blocks.#.cross_attention_norm.*", "model.decoder.layers.#.encoder_attn_layer_norm.*"},
    {"blocks.#.cross_attention.o_proj.*", "model.decoder.layers.#.encoder_attn.out_proj.*"},
    {"blocks.#.cross_attention.*", "model.decoder.layers.#.encoder_attn.*"},
    {"blocks.#.ffn_norm.*", "model.decoder.layers.#.final_layer_norm.*"},
    {"blocks.#.ffn.*", "model.decoder.layers.#.*"},
    {"head.bias", "final_logits_bias"},
    {"head.*", "lm_head.*"},
};

constexpr std::string_view kMarianUnused[] = {"embed_tokens.", "embed_positions."};

Configs read_t5(ConfigFile& config, const TensorFolder& /*files*/) {
  const std::string ffn = config.text("feed_forward_proj", "relu");
  const bool gated = ffn == "gated-gelu" || ffn == "gated-silu" || ffn == "gated-relu";
  if (!gated && ffn != "relu" && ffn != "gelu_new")
    config.refuse("feed_forward_proj", "relu, gelu_new, gated-gelu, gated-relu or gated-silu");
  const bool gelu = ffn == "gated-gelu" || ffn == "gelu_new";
  // T5 1.1 does not scale states, which its own files say by this flag. The head is tied where none is stored.
  const bool scaled = config.flag("scale_decoder_outputs", config.flag("tie_word_embeddings", true));
  const T5Config positions{.buckets = config.integer("relative_attention_num_buckets", 32),
                           .max_distance = config.integer("relative_attention_max_distance", 128)};
  TransformerConfig both{.vocab_size = config.integer("vocab_size"),
                         .hidden_size = config.integer("d_model"),
                         .num_hidden_layers = config.integer("num_layers"),
                         .num_attention_heads = config.integer("num_heads"),
                         .head_dim = config.integer("d_kv"),
                         .intermediate_size = config.integer("d_ff"),
                         .norm_eps = config.number("layer_norm_epsilon", 1e-6),
                         .hidden_act = gelu                  ? Activation::gelu_tanh
                                       : ffn == "gated-silu" ? Activation::silu
                                                             : Activation::relu,
                         .gated = gated,
                         .attention_scale = 1.0};
  Configs result{both, both};
  result.encoder.causal = false;
  result.encoder.output_head = false;
  result.encoder.encoding = positions;
  result.decoder.cross_attention = true;
  result.decoder.num_hidden_layers = config.integer("num_decoder_layers", both.num_hidden_layers);
  result.decoder.encoding = T5Config{positions.buckets, positions.max_distance, false};
  if (scaled) result.decoder.logits_scale = 1.0 / std::sqrt(static_cast<double>(both.hidden_size));
  config.read_elsewhere({"is_decoder"});  // T5's own files have it, false or true
  return result;
}

Configs read_marian(ConfigFile& config, const TensorFolder& /*files*/) {
  config.expect("share_encoder_decoder_embeddings", true);
  config.expect("tie_word_embeddings", true);
  config.expect("normalize_embedding", false);
  TransformerConfig both{.vocab_size = config.integer("vocab_size"),
                         .hidden_size = config.integer("d_model"),
                         .num_hidden_layers = config.integer("encoder_layers"),
                         .num_attention_heads = config.integer("encoder_attention_heads"),
                         .intermediate_size = config.integer("encoder_ffn_dim"),
                         .max_position_embeddings = config.integer("max_position_embeddings", 1024),
                         .norm = NormKind::layer,
                         .norm_eps = 1e-5,
                         .norm_place = NormPlace::after,
                         .hidden_act = config.activation("activation_function", "gelu"),
                         .gated = false,
                         .mlp_bias = true,
                         .attention_bias = true,
                         .final_norm = false,
                         .encoding = SinusoidalConfig{.pairing = Pairing::half}};
  if (config.flag("scale_embedding", false)) both.embedding_scale = std::sqrt(static_cast<double>(both.hidden_size));
  Configs result{both, both};
  result.encoder.causal = false;
  result.encoder.output_head = false;
  TransformerConfig& decoder = result.decoder;
  decoder.cross_attention = true;
  decoder.num_hidden_layers = config.integer("decoder_layers");
  decoder.num_attention_heads = config.integer("decoder_attention_heads");
  decoder.intermediate_size = config.integer("decoder_ffn_dim");
  decoder.head_bias = true;
  return result;
}

constexpr TwoPartArchitecture kTwoParts[] = {
    {"marian", read_marian, kMarianEncoder, kMarianDecoder, kMarianUnused},
    {"t5", read_t5, kT5Encoder, kT5Decoder, kT5Unused},
};

const TwoPartArchitecture* find_two_parts(std::string_view model_type) {
  const auto* found = std::ranges::find(kTwoParts, model_type, &TwoPartArchitecture::model_type);
  return found == std::end(kTwoParts) ? nullptr : found;
}

}  // namespace
}  // namespace phasor::pretrained

namespace phasor {

bool EncoderDecoder::is_in(const std::filesystem::path& folder) {
  return pretrained::find_two_parts(pretrained::ConfigFile(folder).model_type()) != nullptr;
}

EncoderDecoder EncoderDecoder::from_pretrained(const std::filesystem::path& folder, Precision precision) {
  using namespace pretrained;
  ConfigFile file(folder);
  const TwoPartArchitecture* architecture = find_two_parts(file.model_type());
  PHASOR_CHECK(architecture != nullptr, kReader, file.source(), ": model_type is ", json_text(Json(file.model_type())),
               ", expected marian or t5");
  const auto files = std::make_shared<const TensorFolder>(folder);
  Configs configs = architecture->read(file, *files);
  configs.decoder.tie_word_embeddings = !has_head_of_its_own(*files, architecture->decoder, "");
  const std::int64_t start = file.integer({"decoder_start_token_id", "pad_token_id"});
  file.finish();
  std::vector<std::string> used;
  const auto load = [&](const TransformerConfig& config, std::span<const TensorName> names) {
    const TransformerConfig checked = config.checked();
    check_size(kReader, file.source(), checked, *files);
    Transformer model = Transformer::with_zeros(checked);
    load_weights(model, names, "", files, folder, precision, used);
    return model;
  };
  Transformer encoder = load(configs.encoder, architecture->encoder);
  Transformer decoder = load(configs.decoder, architecture->decoder);
  check_all_used(*files, folder, std::move(used), architecture->unused);
  PHASOR_CHECK(start >= 0 && start < configs.decoder.vocab_size, kReader, file.source(),
               ": decoder_start_token_id: ", start, ", expected 0 to ", configs.decoder.vocab_size - 1);
  return {std::move(encoder), std::move(decoder), static_cast<std::int32_t>(start)};
}

}  // namespace phasor
