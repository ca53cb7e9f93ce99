#include "emulator/convert.h"

#include <atomic>

namespace spyre::emulator {

namespace kernels_default {
extern const KernelSet kKernels;
}
#if defined(__x86_64__)
namespace kernels_avx2 {
extern const KernelSet kKernels;
}
namespace kernels_avx512 {
extern const KernelSet kKernels;
}
#endif

namespace {

const KernelSet& best_kernels() {
  for (const std::string_view name : {"avx512", "avx2"}) {
    if (const KernelSet* kernels = kernels_named(name)) return *kernels;
  }
  return kernels_default::kKernels;
}

std::atomic<const KernelSet*> selected_kernels = nullptr;

struct FormatPair {
  DataFormat src;
  DataFormat dst;
  Conversion conversion;
};

constexpr FormatPair kConversions[] = {
    {DataFormat::IEEE_FP16, DataFormat::SEN169_FP16, Conversion::FP16_TO_SEN169},
    {DataFormat::BFLOAT16, DataFormat::SEN169_FP16, Conversion::BF16_TO_SEN169},
    {DataFormat::IEEE_FP32, DataFormat::SEN169_FP16, Conversion::FP32_TO_SEN169},
    {DataFormat::BOOL, DataFormat::SEN169_FP16, Conversion::BOOL_TO_SEN169},
    {DataFormat::SEN169_FP16, DataFormat::IEEE_FP16, Conversion::SEN169_TO_FP16},
    {DataFormat::SEN169_FP16, DataFormat::BFLOAT16, Conversion::SEN169_TO_BF16},
    {DataFormat::SEN169_FP16, DataFormat::IEEE_FP32, Conversion::SEN169_TO_FP32},
    {DataFormat::SEN169_FP16, DataFormat::BOOL, Conversion::FLOAT16_TO_BOOL},
    {DataFormat::IEEE_FP16, DataFormat::IEEE_FP32, Conversion::FP16_TO_FP32},
    {DataFormat::BFLOAT16, DataFormat::IEEE_FP32, Conversion::BF16_TO_FP32},
    {DataFormat::IEEE_FP32, DataFormat::IEEE_FP16, Conversion::FP32_TO_FP16},
    {DataFormat::IEEE_FP32, DataFormat::BFLOAT16, Conversion::FP32_TO_BF16},
    {DataFormat::IEEE_INT64, DataFormat::IEEE_INT32, Conversion::INT64_TO_INT32},
    {DataFormat::IEEE_INT32, DataFormat::IEEE_INT64, Conversion::INT32_TO_INT64},
    {DataFormat::HOST_UINT8, DataFormat::SENUINT32, Conversion::UINT8_TO_UINT32},
    {DataFormat::SENUINT32, DataFormat::HOST_UINT8, Conversion::UINT32_TO_UINT8},
};

// Returns the conversion that replaces a SEN169 conversion while that memory holds binary16.
constexpr Conversion with_ieee_fp16(Conversion conversion) {
  switch (conversion) {
    case Conversion::FP16_TO_SEN169:
    case Conversion::SEN169_TO_FP16:
      return Conversion::COPY_16;
    case Conversion::BF16_TO_SEN169:
      return Conversion::BF16_TO_FP16;
    case Conversion::FP32_TO_SEN169:
      return Conversion::FP32_TO_FP16;
    case Conversion::BOOL_TO_SEN169:
      return Conversion::BOOL_TO_FP16;
    case Conversion::SEN169_TO_BF16:
      return Conversion::FP16_TO_BF16;
    case Conversion::SEN169_TO_FP32:
      return Conversion::FP16_TO_FP32;
    default:
      return conversion;
  }
}

const ConversionKernel* kernel_of(Conversion conversion) {
  return &active_kernels().conversions[static_cast<size_t>(conversion)];
}

const ConversionKernel* raw_copy_kernel(int bits) {
  switch (bits) {
    case 8:
      return kernel_of(Conversion::COPY_8);
    case 16:
      return kernel_of(Conversion::COPY_16);
    case 32:
      return kernel_of(Conversion::COPY_32);
    case 64:
      return kernel_of(Conversion::COPY_64);
    default:
      return nullptr;
  }
}

}  // namespace

const KernelSet* kernels_named(std::string_view capability) {
  if (capability == "default") return &kernels_default::kKernels;
#if defined(__x86_64__)
  // The feature lists mirror ISA_FLAGS in scripts/native_build.py.
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c") &&
                    __builtin_cpu_supports("fma");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512dq");
  if (capability == "avx2" && avx2) return &kernels_avx2::kKernels;
  if (capability == "avx512" && avx512) return &kernels_avx512::kKernels;
#endif
  return nullptr;
}

void set_cpu_capability(std::string_view capability) {
  const KernelSet* kernels = kernels_named(capability);
  selected_kernels = kernels != nullptr ? kernels : &best_kernels();
}

const KernelSet& active_kernels() {
  const KernelSet* kernels = selected_kernels.load(std::memory_order_relaxed);
  if (kernels == nullptr) {
    kernels = &best_kernels();
    selected_kernels = kernels;
  }
  return *kernels;
}

const ConversionKernel* conversion_kernel(DataFormat src, DataFormat dst) {
  if (src == dst) return raw_copy_kernel(bits_per_element(src));
  for (const FormatPair& pair : kConversions) {
    if (pair.src != src || pair.dst != dst) continue;
    return kernel_of(ieee_fp16() ? with_ieee_fp16(pair.conversion) : pair.conversion);
  }
  return nullptr;
}

}  // namespace spyre::emulator
