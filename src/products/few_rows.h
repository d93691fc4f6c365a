// Products with few rows, as in decoding. Their time is that of reading b, so nothing is packed: each element of c is a
// dot product of a row of a and a column of b, both contiguous.
#pragma once

#include <span>

#include "multiply.h"

namespace phasor::products {

bool has_few_rows(const Product& product);

// In one parallel region. All of them have few rows.
void multiply_few_rows(std::span<const Product> products);

}  // namespace phasor::products
