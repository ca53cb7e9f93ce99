// Compares the vector kernels of every instruction set of this host with float_formats.h.
#include <random>
#include <vector>

#include "check.h"
#include "emulator/convert.h"
#include "engine_settings.h"
#include "scalar_conversion.h"

namespace spyre::emulator {
namespace {

std::vector<const KernelSet*> available_kernels() {
  std::vector<const KernelSet*> kernel_sets;
  for (const std::string_view name : {"default", "avx2", "avx512"}) {
    if (const KernelSet* kernels = kernels_named(name)) kernel_sets.push_back(kernels);
  }
  return kernel_sets;
}

// Both sides start at an odd address.
void check_row(const ConversionKernel& kernel, Conversion conversion,
               const std::vector<uint64_t>& values) {
  const auto count = static_cast<int64_t>(values.size());
  std::vector<std::byte> src(values.size() * static_cast<size_t>(kernel.src_bytes) + 1);
  std::vector<std::byte> dst(values.size() * static_cast<size_t>(kernel.dst_bytes) + 2);
  for (int64_t i = 0; i < count; ++i) {
    store_element(src.data() + 1 + i * kernel.src_bytes, values[static_cast<size_t>(i)],
                  kernel.src_bytes);
  }
  kernel.convert({src.data() + 1, dst.data() + 1, 1, count, 0, 0});
  CHECK(dst.front() == std::byte{0} && dst.back() == std::byte{0});
  for (int64_t i = 0; i < count; ++i) {
    CHECK_EQUAL(load_element(dst.data() + 1 + i * kernel.dst_bytes, kernel.dst_bytes),
                convert_one(conversion, values[static_cast<size_t>(i)]));
  }
}

template <typename Visit>
void for_each_kernel(int src_bytes, Visit visit) {
  for (const KernelSet* kernels : available_kernels()) {
    for (size_t i = 0; i < kConversionCount; ++i) {
      const ConversionKernel& kernel = kernels->conversions[i];
      if (kernel.src_bytes == src_bytes) visit(kernel, static_cast<Conversion>(i));
    }
  }
}

TEST("convert: all 8-bit and all 16-bit inputs give the scalar result") {
  for (const int bytes : {1, 2}) {
    std::vector<uint64_t> values(size_t{1} << (8 * bytes));
    for (size_t i = 0; i < values.size(); ++i) values[i] = i;
    for_each_kernel(bytes, [&](const ConversionKernel& kernel, Conversion conversion) {
      check_row(kernel, conversion, values);
    });
  }
}

TEST("convert: the host's floating-point settings do not matter") {
  const engine::UnusualFloatingPoint settings;
  std::vector<uint64_t> halves(1 << 16);
  std::vector<uint64_t> singles(1 << 16);
  for (size_t i = 0; i < halves.size(); ++i) {
    halves[i] = i;
    singles[i] = i << 16 | (i * 7919 & 0xFFFF);
  }
  for_each_kernel(2, [&](const ConversionKernel& kernel, Conversion conversion) {
    check_row(kernel, conversion, halves);
  });
  for_each_kernel(4, [&](const ConversionKernel& kernel, Conversion conversion) {
    check_row(kernel, conversion, singles);
  });
}

TEST("convert: ten million 32-bit inputs give the scalar result") {
  constexpr uint64_t kStep = 419;
  constexpr size_t kBatch = 1 << 16;
  std::vector<uint64_t> values;
  const auto flush = [&] {
    for_each_kernel(4, [&](const ConversionKernel& kernel, Conversion conversion) {
      check_row(kernel, conversion, values);
    });
    values.clear();
  };
  for (uint64_t bits = 0; bits < (1ull << 32); bits += kStep) {
    values.push_back(bits);
    if (values.size() == kBatch) flush();
  }
  // Every exponent with the extremes and the ties of its fraction, and the first payloads of NaN.
  for (uint64_t upper = 0; upper < (1u << 16); ++upper) {
    for (const uint64_t lower :
         {0x0, 0x1, 0x0FFF, 0x1000, 0x1001, 0x2000, 0x7FFF, 0x8000, 0xFFFF}) {
      values.push_back(upper << 16 | lower);
      if (values.size() == kBatch) flush();
    }
  }
  flush();
}

TEST("convert: 64-bit inputs give the scalar result and are counted when they are out of range") {
  std::mt19937_64 random(7);
  std::vector<uint64_t> values;
  uint64_t misfits = 0;
  for (int i = 0; i < 4099; ++i) {
    const auto value = static_cast<int64_t>(random()) >> (random() % 64);
    values.push_back(static_cast<uint64_t>(value));
    misfits += value < INT32_MIN || value > INT32_MAX ? 1 : 0;
  }
  for_each_kernel(8, [&](const ConversionKernel& kernel, Conversion conversion) {
    check_row(kernel, conversion, values);
    std::vector<uint64_t> result(values.size());
    const uint64_t counted = kernel.convert({reinterpret_cast<const std::byte*>(values.data()),
                                             reinterpret_cast<std::byte*>(result.data()), 1,
                                             static_cast<int64_t>(values.size()), 0, 0});
    CHECK_EQUAL(counted, conversion == Conversion::INT64_TO_INT32 ? misfits : 0);
  });
}

TEST("convert: rows of every width do not write the gaps between them") {
  std::mt19937 random(11);
  std::vector<std::byte> src(1 << 16);
  for (std::byte& byte : src) byte = static_cast<std::byte>(random());
  for (const int bytes : {1, 2, 4, 8}) {
    for_each_kernel(bytes, [&](const ConversionKernel& kernel, Conversion conversion) {
      for (int64_t width = 0; width <= 70; ++width) {
        const RowBlock block{.src = src.data() + 1,
                             .dst = nullptr,
                             .rows = 3,
                             .width = width,
                             .src_pitch = width * kernel.src_bytes + 3,
                             .dst_pitch = width * kernel.dst_bytes + 5};
        std::vector<std::byte> expected(static_cast<size_t>(block.rows * block.dst_pitch),
                                        std::byte{0xA5});
        std::vector<std::byte> dst = expected;
        for (int64_t i = 0; i < block.rows * width; ++i) {
          const std::byte* from =
              block.src + i / width * block.src_pitch + i % width * kernel.src_bytes;
          std::byte* to =
              expected.data() + i / width * block.dst_pitch + i % width * kernel.dst_bytes;
          store_element(to, convert_one(conversion, load_element(from, kernel.src_bytes)),
                        kernel.dst_bytes);
        }
        RowBlock run = block;
        run.dst = dst.data();
        kernel.convert(run);
        CHECK(dst == expected);
      }
    });
  }
}

TEST("convert: transposes of every size") {
  for (const KernelSet* kernels : available_kernels()) {
    for (size_t log_bytes = 0; log_bytes < 4; ++log_bytes) {
      const int bytes = 1 << log_bytes;
      for (const int64_t rows : {1, 3, 8, 16, 17, 40}) {
        for (const int64_t columns : {1, 5, 16, 33}) {
          std::vector<std::byte> src(static_cast<size_t>(rows * columns * bytes));
          std::vector<std::byte> dst(src.size());
          for (size_t i = 0; i < src.size(); ++i) src[i] = static_cast<std::byte>(i * 37 + i / 256);
          kernels->transposes[log_bytes](
              {src.data(), dst.data(), rows, columns, columns * bytes, rows * bytes});
          for (int64_t row = 0; row < rows; ++row) {
            for (int64_t column = 0; column < columns; ++column) {
              CHECK_EQUAL(load_element(dst.data() + (column * rows + row) * bytes, bytes),
                          load_element(src.data() + (row * columns + column) * bytes, bytes));
            }
          }
        }
      }
    }
  }
}

TEST("convert: the capability limits the kernels in use") {
  const std::string_view best = available_kernels().back()->name;
  set_cpu_capability("default");
  CHECK(active_kernels().name == "default");
  set_cpu_capability("no such thing");
  CHECK(active_kernels().name == best);
  set_cpu_capability("");
  CHECK(active_kernels().name == best);
}

}  // namespace
}  // namespace spyre::emulator
