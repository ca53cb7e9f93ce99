#include "torch/raw_views.h"

#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <torch/library.h>

#include "torch/dtypes.h"
#include "torch/resize.h"
#include "torch/storage.h"

namespace spyre {

namespace {

// Gives the storage the order of the host, in which a view with another dtype finds its bytes.
void prepare_storage(const char* function, const at::Tensor& self, at::ScalarType dtype) {
  check_reinterprets(function, storage_of(self).dtype, dtype);
  const SpyreTensorImpl* impl = impl_of(self);
  TORCH_CHECK(impl == nullptr || (impl->own_binding == nullptr && !impl->is_byte_view), function,
              ": not for a tensor with a layout of its own; view a copy: x.clone()");
  make_flat(self.storage());
}

// Raises an error for complex32, unless the card stores float16 as the host does.
void check_parts(const char* function, at::ScalarType part) {
  TORCH_CHECK(
      part != at::kHalf || holds_host_bits(part), function,
      ": complex32 holds the host's float16, and float16 on the card has another format, so "
      "neither can be a view of the other. Use float32 and complex64 instead.");
}

at::Tensor view_as_real(const at::Tensor& self) {
  if (self.is_complex()) {
    const at::ScalarType part = c10::toRealValueType(self.scalar_type());
    check_parts("view_as_real", part);
    prepare_storage("view_as_real", self, part);
  }
  return at::native::view_as_real(self);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("view_as_real", &view_as_real); }

}  // namespace

at::Tensor view_as_complex(const at::Tensor& self) {
  if (self.is_floating_point()) {
    check_parts("view_as_complex", self.scalar_type());
    prepare_storage("view_as_complex", self, c10::toComplexType(self.scalar_type()));
  }
  return at::native::view_as_complex(self);
}

at::Tensor view_raw_dtype(const at::Tensor& self, at::ScalarType dtype) {
  prepare_storage("view(dtype)", self, dtype);
  return at::native::view_dtype(self, dtype);
}

}  // namespace spyre
