// Random calls of attention: every option on and off, odd sizes, every memory layout. A case is plain numbers, drawn
// from a seed; Inputs makes its tensors.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <ostream>
#include <random>
#include <utility>
#include <vector>

#include "phasor/attention/attention.h"
#include "phasor/core/random.h"
#include "support/guarded.h"

namespace phasor {

// The standard distributions differ between libraries; these do not.
class Draw {
 public:
  explicit Draw(std::uint32_t seed) : random_(seed) {}
  std::int64_t below(std::int64_t count) { return random_() % static_cast<std::uint32_t>(count); }
  std::int64_t between(std::int64_t low, std::int64_t high) { return low + below(high - low + 1); }
  bool chance(int percent) { return below(100) < percent; }
  template <class T>
  T pick(std::initializer_list<T> from) {
    return from.begin()[below(static_cast<std::int64_t>(from.size()))];
  }

 private:
  std::mt19937 random_;
};

struct RotaryCase {
  std::int64_t pairs = 0;  // none: no rotation
  Pairing pairing = Pairing::half;
  std::int64_t batch = 1, heads = 1;
};

struct Case {
  std::uint32_t seed = 0;
  std::int64_t batch = 1, groups = 1, heads = 1, queries = 1, keys = 1, width = 1, value_width = 1;
  Layout layout;        // of q, k, v, out and their gradients
  Layout lse_layout;    // of lse and its gradient
  float deviation = 1;  // of q: with 4 one key takes most of the weight
  std::optional<double> scale;
  double softcap = 0;
  bool causal = false;
  Window window;
  std::vector<std::int64_t> query_offsets, key_lengths, query_starts, key_starts;
  std::optional<Shape<4>> visible, mask;
  std::int64_t query_block = 0, key_block = 0;  // of a mask of blocks
  bool blocks_by_head = false, blocks_by_sequence = false;
  bool mask_has_infinities = false, mask_is_expanded = false;  // expanded: its full shape, with strides of 0
  std::optional<Shape<3>> key_bias, query_scale;
  std::int64_t bias_span = 0, first_distance = 0;  // span 0: no relative bias
  RotaryCase q_rotary, k_rotary;
  bool sinks = false, table_gradients = false, lse = true, weights = false, grad_lse = false;
  double dropout = 0;
  std::uint64_t dropout_seed = 0;
  bool alibi = false;

  std::int64_t work() const { return batch * heads * queries * keys * std::max(width, value_width); }
  std::int64_t sequences() const {
    return query_starts.empty() ? batch : static_cast<std::int64_t>(query_starts.size()) - 1;
  }
};

inline std::ostream& operator<<(std::ostream& out, const std::vector<std::int64_t>& list) {
  out << '{';
  for (std::size_t i = 0; i < list.size(); i++) out << (i ? ", " : "") << list[i];
  return out << '}';
}

inline std::ostream& operator<<(std::ostream& out, const RotaryCase& rotary) {
  return out << rotary.pairs << ' ' << pairing_name(rotary.pairing) << " pairs for " << rotary.batch << " sequences, "
             << rotary.heads << " heads";
}

inline std::ostream& operator<<(std::ostream& out, const Case& c) {
  out << "seed " << c.seed << " B " << c.batch << " H " << c.heads << " G " << c.groups << " T " << c.queries << " S "
      << c.keys << " D " << c.width << " E " << c.value_width << (c.layout.heads_inside ? " BTHD" : " BHTD")
      << (c.lse_layout.heads_inside ? " lse BTH" : "") << " gap " << c.layout.gap << " deviation " << c.deviation;
  if (c.scale) out << " scale " << *c.scale;
  if (c.softcap > 0) out << " softcap " << c.softcap;
  if (c.causal) out << " causal";
  if (c.window.left != Window::kUnbounded) out << " left " << c.window.left;
  if (c.window.right != Window::kUnbounded) out << " right " << c.window.right;
  if (!c.query_offsets.empty()) out << " query_offsets " << c.query_offsets;
  if (!c.key_lengths.empty()) out << " key_lengths " << c.key_lengths;
  if (!c.query_starts.empty()) out << " query_starts " << c.query_starts << " key_starts " << c.key_starts;
  if (c.visible) out << " visible " << shape_text(*c.visible);
  if (c.query_block > 0)
    out << " block_mask " << c.query_block << " x " << c.key_block << (c.blocks_by_sequence ? " by sequence" : "")
        << (c.blocks_by_head ? " by head" : "");
  if (c.mask) out << " mask " << shape_text(*c.mask) << (c.mask_has_infinities ? " with -inf" : "");
  if (c.mask && c.mask_is_expanded) out << " expanded";
  if (c.key_bias) out << " key_bias " << shape_text(*c.key_bias);
  if (c.query_scale) out << " query_scale " << shape_text(*c.query_scale);
  if (c.bias_span > 0) out << " relative_bias span " << c.bias_span << " from " << c.first_distance;
  if (c.q_rotary.pairs > 0) out << " q_rotary " << c.q_rotary;
  if (c.k_rotary.pairs > 0) out << " k_rotary " << c.k_rotary;
  if (c.sinks) out << " sinks";
  if (c.alibi) out << " alibi_slopes";
  if (c.dropout > 0) out << " dropout " << c.dropout << " seed " << c.dropout_seed;
  return out << (c.lse ? " lse" : "") << (c.weights ? " weights" : "") << (c.grad_lse ? " grad_lse" : "");
}

inline std::int64_t draw_length(Draw& draw) {
  const std::int64_t kind = draw.below(100);
  if (kind < 3) return 0;
  if (kind < 60) return draw.pick<std::int64_t>({1, 2, 3, 5, 7, 8, 16, 17});
  if (kind < 90) return draw.pick<std::int64_t>({31, 32, 33, 63, 64, 65, 81});
  return draw.pick<std::int64_t>({96, 97, 100, 130, 197});
}

inline std::int64_t draw_width(Draw& draw) {
  if (draw.chance(4)) return draw.pick<std::int64_t>({256, 257, 512});
  return draw.pick<std::int64_t>({1, 2, 3, 4, 5, 8, 16, 17, 24, 32, 40, 64, 65, 80, 96, 128});
}

// Cumulative lengths of `count` sequences, some of them empty.
inline std::vector<std::int64_t> draw_starts(Draw& draw, std::int64_t count) {
  std::vector<std::int64_t> starts{0};
  for (std::int64_t s = 0; s < count; s++)
    starts.push_back(starts.back() + draw.pick<std::int64_t>({0, 1, 2, 3, 7, 16, 17, 33, 70}));
  return starts;
}

inline void draw_sizes(Draw& draw, Case& c) {
  c.batch = draw.between(1, 3);
  c.groups = draw.between(1, 3);
  c.heads = c.groups * draw.pick<std::int64_t>({1, 1, 2, 3, 4});
  c.queries = draw_length(draw);
  c.keys = draw.chance(40) ? c.queries : draw_length(draw);
  if (draw.chance(8)) {  // one query after many keys, as when text is generated, or the other way round
    c.queries = draw.pick<std::int64_t>({1, 1, 1, 2, 3, 5});
    c.keys = draw.pick<std::int64_t>({300, 511, 512, 513, 700, 1025, 1100});
    if (draw.chance(30)) std::swap(c.queries, c.keys);
  }
  c.width = draw_width(draw);
  c.value_width = draw.chance(60) ? c.width : draw_width(draw);
  c.query_starts.clear();
  c.key_starts.clear();
  if (!draw.chance(15)) return;
  const std::int64_t count = draw.between(1, 4);
  c.batch = 1;
  c.query_starts = draw_starts(draw, count);
  c.key_starts = draw.chance(40) ? c.query_starts : draw_starts(draw, count);
  c.queries = c.query_starts.back();
  c.keys = c.key_starts.back();
}

// The number of keys of sequence s.
inline std::int64_t keys_of(const Case& c, std::int64_t s) {
  const auto at = static_cast<std::size_t>(s);
  return c.key_starts.empty() ? c.keys : c.key_starts[at + 1] - c.key_starts[at];
}

inline void draw_positions(Draw& draw, Case& c) {
  c.causal = draw.chance(35);
  if (draw.chance(12)) c.window.left = c.window.right = draw.between(0, 40);
  if (draw.chance(8)) c.window.left = draw.between(0, 200);
  if (draw.chance(8)) c.window.right = draw.between(0, 200);
  const auto offset = [&] { return draw.between(-5, c.keys + 5); };
  if (draw.chance(10)) c.query_offsets = {offset()};
  if (draw.chance(10)) {
    c.query_offsets.clear();
    for (std::int64_t s = 0; s < c.sequences(); s++) c.query_offsets.push_back(offset());
  }
  if (draw.chance(20))
    for (std::int64_t s = 0; s < c.sequences(); s++) c.key_lengths.push_back(draw.between(0, keys_of(c, s)));
}

inline void draw_masks(Draw& draw, Case& c) {
  const auto size = [&](std::int64_t full) { return draw.chance(60) ? full : 1; };
  const auto shape = [&] { return Shape<4>{size(c.batch), size(c.heads), size(c.queries), size(c.keys)}; };
  if (draw.chance(20)) c.visible = shape();
  if (draw.chance(25)) c.mask = shape();
  c.mask_has_infinities = draw.chance(50);
  if (draw.chance(15)) {
    c.query_block = draw.pick<std::int64_t>({1, 8, 16, 30, 64, 128});
    c.key_block = draw.pick<std::int64_t>({1, 5, 16, 48, 64, 100, 128, 130});
    c.blocks_by_sequence = draw.chance(40), c.blocks_by_head = draw.chance(40);
  }
  c.mask_is_expanded = draw.chance(20);
  if (draw.chance(20)) c.key_bias = Shape<3>{size(c.batch), size(draw.pick({c.groups, c.heads})), c.keys};
  if (draw.chance(20)) {
    c.bias_span = draw.pick<std::int64_t>({1, 2, 9, 64, 129, 300});
    c.first_distance = draw.between(-c.keys - 3, 3);
  }
  if (draw.chance(15)) c.query_scale = Shape<3>{size(c.batch), size(c.heads), c.queries};
  c.alibi = c.bias_span == 0 && draw.chance(12);
}

inline void draw_rotation(Draw& draw, Case& c) {
  const auto rotary = [&] {
    const std::int64_t pairs = draw.chance(60) ? c.width / 2 : draw.between(1, c.width / 2);
    return RotaryCase{pairs, draw.pick({Pairing::half, Pairing::adjacent}), draw.chance(50) ? c.batch : 1};
  };
  if (c.width < 2 || !draw.chance(35)) return;
  c.q_rotary = c.k_rotary = rotary();
  if (draw.chance(15)) c.k_rotary = rotary();
  if (draw.chance(25)) c.q_rotary.heads = c.heads;
  if (draw.chance(25)) c.k_rotary.heads = c.groups;
  if (draw.chance(10)) c.q_rotary.pairs = 0;
  if (draw.chance(10)) c.k_rotary.pairs = 0;
}

// Most cases are small, so that there can be many; one in fifty is large enough for several tiles and tasks.
inline Case random_case(std::uint32_t seed, std::int64_t most_work = 200'000) {
  Draw draw(seed);
  Case c;
  c.seed = seed;
  if (draw.chance(2)) most_work *= 15;
  do draw_sizes(draw, c);
  while (c.work() > most_work);
  c.layout = {.heads_inside = draw.chance(50), .gap = draw.pick<std::int64_t>({0, 0, 1, 7})};
  c.lse_layout = {.heads_inside = draw.chance(25), .gap = c.layout.gap};
  c.deviation = draw.pick({1.0f, 1.0f, 1.0f, 4.0f});
  if (draw.chance(20)) c.scale = draw.pick({0.05, 0.3, 1.0 / 3.0, -0.2});
  if (draw.chance(15)) c.softcap = draw.pick({0.7, 5.0, 30.0, 50.0});
  draw_positions(draw, c);
  draw_masks(draw, c);
  draw_rotation(draw, c);
  c.sinks = draw.chance(15);
  if (draw.chance(15)) {
    c.dropout = draw.pick({0.1, 0.25, 0.5, 0.9});
    c.dropout_seed = static_cast<std::uint64_t>(draw.below(1 << 30));
  }
  c.lse = draw.chance(80);
  c.weights = draw.chance(40);
  c.grad_lse = draw.chance(25);
  c.table_gradients = draw.chance(40);
  return c;
}

// One to four queries of each head; with the heads that share keys up to 32.
inline Case decode_case(std::uint32_t seed) {
  Draw draw(seed);
  Case c;
  c.seed = seed;
  do {
    c.batch = draw.between(1, 3);
    c.groups = draw.between(1, 3);
    c.queries = draw.between(1, 4);
    c.heads = c.groups * draw.between(1, 8);
    c.keys = draw.pick<std::int64_t>({0, 1, 17, 63, 64, 65, 81, 197, 511, 512, 513, 987, 2500});
    c.width = draw_width(draw);
    c.value_width = draw.chance(60) ? c.width : draw_width(draw);
  } while (c.work() > 1'500'000);
  c.layout = {.heads_inside = draw.chance(50), .gap = draw.pick<std::int64_t>({0, 0, 1, 7})};
  c.lse_layout = {.heads_inside = draw.chance(25), .gap = c.layout.gap};
  c.deviation = draw.pick({1.0f, 1.0f, 1.0f, 4.0f});
  if (draw.chance(20)) c.scale = draw.pick({0.05, 1.0 / 3.0, -0.2});
  if (draw.chance(20)) c.softcap = draw.pick({0.7, 5.0, 50.0});
  draw_positions(draw, c);
  draw_masks(draw, c);
  draw_rotation(draw, c);
  c.sinks = draw.chance(25);
  c.lse = draw.chance(80);
  if (draw.chance(30)) {  // as a batch of texts of different lengths, each with its newest tokens as queries
    c.causal = true;
    c.key_lengths.clear(), c.query_offsets.clear();
    for (std::int64_t b = 0; b < c.batch; b++) {
      c.key_lengths.push_back(draw.chance(15) ? 0 : draw.between(0, c.keys));
      c.query_offsets.push_back(c.key_lengths.back() - c.queries);
    }
  }
  return c;
}

// The tensors of a case. Options refer into this object, so it stays where it is.
template <class T>
struct Inputs {
  Guarded<T, 4> q, k, v, grad_out;
  Guarded<float, 3> grad_lse, key_bias, query_scale;
  Guarded<float, 4> cos_q, sin_q, cos_k, sin_k;
  Guarded<float, 4> mask;
  Guarded<bool, 4> visible;
  Guarded<float, 2> relative_bias;
  std::vector<float> alibi_slopes, sinks;
  AttentionOptions options;

  explicit Inputs(const Case& c) : random_(c.seed, 1) {
    q = Guarded<T, 4>({c.batch, c.heads, c.queries, c.width}, c.layout);
    k = Guarded<T, 4>({c.batch, c.groups, c.keys, c.width}, c.layout);
    v = Guarded<T, 4>({c.batch, c.groups, c.keys, c.value_width}, c.layout);
    grad_out = Guarded<T, 4>({c.batch, c.heads, c.queries, c.value_width}, c.layout);
    grad_lse = Guarded<float, 3>({c.batch, c.heads, c.queries}, c.lse_layout);
    fill(q, c.deviation);
    fill(k, 1);
    fill(v, 1);
    fill(grad_out, 1);
    fill(grad_lse, 1);
    options.scale = c.scale;
    options.softcap = c.softcap;
    options.causal = c.causal;
    options.window = c.window;
    options.query_offsets = c.query_offsets;
    options.key_lengths = c.key_lengths;
    options.query_starts = c.query_starts;
    options.key_starts = c.key_starts;
    options.dropout = c.dropout;
    options.seed = c.dropout_seed;
    make_masks(c);
    make_biases(c);
    options.q_rotary = make_rotation(c.q_rotary, c.queries, c.layout.gap, cos_q, sin_q);
    options.k_rotary = make_rotation(c.k_rotary, c.keys, c.layout.gap, cos_k, sin_k);
  }
  Inputs(const Inputs&) = delete;
  Inputs& operator=(const Inputs&) = delete;

 private:
  template <class U, int Rank>
  void fill(Guarded<U, Rank>& tensor, float deviation) {
    tensor.for_each([&](U& element) { element = U(deviation * random_.normal(next_++)); });
  }

  // A third of the blocks is empty, a third is full.
  void make_block_mask_of(const Case& c) {
    Tensor<bool, 4> seen({c.blocks_by_sequence ? c.batch : 1, c.blocks_by_head ? c.heads : 1, c.queries, c.keys});
    const std::uint64_t first = next_;
    const auto [batch, heads, queries, keys] = seen.shape();
    const std::int64_t columns = keys / c.key_block + 1, rows = queries / c.query_block + 1;
    for (std::int64_t b = 0; b < batch; b++)
      for (std::int64_t h = 0; h < heads; h++)
        for (std::int64_t i = 0; i < queries; i++)
          for (std::int64_t j = 0; j < keys; j++) {
            const std::int64_t block = ((b * heads + h) * rows + i / c.query_block) * columns + j / c.key_block;
            const float kind = random_.uniform(first + static_cast<std::uint64_t>(block));
            seen(b, h, i, j) = kind < 0.35f ? false : kind < 0.7f ? true : random_.uniform(next_++) < 0.5f;
          }
    options.block_mask = make_block_mask(seen.view(), c.query_block, c.key_block);
  }

  void make_masks(const Case& c) {
    if (c.query_block > 0) make_block_mask_of(c);
    if (c.visible) {
      visible = Guarded<bool, 4>(*c.visible, {.gap = c.layout.gap});
      visible.for_each([&](bool& element) { element = random_.uniform(next_++) < 0.7f; });
      options.mask.visible = visible.view;
    }
    if (!c.mask) return;
    mask = Guarded<float, 4>(*c.mask, {.gap = c.layout.gap});
    fill(mask, 1);
    if (c.mask_has_infinities)
      mask.for_each([&](float& element) {
        if (random_.uniform(next_++) < 0.3f) element = -std::numeric_limits<float>::infinity();
      });
    options.mask.added = mask.view;
    if (!c.mask_is_expanded) return;
    const Shape<4> full{c.batch, c.heads, c.queries, c.keys};
    for (std::size_t i = 0; i < 3; i++)
      if (mask.view.shape[i] == 1) {
        options.mask.added.shape[i] = full[i];
        options.mask.added.strides[i] = 0;
      }
  }

  void make_biases(const Case& c) {
    if (c.key_bias) {
      key_bias = Guarded<float, 3>(*c.key_bias, {.gap = c.layout.gap});
      fill(key_bias, 1);
      key_bias.for_each([&](float& element) {
        if (random_.uniform(next_++) < 0.1f) element = -std::numeric_limits<float>::infinity();
      });
      options.key_bias = key_bias.view;
    }
    if (c.query_scale) {  // 0 too: its gradient is that of any other
      query_scale = Guarded<float, 3>(*c.query_scale, {.gap = c.layout.gap});
      query_scale.for_each([&](float& element) { element = 2 * random_.uniform(next_++); });
      if (query_scale.view.size() > 0) query_scale.view.data[0] = 0;
      options.query_scale = query_scale.view;
    }
    if (c.bias_span > 0) {
      relative_bias = Guarded<float, 2>({c.heads, c.bias_span}, {.gap = c.layout.gap});
      fill(relative_bias, 1);
      options.relative_bias = RelativeBiasView(relative_bias.view, c.first_distance);
    }
    if (c.alibi) {
      // Weights of far keys must stay above the least normal float, which kernels take for 0.
      const float most = std::min(1.0f, 64.0f / static_cast<float>(std::max<std::int64_t>(1, c.keys)));
      for (std::int64_t h = 0; h < c.heads; h++) alibi_slopes.push_back(most * random_.uniform(next_++));
      options.alibi_slopes = alibi_slopes;
    }
    if (!c.sinks) return;
    for (std::int64_t h = 0; h < c.heads; h++) sinks.push_back(2 * random_.normal(next_++));
    options.sinks = sinks;
  }

  // A table has more rows than there are tokens, as one that is made once for the longest sequence does.
  std::optional<RotaryView> make_rotation(const RotaryCase& c, std::int64_t tokens, std::int64_t gap,
                                          Guarded<float, 4>& cos, Guarded<float, 4>& sin) {
    if (c.pairs == 0) return std::nullopt;
    cos = Guarded<float, 4>({c.batch, c.heads, tokens + 2, c.pairs}, {.gap = gap});
    sin = Guarded<float, 4>({c.batch, c.heads, tokens + 2, c.pairs}, {.gap = gap});
    const std::uint64_t first = next_;
    cos.for_each([&](float& element) { element = std::cos(6.3f * random_.uniform(next_++)); });
    next_ = first;  // the same angles
    sin.for_each([&](float& element) { element = std::sin(6.3f * random_.uniform(next_++)); });
    return RotaryView(cos.view, sin.view, c.pairing);
  }

  Philox random_;
  std::uint64_t next_ = 0;
};

}  // namespace phasor
