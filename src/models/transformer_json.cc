#include "phasor/models/transformer_json.h"

#include "json/encoding_fields.h"

namespace phasor {
namespace {

constexpr const char* kReader = "transformer_from_json";
constexpr const char* kModelType = "phasor";  // so that no one takes it for a Hugging Face config

}  // namespace

static constexpr EnumWords<Score, 2> enum_words(Score) { return {{{Score::dot, "dot"}, {Score::w2, "w2"}}}; }

static void fields(auto& archive, Is<LayerEncoding> auto& of) {
  archive("layers", of.layers);
  archive("encoding", of.encoding);
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
  archive("rms_norm_eps", of.rms_norm_eps);
  archive("tie_word_embeddings", of.tie_word_embeddings);
  archive("qk_norm", of.qk_norm);
  archive("attention_bias", of.attention_bias);
  archive("attention_dropout", of.attention_dropout);
  archive("sliding_window", of.sliding_window);
  archive("causal", of.causal);
  archive("score", of.score);
  archive("encoding", of.encoding);
  archive.since("layer_encodings", of.layer_encodings, {});
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
