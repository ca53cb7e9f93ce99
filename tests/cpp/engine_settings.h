// Scoped settings that the engine's functions depend on.
#pragma once

#include <array>
#include <cfenv>
#include <string_view>
#include <vector>

#include "emulator/convert.h"
#include "emulator/engine/element_type.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace spyre::emulator::engine {

// Selects an instruction set ("": the best) and the meaning of F16; the destructor restores the
// defaults.
class EngineSettings {
 public:
  EngineSettings(std::string_view capability, bool ieee) {
    set_cpu_capability(capability);
    set_ieee_fp16(ieee);
  }
  ~EngineSettings() {
    set_cpu_capability("");
    set_ieee_fp16(false);
  }
};

// Rounds upwards and, if the host has such a setting, flushes subnormals to zero.
class UnusualFloatingPoint {
 public:
  UnusualFloatingPoint() {
    std::fegetenv(&before_);
    std::fesetround(FE_UPWARD);
#if defined(__x86_64__)
    _mm_setcsr(_mm_getcsr() | _MM_FLUSH_ZERO_ON | _MM_DENORMALS_ZERO_ON);
#endif
  }
  ~UnusualFloatingPoint() { std::fesetenv(&before_); }

 private:
  std::fenv_t before_;
};

inline std::vector<std::string_view> available_capabilities() {
  std::vector<std::string_view> names;
  for (const std::string_view name : {"default", "avx2", "avx512"}) {
    if (kernels_named(name) != nullptr) names.push_back(name);
  }
  return names;
}

inline std::array<ElementType, kElementTypeCount> all_types() {
  std::array<ElementType, kElementTypeCount> types{};
  for (int i = 0; i < kElementTypeCount; ++i) {
    types[static_cast<size_t>(i)] = static_cast<ElementType>(i);
  }
  return types;
}

}  // namespace spyre::emulator::engine
