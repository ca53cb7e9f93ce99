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

// Validates user input: as many strides as sizes, no negative value, and offsets small enough for
// the sums that copies compute. Throws std::invalid_argument or std::overflow_error.
void check_geometry(const Sizes& size, const Sizes& strides, int64_t offset = 0);

Sizes contiguous_strides(const Sizes& size);

// Returns the number of host elements from the first to the last element of (size, strides).
int64_t host_extent(const Sizes& size, const Sizes& strides);

// Returns whether each host offset belongs to at most one element and can be decomposed by
// division: each stride exceeds the extent of all dims with smaller strides. Dims of size 1 or
// stride 0 are ignored.
bool is_nested(const Sizes& size, const Sizes& strides);

std::string to_string(const Sizes& values);

}  // namespace spyre
