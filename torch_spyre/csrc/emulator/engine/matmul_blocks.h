// A product on lanes of 32 bits, in blocks that suit the host's caches and threads: every matmul
// but those with results of 64 bits.
#pragma once

#include "emulator/engine/matmul.h"

namespace spyre::emulator::engine {

struct Product {
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

// Below this many multiplications a second thread costs more than it saves.
inline constexpr int64_t kSmallestSharedProduct = int64_t{1} << 21;

// Whether it is computed as the product of the transposed matrices, which has the same bits.
bool is_better_transposed(int64_t m, int64_t n);
// Runs of B must be multiples of this many columns.
int64_t run_unit();

// `product` is valid and not empty.
void multiply_in_blocks(const Product& product);

}  // namespace spyre::emulator::engine
