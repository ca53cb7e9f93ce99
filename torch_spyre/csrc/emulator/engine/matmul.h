// The matrix instruction of the emulated card: C_out = round(C_in + A·B).
#pragma once

#include <cstddef>
#include <cstdint>

#include "emulator/engine/element_type.h"

namespace spyre::emulator::engine {

// Strides count elements and are not negative; 0 repeats a row or a column.
struct Matrix {
  const std::byte* data = nullptr;
  ElementType type = ElementType::F16;
  int64_t row_stride = 0;
  int64_t column_stride = 0;
  // For B, if `reads_runs`: its columns are stored in runs of `run` columns, `run_stride` elements
  // apart. 0: in one run.
  int64_t run = 0;
  int64_t run_stride = 0;
};

struct MatrixOut {
  std::byte* data = nullptr;
  ElementType type = ElementType::F16;
  int64_t row_stride = 0;
  int64_t column_stride = 0;
};

// A is m x k, B is k x n, both C are m x n. A `c_in` without data is zero; it may alias `c_out`
// with the same type and strides. Otherwise `c_out` must not overlap any input.
//
// Float types, in any mix: every element of A and B is widened to float32, which is exact; a
// float32 accumulator starts as the element of C_in and is updated with fma(a[i], b[i],
// accumulator) for i = 0 ... k - 1 in that order; the result is rounded once to the type of C_out.
// A NaN result is the quiet one without payload. Integer types, in any mix: the exact sum, wrapped
// to the width of C_out.
//
// Results are bitwise reproducible: they do not depend on the instruction set, the number of
// threads, or the host's rounding mode and flush-to-zero setting. Large matmuls use the thread
// pool, and a few MiB of scratch memory per thread for all sizes.
//
// Throws std::invalid_argument for floats mixed with integers, an I1 result, negative sizes or
// strides, a missing matrix and a C_out whose elements overlap each other.
void matmul(int64_t m, int64_t n, int64_t k, const Matrix& a, const Matrix& b, const Matrix& c_in,
            const MatrixOut& c_out);

// Returns whether B may be stored in runs of `run` columns, for an m x n result of this type.
bool reads_runs(int64_t m, int64_t n, ElementType type, int64_t run);

}  // namespace spyre::emulator::engine
