#include "emulator/engine/matmul.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

#include "emulator/engine/matmul_blocks.h"
#include "emulator/stop.h"
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

// A matmul with 64-bit results: rare, so a plain loop with a row of accumulators.
void matmul_int64(const MatmulProblem& problem) {
  constexpr int64_t kBlock = 256;
  const auto multiply_row = [&](int64_t row, int64_t first, int64_t columns) {
    uint64_t sums[kBlock] = {};
    for (int64_t j = 0; j < columns && problem.c_in.data != nullptr; ++j) {
      sums[j] = static_cast<uint64_t>(load_integer(problem.c_in, row, first + j));
    }
    StopPoll poll;
    for (int64_t step = 0; step < problem.k; ++step) {
      poll();
      const auto factor = static_cast<uint64_t>(load_integer(problem.a, row, step));
      for (int64_t j = 0; j < columns; ++j) {
        sums[j] += factor * static_cast<uint64_t>(load_integer(problem.b, step, first + j));
      }
    }
    const MatrixOut& c = problem.c_out;
    for (int64_t j = 0; j < columns; ++j) {
      const int64_t index = row * c.row_stride + (first + j) * c.column_stride;
      std::memcpy(c.data + index * bytes_of(c.type), &sums[j], sizeof(sums[j]));
    }
  };
  const int64_t row_work = std::max<int64_t>(1, problem.n * problem.k);
  parallel_for(problem.m, kMinParallelMultiplications / row_work + 1,
               [&](int64_t begin, int64_t end) {
                 for (int64_t first = 0; first < problem.n; first += kBlock) {
                   const int64_t columns = std::min(kBlock, problem.n - first);
                   for (int64_t row = begin; row < end; ++row) {
                     check_stop();
                     multiply_row(row, first, columns);
                   }
                 }
               });
}

[[noreturn]] void reject(const std::string& message) {
  throw std::invalid_argument("matmul: " + message);
}

// The sizes of a matrix.
struct Extent {
  int64_t rows;
  int64_t columns;
};

template <typename AnyMatrix>
void check_memory(const char* name, const AnyMatrix& matrix, Extent extent) {
  if (matrix.row_stride < 0 || matrix.column_stride < 0) {
    reject(std::string(name) + " has a negative stride");
  }
  if (matrix.data == nullptr && extent.rows > 0 && extent.columns > 0) {
    reject(std::string(name) + " has no memory");
  }
}

// Throws if rows or columns overlap in memory.
void check_no_overlap(const MatrixOut& c, Extent extent) {
  struct Loop {
    int64_t stride;
    int64_t size;
  };
  Loop inner{c.column_stride, extent.columns};
  Loop outer{c.row_stride, extent.rows};
  if (inner.size > 1 && outer.size > 1 && inner.stride > outer.stride) std::swap(inner, outer);
  const bool inner_overlaps = inner.size > 1 && inner.stride == 0;
  const int64_t inner_span = inner.size > 1 ? inner.stride * (inner.size - 1) : 0;
  const bool outer_overlaps = outer.size > 1 && outer.stride <= inner_span;
  if (inner_overlaps || outer_overlaps) {
    reject("elements of C_out overlap in memory: strides " + std::to_string(c.row_stride) + ", " +
           std::to_string(c.column_stride) + " for " + std::to_string(extent.rows) + " x " +
           std::to_string(extent.columns) + " elements");
  }
}

void check(const MatmulProblem& problem) {
  const auto [m, n, k, a, b, c_in, c_out] = problem;
  if (m < 0 || n < 0 || k < 0) {
    reject("negative size in " + std::to_string(m) + " x " + std::to_string(n) + " x " +
           std::to_string(k));
  }
  const bool floats = is_float(c_out.type);
  const bool mixed = is_float(a.type) != floats || is_float(b.type) != floats ||
                     (c_in.data != nullptr && is_float(c_in.type) != floats);
  if (mixed) reject("floats and integers do not mix");
  if (c_out.type == ElementType::I1)
    reject("a result of type i1 is not supported; use i8 or wider");
  check_memory("A", a, {m, k});
  check_memory("B", b, {k, n});
  check_memory("C_in", c_in, {0, 0});
  check_memory("C_out", c_out, {m, n});
  check_no_overlap(c_out, {m, n});
}

}  // namespace

void matmul(int64_t m, int64_t n, int64_t k, const Matrix& a, const Matrix& b, const Matrix& c_in,
            const MatrixOut& c_out) {
  const MatmulProblem problem{m, n, k, a, b, c_in, c_out};
  check(problem);
  if (m == 0 || n == 0) return;
  if (c_out.type == ElementType::I64) return matmul_int64(problem);
  blocked_matmul(problem);
}

bool reads_runs(int64_t m, int64_t n, ElementType type, int64_t run) {
  return type != ElementType::I64 && run % run_alignment() == 0 && !is_faster_transposed(m, n);
}

}  // namespace spyre::emulator::engine
