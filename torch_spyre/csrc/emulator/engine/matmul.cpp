#include "emulator/engine/matmul.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

#include "emulator/engine/matmul_blocks.h"
#include "emulator/thread_pool.h"

namespace spyre::emulator::engine {

namespace {

int64_t load_integer(const Matrix& matrix, int64_t row, int64_t column) {
  const std::byte* const src = element(matrix, row, column);
  const auto load = [src](auto integer) -> int64_t {
    std::memcpy(&integer, src, sizeof(integer));
    return integer;
  };
  switch (matrix.type) {
    case ElementType::I8:
      return load(int8_t{});
    case ElementType::I16:
      return load(int16_t{});
    case ElementType::I32:
      return load(int32_t{});
    case ElementType::I64:
      return load(int64_t{});
    default:
      return load(uint8_t{});
  }
}

// A result of 64 bits: rare, so one plain loop with a row of accumulators.
void multiply_wide_integers(const Product& product) {
  constexpr int64_t kBlock = 256;
  const auto multiply_row = [&](int64_t row, int64_t first, int64_t columns) {
    uint64_t sums[kBlock] = {};
    for (int64_t j = 0; j < columns && product.c_in.data != nullptr; ++j) {
      sums[j] = static_cast<uint64_t>(load_integer(product.c_in, row, first + j));
    }
    for (int64_t step = 0; step < product.k; ++step) {
      const auto factor = static_cast<uint64_t>(load_integer(product.a, row, step));
      for (int64_t j = 0; j < columns; ++j) {
        sums[j] += factor * static_cast<uint64_t>(load_integer(product.b, step, first + j));
      }
    }
    const MatrixOut& c = product.c_out;
    for (int64_t j = 0; j < columns; ++j) {
      const int64_t index = row * c.row_stride + (first + j) * c.column_stride;
      std::memcpy(c.data + index * bytes_of(c.type), &sums[j], sizeof(sums[j]));
    }
  };
  const int64_t row_work = std::max<int64_t>(1, product.n * product.k);
  parallel_for(product.m, kSmallestSharedProduct / row_work + 1, [&](int64_t begin, int64_t end) {
    for (int64_t first = 0; first < product.n; first += kBlock) {
      const int64_t columns = std::min(kBlock, product.n - first);
      for (int64_t row = begin; row < end; ++row) multiply_row(row, first, columns);
    }
  });
}

[[noreturn]] void refuse(const std::string& what) {
  throw std::invalid_argument("matmul: " + what);
}

// Sizes of a matrix that is read or written at all.
struct Extent {
  int64_t rows;
  int64_t columns;
};

template <typename AnyMatrix>
void check_memory(const char* name, const AnyMatrix& matrix, Extent extent) {
  if (matrix.row_stride < 0 || matrix.column_stride < 0) {
    refuse(std::string(name) + " has a negative stride");
  }
  if (matrix.data == nullptr && extent.rows > 0 && extent.columns > 0) {
    refuse(std::string(name) + " has no memory");
  }
}

// Rows must not run into each other, nor columns.
void check_no_overlap(const MatrixOut& c, Extent extent) {
  struct Loop {
    int64_t stride;
    int64_t size;
  };
  Loop inner{c.column_stride, extent.columns};
  Loop outer{c.row_stride, extent.rows};
  if (inner.size > 1 && outer.size > 1 && inner.stride > outer.stride) std::swap(inner, outer);
  const bool inner_overlaps = inner.size > 1 && inner.stride == 0;
  const int64_t reach = inner.size > 1 ? inner.stride * (inner.size - 1) : 0;
  const bool outer_overlaps = outer.size > 1 && outer.stride <= reach;
  if (inner_overlaps || outer_overlaps) {
    refuse("elements of C_out share memory: strides " + std::to_string(c.row_stride) + ", " +
           std::to_string(c.column_stride) + " for " + std::to_string(extent.rows) + " x " +
           std::to_string(extent.columns) + " elements");
  }
}

void check(const Product& product) {
  const auto [m, n, k, a, b, c_in, c_out] = product;
  if (m < 0 || n < 0 || k < 0) {
    refuse("negative size in " + std::to_string(m) + " x " + std::to_string(n) + " x " +
           std::to_string(k));
  }
  const bool floats = is_float(c_out.type);
  const bool mixed = is_float(a.type) != floats || is_float(b.type) != floats ||
                     (c_in.data != nullptr && is_float(c_in.type) != floats);
  if (mixed) refuse("floats and integers do not mix");
  if (c_out.type == ElementType::I1) refuse("a result of type i1 has no meaning; use i8 or wider");
  check_memory("A", a, {m, k});
  check_memory("B", b, {k, n});
  check_memory("C_in", c_in, {0, 0});
  check_memory("C_out", c_out, {m, n});
  check_no_overlap(c_out, {m, n});
}

}  // namespace

void matmul(int64_t m, int64_t n, int64_t k, const Matrix& a, const Matrix& b, const Matrix& c_in,
            const MatrixOut& c_out) {
  const Product product{m, n, k, a, b, c_in, c_out};
  check(product);
  if (m == 0 || n == 0) return;
  if (c_out.type == ElementType::I64) return multiply_wide_integers(product);
  multiply_in_blocks(product);
}

bool reads_runs(int64_t m, int64_t n, ElementType type, int64_t run) {
  return type != ElementType::I64 && run % run_unit() == 0 && !is_better_transposed(m, n);
}

}  // namespace spyre::emulator::engine
