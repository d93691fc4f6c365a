#include "cache/cache_rows.h"

#include "phasor/core/check.h"

namespace phasor::detail {
namespace {

// In the order of CacheStorage, which is that of the types of CacheRows.
constexpr const char* kNames[] = {"float", "bf16", "f16", "int8"};

decltype(CacheRows::numbers) make_numbers(CacheStorage storage, const Shape<4>& shape) {
  switch (storage) {
    case CacheStorage::float32:
      return Tensor<float, 4>(shape);
    case CacheStorage::bf16:
      return Tensor<bf16, 4>(shape);
    case CacheStorage::f16:
      return Tensor<f16, 4>(shape);
    case CacheStorage::int8:
      return Tensor<std::int8_t, 4>(shape);
  }
  fail("KvCache", "storage: ", static_cast<int>(storage), ", expected a CacheStorage");
}

template <class Any, class Rows>
Any any_of(Rows& rows) {
  Any result = std::visit([](auto& numbers) { return Any(numbers.view()); }, rows.numbers);
  result.scales = rows.scales.view();
  return result;
}

}  // namespace

CacheRows::CacheRows(CacheStorage storage, const Shape<4>& shape) : numbers(make_numbers(storage, shape)) {
  if (storage == CacheStorage::int8) scales = Tensor<float, 3>({shape[0], shape[1], shape[2]});
}

void CacheRows::fail_type(const char* function) const {
  fail(function, "T: another type, expected that of the cache, ", kNames[numbers.index()]);
}

AnyView any_view(const CacheRows& rows) { return any_of<AnyView>(rows); }
AnyOutput any_output(CacheRows& rows) { return any_of<AnyOutput>(rows); }

}  // namespace phasor::detail
