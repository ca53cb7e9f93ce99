// Matmul on 32-bit lanes, blocked for the host's caches and threads: every matmul except those with
// 64-bit results.
#pragma once

#include "emulator/engine/matmul.h"

namespace spyre::emulator::engine {

struct MatmulProblem {
  int64_t m;
  int64_t n;
  int64_t k;
  Matrix a;
  Matrix b;
  Matrix c_in;
  MatrixOut c_out;
};

inline const std::byte* element(const Matrix& matrix, int64_t row, int64_t column) {
  return matrix.data +
         (row * matrix.row_stride + column * matrix.column_stride) * bytes_of(matrix.type);
}

// With fewer multiplications, a second thread costs more than it saves.
inline constexpr int64_t kMinParallelMultiplications = int64_t{1} << 21;

// Returns whether the matmul is computed with transposed matrices, which gives the same bits.
bool is_faster_transposed(int64_t m, int64_t n);
// Returns the number of columns that the length of B's runs must be a multiple of.
int64_t run_alignment();

// `problem` is valid and not empty.
void blocked_matmul(const MatmulProblem& problem);

}  // namespace spyre::emulator::engine
