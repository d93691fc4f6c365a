// The rows of a cache as tensors of any type.
#pragma once

#include "call.h"
#include "phasor/attention/kv_cache.h"

namespace phasor::detail {

AnyView any_view(const CacheRows& rows);
AnyOutput any_output(CacheRows& rows);

}  // namespace phasor::detail
