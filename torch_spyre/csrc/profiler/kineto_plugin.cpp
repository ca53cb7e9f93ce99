// The plugin of torch.profiler: hands what the activity recorder has seen to Kineto.
//
// Kineto's headers need USE_KINETO, and FMT_HEADER_ONLY because the torch wheel does not export
// fmt. scripts/native_build.py defines both for the files of this folder.
#include <c10/core/Allocator.h>
#include <libkineto.h>
#include <output_base.h>
#include <torch/csrc/profiler/standalone/privateuse1_profiler.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "flex/activity.h"
#include "flex/runtime.h"
#include "profiler/scratchpad_counter.h"
#include "torch/bindings.h"

namespace spyre {

namespace {

using libkineto::ActivityType;
using libkineto::GenericTraceActivity;

const std::string kName = "spyre";
// The largest process id on Linux is 4,194,304: cards are sorted below all processes.
constexpr int64_t kFirstCardIndex = 5'000'000;
// The region of a single launch: its kernel has the same name.
constexpr std::string_view kLaunchRegion = "launch_kernel:";

const std::set<ActivityType>& activity_types() {
  static const std::set<ActivityType> types = {
      ActivityType::CONCURRENT_KERNEL, ActivityType::GPU_MEMCPY,
      ActivityType::GPU_MEMSET,        ActivityType::GPU_USER_ANNOTATION,
      ActivityType::CUDA_SYNC,         ActivityType::PRIVATEUSE1_RUNTIME};
  return types;
}

ActivityType type_of(flex::WorkKind kind) {
  switch (kind) {
    case flex::WorkKind::kKernel:
      return ActivityType::CONCURRENT_KERNEL;
    case flex::WorkKind::kFill:
      return ActivityType::GPU_MEMSET;
    default:
      return ActivityType::GPU_MEMCPY;
  }
}

// Kineto numbers ops in 32 bits.
int32_t external_id(const flex::HostCall& call) { return static_cast<int32_t>(call.op); }

std::string card_name(int card) { return "AIU " + std::to_string(card); }

// Links an activity to the op that caused it. Id 0 stands for no op, but Kineto may know an
// unrelated activity by that number.
void link_to_op(GenericTraceActivity& activity, const flex::HostCall& call,
                const libkineto::getLinkedActivityCallback& linked_activity) {
  if (call.op == 0) return;
  activity.id = external_id(call);
  activity.linked = linked_activity(activity.id);
}

void set_flow(GenericTraceActivity& activity, uint64_t id, bool is_start) {
  activity.flow.id = static_cast<uint32_t>(id);
  activity.flow.type = libkineto::kLinkAsyncCpuGpu;
  activity.flow.start = is_start ? 1 : 0;
}

class Session final : public libkineto::IActivityProfilerSession {
 public:
  explicit Session(std::set<ActivityType> types) : types_(std::move(types)) {}

  void start() override {
    has_memory_ = c10::memoryProfilingEnabled();
    flex::ActivityRecorder::get().start();
    status_ = libkineto::TraceStatus::RECORDING;
  }

  void stop() override {
    recording_ = flex::ActivityRecorder::get().stop();
    status_ = libkineto::TraceStatus::PROCESSING;
  }

  std::vector<std::string> errors() override { return {}; }

  void processTrace(libkineto::ActivityLogger& logger) override {
    processTrace(logger, [](int32_t) { return nullptr; }, 0, INT64_MAX);
  }

  void processTrace(libkineto::ActivityLogger& logger,
                    libkineto::getLinkedActivityCallback linked_activity, int64_t window_begin_ns,
                    int64_t window_end_ns) override {
    buffer_ = std::make_unique<libkineto::CpuTraceBuffer>();
    buffer_->span = libkineto::TraceSpan(window_begin_ns, window_end_ns, "__aiu_profiler__");
    buffer_->gpuOpCount = 0;
    add_host_calls(linked_activity);
    add_device_work(linked_activity);
    add_synchronizations();
    add_annotations(linked_activity);
    if (has_memory_) add_scratchpad_counter(*buffer_, recording_);
    for (const auto& activity : buffer_->activities) activity->log(logger);
    // Kineto asks for the information of one device only.
    for (const int card : cards()) {
      if (card != first_card()) {
        logger.handleDeviceInfo(device_info(card), window_begin_ns);
      }
    }
  }

  std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() override {
    return std::make_unique<libkineto::DeviceInfo>(device_info(first_card()));
  }

  std::vector<libkineto::ResourceInfo> getResourceInfos() override {
    std::set<std::pair<int, int64_t>> streams;
    for (const flex::DeviceWork& work : recording_.work) streams.insert({work.card, work.stream});
    std::vector<libkineto::ResourceInfo> infos;
    for (const auto& [card, stream] : streams) {
      infos.push_back({.id = stream,
                       .sortIndex = stream,
                       .deviceId = card,
                       .name = "stream " + std::to_string(stream)});
    }
    return infos;
  }

  std::unique_ptr<libkineto::CpuTraceBuffer> getTraceBuffer() override {
    return std::move(buffer_);
  }

  void pushCorrelationId(uint64_t id) override { flex::thread_scopes().ops.push_back(id); }
  void popCorrelationId() override { pop(flex::thread_scopes().ops); }
  void pushUserCorrelationId(uint64_t id) override { flex::thread_scopes().scopes.push_back(id); }
  void popUserCorrelationId() override { pop(flex::thread_scopes().scopes); }

  std::string getDeviceProperties() override {
    std::string properties;
    for (const int card : cards()) {
      const flex::CardDescription& description = flex::Runtime::get().card(card).description();
      if (!properties.empty()) properties += ", ";
      properties += "{\"id\": " + std::to_string(card) + ", \"name\": \"" + description.name +
                    "\", \"totalGlobalMem\": " + std::to_string(description.usable_bytes) +
                    ", \"numSms\": " + std::to_string(description.cores) +
                    ", \"sharedMemPerBlock\": " + std::to_string(description.scratchpad_bytes) +
                    "}";
    }
    return properties;
  }

  std::unordered_map<std::string, std::string> getMetadata() override {
    return {{"spyre_time_source", "\"simulated\""}};
  }

 private:
  // A region that began before the session ends in it without having been pushed.
  static void pop(std::vector<uint64_t>& ids) {
    if (!ids.empty()) ids.pop_back();
  }

  std::set<int> cards() const {
    std::set<int> cards;
    for (const flex::DeviceWork& work : recording_.work) cards.insert(work.card);
    return cards;
  }
  int first_card() const {
    const std::set<int> used = cards();
    return used.empty() ? 0 : *used.begin();
  }
  static libkineto::DeviceInfo device_info(int card) {
    return {.id = card,
            .sortIndex = kFirstCardIndex + card,
            .name = "spyre:" + std::to_string(card),
            .label = card_name(card)};
  }

  GenericTraceActivity& add(ActivityType type, const std::string& name) {
    buffer_->emplace_activity(buffer_->span, type, name);
    return *buffer_->activities.back();
  }

  void add_host_calls(const libkineto::getLinkedActivityCallback& linked_activity) {
    std::set<uint64_t> calls_with_work;
    for (const flex::DeviceWork& work : recording_.work) calls_with_work.insert(work.call);
    for (const flex::HostCall& call : recording_.calls) {
      calls_.emplace(call.id, call);
      if (!types_.contains(ActivityType::PRIVATEUSE1_RUNTIME)) continue;
      GenericTraceActivity& activity = add(ActivityType::PRIVATEUSE1_RUNTIME, call.name);
      activity.startTime = call.begin_ns;
      activity.endTime = call.end_ns;
      activity.device = static_cast<int32_t>(getpid());
      activity.resource = static_cast<int32_t>(call.thread);
      activity.threadId = static_cast<int32_t>(call.thread);
      activity.addMetadata("correlation", call.id);
      if (call.bytes > 0) activity.addMetadata("bytes", call.bytes);
      link_to_op(activity, call, linked_activity);
      if (calls_with_work.contains(call.id)) set_flow(activity, call.id, true);
    }
  }

  void add_device_work(const libkineto::getLinkedActivityCallback& linked_activity) {
    std::set<uint64_t> calls_with_flow;
    for (const flex::DeviceWork& work : recording_.work) {
      const ActivityType type = type_of(work.kind);
      if (!types_.contains(type)) continue;
      const flex::HostCall& call = calls_[work.call];
      GenericTraceActivity& activity = add(type, work.name);
      activity.startTime = work.begin_ns;
      activity.endTime = work.end_ns;
      activity.device = work.card;
      activity.resource = static_cast<int32_t>(work.stream);
      activity.threadId = static_cast<int32_t>(call.thread);
      add_arguments(activity, work, call);
      link_to_op(activity, call, linked_activity);
      // An arrow leads from a call to its first kernel: flows have one end.
      if (calls_with_flow.insert(work.call).second) set_flow(activity, work.call, false);
      buffer_->gpuOpCount++;
    }
  }

  // Synchronisations are points: PyTorch counts the time of everything in a card's rows as device
  // time. Kineto shows "Stream Sync" in a row of its own beside that of the stream. They have no
  // argument "stream", by which HolisticTraceAnalysis recognises work.
  void add_synchronizations() {
    if (!types_.contains(ActivityType::PRIVATEUSE1_RUNTIME)) return;
    for (const flex::Synchronization& wait : recording_.synchronizations) {
      GenericTraceActivity& activity = add(ActivityType::CUDA_SYNC, wait.name);
      activity.startTime = activity.endTime = wait.end_ns;
      activity.device = wait.card;
      activity.resource = static_cast<int32_t>(wait.stream);
      activity.threadId = static_cast<int32_t>(calls_[wait.call].thread);
      activity.addMetadata("device", wait.card);
      activity.addMetadata("correlation", wait.call);
      activity.addMetadata("device_begin_ps", wait.begin_ps);
      activity.addMetadata("device_time_ps", wait.end_ps - wait.begin_ps);
      if (wait.awaited_stream) activity.addMetadata("wait_on_stream", *wait.awaited_stream);
    }
  }

  // Shows the scopes of record_function in the rows of the streams that do their work. PyTorch sums
  // their durations, so an annotation has a part for each span without a gap.
  void add_annotations(const libkineto::getLinkedActivityCallback& linked_activity) {
    if (!types_.contains(ActivityType::GPU_USER_ANNOTATION)) return;
    std::map<std::tuple<int, int64_t, uint64_t>, GenericTraceActivity*> last_parts;
    for (const flex::DeviceWork& work : in_order_of_begin(recording_.work)) {
      for (const uint64_t scope : calls_[work.call].scopes) {
        GenericTraceActivity*& part = last_parts[{work.card, work.stream, scope}];
        if (part != nullptr && work.begin_ns <= part->endTime) {
          part->endTime = std::max(part->endTime, work.end_ns);
          continue;
        }
        const auto* annotation = linked_activity(static_cast<int32_t>(scope));
        if (annotation == nullptr || annotation->name().starts_with(kLaunchRegion)) continue;
        part = &add(ActivityType::GPU_USER_ANNOTATION, annotation->name());
        part->startTime = work.begin_ns;
        part->endTime = work.end_ns;
        part->id = static_cast<int32_t>(scope);
        part->device = work.card;
        part->resource = static_cast<int32_t>(work.stream);
        part->threadId = static_cast<int32_t>(calls_[work.call].thread);
      }
    }
  }

  static std::vector<flex::DeviceWork> in_order_of_begin(std::vector<flex::DeviceWork> work) {
    std::ranges::stable_sort(work, {}, &flex::DeviceWork::begin_ns);
    return work;
  }

  static void add_arguments(GenericTraceActivity& activity, const flex::DeviceWork& work,
                            const flex::HostCall& call) {
    activity.addMetadata("device", work.card);
    activity.addMetadata("stream", work.stream);
    activity.addMetadata("context", 0);
    activity.addMetadata("correlation", work.call);
    activity.addMetadata("queued", call.begin_ns);
    activity.addMetadata("submitted", call.end_ns);
    activity.addMetadata("bytes", work.bytes);
    activity.addMetadata("device_time_ps", work.span.end_ps - work.span.begin_ps);
    activity.addMetadata("device_begin_ps", work.span.begin_ps);
    activity.addMetadata("device_launch_ps", work.span.launch_ps);
    activity.addMetadata("device_submit_ps", work.span.submit_ps);
    if (work.kind != flex::WorkKind::kKernel) add_bandwidth(activity, work);
    if (work.metrics == nullptr) return;
    for (const auto& [name, value] : *work.metrics) activity.addMetadata(name, value);
  }

  static void add_bandwidth(GenericTraceActivity& activity, const flex::DeviceWork& work) {
    constexpr const char* kBandwidth = "memory bandwidth (GB/s)";
    const int64_t duration_ns = work.end_ns - work.begin_ns;
    if (duration_ns == 0) {
      activity.addMetadataQuoted(kBandwidth, "N/A");
    } else {
      activity.addMetadata(kBandwidth,
                           static_cast<double>(work.bytes) / static_cast<double>(duration_ns));
    }
  }

  const std::set<ActivityType> types_;
  bool has_memory_ = false;  // profile_memory=True
  flex::Recording recording_;
  std::unordered_map<uint64_t, flex::HostCall> calls_;
  std::unique_ptr<libkineto::CpuTraceBuffer> buffer_;
};

class Profiler final : public libkineto::IActivityProfiler {
 public:
  const std::string& name() const override { return kName; }
  const std::set<ActivityType>& availableActivities() const override { return activity_types(); }

  std::unique_ptr<libkineto::IActivityProfilerSession> configure(
      const std::set<ActivityType>& types, const libkineto::Config&) override {
    return std::make_unique<Session>(types);
  }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(
      int64_t, int64_t, const std::set<ActivityType>& types,
      const libkineto::Config& config) override {
    return configure(types, config);
  }
};

REGISTER_PRIVATEUSE1_PROFILER(Profiler);

}  // namespace

void bind_profiler(pybind11::module_& module) {
  module.def("_is_profiler_registered", [] {
    return torch::profiler::impl::PrivateUse1ProfilerRegistry::instance().hasFactory();
  });
}

}  // namespace spyre
