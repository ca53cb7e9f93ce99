#include "torch/copy.h"

#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/_conj.h>
#include <ATen/ops/_neg_view.h>
#include <ATen/ops/conj_physical.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/zeros.h>

#include "torch/copy_jobs.h"
#include "torch/device.h"
#include "torch/dtypes.h"
#include "torch/fallback.h"
#include "torch/storage.h"

namespace spyre {

namespace {

// Guarded by the GIL: set and used while it is held.
ConversionKernel conversion_kernel;

// Returns the host dtype that represents all values of a device tensor exactly.
at::ScalarType lossless_host_dtype(const at::Tensor& tensor) {
  return device_format(tensor.scalar_type()) == DataFormat::SEN169_FP16 &&
                 tensor.scalar_type() != at::kBool
             ? at::kFloat
             : tensor.scalar_type();
}

at::Tensor empty_on_host(const at::Tensor& like, at::ScalarType dtype) {
  const auto options = at::TensorOptions(at::kCPU).dtype(dtype);
  if (like.is_non_overlapping_and_dense()) {
    return at::empty_strided(like.sizes(), like.strides(), options);
  }
  return at::empty(like.sizes(), options);
}

bool covers_storage(const at::Tensor& tensor) {
  return tensor.is_contiguous() && tensor.storage_offset() == 0 &&
         tensor.nbytes() == tensor.storage().nbytes();
}

// The host image of a typed storage, and its bytes as a byte view of the storage sees them: the
// bytes of the image, then zeros for the padding.
struct ImageBytes {
  at::Tensor image, bytes;

  at::Tensor view_like(const at::Tensor& byte_view) const {
    return bytes.as_strided(byte_view.sizes(), byte_view.strides(), byte_view.storage_offset());
  }
};

// Returns an image of zeros.
ImageBytes empty_image(const c10::Storage& storage) {
  const SpyreStorageImpl& impl = storage_of(storage);
  return {at::zeros({impl.binding->extent()}, impl.dtype),
          at::zeros({static_cast<int64_t>(storage.nbytes())}, at::kByte)};
}

ImageBytes read_image(const c10::Storage& storage) {
  const at::Tensor image = host_image(storage);
  const at::Tensor bytes = at::zeros({static_cast<int64_t>(storage.nbytes())}, at::kByte);
  std::memcpy(bytes.mutable_data_ptr(), image.const_data_ptr(), image.nbytes());
  return {image, bytes};
}

// Returns whether a byte view includes every byte of the image of its storage.
bool covers_image(const at::Tensor& byte_view) {
  const SpyreStorageImpl& storage = storage_of(byte_view);
  const int64_t bytes =
      storage.binding->extent() * static_cast<int64_t>(c10::elementSize(storage.dtype));
  return byte_view.is_contiguous() && byte_view.storage_offset() == 0 && byte_view.numel() >= bytes;
}

// Writes the bytes of a host tensor; the image keeps its other bytes.
void write_bytes_of_image(const at::Tensor& src, const at::Tensor& byte_view) {
  const ImageBytes content =
      covers_image(byte_view) ? empty_image(byte_view.storage()) : read_image(byte_view.storage());
  content.view_like(byte_view).copy_(src);
  std::memcpy(content.image.mutable_data_ptr(), content.bytes.const_data_ptr(),
              content.image.nbytes());
  set_host_image(byte_view.storage(), content.image);
}

bool is_typed_byte_view(const at::Tensor& tensor) {
  return tensor.device().type() == kSpyre && is_byte_view(tensor) && !storage_of(tensor).is_raw();
}

// Copies to or from the bytes of a typed storage. The card does not hold the image's bytes, so that
// a copy within the card, or to a part of the bytes, is made on the host.
void copy_bytes_of_image(const at::Tensor& src, const at::Tensor& dst) {
  const bool is_transfer = src.device().is_cpu() || dst.device().is_cpu();
  const bool is_to_part = is_typed_byte_view(dst) && !covers_image(dst);
  if (!is_transfer || is_to_part)
    count_fallback("copy of the bytes of a storage", "aten.copy_.default");
  const at::Tensor host = is_typed_byte_view(src) ? read_image(src.storage()).view_like(src)
                          : src.device().is_cpu() ? src
                                                  : to_cpu(src);
  if (is_typed_byte_view(dst)) return write_bytes_of_image(host, dst);
  copy_tensor(host, dst, false);
}

// Copies a whole storage, including its layout, to a raw storage. Returns false for other copies.
bool adopt_storage(const at::Tensor& src, const at::Tensor& dst) {
  if (!is_typed_byte_view(src) || dst.device().type() != kSpyre || !is_byte_view(dst)) return false;
  SpyreStorageImpl& from = storage_of(src);
  SpyreStorageImpl& to = storage_of(dst);
  if (!to.is_raw() || !covers_storage(src) || !covers_storage(dst)) return false;
  if (from.nbytes() != to.nbytes()) return false;
  to.binding = from.binding;
  to.dtype = from.dtype;
  to.num_initialized = from.num_initialized;
  copy_storage(src, dst);
  return true;
}

void check_devices(const at::Tensor& src, const at::Tensor& dst) {
  for (const at::Tensor& tensor : {src, dst}) {
    TORCH_CHECK(tensor.device().type() == kSpyre || tensor.device().is_cpu(),
                "a copy to or from spyre needs the other tensor on the CPU or on spyre, got ",
                tensor.device());
    TORCH_CHECK(tensor.layout() == at::kStrided,
                "copies to and from spyre need strided tensors, got layout ", tensor.layout());
  }
}

void copy_between_cards(const at::Tensor& src, const at::Tensor& dst) {
  if (!dma_converts(src.scalar_type(), dst.scalar_type())) {
    const bool is_raw = is_raw_dtype(src.scalar_type()) || is_raw_dtype(dst.scalar_type());
    const bool has_kernel = src.device() == dst.device() && !is_raw;
    if (has_kernel && conversion_kernel && conversion_kernel(src, dst)) return;
    count_fallback(c10::str("conversion from ", src.dtype(), " to ", dst.dtype()),
                   "aten.copy_.default");
    at::Tensor host = empty_on_host(src, lossless_host_dtype(src));
    copy_to_host(src, host, false);
    return copy_tensor(host, dst, false);
  }
  if (src.storage().is_alias_of(dst.storage())) {
    // Source and destination may overlap: copy the source first.
    const auto options = at::TensorOptions(src.device()).dtype(src.dtype());
    const at::Tensor staged = at::empty(src.sizes(), options);
    copy_on_device(src, staged);
    return copy_on_device(staged, dst);
  }
  copy_on_device(src, dst);
}

// Returns a view of the tensor with each element of expanded dims only once.
at::Tensor without_repeated_elements(const at::Tensor& tensor) {
  at::Tensor unique = tensor;
  for (int64_t dim = 0; dim < tensor.dim(); ++dim) {
    if (tensor.stride(dim) == 0 && tensor.size(dim) > 1) unique = unique.narrow(dim, 0, 1);
  }
  return unique;
}

}  // namespace

void copy_tensor(const at::Tensor& source, const at::Tensor& dst, bool non_blocking) {
  check_devices(source, dst);
  if (source.is_same(dst)) return;
  const at::Tensor src = *at::expand_size(source, dst.sizes(), "copy_");
  if (dst.numel() == 0) return;
  at::assert_no_internal_overlap(dst);
  if (adopt_storage(src, dst)) return;
  if (is_typed_byte_view(src) || is_typed_byte_view(dst)) return copy_bytes_of_image(src, dst);
  // A conversion on the host would apply the negation of one side only.
  if (src.is_neg() && dst.is_neg()) {
    return copy_tensor(at::_neg_view(src), at::_neg_view(dst), non_blocking);
  }
  if (src.is_neg() != dst.is_neg()) {
    // Lazy negation on one side only: the device of the source negates.
    const at::Tensor plain = src.is_neg() ? at::_neg_view(src) : src;
    return copy_tensor(plain.neg(), dst.is_neg() ? at::_neg_view(dst) : dst, false);
  }
  if (src.is_conj() != dst.is_conj()) {
    // The same for lazy conjugation.
    const at::Tensor plain = src.is_conj() ? at::_conj(src) : src;
    const at::Tensor target = dst.is_conj() ? at::_conj(dst) : dst;
    if (plain.is_complex()) return copy_tensor(at::conj_physical(plain), target, false);
    return copy_tensor(plain, target, non_blocking);
  }
  if (src.device().is_cpu() && dst.device().is_cpu()) {
    dst.copy_(src, non_blocking);
  } else if (src.device().is_cpu()) {
    const bool direct = dma_converts(src.scalar_type(), dst.scalar_type());
    const at::Tensor host = direct ? src : src.to(dst.scalar_type());
    copy_to_device(host, dst, non_blocking && direct);
  } else if (dst.device().is_cpu()) {
    if (dma_converts(src.scalar_type(), dst.scalar_type())) {
      return copy_to_host(src, dst, non_blocking);
    }
    const at::Tensor host = empty_on_host(src, lossless_host_dtype(src));
    copy_to_host(src, host, false);
    dst.copy_(host);
  } else {
    copy_between_cards(src, dst);
  }
}

void fill_elements(const at::Tensor& all, const at::Scalar& value) {
  // First: a value that does not fit the dtype is an error for an empty tensor too. The CPU's
  // kernel for one element does not check 16-bit floats.
  const bool needs_check = all.numel() != 1 && c10::isReducedFloatingType(all.scalar_type());
  const at::Tensor values =
      at::empty({needs_check ? 2 : 1}, at::TensorOptions(at::kCPU).dtype(all.dtype())).fill_(value);
  const at::Tensor scalar = values.select(0, 0);
  if (all.numel() == 0) return;
  const at::Tensor dst = without_repeated_elements(all);
  const at::Tensor element = dst.is_neg() ? scalar.neg() : scalar;
  if (is_typed_byte_view(dst)) {
    count_fallback("fill of the bytes of a storage", "aten.fill_.Scalar");
    return write_bytes_of_image(element.expand(dst.sizes()), dst);
  }
  fill_on_device(element, dst);
}

at::Tensor to_cpu(const at::Tensor& tensor) {
  at::Tensor host = empty_on_host(tensor, tensor.scalar_type());
  copy_tensor(tensor, host, false);
  return host;
}

at::Tensor host_image(const c10::Storage& storage) {
  SpyreStorageImpl& impl = storage_of(storage);
  const at::ScalarType dtype = impl.is_raw() ? at::kByte : impl.dtype;
  const BindingPtr binding = binding_of(make_tensor(storage, dtype));
  const at::Tensor elements = elements_of(storage, dtype, binding);
  at::Tensor image = at::zeros({binding->extent()}, dtype);
  if (image.numel() > 0) {
    copy_tensor(elements, image.as_strided(elements.sizes(), elements.strides()), false);
  }
  return image;
}

void set_host_image(const c10::Storage& storage, const at::Tensor& image) {
  SpyreStorageImpl& impl = storage_of(storage);
  TORCH_CHECK(!impl.is_raw() && image.scalar_type() == impl.dtype,
              "a host image must have the dtype of the storage");
  if (image.numel() == 0) return;
  const at::Tensor elements = elements_of(storage, impl.dtype, impl.binding);
  copy_tensor(image.as_strided(elements.sizes(), elements.strides()), elements, false);
}

void set_conversion_kernel(ConversionKernel kernel) { conversion_kernel = std::move(kernel); }

}  // namespace spyre
