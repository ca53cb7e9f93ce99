#include "emulator/engine/lanes.h"

#include "emulator/convert.h"
#include "emulator/engine/vector_kernels.h"

namespace spyre::emulator::engine {

namespace kernels_default {
extern const VectorKernels kVectorKernels;
}
#if defined(__x86_64__)
namespace kernels_avx2 {
extern const VectorKernels kVectorKernels;
}
namespace kernels_avx512 {
extern const VectorKernels kVectorKernels;
}
#endif

const VectorKernels& active_vector_kernels() {
#if defined(__x86_64__)
  const std::string_view name = active_kernels().name;
  if (name == kernels_avx512::kVectorKernels.name) return kernels_avx512::kVectorKernels;
  if (name == kernels_avx2::kVectorKernels.name) return kernels_avx2::kVectorKernels;
#endif
  return kernels_default::kVectorKernels;
}

LoadLanes load_lanes(ElementType type) {
  return active_vector_kernels().load_lanes(type, ieee_fp16());
}
StoreLanes store_lanes(ElementType type) {
  return active_vector_kernels().store_lanes(type, ieee_fp16());
}
RoundLanes round_lanes(ElementType type) {
  return active_vector_kernels().round_lanes(type, ieee_fp16());
}
CombineLanes combine_lanes(Combine combine, ElementType type) {
  return active_vector_kernels().combine_lanes(combine, type);
}
StartReduction start_reduction(Combine combine, ElementType type) {
  return active_vector_kernels().start_reduction(combine, type);
}
ReduceLanes reduce_lanes(Combine combine, ElementType type) {
  return active_vector_kernels().reduce_lanes(combine, type);
}
ReduceLanes reduce_elements(Combine combine, ElementType type) {
  // Elements of four bytes have the representation of lanes.
  if (type == ElementType::F32 || type == ElementType::I32) return reduce_lanes(combine, type);
  const bool is_sen169 = type == ElementType::F16 && !ieee_fp16();
  return is_sen169 ? active_vector_kernels().reduce_sen169(combine) : nullptr;
}
FinishLanes finish_lanes(Combine combine, ElementType type) {
  return active_vector_kernels().finish_lanes(combine, type);
}

std::optional<Combine> combine_of(VectorOp op) {
  switch (op) {
#define SPYRE_REDUCTION(op, combine) \
  case VectorOp::op:                 \
    return Combine::combine;
#include "emulator/engine/generated/vector_instructions.inc"
    default:
      return std::nullopt;
  }
}

#if defined(__x86_64__)
// Round to nearest, preserve subnormal numbers, mask all exceptions, clear their status bits.
constexpr uint32_t kDefaultSettings = 0x1F80;

DefaultFloatingPoint::DefaultFloatingPoint() : before_(__builtin_ia32_stmxcsr()) {
  if (before_ != kDefaultSettings) __builtin_ia32_ldmxcsr(kDefaultSettings);
}
DefaultFloatingPoint::~DefaultFloatingPoint() { __builtin_ia32_ldmxcsr(before_); }
#else
DefaultFloatingPoint::DefaultFloatingPoint() {
  std::fegetenv(&before_);
  std::fesetenv(FE_DFL_ENV);
}
DefaultFloatingPoint::~DefaultFloatingPoint() { std::fesetenv(&before_); }
#endif

}  // namespace spyre::emulator::engine
