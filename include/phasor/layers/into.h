// What happens to the memory of a result.
#pragma once

namespace phasor {

enum class Into {
  write,  // it is overwritten
  add,    // the result is added to what is there: several layers that read one input share its gradient
};

}  // namespace phasor
