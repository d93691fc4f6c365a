#include "phasor/models/transformer_json.h"

#include "json/encoding_fields.h"

namespace phasor {
namespace {

constexpr const char* kReader = "transformer_from_json";
constexpr const char* kModelType = "phasor";  // so that no one takes it for a Hugging Face config

}  // namespace

static constexpr EnumWords<Score, 2> enum_words(Score) { return {{{Score::dot, "dot"}, {Score::w2, "w2"}}}; }
static constexpr EnumWords<NormKind, 2> enum_words(NormKind) {
  return {{{NormKind::rms, "rms"}, {NormKind::layer, "layer"}}};
}
static constexpr EnumWords<NormPlace, 3> enum_words(NormPlace) {
  return {{{NormPlace::before, "before"}, {NormPlace::after, "after"}, {NormPlace::around, "around"}}};
}
static constexpr EnumWords<Activation, 4> enum_words(Activation) {
  return {{{Activation::silu, "silu"},
           {Activation::gelu, "gelu"},
           {Activation::gelu_tanh, "gelu_tanh"},
           {Activation::relu, "relu"}}};
}

static void fields(auto& archive, Is<LayerEncoding> auto& of) {
  archive("layers", of.layers);
  archive("encoding", of.encoding);
}

// What version 0.2 added to blocks.
static void block_fields(auto& archive, Is<TransformerConfig> auto& of) {
  archive.since("norm", of.norm, NormKind::rms);
  archive.since("norm_bias", of.norm_bias, true);
  archive.since("norm_place", of.norm_place, NormPlace::before);
  archive.since("first_attention_norm", of.first_attention_norm, true);
  archive.since("parallel_residual", of.parallel_residual, false);
  archive.since("hidden_act", of.hidden_act, Activation::silu);
  archive.since("gated", of.gated, true);
  archive.since("mlp_bias", of.mlp_bias, false);
  archive("attention_output_bias", of.attention_output_bias);
  archive("attention_scale", of.attention_scale);
  archive.since("cross_attention", of.cross_attention, false);
  archive.since("attention_softcap", of.attention_softcap, 0.0);
  archive.since("sliding_layers", of.sliding_layers, {});
}

static void fields(auto& archive, Is<TransformerConfig> auto& of) {
  archive("vocab_size", of.vocab_size);
  archive("hidden_size", of.hidden_size);
  archive("num_hidden_layers", of.num_hidden_layers);
  archive("num_attention_heads", of.num_attention_heads);
  archive("num_key_value_heads", of.num_key_value_heads);
  archive("head_dim", of.head_dim);
  archive("intermediate_size", of.intermediate_size);
  archive("max_position_embeddings", of.max_position_embeddings);
  archive.renamed("rms_norm_eps", "norm_eps", of.norm_eps);
  archive("tie_word_embeddings", of.tie_word_embeddings);
  archive("qk_norm", of.qk_norm);
  archive("attention_bias", of.attention_bias);
  archive("attention_dropout", of.attention_dropout);
  archive("sliding_window", of.sliding_window);
  archive("causal", of.causal);
  archive("score", of.score);
  archive("encoding", of.encoding);
  archive.since("layer_encodings", of.layer_encodings, {});
  block_fields(archive, of);
  archive.since("embedding_scale", of.embedding_scale, 1.0);
  archive.since("embedding_norm", of.embedding_norm, false);
  archive.since("type_vocab_size", of.type_vocab_size, std::int64_t{0});
  archive.since("final_norm", of.final_norm, true);
  archive.since("output_head", of.output_head, true);
  archive.since("head_bias", of.head_bias, false);
  archive.since("head_transform", of.head_transform, false);
  archive.since("head_transform_bias", of.head_transform_bias, true);
  archive.since("logits_scale", of.logits_scale, 1.0);
  archive.since("logits_softcap", of.logits_softcap, 0.0);
}

std::string transformer_to_json(const TransformerConfig& config) {
  OrderedJson json{{"model_type", kModelType}};
  json.update(fields_to_json(config));
  return json.dump(2) + "\n";
}

TransformerConfig transformer_from_json(std::string_view json, std::string_view source) {
  Json object = parse_json_object(json, kReader, source);
  const auto type = object.find("model_type");
  PHASOR_CHECK(type != object.end() && *type == kModelType, kReader, source, ": model_type ",
               type == object.end() ? "missing" : json_text(*type), ", expected \"", kModelType,
               "\" (Transformer::from_pretrained reads models of Hugging Face)");
  object.erase(type);
  return fields_from_json<TransformerConfig>(object, kReader, std::string(source));
}

void check_size(const char* function, std::string_view source, const TransformerConfig& config,
                const StoredTensors& weights) {
  constexpr double kRoom = 2.0;  // errors about single tensors say more, where memory for them is no matter
  double stored = 0.0;
  for (const StoredTensor& tensor : weights.tensors()) stored += static_cast<double>(element_count(tensor));
  PHASOR_CHECK(config.matrix_elements() <= kRoom * stored, function, source, ": a model of ", config.matrix_elements(),
               " numbers or more, expected one of the ", stored, " that the weights have");
}

}  // namespace phasor
