// The inner loops of matmul, one set per instruction set. Blocking and threads are in
// matmul_blocks.cpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace spyre::emulator::engine {

// The encoding of an element in memory: ElementType with the two meanings of F16 distinguished.
enum class Encoding : uint8_t {
  SEN169,
  FP16,
  BF16,
  F32,
  F8E4M3,
  F8E5M2,
  I1,
  I8,
  I16,
  I32,
  I64,
};
inline constexpr size_t kEncodingCount = 11;
// The first encodings have kernels for few rows.
inline constexpr size_t kThinEncodingCount = 4;

// An element of a block: the bits of a float32, or the low 32 bits of an integer.
using Lane = uint32_t;

// The arithmetic of a multiply-add.
enum class Arithmetic : uint8_t {
  // Float32 with one rounding.
  FUSED,
  // The same for factors whose product is exact in float32, so that a second rounding makes no
  // difference.
  EXACT_PRODUCTS,
  WRAPPING_32,
};
inline constexpr size_t kArithmeticCount = 3;
inline constexpr size_t kFloatArithmeticCount = 2;

// Elements (step, lane) of a matrix in memory, at src + step * step_stride + lane * lane_stride.
struct PackSource {
  const std::byte* src;
  int64_t lane_stride;
  int64_t step_stride;
  int64_t lanes;
  int64_t steps;
};

// Writes panels of `width` lanes, one after the other, each with `steps` rows:
// dst[panel][step][lane]. `width` is a multiple of MatmulKernels::lanes; lanes after the last one
// are undefined.
using PackKernel = void (*)(const PackSource& source, int64_t width, Lane* dst);

// tile[row][column] += A·B in order of steps, with A packed `lanes` wide and B and the tile
// `columns` wide. At least one step.
using TileKernel = void (*)(int64_t steps, const Lane* a, const Lane* b, Lane* tile);

// As TileKernel for few rows and a B of any width with one of the strides 1: B is read once, and
// not packed. `a` has rows of `a_pitch` lanes, `accumulators` rows of `accumulator_pitch`.
struct ThinMatmul {
  int64_t steps;
  int64_t columns;
  const Lane* a;
  int64_t a_pitch;
  const std::byte* b;
  int64_t b_row_stride;
  int64_t b_column_stride;
  Lane* accumulators;
  int64_t accumulator_pitch;
};
using ThinKernel = void (*)(const ThinMatmul& matmul);

// Rounds tile[rows][pitch] into memory. Strides count elements.
struct StoreTarget {
  std::byte* dst;
  int64_t row_stride;
  int64_t column_stride;
  int64_t rows;
  int64_t columns;
};
using StoreKernel = void (*)(const Lane* tile, int64_t pitch, const StoreTarget& target);

inline constexpr int kMaxTileRows = 14;
inline constexpr int kMaxThinRows = 4;

struct MatmulKernels {
  std::string_view name;
  int lanes;    // of a vector
  int rows;     // of the largest tile
  int columns;  // of every tile
  std::array<PackKernel, kEncodingCount> pack;
  std::array<StoreKernel, kEncodingCount> store;
  // Indexed by the number of rows minus one; only the first `rows` entries are set.
  std::array<std::array<TileKernel, kMaxTileRows>, kArithmeticCount> tile;
  std::array<std::array<std::array<ThinKernel, kMaxThinRows>, kThinEncodingCount>,
             kFloatArithmeticCount>
      thin;
};

// The set for the instruction set that the conversions use (see convert.h).
const MatmulKernels& matmul_kernels();

}  // namespace spyre::emulator::engine
