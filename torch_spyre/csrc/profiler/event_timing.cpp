// Device times of PyTorch's older profiler, `torch.autograd.profiler.profile(use_kineto=False)`: it
// records an event before and after each op.
#include <c10/core/DeviceGuard.h>
#include <torch/csrc/profiler/stubs/base.h>

#include <chrono>
#include <functional>
#include <memory>

#include "flex/runtime.h"
#include "torch/device.h"

namespace spyre {

namespace {

using torch::profiler::impl::ProfilerVoidEventStub;

constexpr double kPicosecondsPerMicrosecond = 1e6;

class EventTiming final : public torch::profiler::impl::ProfilerStubs {
 public:
  bool enabled() const override { return true; }

  void record(c10::DeviceIndex* device, ProfilerVoidEventStub* event,
              int64_t* cpu_ns) const override {
    const c10::DeviceIndex card = current_device();
    if (device != nullptr) *device = card;
    const auto position = std::make_shared<flex::Event>();
    current_queue(card).record(position);
    *event = position;
    if (cpu_ns == nullptr) return;
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    *cpu_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
  }

  float elapsed(const ProfilerVoidEventStub* first,
                const ProfilerVoidEventStub* second) const override {
    const auto begin_ps = static_cast<double>(event_of(first).time_ps());
    const auto end_ps = static_cast<double>(event_of(second).time_ps());
    return static_cast<float>((end_ps - begin_ps) / kPicosecondsPerMicrosecond);
  }

  void onEachDevice(std::function<void(int)> op) const override {
    for (int card = 0; card < flex::Runtime::get().card_count(); ++card) {
      const c10::DeviceGuard guard(c10::Device(kSpyre, static_cast<c10::DeviceIndex>(card)));
      op(card);
    }
  }

  void synchronize() const override { flex::Runtime::get().synchronize(current_device()); }

  // Marks and ranges go to tools of other vendors.
  void mark(const char*) const override {}
  void rangePush(const char*) const override {}
  void rangePop() const override {}

 private:
  static const flex::Event& event_of(const ProfilerVoidEventStub* event) {
    return *static_cast<const flex::Event*>(event->get());
  }
};

// Registers the methods while the extension is loaded.
const bool is_registered = [] {
  static EventTiming methods;
  torch::profiler::impl::registerPrivateUse1Methods(&methods);
  return true;
}();

}  // namespace

}  // namespace spyre
