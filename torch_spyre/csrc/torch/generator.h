// Random number generators of the device.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

namespace spyre {

// The state is a seed and an offset, as that of a CUDA generator. The card computes each random
// value from the seed, the offset and the index of its element, with Philox 4x32-10; see
// torch_spyre/ops/random_values.py.
class SpyreGeneratorImpl final : public c10::GeneratorImpl {
 public:
  // The words of one Philox block, which is what a draw uses for each element.
  static constexpr uint64_t kWordsPerDraw = 4;

  explicit SpyreGeneratorImpl(c10::DeviceIndex card, uint64_t seed = c10::default_rng_seed_val);

  void set_current_seed(uint64_t seed) override;
  void set_offset(uint64_t offset) override;
  uint64_t get_offset() const override { return offset_; }
  uint64_t current_seed() const override { return seed_; }
  uint64_t seed() override;
  void set_state(const c10::TensorImpl& new_state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;

  // The four words of a draw: the seed, then the number of draws before it, low words first.
  struct Draw {
    uint32_t words[4];
  };
  // Returns the words of the next draw and advances the offset. The caller holds the mutex.
  Draw next_draw();

 private:
  SpyreGeneratorImpl* clone_impl() const override;

  uint64_t seed_;
  uint64_t offset_ = 0;
};

// Returns the generator that a card uses if the program passes none.
const at::Generator& default_generator(c10::DeviceIndex card);
at::Generator make_generator(c10::DeviceIndex card);
SpyreGeneratorImpl& spyre_generator(const at::Generator& generator);

// Draws `count` times from a generator, by default that of the card; returns the words of all draws
// as an int32 tensor of one column on the card: each word has a stick of its own there, so that
// kernels broadcast it without a copy.
at::Tensor draw_words(int64_t count, c10::DeviceIndex card,
                      const std::optional<at::Generator>& generator);
// Draws once from a generator; returns a generator of the CPU that the draw has seeded, for ops
// that fall back.
at::Generator draw_cpu_generator(c10::DeviceIndex card,
                                 const std::optional<at::Generator>& generator);

}  // namespace spyre
