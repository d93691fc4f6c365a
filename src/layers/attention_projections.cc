#include "phasor/layers/attention_projections.h"

#include <string>

#include "as_rows.h"

namespace phasor {
namespace {

using detail::as_rows;

}  // namespace

AttentionHeads AttentionHeads::checked(const char* layer) const {
  AttentionHeads h = *this;
  PHASOR_CHECK(h.channels >= 1, layer, "hidden_size: ", h.channels, ", expected 1 or more");
  PHASOR_CHECK(h.heads >= 1, layer, "num_heads: ", h.heads, ", expected 1 or more");
  if (h.key_heads == 0) h.key_heads = h.heads;
  PHASOR_CHECK(h.key_heads >= 1 && h.heads % h.key_heads == 0, layer, "num_key_value_heads: ", h.key_heads,
               ", expected a divisor of num_heads ", h.heads);
  PHASOR_CHECK(h.head_dim > 0 || h.channels % h.heads == 0, layer, "hidden_size: ", h.channels,
               ", expected a multiple of num_heads ", h.heads);
  if (h.head_dim == 0) h.head_dim = h.channels / h.heads;
  PHASOR_CHECK(h.head_dim >= 1 && h.head_dim <= 512, layer, "head_dim: ", h.head_dim, ", expected 1 to 512");
  return h;
}

AttentionProjections::AttentionProjections(const char* layer, const AttentionHeads& h, bool bias, bool output_bias,
                                           InitialValues& initial)
    : layer_(layer),
      q_(h.channels, h.heads * h.head_dim, bias, initial),
      k_(h.channels, h.key_heads * h.head_dim, bias, initial),
      v_(h.channels, h.key_heads * h.head_dim, bias, initial),
      o_(h.heads * h.head_dim, h.channels, output_bias, initial) {}

void AttentionProjections::list_weights(std::string_view prefix, std::string_view suffix, NamedWeights& weights) {
  const auto path = [&](const char* name) { return weight_path(prefix, name + std::string(suffix)); };
  q_.list_weights(path("q"), weights);
  k_.list_weights(path("k"), weights);
  v_.list_weights(path("v"), weights);
  o_.list_weights(path("o"), weights);
}

void AttentionProjections::forward(const AttentionInputs& inputs, const ProjectedHeads<float>& heads) const {
  Linear::forward_together({{q_, as_rows(layer_, "query", inputs.query), as_rows(heads.q)},
                            {k_, as_rows(layer_, "key", inputs.keys()), as_rows(heads.k)},
                            {v_, as_rows(layer_, "value", inputs.values()), as_rows(heads.v)}});
}

void AttentionProjections::forward_queries(TensorView<const float, 3> x, TensorView<float, 4> q) const {
  q_.forward(as_rows(layer_, "query", x), as_rows(q));
}

void AttentionProjections::forward_keys(TensorView<const float, 3> x, TensorView<float, 4> k,
                                        TensorView<float, 4> v) const {
  Linear::forward_together(
      {{k_, as_rows(layer_, "key", x), as_rows(k)}, {v_, as_rows(layer_, "value", x), as_rows(v)}});
}

void AttentionProjections::forward_out(TensorView<const float, 4> heads, TensorView<float, 3> y) const {
  o_.forward(as_rows(heads), as_rows(layer_, "y", y));
}

void AttentionProjections::check_gradients(const AttentionInputs& inputs,
                                           const AttentionInputGradients& gradients) const {
  const auto check = [&](const char* name, const TensorView<float, 3>& gradient, const TensorView<const float, 3>& x) {
    if (gradient.data == nullptr) return;
    PHASOR_CHECK(x.data, layer_, name, ": given without its input, expected in that of the input it followed");
    PHASOR_CHECK(gradient.shape == x.shape, layer_, name, ": ", shape_text(gradient.shape), ", expected ",
                 shape_text(x.shape));
  };
  check("grad_query", gradients.query, inputs.query);
  check("grad_key", gradients.key, inputs.key);
  check("grad_value", gradients.value, inputs.value);
}

void AttentionProjections::backward(const AttentionInputs& inputs, const ProjectedHeads<const float>& grad_heads,
                                    const AttentionInputGradients& grad_inputs) {
  check_gradients(inputs, grad_inputs);
  const auto gradient_rows = [&](const char* name, const TensorView<float, 3>& gradient) {
    return gradient.data ? as_rows(layer_, name, gradient) : TensorView<float, 2>();
  };
  // An input that is another one's joins its gradient.
  const TensorView<float, 3>& key = inputs.key.data ? grad_inputs.key : grad_inputs.query;
  const TensorView<float, 3>& value = inputs.value.data ? grad_inputs.value : key;
  q_.backward(as_rows(layer_, "query", inputs.query), as_rows(grad_heads.q),
              gradient_rows("grad_query", grad_inputs.query));
  k_.backward(as_rows(layer_, "key", inputs.keys()), as_rows(grad_heads.k), gradient_rows("grad_key", key),
              inputs.key.data ? Into::write : Into::add);
  v_.backward(as_rows(layer_, "value", inputs.values()), as_rows(grad_heads.v), gradient_rows("grad_value", value),
              inputs.value.data ? Into::write : Into::add);
}

void AttentionProjections::backward_out(TensorView<const float, 4> heads, TensorView<const float, 3> grad_y,
                                        TensorView<float, 4> grad_heads) {
  o_.backward(as_rows(heads), as_rows(layer_, "grad_y", grad_y), as_rows(grad_heads));
}

}  // namespace phasor
