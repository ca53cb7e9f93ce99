// PyTorch's hooks of an accelerator.
#include <ATen/detail/PrivateUse1HooksInterface.h>

#include "torch/device.h"
#include "torch/generator.h"
#include "torch/host_allocator.h"
#include "torch/resize.h"

namespace spyre {

namespace {

struct SpyreHooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return flex::Runtime::get().card_count() > 0; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return flex::Runtime::get().started(); }
  void init() const override { flex::Runtime::get().start(); }

  c10::DeviceIndex deviceCount() const override {
    return static_cast<c10::DeviceIndex>(flex::Runtime::get().card_count());
  }
  c10::DeviceIndex getCurrentDevice() const override { return current_device(); }
  void setCurrentDevice(c10::DeviceIndex device) const override { set_device(device); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override {
    const c10::DeviceIndex previous = current_device();
    set_device(device);
    return previous;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override {
    return device < 0 ? current_device() : exchangeDevice(device);
  }

  const at::Generator& getDefaultGenerator(c10::DeviceIndex card) const override {
    return default_generator(card);
  }
  at::Generator getNewGenerator(c10::DeviceIndex card) const override {
    return make_generator(card);
  }

  bool isPinnedPtr(const void* data) const override { return is_pinned(data); }
  at::Allocator* getPinnedMemoryAllocator() const override { return pinned_allocator(); }

  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    resize_storage(storage, bytes);
  }
};

[[maybe_unused]] const bool registered = [] {
  // PyTorch keeps the pointer for the life of the process.
  at::RegisterPrivateUse1HooksInterface(new SpyreHooks());
  return true;
}();

}  // namespace

}  // namespace spyre
