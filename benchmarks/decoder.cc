// A whole decoder of 26 million parameters: a step of training, and one token of a text; and one of 135 million, with
// weights of float and of bf16.
#include <benchmark/benchmark.h>

#include <span>

#include "attention_case.h"
#include "counting.h"
#include "phasor/layers/loss.h"
#include "phasor/models/transformer.h"
#include "phasor/position/rope.h"
#include "phasor/training/optimizer.h"

namespace phasor::bench {
namespace {

TransformerConfig config() {
  return {.vocab_size = 6400,
          .hidden_size = 512,
          .num_hidden_layers = 8,
          .num_attention_heads = 8,
          .num_key_value_heads = 2,
          .intermediate_size = 1408,
          .encoding = RopeConfig{.head_dim = 64}};
}

// Any tokens will do.
Tensor<std::int32_t, 2> some_tokens(const Shape<2>& shape, std::int64_t vocabulary) {
  Tensor<std::int32_t, 2> tokens(shape);
  std::int64_t next = 0;
  for (std::int32_t& token : tokens) token = static_cast<std::int32_t>(next = (next + 2473) % vocabulary);
  return tokens;
}

// Every weight meets every token three times; the table of embeddings is also the head, and counted as that.
double operations(Transformer& model, std::int64_t batch, std::int64_t length) {
  const TransformerConfig& c = model.config();
  const AttentionShape attention{.batch = batch,
                                 .heads = c.num_attention_heads,
                                 .key_heads = c.num_key_value_heads,
                                 .tokens = length,
                                 .channels = c.head_dim,
                                 .causal = true};
  return 6.0 * static_cast<double>(model.parameter_count() * batch * length) +
         kForwardAndBackward * static_cast<double>(c.num_hidden_layers) *
             forward_operations(attention, {.causal = true}, c.head_dim);
}

// Forward, loss, backward, AdamW, which is not counted: 26 million weights are read and written, not multiplied.
void training_step(benchmark::State& state) {
  constexpr std::int64_t kBatch = 4, kLength = 512;
  constexpr double kLearningRate = 1e-4;
  Transformer model(config(), 1);
  const std::int64_t vocabulary = model.config().vocab_size;
  const Tensor<std::int32_t, 2> tokens = some_tokens({kBatch, kLength}, vocabulary);
  const std::span<const std::int32_t> targets(tokens.data(), static_cast<std::size_t>(tokens.size()));
  Tensor<float, 3> logits({kBatch, kLength, vocabulary});
  const TensorView<float, 2> rows{logits.data(), {kBatch * kLength, vocabulary}};
  AdamW optimizer(model.weights(), {});
  Transformer::Saved saved;
  Workspace workspace;
  const auto step = [&] {
    model.forward(tokens.view(), logits.view(), &saved, workspace);
    cross_entropy(rows, targets, {.grad_logits = rows}, workspace);
    model.backward(saved, logits.view(), workspace);
    optimizer.step(kLearningRate);
    benchmark::ClobberMemory();
  };
  step();  // the first allocates; training is all the others
  for (auto _ : state) step();
  count_operations(state, operations(model, kBatch, kLength));
}
BENCHMARK(training_step)->Name("decoder_26M/training/B4/S512")->UseRealTime();

// The shape of SmolLM2-135M.
TransformerConfig config_135M() {
  return {.vocab_size = 49152,
          .hidden_size = 576,
          .num_hidden_layers = 30,
          .num_attention_heads = 9,
          .num_key_value_heads = 3,
          .intermediate_size = 1536,
          .max_position_embeddings = 8192,
          .norm_eps = 1e-5,
          .encoding = RopeConfig{.head_dim = 64, .theta = 1e5}};
}

// One token after 64: all weights are read once.
void decode(benchmark::State& state, TransformerConfig (*config)(), Precision precision) {
  constexpr std::int64_t kBefore = 64;
  Transformer model(config(), 1);
  if (precision == Precision::bf16) model.round_to_bf16();
  const std::int64_t vocabulary = model.config().vocab_size;
  const Tensor<std::int32_t, 2> prompt = some_tokens({1, kBefore}, vocabulary), token = some_tokens({1, 1}, vocabulary);
  Transformer::Cache cache = model.make_cache({.capacity = kBefore + 1, .storage = model.suitable_storage()});
  Tensor<float, 2> logits({1, vocabulary});
  Workspace workspace;
  model.decode(prompt.view(), cache, logits.view(), workspace);
  for (auto _ : state) {
    model.decode(token.view(), cache, logits.view(), workspace);
    benchmark::ClobberMemory();
    cache.truncate(kBefore);
  }
  const std::size_t bytes = precision == Precision::bf16 ? sizeof(bf16) : sizeof(float);
  state.SetBytesProcessed(state.iterations() * model.parameter_count() * static_cast<std::int64_t>(bytes));
}
BENCHMARK_CAPTURE(decode, decoder_26M, config, Precision::float32)->Name("decode/decoder_26M/S64")->UseRealTime();
BENCHMARK_CAPTURE(decode, decoder_135M, config_135M, Precision::float32)
    ->Name("decode/decoder_135M/S64/float")
    ->UseRealTime();
BENCHMARK_CAPTURE(decode, decoder_135M_bf16, config_135M, Precision::bf16)
    ->Name("decode/decoder_135M/S64/bf16")
    ->UseRealTime();

}  // namespace
}  // namespace phasor::bench
