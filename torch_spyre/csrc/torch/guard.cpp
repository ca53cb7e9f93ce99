// PyTorch's device guard: switches cards and streams, and handles events.
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Exception.h>

#include "torch/allocator.h"
#include "torch/device.h"
#include "torch/dtypes.h"

namespace spyre {

namespace {

using EventPtr = std::shared_ptr<flex::Event>;

flex::Event& event_of(void* event) {
  TORCH_CHECK(event != nullptr, "the Spyre event has not been recorded");
  return **static_cast<EventPtr*>(event);
}

class SpyreGuardImpl final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return kSpyre; }

  c10::Device getDevice() const override { return {kSpyre, current_device()}; }

  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device previous = getDevice();
    setDevice(device);
    return previous;
  }

  void setDevice(c10::Device device) const override { set_device(resolve(device).index()); }

  void uncheckedSetDevice(c10::Device device) const noexcept override {
    set_device_unchecked(device.index());
  }

  c10::Stream getStream(c10::Device device) const override {
    return current_stream(resolve(device).index());
  }

  c10::Stream getDefaultStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::DEFAULT, resolve(device));
  }

  c10::Stream getStreamFromGlobalPool(c10::Device device, bool high_priority) const override {
    return pool_stream(device, high_priority);
  }

  c10::Stream getNewStream(c10::Device device, int priority) const override {
    return pool_stream(device, priority != 0);
  }

  c10::Stream exchangeStream(c10::Stream stream) const override { return exchange_stream(stream); }

  void* getStreamNativeHandle(const c10::Stream stream) const override { return &queue_of(stream); }

  c10::DeviceIndex deviceCount() const noexcept override {
    return static_cast<c10::DeviceIndex>(flex::Runtime::get().card_count());
  }

  c10::DeviceCapability getDeviceCapability(c10::Device) const override {
    c10::DeviceCapability capability;
    auto& has = capability.capability_data.supported_scalar_types;
    capability.capability_data.capability_bits = 0;
    has.has_Float = has.has_Half = has.has_BFloat16 = has.has_Bool = 1;
    has.has_Char = has.has_Byte = has.has_Short = has.has_Int = has.has_Long = 1;
    has.has_Float8_e4m3fn = has.has_Float8_e5m2fnuz = 1;
    return capability;
  }

  bool queryStream(const c10::Stream& stream) const override { return queue_of(stream).query(); }

  void synchronizeStream(const c10::Stream& stream) const override {
    queue_of(stream).synchronize();
  }

  void synchronizeDevice(const c10::DeviceIndex index) const override {
    flex::Runtime::get().synchronize(resolve({kSpyre, index}).index());
  }

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex,
              const c10::EventFlag) const override {
    if (*event == nullptr) *event = new EventPtr(std::make_shared<flex::Event>());
    queue_of(stream).record(*static_cast<EventPtr*>(*event));
  }

  void block(void* event, const c10::Stream& stream) const override {
    if (event != nullptr) queue_of(stream).wait(*static_cast<EventPtr*>(event));
  }

  bool queryEvent(void* event) const override {
    return event == nullptr || event_of(event).query();
  }

  void synchronizeEvent(void* event) const override {
    if (event != nullptr) event_of(event).synchronize();
  }

  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    delete static_cast<EventPtr*>(event);
  }

  // Returns milliseconds of device time.
  double elapsedTime(void* start, void* end, const c10::DeviceIndex) const override {
    flex::Event& first = event_of(start);
    flex::Event& last = event_of(end);
    TORCH_CHECK(first.complete() && last.complete(),
                "Both Spyre events must be completed before their elapsed time is known; "
                "synchronize them first.");
    const auto difference = static_cast<int64_t>(last.time_ps() - first.time_ps());
    return static_cast<double>(difference) * 1e-9;
  }

  void recordDataPtrOnStream(const c10::DataPtr& pointer,
                             const c10::Stream& stream) const override {
    device_allocator()->recordStream(pointer, stream);
  }

 private:
  static c10::Stream pool_stream(c10::Device device, bool high_priority) {
    const c10::Device card = resolve(device);
    const int64_t id = flex::Runtime::get().next_stream(card.index(), high_priority);
    return c10::Stream(c10::Stream::UNSAFE, card, id);
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, SpyreGuardImpl)

}  // namespace

}  // namespace spyre
