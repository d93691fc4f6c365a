#include "arguments.h"

namespace phasor::jax {

Arguments::Arguments(const char* function, const xla::Call& call, std::string_view queries)
    : function_(function), call_(call) {
  operand_names_ = split(text("operands").value_or(""));
  result_names_ = split(text("results").value_or(""));
  PHASOR_CHECK(std::cmp_equal(operand_names_.size(), call.arguments.count) &&
                   std::cmp_equal(result_names_.size(), call.results.count),
               function, "operands, results: ", operand_names_.size(), " and ", result_names_.size(),
               " names, expected ", call.arguments.count, " and ", call.results.count);
  queries_ = &required(queries);
  find_leading_dimensions();
}

void Arguments::find_leading_dimensions() {
  leading_ = queries_->rank - 4;
  PHASOR_CHECK(leading_ >= 0, function_, "q: ", queries_->rank, " dimensions, expected 4 or more");
  mapped_.assign(static_cast<std::size_t>(leading_), 1);
  const auto widen = [&](const xla::Buffers& buffers) {
    for (std::int64_t i = 0; i < buffers.count; i++) {
      const auto& buffer = *static_cast<const xla::Buffer*>(buffers.items[i]);
      PHASOR_CHECK(buffer.rank >= leading_, function_, "operands: ", buffer.rank, " dimensions, expected ", leading_,
                   " leading ones and its own");
      for (std::size_t d = 0; d < mapped_.size(); d++)
        if (buffer.shape[d] != 1) mapped_[d] = buffer.shape[d];
    }
  };
  widen(call_.arguments);
  widen(call_.results);
  elements_ = std::accumulate(mapped_.begin(), mapped_.end(), std::int64_t{1}, std::multiplies<>());
}

std::vector<std::string_view> Arguments::split(std::string_view names) {
  std::vector<std::string_view> result;
  while (!names.empty()) {
    const std::size_t end = std::min(names.find(' '), names.size());
    result.push_back(names.substr(0, end));
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return result;
}

const xla::Buffer* Arguments::find(const std::vector<std::string_view>& names, const xla::Buffers& buffers,
                                   std::string_view name) {
  const auto at = std::ranges::find(names, name);
  return at == names.end() ? nullptr : static_cast<const xla::Buffer*>(buffers.items[at - names.begin()]);
}

const xla::Buffer& Arguments::required(std::string_view name) const {
  const xla::Buffer* found = operand(name);
  if (!found) found = result(name);
  PHASOR_CHECK(found, function_, name, ": not given, expected an operand or a result");
  return *found;
}

const void* Arguments::attribute(std::string_view name, xla::AttributeType type) const {
  const xla::Attributes& all = call_.attributes;
  for (std::int64_t i = 0; i < all.count; i++) {
    if (std::string_view(all.names[i]->data, all.names[i]->size) != name) continue;
    PHASOR_CHECK(all.types[i] == type, function_, name, ": attribute of type ", static_cast<int>(all.types[i]),
                 ", expected ", static_cast<int>(type));
    return all.items[i];
  }
  return nullptr;
}

std::optional<std::string_view> Arguments::text(std::string_view name) const {
  const auto* found = static_cast<const xla::Text*>(attribute(name, xla::AttributeType::text));
  return found ? std::optional(std::string_view(found->data, found->size)) : std::nullopt;
}

const void* Arguments::scalar(std::string_view name, xla::DataType type) const {
  const auto* found = static_cast<const xla::Scalar*>(attribute(name, xla::AttributeType::scalar));
  if (!found) return nullptr;
  PHASOR_CHECK(found->type == type, function_, name, ": number of XLA's type ", static_cast<int>(found->type),
               ", expected ", static_cast<int>(type));
  return found->value;
}

std::vector<std::int64_t> Place::integers(const char* name, const xla::Buffer& buffer) {
  PHASOR_CHECK(buffer.rank == arguments_.leading() + 1, arguments_.function(), name, ": ",
               buffer.rank - arguments_.leading(), " dimensions, expected 1");
  const std::int64_t each = buffer.shape[arguments_.leading()];
  const auto number = [&](std::int64_t at) {
    return buffer.type == xla::DataType::int64 ? static_cast<const std::int64_t*>(buffer.data)[at]
                                               : std::int64_t{static_cast<const std::int32_t*>(buffer.data)[at]};
  };
  PHASOR_CHECK(buffer.type == xla::DataType::int64 || buffer.type == xla::DataType::int32, arguments_.function(), name,
               ": XLA's type ", static_cast<int>(buffer.type), ", expected int32 or int64");
  std::vector<std::int64_t> result;
  const auto append = [&](std::int64_t element, std::int64_t copies) {
    const std::int64_t start = index(buffer, element) * each;
    for (std::int64_t copy = 0; copy < copies; copy++)
      for (std::int64_t i = 0; i < each; i++) result.push_back(number(start + i));
  };
  if (!folded()) {
    append(element_, 1);
    return result;
  }
  if (each != 1 && each != arguments_.batch()) possible_ = false;
  for (std::int64_t element = 0; element < arguments_.elements(); element++)
    append(element, each == 1 ? arguments_.batch() : 1);
  return result;
}

std::int64_t Place::count(const xla::Buffer& buffer) const {
  return std::accumulate(buffer.shape, buffer.shape + arguments_.leading(), std::int64_t{1}, std::multiplies<>());
}

std::int64_t Place::index(const xla::Buffer& buffer, std::int64_t element) const {
  std::int64_t result = 0, step = 1;
  for (std::int64_t d = arguments_.leading(); d-- > 0;) {
    const std::int64_t size = arguments_.mapped_shape()[static_cast<std::size_t>(d)];
    if (buffer.shape[d] != 1) result += element % size * step;
    step *= buffer.shape[d];
    element /= size;
  }
  return result;
}

void Place::check(const xla::Buffer& buffer, xla::DataType type, std::int64_t rank) const {
  PHASOR_CHECK(buffer.type == type, arguments_.function(), "operands: one of XLA's type ",
               static_cast<int>(buffer.type), ", expected ", static_cast<int>(type));
  PHASOR_CHECK(buffer.rank == arguments_.leading() + rank, arguments_.function(), "operands: one of ", buffer.rank,
               " dimensions, expected ", arguments_.leading() + rank);
}

void* Place::memory(const xla::Buffer& buffer) {
  alignas(64) static std::array<std::byte, 64> nothing;
  return buffer.data ? buffer.data : nothing.data();
}

}  // namespace phasor::jax
