// Inputs that are kept after the call that gives them, such as the fields of AttentionOptions. What has a name is
// borrowed, what has none is owned:
//
//   AttentionOptions{.mask = mask}            borrows: `mask` must outlive the options
//   AttentionOptions{.mask = make_mask()}     owns: the temporary is moved into the options
//   AttentionOptions{.mask = std::move(mask)} owns
//
// Copies share what is owned. A view (TensorView, std::span) is always borrowed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <ranges>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "phasor/core/tensor.h"

namespace phasor {

template <class T, int Rank>
class TensorInput : public TensorView<const T, Rank> {
  using View = TensorView<const T, Rank>;

 public:
  TensorInput() = default;
  TensorInput(const View& view) : View(view) {}
  TensorInput(const TensorView<T, Rank>& view) : View(view) {}
  TensorInput(const Tensor<T, Rank>& tensor) : View(tensor.view()) {}
  TensorInput(Tensor<T, Rank>&& tensor) : TensorInput(std::make_shared<const Tensor<T, Rank>>(std::move(tensor))) {}
  TensorInput(const Tensor<T, Rank>&&) = delete;  // it cannot be moved from

  // Another view of the same memory, which it shares where it is owned.
  template <int OtherRank>
  TensorInput<T, OtherRank> viewed_as(const TensorView<const T, OtherRank>& view) const {
    TensorInput<T, OtherRank> result(view);
    result.owned_ = owned_;
    return result;
  }

 private:
  template <class, int>
  friend class TensorInput;
  explicit TensorInput(std::shared_ptr<const Tensor<T, Rank>> tensor)
      : View(tensor->view()), owned_(std::move(tensor)) {}

  std::shared_ptr<const void> owned_;
};

// A list of numbers, from anything that a std::span takes, or {1, 2, 3}.
template <class T>
class SpanInput : public std::span<const T> {
  using View = std::span<const T>;

 public:
  SpanInput() = default;
  SpanInput(std::initializer_list<T> values) : SpanInput(std::vector<T>(values)) {}
  template <class Range>
  requires(!std::is_base_of_v<SpanInput, std::remove_cvref_t<Range>> && std::is_constructible_v<View, Range&> &&
           (std::ranges::borrowed_range<Range> || !std::is_const_v<Range>)) SpanInput(Range&& range) {
    if constexpr (std::ranges::borrowed_range<Range>) {  // a variable or a view
      View::operator=(View(range));
    } else {
      const auto owned = std::make_shared<Range>(std::forward<Range>(range));
      View::operator=(View(*owned));
      owned_ = owned;
    }
  }

 private:
  std::shared_ptr<const void> owned_;
};

}  // namespace phasor
