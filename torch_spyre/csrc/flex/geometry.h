// Sizes, strides and offsets of host tensors, with arithmetic that throws on overflow.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace spyre {

using Sizes = std::vector<int64_t>;

// Throw std::overflow_error.
int64_t checked_multiply(int64_t a, int64_t b);
int64_t checked_add(int64_t a, int64_t b);

// Checks a geometry that comes from outside: as many strides as sizes,
// nothing negative, and offsets small enough for the sums that copies compute. Throws
// std::invalid_argument or std::overflow_error.
void check_geometry(const Sizes& size, const Sizes& strides, int64_t offset = 0);

Sizes contiguous_strides(const Sizes& size);

// Number of host elements from the first to the last that (size, strides) reaches.
int64_t host_extent(const Sizes& size, const Sizes& strides);

// Whether every host offset names at most one element and offsets decompose by division: strides
// sorted, each larger than everything below it can reach. Dims of size 1 and stride 0 are ignored.
bool is_nested(const Sizes& size, const Sizes& strides);

std::string to_string(const Sizes& values);

}  // namespace spyre
