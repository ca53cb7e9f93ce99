// Vectorised conversions between data formats, selected once for the host's CPU.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "flex/data_format.h"

namespace spyre::emulator {

// Limits the instruction sets to a value of ATEN_CPU_CAPABILITY ("default", "avx2", "avx512"). Any
// other value, or one that the CPU does not support, selects the best supported set.
void set_cpu_capability(std::string_view capability);

// The conversions of an element. COPY moves raw bits; the float conversions are defined in
// flex/float_formats.h.
enum class Conversion {
  COPY_8,
  COPY_16,
  COPY_32,
  COPY_64,
  FP16_TO_SEN169,
  BF16_TO_SEN169,
  FP32_TO_SEN169,
  BOOL_TO_SEN169,
  SEN169_TO_FP16,
  SEN169_TO_BF16,
  SEN169_TO_FP32,
  FLOAT16_TO_BOOL,
  FP16_TO_FP32,
  BF16_TO_FP32,
  FP32_TO_FP16,
  FP32_TO_BF16,
  FP16_TO_BF16,
  BF16_TO_FP16,
  BOOL_TO_FP16,
  INT64_TO_INT32,
  INT32_TO_INT64,
  UINT8_TO_UINT32,
  UINT32_TO_UINT8,
};
inline constexpr size_t kConversionCount = 23;

// Rows of `width` elements, contiguous inside a row; pitches are bytes from row to row.
struct RowBlock {
  const std::byte* src;
  std::byte* dst;
  int64_t rows;
  int64_t width;
  int64_t src_pitch;
  int64_t dst_pitch;
};

struct ConversionKernel {
  int src_bytes = 0;
  int dst_bytes = 0;
  // Returns the number of values out of range of the destination (INT64_TO_INT32 only).
  uint64_t (*convert)(const RowBlock& block) = nullptr;
};

// dst[column][row] = src[row][column] for elements of one size.
using TransposeKernel = void (*)(const RowBlock& block);

struct KernelSet {
  std::string_view name;
  std::array<ConversionKernel, kConversionCount> conversions;
  // Indexed by log2 of the element's bytes.
  std::array<TransposeKernel, 4> transposes;
};

// The kernels in use.
const KernelSet& active_kernels();

// Returns the kernels of one instruction set; nullptr if this host does not support it. For tests.
const KernelSet* kernels_named(std::string_view capability);

// Returns the kernel of a pair of formats under the current settings; nullptr for unsupported pairs
// and for formats smaller than a byte.
const ConversionKernel* conversion_kernel(DataFormat src, DataFormat dst);

}  // namespace spyre::emulator
