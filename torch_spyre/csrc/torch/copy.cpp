#include "torch/copy.h"

#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/_neg_view.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/zeros.h>
#include <c10/core/CPUAllocator.h>

#include <atomic>

#include "flex/trace.h"
#include "torch/allocator.h"
#include "torch/device.h"
#include "torch/dtypes.h"
#include "torch/fallback.h"
#include "torch/host_allocator.h"
#include "torch/storage.h"
#include "torch/warnings.h"

namespace spyre {

namespace {

// Guarded by the GIL: set and used while it is held.
ConversionKernel conversion_kernel;
std::atomic<bool> int64_overflow_raises{false};
std::atomic<bool> downcast_warning_enabled{true};
std::atomic<bool> is_downcast_warned{false};

constexpr uint64_t kPicosecondsPerSecond = 1'000'000'000'000;

uint64_t link_time_ps(const flex::Card& card, uint64_t bytes) {
  const auto rate = static_cast<double>(card.description().host_link_bytes_per_second);
  return static_cast<uint64_t>(static_cast<double>(bytes) / rate * kPicosecondsPerSecond);
}

void warn_of_narrow_int64() {
  if (!downcast_warning_enabled || is_downcast_warned.exchange(true)) return;
  warn_caller(
      "The Spyre backend does not support int64 in device memory; downcasting to int32: values "
      "outside 32 bits change. Silence this with torch.spyre.set_downcast_warning(False) or "
      "TORCH_SPYRE_DOWNCAST_WARN=0.");
}

std::string narrowing_message(const CopyOutcome& outcome) {
  return std::to_string(outcome.narrowed_out_of_range) +
         " int64 value(s) copied to spyre do not fit the 32 bits of the card and were "
         "stored modulo 2**32.";
}

void warn_of_narrowing(const CopyOutcome& outcome) {
  warn_caller(narrowing_message(outcome) +
              " Set TORCH_SPYRE_INT64_OVERFLOW=error to make this an error.");
}

[[maybe_unused]] const bool reporter_is_set = [] {
  flex::set_outcome_reporter(&warn_of_narrowing);
  return true;
}();

// Runs as part of the work, possibly on a stream's thread, where a warning would not reach Python.
void report(flex::Stream& stream, const CopyOutcome& outcome) {
  if (outcome.narrowed_out_of_range == 0) return;
  if (int64_overflow_raises) {
    throw std::runtime_error(narrowing_message(outcome) + " (TORCH_SPYRE_INT64_OVERFLOW=error)");
  }
  stream.add_outcome(outcome);
}

// A copy that can be queued. It owns the memory of source and destination until it is done. Host
// memory is not owned through a PyTorch storage: a stream's thread that releases a storage with a
// Python object would need the GIL, which the program may hold while it waits for the stream.
struct Job {
  flex::Transfer transfer;
  flex::MemoryRange src, dst;
  std::shared_ptr<flex::Allocation> src_owner, dst_owner;
  std::shared_ptr<void> host_owner;
  uint64_t bytes = 0;
  std::atomic<uint64_t>* counter = nullptr;
  bool blocking = true;
};

void queue_job(const char* description, c10::DeviceIndex card_index, Job job) {
  flex::Card& card = flex::Runtime::get().card(card_index);
  const bool blocking = job.blocking;
  const uint64_t bytes = job.bytes;
  flex::Stream& stream = current_queue(card_index);
  *job.counter += bytes;
  auto work = [&card, &stream, job = std::move(job)]() -> uint64_t {
    try {
      report(stream, card.transfer(job.transfer, job.src, job.dst));
    } catch (const flex::OutOfHostMemory& error) {
      TORCH_CHECK_WITH(OutOfMemoryError, false, error.what());
    }
    return link_time_ps(card, job.bytes);
  };
  trace(description, " ", bytes, " bytes on card ", static_cast<int>(card_index), " stream ",
        stream.id(), blocking ? "" : ", not waiting");
  if (blocking) {
    stream.run(std::move(work));
  } else {
    stream.submit(std::move(work));
  }
}

// Sets the nests of the transfer, or the lists of elements if there are too many nests.
template <typename ListSrc, typename ListDst>
flex::Transfer make_transfer(DataFormat src_format, DataFormat dst_format,
                             std::optional<std::vector<CopyNest>> nests, ListSrc list_src,
                             ListDst list_dst) {
  flex::Transfer transfer;
  transfer.descriptor = {src_format, dst_format, {}};
  if (nests) {
    transfer.descriptor.nests = std::move(*nests);
  } else {
    transfer.src_elements = list_src();
    transfer.dst_elements = list_dst();
  }
  return transfer;
}

flex::MemoryRange host_range(const at::Tensor& tensor, void* data) {
  const int64_t extent = host_extent(to_sizes(tensor.sizes()), to_sizes(tensor.strides()));
  return {data, nullptr, 0, static_cast<size_t>(extent) * tensor.itemsize()};
}

flex::MemoryRange range_to_read(const at::Tensor& tensor) {
  return host_range(tensor, const_cast<void*>(tensor.const_data_ptr()));
}

// Materialises a copy-on-write tensor.
flex::MemoryRange range_to_write(const at::Tensor& tensor) {
  return host_range(tensor, tensor.mutable_data_ptr());
}

// Returns sizes and strides relative to the tensor's data pointer.
HostView host_view(const at::Tensor& tensor) {
  HostView view = view_of(tensor);
  view.offset = 0;
  return view;
}

// Only copies of pinned memory are asynchronous; the caller waits for others.
void set_host_owner(Job& job, const at::Tensor& host, bool non_blocking) {
  if (non_blocking) job.host_owner = pinned_block(host.const_data_ptr());
  job.blocking = job.host_owner == nullptr;
}

// `counted_bytes`: the bytes on the host link.
void copy_to_device(const at::Tensor& src, const at::Tensor& dst, bool non_blocking,
                    uint64_t counted_bytes) {
  if (dst.scalar_type() == at::kLong) warn_of_narrow_int64();
  const BindingPtr binding = binding_of(dst);
  const DataFormat format = binding->layout.format();
  const HostView from = host_view(src);
  const DeviceView to{*binding, view_of(dst)};
  Job job;
  job.transfer = make_transfer(
      host_format(src.scalar_type(), format), format, build_to_device(from, to),
      [&] { return list_offsets(from); }, [&] { return list_offsets(to); });
  job.src = range_to_read(src);
  job.dst_owner = memory_of(dst);
  job.dst = job.dst_owner->range();
  job.bytes = counted_bytes;
  set_host_owner(job, src, non_blocking);
  job.counter = &flex::Runtime::get().counters().h2d_bytes;
  queue_job("copy to device", dst.device().index(), std::move(job));
}

void copy_to_host(const at::Tensor& src, const at::Tensor& dst, bool non_blocking) {
  const BindingPtr binding = binding_of(src);
  const DataFormat format = binding->layout.format();
  const DeviceView from{*binding, view_of(src)};
  const HostView to = host_view(dst);
  Job job;
  job.transfer = make_transfer(
      format, host_format(dst.scalar_type(), format), build_to_host(from, to),
      [&] { return list_offsets(from); }, [&] { return list_offsets(to); });
  job.src_owner = memory_of(src);
  job.src = job.src_owner->range();
  job.dst = range_to_write(dst);
  job.bytes = dst.numel() * dst.itemsize();
  set_host_owner(job, dst, non_blocking);
  job.counter = &flex::Runtime::get().counters().d2h_bytes;
  queue_job("copy to host", src.device().index(), std::move(job));
}

void copy_on_device(const at::Tensor& src, const at::Tensor& dst) {
  const BindingPtr src_binding = binding_of(src);
  const BindingPtr dst_binding = binding_of(dst);
  const DeviceView from{*src_binding, view_of(src)};
  const DeviceView to{*dst_binding, view_of(dst)};
  Job job;
  job.transfer = make_transfer(
      src_binding->layout.format(), dst_binding->layout.format(), build_on_device(from, to),
      [&] { return list_offsets(from); }, [&] { return list_offsets(to); });
  job.src_owner = memory_of(src);
  job.src = job.src_owner->range();
  job.dst_owner = memory_of(dst);
  job.dst = job.dst_owner->range();
  job.bytes = dst.numel() * bits_per_element(dst_binding->layout.format()) / 8;
  job.counter = &flex::Runtime::get().counters().d2d_bytes;
  if (src.device() != dst.device()) {
    // Streams of different cards are not ordered: the work that produced the source must be done.
    current_queue(src.device().index()).synchronize();
  }
  queue_job("copy on device", dst.device().index(), std::move(job));
}

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

ImageBytes read_image(const c10::Storage& storage) {
  const at::Tensor image = host_image(storage);
  const at::Tensor bytes = at::zeros({static_cast<int64_t>(storage.nbytes())}, at::kByte);
  std::memcpy(bytes.mutable_data_ptr(), image.const_data_ptr(), image.nbytes());
  return {image, bytes};
}

void write_bytes_of_image(const at::Tensor& src, const at::Tensor& byte_view) {
  const ImageBytes content = read_image(byte_view.storage());
  content.view_like(byte_view).copy_(src);
  std::memcpy(content.image.mutable_data_ptr(), content.bytes.const_data_ptr(),
              content.image.nbytes());
  set_host_image(byte_view.storage(), content.image);
}

bool is_typed_byte_view(const at::Tensor& tensor) {
  return tensor.device().type() == kSpyre && is_byte_view(tensor) && !storage_of(tensor).is_raw();
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
  const auto source = memory_of(src), target = memory_of(dst);
  const int64_t bytes = static_cast<int64_t>(from.nbytes());
  Job job;
  job.transfer.descriptor = {DataFormat::SENINT8, DataFormat::SENINT8, {{{{bytes, 1, 1}}, 0, 0}}};
  job.src_owner = source;
  job.dst_owner = target;
  job.src = source->range();
  job.dst = target->range();
  job.bytes = from.nbytes();
  job.counter = &flex::Runtime::get().counters().d2d_bytes;
  current_queue(src.device().index()).synchronize();
  queue_job("copy on device", dst.device().index(), std::move(job));
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
    const bool is_on_one_card = src.device() == dst.device();
    if (is_on_one_card && conversion_kernel && conversion_kernel(src, dst)) return;
    count_fallback(c10::str("conversion from ", src.dtype(), " to ", dst.dtype()));
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
  if (is_typed_byte_view(src)) {
    return copy_tensor(read_image(src.storage()).view_like(src), dst, false);
  }
  if (is_typed_byte_view(dst)) {
    return write_bytes_of_image(src.device().is_cpu() ? src : to_cpu(src), dst);
  }
  // A conversion on the host would apply the negation of one side only.
  if (src.is_neg() && dst.is_neg()) {
    return copy_tensor(at::_neg_view(src), at::_neg_view(dst), non_blocking);
  }
  if (src.is_neg() != dst.is_neg()) {
    // Lazy negation on one side only: negate on the host.
    at::Tensor plain = src.is_neg() ? at::_neg_view(src) : src;
    if (plain.device().type() == kSpyre) plain = to_cpu(plain);
    return copy_tensor(plain.neg(), dst.is_neg() ? at::_neg_view(dst) : dst, false);
  }
  if (src.device().is_cpu() && dst.device().is_cpu()) {
    dst.copy_(src, non_blocking);
  } else if (src.device().is_cpu()) {
    const bool direct = dma_converts(src.scalar_type(), dst.scalar_type());
    const at::Tensor host = direct ? src : src.to(dst.scalar_type());
    copy_to_device(host, dst, non_blocking && direct, host.numel() * host.itemsize());
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
  if (all.numel() == 0) return;
  const at::Tensor dst = without_repeated_elements(all);
  const at::Tensor scalar =
      at::empty({}, at::TensorOptions(at::kCPU).dtype(dst.dtype())).fill_(value);
  const at::Tensor element = dst.is_neg() ? scalar.neg() : scalar;
  if (is_typed_byte_view(dst)) return write_bytes_of_image(element.expand(dst.sizes()), dst);
  copy_to_device(element.expand(dst.sizes()), dst, false, element.itemsize());
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

void set_int64_overflow_raises(bool raises) { int64_overflow_raises = raises; }

void set_downcast_warning(bool enabled) { downcast_warning_enabled = enabled; }

bool downcast_warning() { return downcast_warning_enabled; }

}  // namespace spyre
