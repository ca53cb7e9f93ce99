#include "emulator/engine/matmul_blocks.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <stdexcept>
#include <vector>

#include "emulator/convert.h"
#include "emulator/engine/lanes.h"
#include "emulator/engine/matmul_kernels.h"
#include "emulator/stop.h"
#include "emulator/thread_pool.h"

namespace spyre::emulator::engine {

namespace kernels_default {
extern const MatmulKernels kMatmulKernels;
}
#if defined(__x86_64__)
namespace kernels_avx2 {
extern const MatmulKernels kMatmulKernels;
}
namespace kernels_avx512 {
extern const MatmulKernels kMatmulKernels;
}
#endif

const MatmulKernels& matmul_kernels() {
#if defined(__x86_64__)
  const std::string_view name = active_kernels().name;
  if (name == kernels_avx512::kMatmulKernels.name) return kernels_avx512::kMatmulKernels;
  if (name == kernels_avx2::kMatmulKernels.name) return kernels_avx2::kMatmulKernels;
#endif
  return kernels_default::kMatmulKernels;
}

namespace {

// A widened block of B has 512 KiB, so that it stays in a core's second-level cache while the rows
// of A are processed. Its panel of A (at most 16 KiB) stays in the first-level cache.
struct BlockSize {
  int64_t steps;
  int64_t columns;
};
constexpr BlockSize kBlock{256, 512};
// For few rows and contiguous steps, where reading B dominates: longer runs of B.
constexpr BlockSize kLongBlock{1024, 128};
// Tile rows of one task; the accumulators of a task have at most 1 MiB.
constexpr int64_t kTileRowsInBlock = 36;
// Block sizes for few rows: accumulators and widened elements of A stay in the first-level cache.
constexpr int64_t kThinColumnBlock = 1024;
constexpr int64_t kThinStepBlock = 2048;

// Tile rows between two checks whether the launch has to stop.
constexpr int64_t kTilesPerCheck = 8;

constexpr int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr int64_t round_up(int64_t a, int64_t b) { return divide_up(a, b) * b; }

Encoding encoding_of(ElementType type) {
  switch (type) {
    case ElementType::F16:
      return ieee_fp16() ? Encoding::FP16 : Encoding::SEN169;
    case ElementType::BF16:
      return Encoding::BF16;
    case ElementType::F32:
      return Encoding::F32;
    case ElementType::F8E4M3:
      return Encoding::F8E4M3;
    case ElementType::F8E5M2:
      return Encoding::F8E5M2;
    case ElementType::I1:
      return Encoding::I1;
    case ElementType::I8:
      return Encoding::I8;
    case ElementType::I16:
      return Encoding::I16;
    case ElementType::I32:
      return Encoding::I32;
    case ElementType::I64:
      return Encoding::I64;
  }
  throw std::invalid_argument("matmul: unknown element type");
}

// Returns whether products with another such type are exact in float32: few fraction bits, and no
// exponents near the limits of float32.
bool has_exact_products(ElementType type) {
  return type == ElementType::F16 || type == ElementType::F8E4M3 || type == ElementType::F8E5M2;
}

// Memory that a thread reuses for its next matmul.
class Scratch {
 public:
  Lane* lanes(int64_t count) {
    if (count > size_) {
      memory_.reset();
      memory_.reset(static_cast<Lane*>(
          ::operator new(static_cast<size_t>(count) * sizeof(Lane), kAlignment)));
      size_ = count;
    }
    return memory_.get();
  }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Release {
    void operator()(Lane* lanes) const { ::operator delete(lanes, kAlignment); }
  };
  std::unique_ptr<Lane, Release> memory_;
  int64_t size_ = 0;
};

struct ThreadScratch {
  Scratch a;
  Scratch b;
  Scratch sums;
};
thread_local ThreadScratch scratch;

struct Range {
  int64_t begin;
  int64_t end;
  int64_t size() const { return end - begin; }
};

// Returns chunk `index` of `count` nearly equal chunks of [0, size) whose lengths are multiples of
// `unit`.
Range chunk_of(int64_t size, int64_t unit, int64_t count, int64_t index) {
  const int64_t units = divide_up(size, unit);
  return {std::min(units * index / count * unit, size),
          std::min(units * (index + 1) / count * unit, size)};
}

MatmulProblem transposed(const MatmulProblem& problem) {
  MatmulProblem result = problem;
  std::swap(result.m, result.n);
  std::swap(result.a, result.b);
  std::swap(result.a.row_stride, result.a.column_stride);
  std::swap(result.b.row_stride, result.b.column_stride);
  std::swap(result.c_in.row_stride, result.c_in.column_stride);
  std::swap(result.c_out.row_stride, result.c_out.column_stride);
  return result;
}

// One matmul with the kernels for its types and sizes; its tasks run on several threads.
class BlockedMatmul {
 public:
  BlockedMatmul(const MatmulProblem& problem, const MatmulKernels& kernels)
      : problem_(problem),
        kernels_(kernels),
        pack_a_(kernels.pack[static_cast<size_t>(encoding_of(problem.a.type))]),
        b_encoding_(encoding_of(problem.b.type)),
        pack_b_(kernels.pack[static_cast<size_t>(b_encoding_)]),
        pack_c_(kernels.pack[static_cast<size_t>(encoding_of(problem.c_in.type))]),
        store_(kernels.store[static_cast<size_t>(encoding_of(problem.c_out.type))]),
        arithmetic_(arithmetic_of(problem)),
        block_(problem.m <= 2 * kernels.rows && problem.b.row_stride == 1 ? kLongBlock : kBlock) {}

  void run() const {
    if (is_thin()) return run_thin();
    const Blocks blocks = choose_blocks();
    const auto run_tasks = [&](int64_t begin, int64_t end) {
      const DefaultFloatingPoint settings;
      for (int64_t task = begin; task < end; ++task) {
        multiply_block(chunk_of(problem_.m, kernels_.rows, blocks.rows, task % blocks.rows),
                       chunk_of(problem_.n, kernels_.columns, blocks.columns, task / blocks.rows));
      }
    };
    const int64_t tasks = blocks.rows * blocks.columns;
    tasks == 1 ? run_tasks(0, 1) : parallel_for(tasks, 1, run_tasks);
  }

 private:
  static Arithmetic arithmetic_of(const MatmulProblem& problem) {
    if (!is_float(problem.a.type)) return Arithmetic::WRAPPING_32;
    const bool exact = has_exact_products(problem.a.type) && has_exact_products(problem.b.type);
    return exact ? Arithmetic::EXACT_PRODUCTS : Arithmetic::FUSED;
  }

  bool is_parallel() const {
    return static_cast<double>(problem_.m) * static_cast<double>(problem_.n) *
               static_cast<double>(problem_.k) >=
           static_cast<double>(kMinParallelMultiplications);
  }

  struct Blocks {
    int64_t rows;
    int64_t columns;
  };

  // Returns enough tasks for all threads, of sizes that reuse packed panels.
  Blocks choose_blocks() const {
    Blocks blocks{divide_up(problem_.m, kTileRowsInBlock * kernels_.rows),
                  divide_up(problem_.n, block_.columns)};
    if (!is_parallel()) return blocks;
    const int64_t min_tasks = threads_here() == 1 ? 1 : 2 * threads_here();
    while (blocks.rows * blocks.columns < min_tasks) {
      const int64_t rows = problem_.m / blocks.rows;
      const int64_t columns = problem_.n / blocks.columns;
      if (columns >= rows && columns >= 4 * kernels_.columns) {
        blocks.columns *= 2;
      } else if (rows >= 4 * kernels_.rows) {
        blocks.rows *= 2;
      } else {
        break;
      }
    }
    return blocks;
  }

  // The accumulators stay unrounded from one block of steps to the next.
  void multiply_block(Range rows, Range columns) const {
    const int64_t tile_size = int64_t{kernels_.rows} * kernels_.columns;
    const int64_t row_tiles = divide_up(rows.size(), kernels_.rows);
    const int64_t column_tiles = divide_up(columns.size(), kernels_.columns);
    const bool one_block = problem_.k <= block_.steps;
    const int64_t max_steps = std::min(problem_.k, block_.steps);
    Lane* const a = scratch.a.lanes(max_steps * kernels_.lanes);
    Lane* const b = scratch.b.lanes(max_steps * column_tiles * kernels_.columns);
    Lane* const sums = scratch.sums.lanes(tile_size * (one_block ? 1 : row_tiles * column_tiles));
    int64_t step = 0;
    do {
      const int64_t steps = std::min(problem_.k - step, block_.steps);
      const bool is_last = step + steps == problem_.k;
      pack_b(step, steps, columns, b);
      for (int64_t i = 0; i < row_tiles; ++i) {
        if (i % kTilesPerCheck == 0) check_stop();
        const Range tile_rows{rows.begin + rows.size() * i / row_tiles,
                              rows.begin + rows.size() * (i + 1) / row_tiles};
        pack_a(step, steps, tile_rows, a);
        for (int64_t j = 0; j < column_tiles; ++j) {
          const int64_t first = columns.begin + j * kernels_.columns;
          const Range tile_columns{first, std::min(first + kernels_.columns, columns.end)};
          Lane* const tile = one_block ? sums : sums + (i * column_tiles + j) * tile_size;
          if (step == 0) start(tile_rows, tile_columns, kernels_.columns, tile);
          if (steps > 0) tile_kernel(tile_rows)(steps, a, b + j * kernels_.columns * steps, tile);
          if (is_last) finish(tile_rows, tile_columns, kernels_.columns, tile);
        }
      }
      step += steps;
    } while (step < problem_.k);
  }

  TileKernel tile_kernel(Range rows) const {
    return kernels_.tile[static_cast<size_t>(arithmetic_)][static_cast<size_t>(rows.size() - 1)];
  }

  void pack_a(int64_t step, int64_t steps, Range rows, Lane* dst) const {
    if (steps == 0) return;
    const Matrix& a = problem_.a;
    pack_a_({element(a, rows.begin, step), a.row_stride, a.column_stride, rows.size(), steps},
            kernels_.lanes, dst);
  }

  // Calls body(first element, columns) for each run of B's row `step`.
  template <typename Body>
  void for_each_run(int64_t step, Range columns, Body body) const {
    const Matrix& b = problem_.b;
    if (b.run == 0) return body(element(b, step, columns.begin), columns);
    for (int64_t begin = columns.begin; begin < columns.end;) {
      const int64_t run = begin / b.run;
      const int64_t end = std::min((run + 1) * b.run, columns.end);
      const std::byte* const first = b.data + run * b.run_stride * bytes_of(b.type);
      body(first + (step * b.row_stride + begin % b.run) * bytes_of(b.type), Range{begin, end});
      begin = end;
    }
  }

  void pack_b(int64_t step, int64_t steps, Range columns, Lane* dst) const {
    if (steps == 0) return;
    const Matrix& b = problem_.b;
    for_each_run(step, columns, [&](const std::byte* first, Range run) {
      // Runs are whole panels, so each begins with one.
      pack_b_({first, b.column_stride, b.row_stride, run.size(), steps}, kernels_.columns,
              dst + (run.begin - columns.begin) * steps);
    });
  }

  void start(Range rows, Range columns, int64_t pitch, Lane* sums) const {
    const Matrix& c = problem_.c_in;
    if (c.data == nullptr) {
      std::memset(sums, 0, static_cast<size_t>(rows.size() * pitch) * sizeof(Lane));
      return;
    }
    pack_c_({element(c, rows.begin, columns.begin), c.column_stride, c.row_stride, columns.size(),
             rows.size()},
            pitch, sums);
  }

  void finish(Range rows, Range columns, int64_t pitch, const Lane* sums) const {
    const MatrixOut& c = problem_.c_out;
    const int64_t first = rows.begin * c.row_stride + columns.begin * c.column_stride;
    const StoreTarget target{c.data + first * bytes_of(c.type), c.row_stride, c.column_stride,
                             rows.size(), columns.size()};
    store_ != nullptr ? store_(sums, pitch, target) : store_generic(c.type, sums, pitch, target);
  }

  // For F8, which has no specialised kernel.
  static void store_generic(ElementType type, const Lane* sums, int64_t pitch,
                            const StoreTarget& target) {
    const RoundLanes round = round_lanes(type);
    const StoreLanes store = store_lanes(type);
    std::vector<float> values(static_cast<size_t>(target.columns));
    for (int64_t row = 0; row < target.rows; ++row) {
      std::memcpy(values.data(), sums + row * pitch, values.size() * sizeof(float));
      round(values.data(), target.columns);
      store(values.data(), target.dst + row * target.row_stride * bytes_of(type),
            target.column_stride, target.columns);
    }
  }

  // Returns whether there are few rows and B is contiguous: reading B dominates, so it is not
  // packed.
  bool is_thin() const {
    return problem_.m <= kMaxThinRows && problem_.k > 0 &&
           static_cast<size_t>(b_encoding_) < kThinEncodingCount &&
           (problem_.b.column_stride == 1 || problem_.b.row_stride == 1);
  }

  void run_thin() const {
    const int64_t threads = is_parallel() ? threads_here() : 1;
    const int64_t columns_per_thread = round_up(divide_up(problem_.n, threads), kernels_.columns);
    const int64_t block = std::min(kThinColumnBlock, columns_per_thread);
    const auto run_tasks = [&](int64_t begin, int64_t end) {
      const DefaultFloatingPoint settings;
      for (int64_t task = begin; task < end; ++task) {
        multiply_thin({task * block, std::min((task + 1) * block, problem_.n)});
      }
    };
    const int64_t tasks = divide_up(problem_.n, block);
    threads == 1 ? run_tasks(0, tasks) : parallel_for(tasks, 1, run_tasks);
  }

  void multiply_thin(Range columns) const {
    const Range rows{0, problem_.m};
    const int64_t pitch = round_up(columns.size(), kernels_.columns);
    const ThinKernel kernel =
        kernels_.thin[static_cast<size_t>(arithmetic_)][static_cast<size_t>(b_encoding_)]
                     [static_cast<size_t>(problem_.m - 1)];
    Lane* const a = scratch.a.lanes(kThinStepBlock * problem_.m);
    Lane* const sums = scratch.sums.lanes(pitch * problem_.m);
    start(rows, columns, pitch, sums);
    for (int64_t step = 0; step < problem_.k; step += kThinStepBlock) {
      check_stop();
      const int64_t steps = std::min(problem_.k - step, kThinStepBlock);
      const Matrix& source = problem_.a;
      // A is packed row by row, with its rows as steps.
      pack_a_(
          {element(source, 0, step), source.column_stride, source.row_stride, steps, problem_.m},
          kThinStepBlock, a);
      for_each_run(step, columns, [&](const std::byte* b, Range run) {
        kernel({steps, run.size(), a, kThinStepBlock, b, problem_.b.row_stride,
                problem_.b.column_stride, sums + (run.begin - columns.begin), pitch});
      });
    }
    finish(rows, columns, pitch, sums);
  }

  const MatmulProblem& problem_;
  const MatmulKernels& kernels_;
  PackKernel pack_a_;
  Encoding b_encoding_;
  PackKernel pack_b_;
  PackKernel pack_c_;
  StoreKernel store_;
  Arithmetic arithmetic_;
  BlockSize block_;
};

}  // namespace

bool is_faster_transposed(int64_t m, int64_t n) {
  // Columns fill vectors, and the last vector may be mostly empty.
  const int64_t columns = matmul_kernels().columns;
  return n * round_up(m, columns) < m * round_up(n, columns);
}

int64_t run_alignment() { return matmul_kernels().columns; }

void blocked_matmul(const MatmulProblem& problem) {
  const MatmulProblem chosen =
      is_faster_transposed(problem.m, problem.n) ? transposed(problem) : problem;
  BlockedMatmul(chosen, matmul_kernels()).run();
}

}  // namespace spyre::emulator::engine
