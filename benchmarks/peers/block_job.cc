// A transformer block, forward + backward: RoPE, causal. Weights are files too, by the names the block lists.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "job.h"
#include "phasor/layers/block.h"
#include "phasor/position/encoding.h"
#include "phasor/position/rope.h"
#include "weight_files.h"

namespace phasor {
namespace {

using nlohmann::json;

BlockConfig block_config(const json& settings) {
  return {.hidden_size = settings.at("hidden"),
          .num_attention_heads = settings.at("heads"),
          .intermediate_size = settings.at("feed_forward")};
}

// One tensor, or two, in files <name>_mean and <name>_spread.
struct StreamTensors {
  Tensor<float, 3> mean, spread;

  StreamTensors(const Shape<3>& shape, bool gaussian) : mean(shape) {
    if (gaussian) spread = Tensor<float, 3>(shape);
  }
  StreamTensors(const Files& files, const std::string& name, const Shape<3>& shape, bool gaussian)
      : mean(files.read<3>(name + "_mean", shape)) {
    if (gaussian) spread = files.read<3>(name + "_spread", shape);
  }

  Streams view() { return {mean.view(), spread.view()}; }

  void save(const Files& files, const std::string& name, std::vector<std::string>& saved) const {
    files.write(name + "_mean", mean);
    saved.push_back(name + "_mean");
    if (spread.size() == 0) return;
    files.write(name + "_spread", spread);
    saved.push_back(name + "_spread");
  }
};

template <class AnyBlock>
class BlockJob : public Job {
 public:
  BlockJob(const json& settings, const Files& files)
      : block_(block_config(settings), initial_),
        shape_{settings.at("batch"), settings.at("tokens"), settings.at("hidden")},
        x_(files, "x", shape_, kGaussian),
        grad_y_(files, "grad_y", shape_, kGaussian),
        y_(shape_, kGaussian),
        grad_x_(shape_, kGaussian) {
    block_.list_weights("", weights_);
    read_weights(files, weights_);
    const Tensor<std::int64_t, 3> positions = consecutive_positions(shape_[1]);
    const ModelShape model{.heads = settings.at("heads"), .head_dim = block_.attention().heads().head_dim};
    plan_ = lower(RopeConfig{.head_dim = model.head_dim}, {}, {.queries = positions.view(), .shape = model});
  }

  void run() override {
    for (const NamedWeight& each : weights_) each.weight->clear_gradient();
    block_.forward(x_.view(), plan_, {.causal = true}, y_.view(), &saved_, workspace_);
    block_.backward(saved_, grad_y_.view(), grad_x_.view(), nullptr, workspace_);
  }

  std::vector<std::string> save(const Files& files) const override {
    std::vector<std::string> saved;
    y_.save(files, "y", saved);
    grad_x_.save(files, "grad_x", saved);
    write_gradients(files, weights_, saved);
    return saved;
  }

 private:
  static constexpr bool kGaussian = AnyBlock::kGaussian;

  InitialValues initial_{1};
  AnyBlock block_;
  NamedWeights weights_;
  Shape<3> shape_;
  StreamTensors x_, grad_y_, y_, grad_x_;
  PositionPlan plan_;
  typename AnyBlock::Saved saved_;
  Workspace workspace_;
};

}  // namespace

std::unique_ptr<Job> make_block_job(const json& settings, const Files& files) {
  const std::string score = settings.at("score");
  if (score == "dot") return std::make_unique<BlockJob<Block>>(settings, files);
  if (score == "w2") return std::make_unique<BlockJob<W2Block>>(settings, files);
  throw std::invalid_argument("score: " + score + ", expected dot or w2");
}

}  // namespace phasor
