#include "torch/generator.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Utils.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <cstring>
#include <deque>
#include <mutex>

#include "torch/device.h"

namespace spyre {

namespace {

// The public state of a generator; that of CUDA's has the same form.
struct State {
  uint64_t seed;
  uint64_t offset;
};
static_assert(sizeof(State) == 16);

uint32_t low(uint64_t value) { return static_cast<uint32_t>(value); }
uint32_t high(uint64_t value) { return static_cast<uint32_t>(value >> 32); }

void check_offset(uint64_t offset) {
  TORCH_CHECK(offset % SpyreGeneratorImpl::kWordsPerDraw == 0,
              "the offset of a Spyre generator must be a multiple of ",
              SpyreGeneratorImpl::kWordsPerDraw, ", got ", offset);
}

SpyreGeneratorImpl::Draw draw(c10::DeviceIndex card,
                              const std::optional<at::Generator>& generator) {
  const bool is_given = generator.has_value() && generator->defined();
  TORCH_CHECK(!is_given || generator->device().type() == kSpyre,
              "Expected a 'spyre' device type for generator but found '",
              is_given ? generator->device() : c10::Device(kSpyre), "'");
  at::Generator source = is_given ? *generator : default_generator(card);
  std::lock_guard lock(source.mutex());
  return spyre_generator(source).next_draw();
}

}  // namespace

SpyreGeneratorImpl::SpyreGeneratorImpl(c10::DeviceIndex card, uint64_t seed)
    : c10::GeneratorImpl({kSpyre, card}, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
      seed_(seed) {}

void SpyreGeneratorImpl::set_current_seed(uint64_t seed) {
  seed_ = seed;
  offset_ = 0;
}

void SpyreGeneratorImpl::set_offset(uint64_t offset) {
  check_offset(offset);
  offset_ = offset;
}

uint64_t SpyreGeneratorImpl::seed() {
  const uint64_t random = c10::detail::getNonDeterministicRandom();
  set_current_seed(random);
  return random;
}

c10::intrusive_ptr<c10::TensorImpl> SpyreGeneratorImpl::get_state() const {
  const State state{seed_, offset_};
  auto tensor = at::empty({static_cast<int64_t>(sizeof(State))}, at::TensorOptions(at::kByte));
  std::memcpy(tensor.mutable_data_ptr<uint8_t>(), &state, sizeof(State));
  return tensor.getIntrusivePtr();
}

void SpyreGeneratorImpl::set_state(const c10::TensorImpl& new_state) {
  at::detail::check_rng_state(new_state);
  TORCH_CHECK(new_state.numel() == static_cast<int64_t>(sizeof(State)), "a Spyre RNG state has ",
              sizeof(State), " bytes, got ", new_state.numel());
  State state;
  std::memcpy(&state, new_state.data(), sizeof(State));
  check_offset(state.offset);
  seed_ = state.seed;
  offset_ = state.offset;
}

SpyreGeneratorImpl::Draw SpyreGeneratorImpl::next_draw() {
  const uint64_t number = offset_ / kWordsPerDraw;
  offset_ += kWordsPerDraw;
  return {{low(seed_), high(seed_), low(number), high(number)}};
}

SpyreGeneratorImpl* SpyreGeneratorImpl::clone_impl() const {
  auto* copy = new SpyreGeneratorImpl(device().index(), seed_);
  copy->offset_ = offset_;
  return copy;
}

const at::Generator& default_generator(c10::DeviceIndex card) {
  static std::mutex mutex;
  // A deque, because references stay valid while it grows.
  static std::deque<at::Generator> generators;
  flex::Runtime::get().check_cards();
  const int count = flex::Runtime::get().card_count();
  const c10::DeviceIndex index = card == -1 ? current_device() : card;
  TORCH_CHECK(index >= 0 && index < count,
              "Spyre device index is invalid: ", static_cast<int>(index), ", with ", count,
              " card(s) visible");
  std::lock_guard lock(mutex);
  while (static_cast<int>(generators.size()) < count) {
    const auto next = static_cast<c10::DeviceIndex>(generators.size());
    generators.push_back(make_generator(next));
    generators.back().seed();
  }
  return generators[index];
}

at::Generator make_generator(c10::DeviceIndex card) {
  TORCH_CHECK(flex::Runtime::get().card_count() > 0,
              "No Spyre devices available. Cannot create generator.");
  // Not through a Device: a number beyond its range, such as torch.device(128), is negative there.
  return at::make_generator<SpyreGeneratorImpl>(card_index(card));
}

SpyreGeneratorImpl& spyre_generator(const at::Generator& generator) {
  TORCH_CHECK(generator.device().type() == kSpyre, "expected a generator on spyre, got one on ",
              generator.device());
  return *static_cast<SpyreGeneratorImpl*>(generator.unsafeGetGeneratorImpl());
}

at::Tensor draw_words(int64_t count, c10::DeviceIndex card,
                      const std::optional<at::Generator>& generator) {
  constexpr auto kWords = static_cast<int64_t>(SpyreGeneratorImpl::kWordsPerDraw);
  const at::Tensor words = at::empty({kWords * count, 1}, at::TensorOptions(at::kInt));
  auto* target = words.mutable_data_ptr<int32_t>();
  for (int64_t i = 0; i < count; ++i) {
    const SpyreGeneratorImpl::Draw drawn = draw(card, generator);
    std::memcpy(target + kWords * i, drawn.words, sizeof(drawn.words));
  }
  return words.to(c10::Device(kSpyre, card));
}

at::Generator draw_cpu_generator(c10::DeviceIndex card,
                                 const std::optional<at::Generator>& generator) {
  const SpyreGeneratorImpl::Draw drawn = draw(card, generator);
  // A generator of the CPU takes 64 bits of seed: the draws of a seed get different ones, mixed so
  // that those of neighbouring seeds are not the same.
  uint64_t seed = 0;
  for (const uint32_t word : drawn.words) seed = (seed ^ word) * 0x9E3779B97F4A7C15 + (seed >> 29);
  return at::detail::createCPUGenerator(seed);
}

}  // namespace spyre
