#include "arrays.h"

#include <algorithm>
#include <span>
#include <string_view>

#include "phasor/core/check.h"

namespace phasor::python {
namespace {

// The part of DLPack's C exchange (header 1.3, `__dlpack_c_exchange_api__`) that is needed: torch's `__dlpack__` takes
// 5 us a tensor, this a tenth of one.
struct ExchangeApi {
  std::uint32_t major_version, minor_version;
  const ExchangeApi* older;
  void (*unused[3])();
  int (*tensor_of)(void* object, nb::dlpack::dltensor* result);
};

const char* name_of(ElementType type) {
  switch (type) {
    case ElementType::float32:
      return "float32";
    case ElementType::float16:
      return "float16";
    case ElementType::bfloat16:
      return "bfloat16";
    case ElementType::float64:
      return "float64";
    case ElementType::boolean:
      return "bool";
    case ElementType::int8:
      return "int8";
    case ElementType::int32:
      return "int32";
    case ElementType::int64:
      return "int64";
    case ElementType::uint64:
      return "uint64";
    case ElementType::other:
      break;
  }
  return "another type";
}

std::string name_of(nb::dlpack::dtype dtype) {
  static constexpr std::array kNames{"int", "uint", "float", "handle", "bfloat", "complex", "bool"};
  const std::string name = dtype.code < kNames.size() ? kNames[dtype.code] : "a type ";
  return dtype.code == 6 ? name : name + std::to_string(dtype.bits);
}

ElementType type_of(nb::dlpack::dtype dtype) {
  using Code = nb::dlpack::dtype_code;
  static constexpr std::array<std::pair<nb::dlpack::dtype, ElementType>, 9> kTypes{{
      {{static_cast<std::uint8_t>(Code::Float), 32, 1}, ElementType::float32},
      {{static_cast<std::uint8_t>(Code::Float), 16, 1}, ElementType::float16},
      {{static_cast<std::uint8_t>(Code::Bfloat), 16, 1}, ElementType::bfloat16},
      {{static_cast<std::uint8_t>(Code::Float), 64, 1}, ElementType::float64},
      {{static_cast<std::uint8_t>(Code::Bool), 8, 1}, ElementType::boolean},
      {{static_cast<std::uint8_t>(Code::Int), 8, 1}, ElementType::int8},
      {{static_cast<std::uint8_t>(Code::Int), 32, 1}, ElementType::int32},
      {{static_cast<std::uint8_t>(Code::Int), 64, 1}, ElementType::int64},
      {{static_cast<std::uint8_t>(Code::UInt), 64, 1}, ElementType::uint64},
  }};
  for (const auto& [known, type] : kTypes)
    if (known == dtype) return type;
  return ElementType::other;
}

}  // namespace

std::string text_of(nb::handle object) { return nb::str(object).c_str(); }

Array::Array(const char* function, const char* name, nb::handle object, Access access)
    : function_(function), name_(name), given_(!object.is_none()) {
  if (!given_) return;
  const bool taken = take_by_exchange(object) || (access == Access::read ? take_by_dlpack<nb::ndarray<nb::ro>>(object)
                                                                         : take_by_dlpack<nb::ndarray<>>(object));
  if (!taken && !take_bits(object, access)) fail_object(object, access);
}

void Array::take(const nb::dlpack::dltensor& tensor) {
  if (tensor.device.device_type != nb::device::cpu::value)
    fail_type_error(function_, name_, ": on device type ", tensor.device.device_type,
                    " of DLPack, expected the CPU's memory");
  PHASOR_CHECK(tensor.ndim <= kMostDimensions, function_, name_, ": ", tensor.ndim, " dimensions, expected at most ",
               kMostDimensions);
  data_ = static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
  dtype_ = tensor.dtype;
  type_ = type_of(dtype_);
  rank_ = tensor.ndim;
  const bool is_empty = std::ranges::count(std::span(tensor.shape, static_cast<std::size_t>(rank_)), 0) > 0;
  const bool strides_count = tensor.strides && !is_empty;  // those of an empty NumPy array are 0
  std::int64_t step = 1;
  for (auto i = static_cast<std::size_t>(rank_); i-- > 0; step *= std::max<std::int64_t>(shape_[i], 1)) {
    shape_[i] = tensor.shape[i];
    strides_[i] = strides_count ? tensor.strides[i] : step;
  }
}

// What has the buffer protocol, as NumPy has, need not be asked for the exchange.
bool Array::take_by_exchange(nb::handle object) {
  if (PyObject_CheckBuffer(object.ptr())) return false;
  const nb::object capsule = nb::getattr(object.type(), "__dlpack_c_exchange_api__", nb::none());
  if (!PyCapsule_IsValid(capsule.ptr(), "dlpack_exchange_api")) return false;
  const auto* api = static_cast<const ExchangeApi*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
  while (api && api->major_version > 1) api = api->older;
  if (!api || !api->tensor_of) return false;
  nb::dlpack::dltensor tensor;
  if (api->tensor_of(object.ptr(), &tensor) != 0) {
    PyErr_Clear();
    return false;
  }
  take(tensor);
  return true;
}

template <class NdArray>
bool Array::take_by_dlpack(nb::handle object) {
  NdArray array;
  if (!nb::try_cast(object, array, false)) return false;
  nb::dlpack::dltensor tensor;
  tensor.data = array.data_handle();
  tensor.device = {array.device_type(), array.device_id()};
  tensor.ndim = static_cast<std::int32_t>(array.ndim());
  tensor.dtype = array.dtype();
  tensor.shape = const_cast<std::int64_t*>(array.shape_ptr());
  tensor.strides = const_cast<std::int64_t*>(array.stride_ptr());
  tensor.byte_offset = array.byte_offset();
  take(tensor);
  owner_ = nb::ndarray<nb::ro>(array);
  return true;
}

bool Array::take_bits(nb::handle object, Access access) {
  const nb::object dtype = nb::getattr(object, "dtype", nb::none());
  const nb::object name = nb::getattr(dtype, "name", nb::none());
  if (!nb::isinstance<nb::str>(name) || text_of(name) != "bfloat16" || !nb::hasattr(object, "view")) return false;
  const nb::object bits = object.attr("view")("uint16");
  const bool taken =
      access == Access::read ? take_by_dlpack<nb::ndarray<nb::ro>>(bits) : take_by_dlpack<nb::ndarray<>>(bits);
  type_ = ElementType::bfloat16;
  return taken;
}

void Array::fail_object(nb::handle object, Access access) const {
  const std::string type = nb::type_name(object.type()).c_str();
  if (!nb::ndarray_check(object))
    fail_type_error(function_, name_, ": ", type, ", expected an array (NumPy, torch, or another with DLPack)");
  if (access == Access::write) {
    nb::ndarray<nb::ro> readable;
    PHASOR_CHECK(!nb::try_cast(object, readable, false), function_, name_, ": read-only, expected memory to write to");
  }
  const nb::object dtype = nb::getattr(object, "dtype", nb::none());
  fail_type_error(function_, name_, ": ", type, " of ", text_of(dtype),
                  ", expected memory that DLPack can describe: float32, float16 or bfloat16 on the CPU");
}

const char* Array::expected_name(ElementType type) { return name_of(type); }

void Array::fail_type(const char* expected) const {
  fail_type_error(function_, name_, ": ", type_ == ElementType::other ? name_of(dtype_) : name_of(type_), ", expected ",
                  expected);
}

void Array::fail_none() const { fail_type_error(function_, name_, ": None, expected an array"); }

void Array::fail_not_float() const {
  if (!given_) fail_none();
  fail_type("float32, float16 or bfloat16");
}

std::string Array::shape_text() const {
  std::ostringstream text;
  for (int i = 0; i < rank_; i++) text << (i ? ", " : "") << size(i);
  return '[' + text.str() + ']';
}

void Array::fail_rank(int least, int most) const {
  const std::string expected =
      least == most ? std::to_string(most) : std::to_string(least) + " to " + std::to_string(most);
  fail(function_, name_, ": shape ", shape_text(), ", expected ", expected, " dimensions");
}

void Array::fail_layout() const {
  fail(function_, name_, ": last stride is ", strides_[static_cast<std::size_t>(rank_ - 1)],
       " elements, expected 1: the last dimension must be contiguous");
}

void Array::fail_alignment() const { fail(function_, name_, ": memory is not aligned to its element type"); }

std::int64_t whole_number(const char* function, const char* name, nb::handle object) {
  const nb::object index = nb::steal(PyNumber_Index(object.ptr()));
  if (!index.is_valid()) {
    PyErr_Clear();
    fail_type_error(function, name, ": ", nb::repr(object).c_str(), ", expected a whole number");
  }
  std::int64_t result = 0;
  PHASOR_CHECK(nb::try_cast(index, result, false), function, name, ": ", text_of(index), ", expected 64 bits");
  return result;
}

std::vector<std::int64_t> integers(const char* function, const char* name, nb::handle object) {
  if (object.is_none()) return {};
  if (PyLong_Check(object.ptr())) return {whole_number(function, name, object)};
  if (PyList_Check(object.ptr()) || PyTuple_Check(object.ptr())) {
    std::vector<std::int64_t> result;
    for (const nb::handle item : object) result.push_back(whole_number(function, name, item));
    return result;
  }
  const Array array(function, name, object);
  if (array.rank() == 1 && array.size(0) == 0) return {};  // libraries make a list without numbers one of floats
  if (array.type() == ElementType::int32) return array.copy<std::int32_t>();
  return array.copy<std::int64_t>();
}

Pairing pairing_of(const char* function, nb::handle name) {
  for (const Pairing pairing : {Pairing::half, Pairing::adjacent})
    if (nb::isinstance<nb::str>(name) && text_of(name) == pairing_name(pairing)) return pairing;
  fail(function, "pairing: ", text_of(nb::repr(name)), ", expected \"half\" or \"adjacent\"");
}

template <class Scalar>
nb::object vector_to_numpy(const std::vector<Scalar>& values) {
  Tensor<Scalar, 1> tensor({static_cast<std::int64_t>(values.size())});
  std::ranges::copy(values, tensor.begin());
  return to_numpy(std::move(tensor));
}
nb::object to_numpy(const std::vector<float>& values) { return vector_to_numpy(values); }
nb::object to_numpy(const std::vector<double>& values) { return vector_to_numpy(values); }

}  // namespace phasor::python
