// Attention alone: dot products with their biases, and Wasserstein-2.
#include <cstdint>
#include <nlohmann/json.hpp>

#include "job.h"
#include "phasor/attention/attention.h"
#include "phasor/attention/w2.h"
#include "phasor/position/alibi.h"
#include "phasor/position/encoding.h"

namespace phasor {
namespace {

using nlohmann::json;

// As Case of cases.py has it.
struct Settings {
  std::int64_t heads, key_heads, queries, keys, channels;
  bool causal, backward;
  std::string score, bias;
  double dropout, tau;

  explicit Settings(const json& from)
      : heads(from.at("heads")),
        key_heads(from.at("key_heads")),
        queries(from.at("queries")),
        keys(from.at("keys")),
        channels(from.at("channels")),
        causal(from.at("causal")),
        backward(from.at("backward")),
        score(from.at("score")),
        bias(from.at("bias")),
        dropout(from.at("dropout")),
        tau(from.at("tau")) {}

  Shape<4> query_shape() const { return {1, heads, queries, channels}; }
  Shape<4> key_shape() const { return {1, key_heads, keys, channels}; }
};

class DotJob : public Job {
 public:
  DotJob(const Settings& settings, const Files& files)
      : backward_(settings.backward),
        q_(files.read<4>("q", settings.query_shape())),
        k_(files.read<4>("k", settings.key_shape())),
        v_(files.read<4>("v", settings.key_shape())),
        out_(settings.query_shape()) {
    options_.causal = settings.causal;
    options_.dropout = settings.dropout, options_.seed = 1;
    use_bias(settings, files);
    if (backward_) make_gradients(settings, files);
  }

  void run() override {
    attention_forward(view(q_), view(k_), view(v_), {.out = out_.view(), .softmax = softmax_.view()}, options_);
    if (!backward_) return;
    attention_backward(
        view(q_), view(k_), view(v_), {.out = out_.view(), .softmax = softmax_.view(), .grad_out = grad_out_.view()},
        {.q = grad_q_.view(), .k = grad_k_.view(), .v = grad_v_.view(), .relative_bias = grad_bias_.view()}, options_);
  }

  std::vector<std::string> save(const Files& files) const override {
    files.write("out", out_);
    if (!backward_) return {"out"};
    files.write("grad_q", grad_q_);
    files.write("grad_k", grad_k_);
    files.write("grad_v", grad_v_);
    if (grad_bias_.size() == 0) return {"out", "grad_q", "grad_k", "grad_v"};
    files.write("grad_bias", grad_bias_);
    return {"out", "grad_q", "grad_k", "grad_v", "grad_bias"};
  }

 private:
  static TensorView<const float, 4> view(const Tensor<float, 4>& tensor) { return tensor.view(); }

  void use_bias(const Settings& settings, const Files& files) {
    if (settings.bias == "none") return;
    if (settings.bias == "alibi") {
      const Tensor<std::int64_t, 3> positions = consecutive_positions(settings.keys);
      const ModelShape shape{.heads = settings.heads, .head_dim = settings.channels};
      const AlibiConfig config{.causal = settings.causal};
      bias_ = *lower(config, {}, {.queries = positions.view(), .shape = shape}).bias;
    } else if (settings.bias == "learned") {  // a number for each head and distance -(S - 1) .. S - 1
      bias_ = {files.read<2>("bias", {settings.heads, 2 * settings.keys - 1}), 1 - settings.keys};
      grad_bias_ = Tensor<float, 2>(bias_.table.shape());
    } else {
      throw std::invalid_argument("bias: " + settings.bias + ", expected none, alibi or learned");
    }
    options_.relative_bias = bias_;
  }

  void make_gradients(const Settings& settings, const Files& files) {
    grad_out_ = files.read<4>("grad_out", settings.query_shape());
    softmax_ = Tensor<float, 4>({1, settings.heads, settings.queries, 2});
    grad_q_ = Tensor<float, 4>(settings.query_shape());
    grad_k_ = grad_v_ = Tensor<float, 4>(settings.key_shape());
  }

  bool backward_;
  Tensor<float, 4> q_, k_, v_, out_, grad_out_, grad_q_, grad_k_, grad_v_;
  Tensor<float, 4> softmax_;  // without data, and so not written, when there is no backward pass
  RelativeBias bias_;
  Tensor<float, 2> grad_bias_;
  AttentionOptions options_;
};

// Two tensors, in files <name>_mean and <name>_spread: the mean and the log of the variance.
struct Streams {
  Tensor<float, 4> mu, log_sigma;

  Streams() = default;
  explicit Streams(const Shape<4>& shape) : mu(shape), log_sigma(shape) {}
  Streams(const Files& files, const std::string& name, const Shape<4>& shape)
      : mu(files.read<4>(name + "_mean", shape)), log_sigma(files.read<4>(name + "_spread", shape)) {}

  W2Streams<float> view() { return {mu.view(), log_sigma.view()}; }
  W2Streams<const float> read() const { return {mu.view(), log_sigma.view()}; }
};

class W2Job : public Job {
 public:
  W2Job(const Settings& settings, const Files& files)
      : backward_(settings.backward),
        tau_(settings.tau),
        q_(files, "q", settings.query_shape()),
        k_(files, "k", settings.key_shape()),
        v_(files, "v", settings.key_shape()),
        out_(settings.query_shape()),
        options_{.causal = settings.causal} {
    if (!backward_) return;
    grad_out_ = Streams(files, "grad_out", settings.query_shape());
    softmax_ = Tensor<float, 4>({1, settings.heads, settings.queries, 2});
    grad_q_ = Streams(settings.query_shape());
    grad_k_ = grad_v_ = Streams(settings.key_shape());
  }

  void run() override {
    w2_attention_forward(q_.read(), k_.read(), v_.read(), tau_, {.out = out_.view(), .softmax = softmax_.view()},
                         options_);
    if (!backward_) return;
    w2_attention_backward(q_.read(), k_.read(), v_.read(), tau_,
                          {.out = out_.read(), .softmax = softmax_.view(), .grad_out = grad_out_.read()},
                          {.q = grad_q_.view(), .k = grad_k_.view(), .v = grad_v_.view(), .tau = &grad_tau_}, options_);
  }

  std::vector<std::string> save(const Files& files) const override {
    std::vector<std::string> saved;
    const auto write = [&](const std::string& name, const Streams& streams) {
      files.write(name + "_mean", streams.mu);
      files.write(name + "_spread", streams.log_sigma);
      saved.insert(saved.end(), {name + "_mean", name + "_spread"});
    };
    write("out", out_);
    if (!backward_) return saved;
    write("grad_q", grad_q_);
    write("grad_k", grad_k_);
    write("grad_v", grad_v_);
    Tensor<float, 1> grad_tau({1});
    grad_tau(0) = static_cast<float>(grad_tau_);
    files.write("grad_tau", grad_tau);
    saved.emplace_back("grad_tau");
    return saved;
  }

 private:
  bool backward_;
  double tau_, grad_tau_ = 0.0;
  Streams q_, k_, v_, out_, grad_out_, grad_q_, grad_k_, grad_v_;
  Tensor<float, 4> softmax_;
  AttentionOptions options_;
};

}  // namespace

std::unique_ptr<Job> make_attention_job(const json& from, const Files& files) {
  const Settings settings(from);
  if (settings.score == "dot") return std::make_unique<DotJob>(settings, files);
  if (settings.score == "w2") return std::make_unique<W2Job>(settings, files);
  throw std::invalid_argument("score: " + settings.score + ", expected dot or w2");
}

}  // namespace phasor
