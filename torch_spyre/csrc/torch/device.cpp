#include "torch/device.h"

#include <c10/util/Exception.h>

#include <vector>

namespace spyre {

namespace {

constexpr c10::DeviceIndex kNotChosen = -1;
thread_local c10::DeviceIndex chosen_device = kNotChosen;
// The id of the current stream, by card; 0 (the default stream) unless the thread has set one.
thread_local std::vector<int64_t> chosen_streams;

void check_index(int64_t index) {
  const int count = flex::Runtime::get().card_count();
  if (count == 0) flex::Runtime::get().check_cards();
  TORCH_CHECK(index >= 0 && index < count, "Device index ", index, " out of range [0, ", count,
              "): this process sees ", count,
              " Spyre card(s). AIU_WORLD_SIZE or SPYRE_DEVICES sets "
              "how many.");
}

void check_default_card(int index) {
  const int count = flex::Runtime::get().card_count();
  TORCH_CHECK(count == 0 || index < count, "Device index out of bounds. logical_device_id=", index,
              ", number of visible devices=", count,
              ": LOCAL_RANK names a card that is not there; set AIU_WORLD_SIZE, or choose a card "
              "with torch.spyre.set_device().");
}

}  // namespace

c10::DeviceIndex current_device() {
  if (chosen_device != kNotChosen) return chosen_device;
  auto& runtime = flex::Runtime::get();
  const int fallback = runtime.card_count() == 0 ? 0 : runtime.default_card();
  return static_cast<c10::DeviceIndex>(fallback);
}

void set_device(int64_t index) {
  check_index(index);
  chosen_device = static_cast<c10::DeviceIndex>(index);
}

void set_device_unchecked(c10::DeviceIndex index) noexcept { chosen_device = index; }

c10::Device resolve(c10::Device device) {
  TORCH_CHECK(device.type() == kSpyre, "expected a spyre device, got ", device);
  return {kSpyre, card_index(device.index())};
}

c10::DeviceIndex card_index(int64_t number) {
  const bool is_explicit = number != kNotChosen;
  const int64_t index = is_explicit ? number : current_device();
  if (!is_explicit && chosen_device == kNotChosen) check_default_card(current_device());
  check_index(index);
  return static_cast<c10::DeviceIndex>(index);
}

c10::Stream current_stream(c10::DeviceIndex index) {
  const auto card = static_cast<size_t>(index);
  const int64_t id = card < chosen_streams.size() ? chosen_streams[card] : 0;
  return c10::Stream(c10::Stream::UNSAFE, {kSpyre, index}, id);
}

c10::Stream exchange_stream(c10::Stream stream) {
  check_index(stream.device_index());
  flex::Runtime::check_stream_id(stream.id());
  const auto card = static_cast<size_t>(stream.device_index());
  const c10::Stream previous = current_stream(stream.device_index());
  if (card >= chosen_streams.size()) chosen_streams.resize(card + 1, 0);
  chosen_streams[card] = stream.id();
  return previous;
}

flex::Stream& queue_of(const c10::Stream& stream) {
  return flex::Runtime::get().stream(stream.device_index(), stream.id());
}

flex::Stream& current_queue(c10::DeviceIndex index) { return queue_of(current_stream(index)); }

}  // namespace spyre
