#include "options.h"

#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace phasor::python {
namespace {

nb::object default_of(bool value) { return nb::bool_(value); }
nb::object default_of(double value) { return nb::float_(value); }
template <class Absent>
nb::object default_of(const Absent&) {
  return nb::none();
}

// [T, R/2], [B, T, R/2] or [B, H, T, R/2] as the last.
template <class T>
TensorView<T, 4> table_view(const Array& array) {
  TensorView<T, 4> view = array.view<T, 4>(2);
  if (array.rank() == 3) std::swap(view.shape[0], view.shape[1]), std::swap(view.strides[0], view.strides[1]);
  return view;
}

[[noreturn]] void fail_unknown(const char* function, const char* prefix, nb::handle name) {
  fail_type_error(function, prefix, text_of(name), ": not an option");
}

}  // namespace

RotationArgument::RotationArgument(const char* function, const char* name, nb::handle table) {
  if (table.is_none()) return;
  cos_object_ = nb::getattr(table, "cos", nb::none());
  sin_object_ = nb::getattr(table, "sin", nb::none());
  const nb::object pairing = nb::getattr(table, "pairing", nb::none());
  if (pairing.is_none())
    fail_type_error(function, name, ": ", nb::type_name(table.type()).c_str(), ", expected a RotaryTable");
  cos_.emplace(function, name, cos_object_);
  sin_.emplace(function, name, sin_object_);
  view_.emplace(table_view<const float>(*cos_), table_view<const float>(*sin_), pairing_of(function, pairing));
}

OptionArguments::OptionArguments(const char* function, const nb::kwargs& arguments, const Array& q)
    : function_(function), has_sequences_(q.rank() > 0 && q.size(0) > 0) {
  bool has_seed = false;
  for (const auto& [key, object] : arguments) {
    const std::string_view name = nb::borrow<nb::str>(key).c_str();
    bool known = false;
    for_each_option([&, given = object](const auto& row) {
      if (known || name != row.name) return;
      known = true;
      read(row.name, given, value.*row.member);
    });
    if (!known) fail_unknown(function, "", key);
    has_seed = has_seed || (name == "seed" && !object.is_none());
  }
  complete(has_seed);
}

// Rules between options, and the default of one that depends on another.
void OptionArguments::complete(bool has_seed) {
  PHASOR_CHECK(value.dropout == 0 || has_seed, function_, "seed: None beside dropout ", value.dropout,
               ", expected a whole number: results depend on it alone");
  if (value.key_starts.empty()) value.key_starts = value.query_starts;
  if (value.q_rotary && value.k_rotary)
    PHASOR_CHECK(value.q_rotary->pairing == value.k_rotary->pairing, function_, "k_rotary: pairing ",
                 pairing_name(value.k_rotary->pairing), ", expected ", pairing_name(value.q_rotary->pairing),
                 " as q_rotary has");
}

void OptionArguments::read(const char*, nb::handle object, bool& result) { result = nb::cast<bool>(nb::bool_(object)); }

void OptionArguments::read(const char* name, nb::handle object, double& result) {
  if (!nb::try_cast(object, result))
    fail_type_error(function_, name, ": ", nb::repr(object).c_str(), ", expected a number");
}

void OptionArguments::read(const char* name, nb::handle object, std::optional<double>& result) {
  if (!object.is_none()) read(name, object, result.emplace());
}

void OptionArguments::read(const char* name, nb::handle object, std::uint64_t& result) {
  if (!object.is_none() && !nb::try_cast(object, result))
    fail_type_error(function_, name, ": ", nb::repr(object).c_str(), ", expected a whole number, 0 .. 2^64 - 1");
}

void OptionArguments::read(const char* name, nb::handle object, Window& result) {
  const auto bound = [&](nb::handle size) {
    return size.is_none() ? Window::kUnbounded : whole_number(function_, name, size);
  };
  if (!PyTuple_Check(object.ptr()) && !PyList_Check(object.ptr())) {
    result = bound(object);
    return;
  }
  PHASOR_CHECK(nb::len(object) == 2, function_, name, ": ", nb::repr(object).c_str(), ", expected (left, right)");
  result = {bound(object[0]), bound(object[1])};
}

// C++ takes an empty list for one that is not given.
void OptionArguments::read(const char* name, nb::handle object, SpanInput<std::int64_t>& result) {
  std::vector<std::int64_t> numbers = integers(function_, name, object);
  PHASOR_CHECK(object.is_none() || !numbers.empty() || !has_sequences_, function_, name,
               ": no numbers, expected one for each sequence");
  result = std::move(numbers);
}

void OptionArguments::read(const char* name, nb::handle object, SpanInput<float>& result) {
  if (PyList_Check(object.ptr()) || PyTuple_Check(object.ptr())) {
    std::vector<float> numbers;
    for (const nb::handle item : object) {
      double number = 0;
      read(name, item, number);
      numbers.push_back(static_cast<float>(number));
    }
    result = std::move(numbers);
  } else if (!object.is_none()) {
    const auto view = hold(name, object).view<const float, 1>();
    result = std::span(view.data, static_cast<std::size_t>(view.shape[0]));
  }
}

void OptionArguments::read(const char* name, nb::handle object, TensorInput<float, 3>& result) {
  result = hold(name, object).optional_view<const float, 3>(1);
}

void OptionArguments::read(const char* name, nb::handle object, MaskInput& result) {
  if (object.is_none()) return;
  const Array& mask = hold(name, object);
  if (mask.type() == ElementType::boolean)
    result.visible = mask.view<const bool, 4>(1);
  else if (mask.type() == ElementType::float32)
    result.added = mask.view<const float, 4>(1);
  else
    mask.fail_type("bool or float32");
}

void OptionArguments::read(const char* name, nb::handle object, std::optional<BlockMask>& result) {
  if (object.is_none()) return;
  const auto part = [&](const char* attribute) {
    nb::object found = nb::getattr(object, attribute, nb::none());
    if (found.is_none())
      fail_type_error(function_, name, ": ", nb::type_name(object.type()).c_str(), ", expected a BlockMask");
    return found;
  };
  result.emplace();
  result->blocks = hold(name, part("blocks")).view<const std::int32_t, 4>(2);
  result->bits = hold(name, part("bits")).view<const std::uint64_t, 3>();
  result->query_block = whole_number(function_, name, part("query_block"));
  result->key_block = whole_number(function_, name, part("key_block"));
}

void OptionArguments::read(const char* name, nb::handle object, std::optional<RelativeBiasView>& result) {
  if (object.is_none()) return;
  if (PyTuple_Check(object.ptr())) {  // a RelativeBias is one, too
    PHASOR_CHECK(nb::len(object) == 2, function_, name, ": a tuple of ", nb::len(object),
                 ", expected (table, first_distance)");
    const auto table = hold(name, object[0]).view<const float, 2>();
    result.emplace(table, whole_number(function_, name, object[1]));
    return;
  }
  const Array& table = hold(name, object);
  PHASOR_CHECK(table.rank() == 2 && table.size(1) % 2 == 1, function_, name, ": shape ", table.shape_text(),
               ", expected [H, 2 n + 1] for the distances -n .. n, or a RelativeBias");
  result.emplace(table.view<const float, 2>(), -(table.size(1) / 2));
}

void OptionArguments::read(const char* name, nb::handle object, std::optional<RotaryView>& result) {
  result = rotations_.emplace_back(function_, name, object).view();
}

void OptionArguments::read(const char* name, nb::handle object, std::optional<Precision>& result) {
  if (object.is_none()) return;
  if (!PyUnicode_Check(object.ptr()))
    fail_type_error(function_, name, ": ", nb::repr(object).c_str(), ", expected \"storage\", \"float\" or \"bf16\"");
  result = precision_from_name(text_of(object));
}

GradientArguments::GradientArguments(const char* function, const nb::dict& arguments) {
  std::size_t found = 0;
  for_each_learned_option([&](const auto& row) {
    Given& given = given_.emplace_back();
    if (!arguments.contains(row.name)) return;
    found++;
    const nb::object object = arguments[row.name];
    const auto take = [&](const nb::object& array, std::optional<Array>& taken) {
      if (!array.is_none()) taken.emplace(function, row.gradient_name, array, Access::write);
    };
    if (nb::hasattr(object, "pairing")) {
      take(object.attr("cos"), given.cos);
      take(object.attr("sin"), given.sin);
    } else {
      take(object, given.array);
    }
  });
  if (found == arguments.size()) return;
  for (const auto& [name, object] : arguments) {
    bool known = false;
    for_each_learned_option([&, text = text_of(name)](const auto& row) { known = known || text == row.name; });
    if (!known) fail_unknown(function, "grad_", name);
  }
}

void GradientArguments::set_view(const Given& given, RotaryGradient& view) {
  if (given.cos) view.cos = table_view<float>(*given.cos);
  if (given.sin) view.sin = table_view<float>(*given.sin);
}

nb::list option_rows() {
  nb::list rows;
  const AttentionOptions defaults;
  for_each_option([&](const auto& row) {
    rows.append(
        nb::make_tuple(row.name, row.type, row.shape, default_of(defaults.*row.member), row.has_gradient, row.doc));
  });
  return rows;
}

}  // namespace phasor::python
