// C++ kernels that eager mode and the CPU fallback need.
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/_to_copy_native.h>
#include <torch/library.h>

#include <mutex>

#include "torch/copy.h"
#include "torch/device.h"
#include "torch/dtypes.h"
#include "torch/fallback.h"
#include "torch/storage.h"
#include "torch/warnings.h"

namespace spyre {

namespace {

using at::Tensor;

Tensor copy_from(const Tensor& self, const Tensor& dst, bool non_blocking) {
  at::assert_no_partial_overlap(dst, self);
  copy_tensor(self, dst, non_blocking);
  return dst;
}

Tensor copy_from_and_resize(const Tensor& self, const Tensor& dst) {
  if (self.sizes() != dst.sizes()) dst.resize_(self.sizes());
  copy_tensor(self, dst, false);
  return dst;
}

Tensor& fill_scalar(Tensor& self, const at::Scalar& value) {
  fill_elements(self, value);
  return self;
}

Tensor& fill_tensor(Tensor& self, const Tensor& value) {
  TORCH_CHECK(value.dim() == 0, "fill_ only supports 0-dimension value tensor but got tensor with ",
              value.dim(), " dimensions.");
  copy_tensor(value, self, false);
  return self;
}

Tensor& zero(Tensor& self) {
  fill_elements(self, 0);
  return self;
}

// The card has no float64. Unless it stores float64 tensors all the same, a conversion to it that
// names no device returns a CPU tensor, so that code which measures or prints in float64 works. It
// counts as a copy, not as a fallback.
Tensor to_copy(const Tensor& self, std::optional<at::ScalarType> dtype,
               std::optional<at::Layout> layout, std::optional<at::Device> device,
               std::optional<bool> pin_memory, bool non_blocking,
               std::optional<at::MemoryFormat> memory_format) {
  if (dtype == at::kDouble && !device.has_value() && !stores_unsupported_dtypes()) {
    static std::once_flag warned;
    std::call_once(warned, [] {
      warn_caller(
          "spyre has no float64: a tensor converted to it comes back on the CPU. Call .cpu() first "
          "to say so, or convert to float32 to stay on the card; "
          "TORCH_SPYRE_UNSUPPORTED_DTYPE=store "
          "keeps float64 on the card.");
    });
    device = at::kCPU;
  }
  return at::native::_to_copy(self, dtype, layout, device, pin_memory, non_blocking, memory_format);
}

at::Scalar local_scalar(const Tensor& self) {
  TORCH_CHECK(self.numel() == 1, "a Tensor with ", self.numel(),
              " elements cannot be converted to Scalar");
  return to_cpu(self).item();
}

void record_stream(Tensor& self, at::Stream stream) {
  c10::impl::getDeviceGuardImpl(kSpyre)->recordDataPtrOnStream(self.storage().data_ptr(), stream);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_copy_from", &copy_from);
  m.impl("_copy_from_and_resize", &copy_from_and_resize);
  m.impl("_to_copy", &to_copy);
  m.impl("_local_scalar_dense", &local_scalar);
  m.impl("fill_.Scalar", &fill_scalar);
  m.impl("fill_.Tensor", &fill_tensor);
  m.impl("zero_", &zero);
  m.impl("record_stream", &record_stream);
}

// Without these, a copy of a lazily negated or conjugated view would recurse infinitely.
TORCH_LIBRARY_IMPL(aten, Negative, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
  m.impl("_copy_from_and_resize", torch::CppFunction::makeFallthrough());
}
TORCH_LIBRARY_IMPL(aten, Conjugate, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
  m.impl("_copy_from_and_resize", torch::CppFunction::makeFallthrough());
}

}  // namespace

}  // namespace spyre
