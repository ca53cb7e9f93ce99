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
  // Of B, if `reads_runs`: its columns lie in runs of so many neighbours, which begin `run_stride`
  // apart. 0: in one.
  int64_t run = 0;
  int64_t run_stride = 0;
};

struct MatrixOut {
  std::byte* data = nullptr;
  ElementType type = ElementType::F16;
  int64_t row_stride = 0;
  int64_t column_stride = 0;
};

// A is m x k, B is k x n, both C are m x n. A `c_in` without data stands for zeros; it may be the
// very memory of `c_out`, type and strides included. Otherwise `c_out` overlaps nothing.
//
// Float types, in any mix: every element of A and B is widened to float32, which is exact; a
// float32 accumulator starts as the element of C_in and takes fma(a[i], b[i], accumulator) for i =
// 0 ... k - 1 in that order; the end is rounded once to the type of C_out. A NaN of the result is
// the quiet one without payload. Integer types, in any mix: the exact sum, wrapped to the width of
// C_out.
//
// The bits depend on nothing else: neither on the instruction set, nor on the number of threads,
// nor on the host's rounding mode or flush-to-zero setting. Large products use the thread pool, and
// scratch memory of a few MiB per thread whatever the sizes.
//
// Throws std::invalid_argument for floats mixed with integers, an I1 result, negative sizes or
// strides, a missing matrix and a C_out whose elements overlap each other.
void matmul(int64_t m, int64_t n, int64_t k, const Matrix& a, const Matrix& b, const Matrix& c_in,
            const MatrixOut& c_out);

// Whether B may lie in such runs, for an m x n result of that type.
bool reads_runs(int64_t m, int64_t n, ElementType type, int64_t run);

}  // namespace spyre::emulator::engine
