// torch.autocast("spyre"): the ops that run in lower precision, in float32, or in the widest dtype.
#include <ATen/autocast_mode.h>
#include <torch/library.h>

namespace spyre {

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
#define LOWER_PRECISION(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define FLOAT32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define WIDEST(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)
  AT_FORALL_LOWER_PRECISION_FP(LOWER_PRECISION)
  AT_FORALL_FP32(FLOAT32)
  AT_FORALL_PROMOTE(WIDEST)
#undef WIDEST
#undef FLOAT32
#undef LOWER_PRECISION
}

}  // namespace spyre
