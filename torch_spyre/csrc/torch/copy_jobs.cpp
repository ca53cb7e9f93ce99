#include "torch/copy_jobs.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <map>
#include <mutex>

#include "flex/trace.h"
#include "torch/device.h"
#include "torch/dtypes.h"
#include "torch/host_allocator.h"
#include "torch/storage.h"
#include "torch/warnings.h"

namespace spyre {

namespace {

std::atomic<bool> int64_overflow_raises{false};
std::atomic<bool> downcast_warning_enabled{true};
std::atomic<bool> is_downcast_warned{false};

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
  flex::WorkTime time;
  bool blocking = true;
  // For profilers.
  flex::WorkKind kind = flex::WorkKind::kCopyOnDevice;
  uint64_t bytes = 0;
  std::shared_ptr<const flex::Metrics> metrics;
};

// The names of work and of the calls that queue it, as in traces of hardware.
struct WorkNames {
  const char *work, *call;
};

WorkNames names_of(flex::WorkKind kind) {
  switch (kind) {
    case flex::WorkKind::kCopyToDevice:
      return {"Memcpy (HtoD)", "aiuDataTransferHtoD"};
    case flex::WorkKind::kCopyToHost:
      return {"Memcpy (DtoH)", "aiuDataTransferDtoH"};
    case flex::WorkKind::kCopyBetweenCards:
      return {"Memcpy (PtoP)", "aiuDataTransferHtoD"};
    case flex::WorkKind::kFill:
      return {"Memset (Device)", "aiuLaunchControlBlocks"};
    default:
      return {"Memcpy (DtoD)", "aiuLaunchControlBlocks"};
  }
}

void queue_job(const char* description, c10::DeviceIndex card_index, Job job) {
  flex::Card& card = flex::Runtime::get().card(card_index);
  const bool blocking = job.blocking;
  const flex::WorkTime time = job.time;
  flex::Stream& stream = current_queue(card_index);
  const WorkNames names = names_of(job.kind);
  flex::CallRecord call(names.call);
  flex::DeviceWork record;
  if (call.is_active()) {
    record = {.kind = job.kind,
              .name = names.work,
              .card = card_index,
              .stream = stream.id(),
              .bytes = job.bytes,
              .metrics = job.metrics};
  }
  auto work = [&card, &stream, job = std::move(job)] {
    try {
      report(stream, card.transfer(job.transfer, job.src, job.dst));
    } catch (const flex::OutOfHostMemory& error) {
      TORCH_CHECK_WITH(OutOfMemoryError, false, error.what());
    }
  };
  trace(description, " on card ", static_cast<int>(card_index), " stream ", stream.id(),
        blocking ? "" : ", not waiting");
  const flex::TimeSpan span =
      blocking ? stream.run(std::move(work), time) : stream.submit(std::move(work), time);
  call.add(std::move(record), span);
}

// --- Device time ---------------------------------------------------------------------------------

constexpr uint64_t kPicosecondsPerSecond = 1'000'000'000'000;

// Adds a copy over one direction of the host link to the counters, and sets the job's time.
void charge_link(Job& job, flex::Unit direction, c10::DeviceIndex index, uint64_t bytes) {
  using enum flex::Amount;
  // First: in a forked process this throws, and counts nothing.
  const flex::Card& card = flex::Runtime::get().card(index);
  flex::Counters& counters = flex::Runtime::get().counters();
  (direction == flex::Unit::kLinkToDevice ? counters.h2d_bytes : counters.d2h_bytes) += bytes;
  const auto rate = static_cast<uint64_t>(card.description().host_link_bytes_per_second);
  const auto bytes_ps = static_cast<unsigned __int128>(bytes) * kPicosecondsPerSecond;
  const auto latency_ps = static_cast<uint64_t>(card.description().host_link_latency_ps);
  const uint64_t time_ps = latency_ps + static_cast<uint64_t>((bytes_ps + rate - 1) / rate);
  job.time = {.unit = direction, .duration_ps = time_ps, .memory_bytes = bytes};
  const bool is_to_device = direction == flex::Unit::kLinkToDevice;
  job.time.amounts[is_to_device ? kToDeviceBytes : kToHostBytes] = bytes;
  job.time.amounts[is_to_device ? kDdrWriteBytes : kDdrReadBytes] = bytes;
  job.bytes = bytes;
}

class CopyCosts {
 public:
  void set_model(CopyCostModel model) {
    const std::lock_guard lock(mutex_);
    model_ = std::move(model);
    costs_.clear();
  }

  LaunchCost of(const flex::CopyTraffic& traffic) {
    CopyCostModel model;
    {
      const std::lock_guard lock(mutex_);
      const auto cost = costs_.find(traffic);
      if (cost != costs_.end()) return cost->second;
      model = model_;
    }
    // Without the lock: the model is written in Python and needs the GIL.
    const LaunchCost cost = model ? model(traffic) : LaunchCost{};
    const std::lock_guard lock(mutex_);
    if (costs_.size() >= kMaxCosts) costs_.clear();
    costs_.emplace(traffic, cost);
    return cost;
  }

 private:
  static constexpr size_t kMaxCosts = 4096;
  std::mutex mutex_;
  CopyCostModel model_;
  std::map<flex::CopyTraffic, LaunchCost> costs_;
};

CopyCosts& copy_costs() {
  static auto* costs = new CopyCosts();  // never destroyed: its model refers to a Python object
  return *costs;
}

// Adds a copy or fill within device memory to the counters, and sets the job's time.
void charge_cores(Job& job, c10::DeviceIndex index, flex::CopySource source) {
  const flex::Card& card = flex::Runtime::get().card(index);
  const LaunchCost cost = copy_costs().of(flex::traffic_of(job.transfer, source));
  job.time = charge(cost, 1, card);
  job.bytes = cost.ddr_bytes();
  job.metrics = cost.metrics;
  job.blocking = false;
}

// --- Transfers -----------------------------------------------------------------------------------

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

// Returns a job that writes a host tensor to device memory.
Job job_to_device(const at::Tensor& src, const at::Tensor& dst) {
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
  return job;
}

// Queues a job between two device tensors. `bytes` are those of the logical content.
void queue_on_device(Job job, const at::Tensor& src, const at::Tensor& dst, uint64_t bytes) {
  job.src_owner = memory_of(src);
  job.src = job.src_owner->range();
  job.dst_owner = memory_of(dst);
  job.dst = job.dst_owner->range();
  if (src.device() == dst.device()) {
    charge_cores(job, dst.device().index(), flex::CopySource::kDevice);
  } else {
    // Streams of different cards are not ordered: the work that produced the source must be done.
    current_queue(src.device().index()).synchronize();
    charge_link(job, flex::Unit::kLinkToDevice, dst.device().index(), bytes);
    job.kind = flex::WorkKind::kCopyBetweenCards;
  }
  flex::Runtime::get().counters().d2d_bytes += bytes;
  queue_job("copy on device", dst.device().index(), std::move(job));
}

}  // namespace

void copy_to_device(const at::Tensor& src, const at::Tensor& dst, bool non_blocking) {
  Job job = job_to_device(src, dst);
  charge_link(job, flex::Unit::kLinkToDevice, dst.device().index(), src.numel() * src.itemsize());
  job.kind = flex::WorkKind::kCopyToDevice;
  set_host_owner(job, src, non_blocking);
  queue_job("copy to device", dst.device().index(), std::move(job));
}

void fill_on_device(const at::Tensor& element, const at::Tensor& dst) {
  // The job owns the element, so that nobody has to wait for it.
  const auto value = std::make_shared<std::array<std::byte, sizeof(c10::complex<double>)>>();
  std::memcpy(value->data(), element.const_data_ptr(), element.itemsize());
  Job job = job_to_device(element.expand(dst.sizes()), dst);
  job.src.host = value->data();
  job.host_owner = value;
  charge_cores(job, dst.device().index(), flex::CopySource::kImmediate);
  job.kind = flex::WorkKind::kFill;
  queue_job("fill", dst.device().index(), std::move(job));
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
  charge_link(job, flex::Unit::kLinkToHost, src.device().index(), dst.numel() * dst.itemsize());
  job.kind = flex::WorkKind::kCopyToHost;
  set_host_owner(job, dst, non_blocking);
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
  const uint64_t bytes = dst.numel() * bits_per_element(dst_binding->layout.format()) / 8;
  queue_on_device(std::move(job), src, dst, bytes);
}

void copy_storage(const at::Tensor& src, const at::Tensor& dst) {
  const auto bytes = static_cast<int64_t>(src.storage().nbytes());
  Job job;
  job.transfer.descriptor = {DataFormat::SENINT8, DataFormat::SENINT8, {{{{bytes, 1, 1}}, 0, 0}}};
  queue_on_device(std::move(job), src, dst, bytes);
}

void set_copy_cost_model(CopyCostModel model) { copy_costs().set_model(std::move(model)); }

void set_int64_overflow_raises(bool raises) { int64_overflow_raises = raises; }

void set_downcast_warning(bool enabled) { downcast_warning_enabled = enabled; }

bool downcast_warning() { return downcast_warning_enabled; }

}  // namespace spyre
