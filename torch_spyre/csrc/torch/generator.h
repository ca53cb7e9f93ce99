// Random number generators of the device.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>

namespace spyre {

// Uses a Mersenne Twister with the same seeding as the CPU's generator: equal seeds give equal
// sequences on both devices.
class SpyreGeneratorImpl final : public c10::GeneratorImpl {
 public:
  explicit SpyreGeneratorImpl(c10::DeviceIndex card, uint64_t seed = c10::default_rng_seed_val);

  void set_current_seed(uint64_t seed) override;
  void set_offset(uint64_t offset) override;
  uint64_t get_offset() const override;
  uint64_t current_seed() const override;
  uint64_t seed() override;
  void set_state(const c10::TensorImpl& new_state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;

  // Returns the engine, for kernels that generate random numbers on the host.
  at::Generator& engine() { return engine_; }

 private:
  SpyreGeneratorImpl* clone_impl() const override;
  at::CPUGeneratorImpl& twister() const;

  mutable at::Generator engine_;
};

// Returns the generator that a card uses if the program passes none.
const at::Generator& default_generator(c10::DeviceIndex card);
at::Generator make_generator(c10::DeviceIndex card);
SpyreGeneratorImpl& spyre_generator(const at::Generator& generator);

}  // namespace spyre
