#include "torch/generator.h"

#include <ATen/Utils.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <cstring>
#include <deque>
#include <mutex>

#include "torch/device.h"

namespace spyre {

namespace {

// The public state: seed, left, seeded, next, and the words of the twister, one per 64 bits. The
// upper halves of the first words hold the cached normal samples of the engine, so that a restored
// state continues exactly.
struct State {
  uint64_t seed;
  int32_t left;
  int32_t seeded;
  uint64_t next;
  uint64_t words[at::MERSENNE_STATE_N];
};
static_assert(sizeof(State) == 5016);

enum StoredWord { kHasFloat = 0, kFloat = 1, kHasDouble = 2, kDoubleLow = 3, kDoubleHigh = 4 };

void put_high(State& state, int word, uint32_t value) {
  state.words[word] |= static_cast<uint64_t>(value) << 32;
}

uint32_t high(const State& state, int word) {
  return static_cast<uint32_t>(state.words[word] >> 32);
}

template <typename To, typename From>
To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

}  // namespace

SpyreGeneratorImpl::SpyreGeneratorImpl(c10::DeviceIndex card, uint64_t seed)
    : c10::GeneratorImpl({kSpyre, card}, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
      engine_(at::detail::createCPUGenerator(seed)) {}

at::CPUGeneratorImpl& SpyreGeneratorImpl::twister() const {
  return *static_cast<at::CPUGeneratorImpl*>(engine_.unsafeGetGeneratorImpl());
}

void SpyreGeneratorImpl::set_current_seed(uint64_t seed) { twister().set_current_seed(seed); }

void SpyreGeneratorImpl::set_offset(uint64_t) {
  TORCH_CHECK(false, "Spyre Generator does not use offset");
}

uint64_t SpyreGeneratorImpl::get_offset() const {
  TORCH_CHECK(false, "Spyre Generator does not use offset");
}

uint64_t SpyreGeneratorImpl::current_seed() const { return twister().current_seed(); }

uint64_t SpyreGeneratorImpl::seed() {
  const uint64_t random = c10::detail::getNonDeterministicRandom();
  set_current_seed(random);
  return random;
}

c10::intrusive_ptr<c10::TensorImpl> SpyreGeneratorImpl::get_state() const {
  at::CPUGeneratorImpl& source = twister();
  const auto data = source.engine().data();
  State state{};
  state.seed = data.seed_;
  state.left = data.left_;
  state.seeded = data.seeded_;
  state.next = data.next_;
  for (int i = 0; i < at::MERSENNE_STATE_N; ++i) state.words[i] = data.state_[i];
  if (const auto sample = source.next_float_normal_sample()) {
    put_high(state, kHasFloat, 1);
    put_high(state, kFloat, bits_as<uint32_t>(*sample));
  }
  if (const auto sample = source.next_double_normal_sample()) {
    const auto bits = bits_as<uint64_t>(*sample);
    put_high(state, kHasDouble, 1);
    put_high(state, kDoubleLow, static_cast<uint32_t>(bits));
    put_high(state, kDoubleHigh, static_cast<uint32_t>(bits >> 32));
  }
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
  at::mt19937_data_pod data{};
  data.seed_ = state.seed;
  data.left_ = state.left;
  data.seeded_ = state.seeded != 0;
  data.next_ = static_cast<uint32_t>(state.next);
  for (int i = 0; i < at::MERSENNE_STATE_N; ++i) {
    data.state_[i] = static_cast<uint32_t>(state.words[i]);
  }
  at::mt19937 engine;
  engine.set_data(data);
  TORCH_CHECK(engine.is_valid() && state.next <= at::MERSENNE_STATE_N,
              "these bytes are not a Spyre RNG state");
  at::CPUGeneratorImpl& target = twister();
  target.set_engine(engine);
  std::optional<float> float_sample;
  std::optional<double> double_sample;
  if (high(state, kHasFloat)) float_sample = bits_as<float>(high(state, kFloat));
  if (high(state, kHasDouble)) {
    double_sample = bits_as<double>(static_cast<uint64_t>(high(state, kDoubleHigh)) << 32 |
                                    high(state, kDoubleLow));
  }
  target.set_next_float_normal_sample(float_sample);
  target.set_next_double_normal_sample(double_sample);
}

SpyreGeneratorImpl* SpyreGeneratorImpl::clone_impl() const {
  auto* copy = new SpyreGeneratorImpl(device().index());
  copy->engine_ = engine_.clone();
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

}  // namespace spyre
