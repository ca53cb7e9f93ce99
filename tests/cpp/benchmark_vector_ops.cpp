// Measures the elements per second of the vector instructions, per instruction set:
// `core_tests "benchmark: vector"`. Runs only if named, and checks nothing.
#include <chrono>
#include <cstdio>
#include <utility>
#include <vector>

#include "check.h"
#include "emulator/engine/lanes.h"
#include "emulator/engine/vector_ops.h"
#include "engine_settings.h"

namespace spyre::emulator::engine {
namespace {

constexpr int64_t kBlock = 1024;
constexpr int kBlocks = 100;

// Returns the best of many short runs, because other processes may use the machine.
template <typename Run>
double giga_elements_per_second(Run run) {
  double best = 0;
  for (int attempt = 0; attempt < 100; ++attempt) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kBlocks; ++i) run();
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    best = std::max(best, 1e-9 * kBlocks * kBlock / passed.count());
  }
  return best;
}

TEST("benchmark: vector ops") {
  std::vector<float> a(kBlock, 0.75f);
  std::vector<float> b(kBlock, 1.5f);
  std::vector<float> c(kBlock, 20.0f);
  std::vector<float> output(kBlock);
  std::vector<std::byte> codes(kBlock * 4);
  const void* inputs[] = {a.data(), b.data(), c.data()};
  for (const std::string_view capability : available_capabilities()) {
    const EngineSettings settings(capability, false);
    std::printf("%s, in 10^9 elements a second: F16, BF16, F32\n", std::string(capability).c_str());
    const auto report = [](std::string_view name, auto run) {
      std::printf("  %-16s", std::string(name).c_str());
      for (const ElementType type : {ElementType::F16, ElementType::BF16, ElementType::F32}) {
        std::printf(" %6.2f", giga_elements_per_second([&] { run(type); }));
      }
      std::printf("\n");
    };
    report("load",
           [&](ElementType type) { load_lanes(type)(codes.data(), 1, output.data(), kBlock); });
    report("store",
           [&](ElementType type) { store_lanes(type)(a.data(), codes.data(), 1, kBlock); });
    for (const VectorOp op : vector_ops()) {
      if (vector_function(op, ElementType::F16, ElementType::F16) == nullptr) continue;
      if (op == VectorOp::SELECT) continue;
      report(vector_op_info(op)->name, [&](ElementType type) {
        vector_function(op, type, type)(inputs, output.data(), kBlock);
      });
    }
  }
}

TEST("benchmark: vector ops on elements in memory") {
  std::vector<std::byte> codes(kBlock * 2);
  std::vector<std::byte> result(kBlock * 4);
  std::vector<float> lanes(kBlock, -0.75f);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::byte>(i % 2 ? 0xBC : i);
  const EngineSettings settings("", false);
  std::printf("in 10^9 elements a second: codes to codes, codes to lanes, lanes to codes\n");
  for (const VectorOp op : vector_ops()) {
    for (const bool scalar : {false, true}) {
      const auto with = [&](bool from_codes, bool to_codes) {
        const bool is_binary = vector_op_info(op)->inputs == 2;
        const MemoryForm form{from_codes, from_codes && is_binary && !scalar, to_codes, scalar};
        return vector_function_in_memory(op, ElementType::F16, ElementType::F16, form);
      };
      if (with(true, true) == nullptr) continue;
      std::printf("  %-10s%-8s", std::string(vector_op_info(op)->name).c_str(),
                  scalar ? "scalar" : "");
      for (const auto& [from, to] : {std::pair(true, true), {true, false}, {false, true}}) {
        const VectorFunction function = with(from, to);
        const void* first = from ? static_cast<const void*>(codes.data()) : lanes.data();
        const void* inputs[] = {first, scalar ? lanes.data() : first};
        std::printf(" %6.2f",
                    giga_elements_per_second([&] { function(inputs, result.data(), kBlock); }));
      }
      std::printf("\n");
    }
  }
}

}  // namespace
}  // namespace spyre::emulator::engine
