// Compares copies with a loop over every index tuple. Destinations are filled with a pattern, to
// detect bytes that are written by mistake.
#include <algorithm>
#include <array>
#include <random>
#include <stdexcept>
#include <vector>

#include "check.h"
#include "emulator/dma.h"
#include "emulator/thread_pool.h"
#include "scalar_conversion.h"

namespace spyre::emulator {
namespace {

using Bytes = std::vector<std::byte>;
using F = DataFormat;

struct Pair {
  F src;
  F dst;
  Conversion conversion;
};

const Pair kPairs[] = {
    {F::IEEE_FP16, F::SEN169_FP16, Conversion::FP16_TO_SEN169},
    {F::BFLOAT16, F::SEN169_FP16, Conversion::BF16_TO_SEN169},
    {F::IEEE_FP32, F::SEN169_FP16, Conversion::FP32_TO_SEN169},
    {F::BOOL, F::SEN169_FP16, Conversion::BOOL_TO_SEN169},
    {F::SEN169_FP16, F::IEEE_FP16, Conversion::SEN169_TO_FP16},
    {F::SEN169_FP16, F::BFLOAT16, Conversion::SEN169_TO_BF16},
    {F::SEN169_FP16, F::IEEE_FP32, Conversion::SEN169_TO_FP32},
    {F::SEN169_FP16, F::BOOL, Conversion::FLOAT16_TO_BOOL},
    {F::IEEE_FP16, F::IEEE_FP32, Conversion::FP16_TO_FP32},
    {F::BFLOAT16, F::IEEE_FP32, Conversion::BF16_TO_FP32},
    {F::IEEE_FP32, F::IEEE_FP16, Conversion::FP32_TO_FP16},
    {F::IEEE_FP32, F::BFLOAT16, Conversion::FP32_TO_BF16},
    {F::IEEE_INT64, F::IEEE_INT32, Conversion::INT64_TO_INT32},
    {F::IEEE_INT32, F::IEEE_INT64, Conversion::INT32_TO_INT64},
    {F::HOST_UINT8, F::SENUINT32, Conversion::UINT8_TO_UINT32},
    {F::SENUINT32, F::HOST_UINT8, Conversion::UINT32_TO_UINT8},
    {F::SENINT8, F::SENINT8, Conversion::COPY_8},
    {F::SEN169_FP16, F::SEN169_FP16, Conversion::COPY_16},
    {F::IEEE_FP32, F::IEEE_FP32, Conversion::COPY_32},
    {F::IEEE_INT64, F::IEEE_INT64, Conversion::COPY_64},
};

int bytes_of(F format) { return bits_per_element(format) / 8; }

Bytes random_bytes(size_t count, std::mt19937_64& random) {
  Bytes bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

// Returns the number of elements from the offset to the last accessed one.
size_t extent(const CopyNest& nest, int64_t CopyLoop::* stride, int64_t offset) {
  for (const CopyLoop& loop : nest.loops) offset += (loop.size - 1) * loop.*stride;
  return static_cast<size_t>(offset + 1);
}

void copy_plainly(const Pair& pair, const CopyNest& nest, size_t depth, int64_t src_offset,
                  int64_t dst_offset, const Bytes& src, Bytes& dst) {
  if (depth == 0) {
    const int src_bytes = bytes_of(pair.src);
    const int dst_bytes = bytes_of(pair.dst);
    const uint64_t value = load_element(src.data() + src_offset * src_bytes, src_bytes);
    store_element(dst.data() + dst_offset * dst_bytes, convert_one(pair.conversion, value),
                  dst_bytes);
    return;
  }
  const CopyLoop& loop = nest.loops[depth - 1];
  for (int64_t i = 0; i < loop.size; ++i) {
    copy_plainly(pair, nest, depth - 1, src_offset + i * loop.src_stride,
                 dst_offset + i * loop.dst_stride, src, dst);
  }
}

// Runs the nest on one and on four threads.
void check_copy(const Pair& pair, const CopyNest& nest, std::mt19937_64& random) {
  const size_t src_size = extent(nest, &CopyLoop::src_stride, nest.src_offset);
  const size_t dst_size = extent(nest, &CopyLoop::dst_stride, nest.dst_offset) + 3;
  const Bytes src = random_bytes(src_size * static_cast<size_t>(bytes_of(pair.src)), random);
  const Bytes before = random_bytes(dst_size * static_cast<size_t>(bytes_of(pair.dst)), random);
  Bytes expected = before;
  copy_plainly(pair, nest, nest.loops.size(), nest.src_offset, nest.dst_offset, src, expected);
  for (const int threads : {1, 4}) {
    set_host_threads(threads);
    Bytes dst = before;
    execute_copy({pair.src, pair.dst, {nest}}, src.data(), dst.data());
    CHECK(dst == expected);
  }
}

// Returns strides that give every index tuple its own offset, in a random order of the loops.
void set_strides(CopyNest& nest, int64_t CopyLoop::* stride, std::mt19937_64& random) {
  std::vector<size_t> order(nest.loops.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  if (random() % 3 != 0) std::shuffle(order.begin(), order.end(), random);
  int64_t next = random() % 4 == 0 ? 2 : 1;
  for (const size_t i : order) {
    nest.loops[i].*stride = next;
    next *= nest.loops[i].size;
    if (random() % 3 == 0) next += static_cast<int64_t>(random() % 5);
  }
}

CopyNest random_nest(std::mt19937_64& random, int64_t largest_loop) {
  CopyNest nest;
  nest.loops.resize(random() % 5);
  for (CopyLoop& loop : nest.loops) {
    const int64_t sticks[] = {1, 32, 64, largest_loop};
    const int64_t odd = 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(largest_loop));
    loop.size = random() % 3 == 0 ? sticks[random() % 4] : odd;
    if (nest.loops.size() > 3) loop.size = 1 + loop.size % 9;
  }
  set_strides(nest, &CopyLoop::src_stride, random);
  set_strides(nest, &CopyLoop::dst_stride, random);
  for (CopyLoop& loop : nest.loops) {
    if (random() % 6 == 0) loop.src_stride = 0;
  }
  nest.src_offset = static_cast<int64_t>(random() % 7);
  nest.dst_offset = static_cast<int64_t>(random() % 7);
  return nest;
}

TEST("dma: random nests of every pair of formats") {
  std::mt19937_64 random(20240607);
  for (int round = 0; round < 60; ++round) {
    for (const Pair& pair : kPairs) check_copy(pair, random_nest(random, 20), random);
  }
}

TEST("dma: larger random nests on several threads") {
  std::mt19937_64 random(42);
  for (int round = 0; round < 4; ++round) {
    for (const Pair& pair : kPairs) {
      CopyNest nest = random_nest(random, 60);
      nest.loops.push_back({.size = 60, .src_stride = 0, .dst_stride = 0});
      nest.loops.push_back({.size = 70, .src_stride = 0, .dst_stride = 0});
      nest.loops.resize(std::min<size_t>(nest.loops.size(), 3));
      set_strides(nest, &CopyLoop::src_stride, random);
      set_strides(nest, &CopyLoop::dst_stride, random);
      check_copy(pair, nest, random);
    }
  }
}

TEST("dma: contiguous copies of lengths around the tile size") {
  std::mt19937_64 random(1);
  for (const Pair& pair : kPairs) {
    for (const int64_t length : {1, 63, 64, 16383, 16385, 300001}) {
      check_copy(pair, {{{length, 1, 1}}, 3, 1}, random);
    }
    check_copy(pair, {{{64, 1, 1}, {4099, 64, 64}}, 0, 0}, random);
  }
}

TEST("dma: rows split into sticks, and back") {
  std::mt19937_64 random(2);
  const int64_t rows = 37;
  const int64_t sticks = 130;
  for (const Pair& pair : kPairs) {
    const CopyNest there{{{64, 1, 1}, {sticks, 64, 64 * rows}, {rows, 64 * sticks, 64}}, 0, 0};
    const CopyNest back{{{64, 1, 1}, {sticks, 64 * rows, 64}, {rows, 64, 64 * sticks}}, 0, 0};
    check_copy(pair, there, random);
    check_copy(pair, back, random);
  }
}

TEST("dma: transposes") {
  std::mt19937_64 random(3);
  for (const Pair& pair : kPairs) {
    for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{1, 500},
                                        {3, 1000},
                                        {1000, 3},
                                        {64, 64},
                                        {130, 257},
                                        {700, 601}}) {
      check_copy(pair, {{{rows, 1, columns}, {columns, rows, 1}}, 0, 0}, random);
      check_copy(pair, {{{rows, 2, columns + 3}, {columns, 2 * rows, 1}}, 1, 2}, random);
      check_copy(pair, {{{rows, 1, 2 * columns}, {columns, rows, 2}}, 1, 2}, random);
    }
  }
}

TEST("dma: fills") {
  std::mt19937_64 random(4);
  for (const Pair& pair : kPairs) {
    check_copy(pair, {{{5, 0, 1}}, 2, 1}, random);
    check_copy(pair, {{{300000, 0, 1}}, 2, 1}, random);
    check_copy(pair, {{{64, 0, 1}, {5000, 1, 64}}, 0, 0}, random);
    check_copy(pair, {{{64, 0, 3}, {900, 2, 200}}, 0, 0}, random);
    check_copy(pair, {{{64, 1, 1}, {500, 0, 64}}, 0, 0}, random);
  }
}

TEST("dma: empty nests and loops of size zero write nothing; no loops mean one element") {
  const uint16_t src[] = {0x3C00, 0x4000};
  uint16_t dst[] = {1, 2, 3};
  execute_copy({F::IEEE_FP16, F::SEN169_FP16, {}}, src, dst);
  execute_copy({F::IEEE_FP16, F::SEN169_FP16, {{{{2, 1, 1}, {0, 2, 2}}, 0, 0}}}, src, dst);
  CHECK(dst[0] == 1 && dst[1] == 2 && dst[2] == 3);
  execute_copy({F::IEEE_FP16, F::SEN169_FP16, {{{}, 1, 1}}}, src, dst);
  CHECK(dst[0] == 1 && dst[1] == 0x4000 && dst[2] == 3);
}

TEST("dma: nests run in order, and a loop of stride 0 writes its last element") {
  const uint16_t src[] = {10, 11, 12, 13};
  uint16_t dst[] = {0, 0, 0};
  const CopyNest spread{{{3, 0, 1}}, 0, 0};
  const CopyNest last{{{4, 1, 0}}, 0, 1};
  execute_copy({F::SENINT16, F::SENINT16, {spread, last}}, src, dst);
  CHECK(dst[0] == 10 && dst[1] == 13 && dst[2] == 10);
}

TEST("dma: int64 values outside 32 bits are counted and stored modulo 2^32") {
  for (const int64_t count : {int64_t{10}, int64_t{100000}}) {
    std::vector<int64_t> src(static_cast<size_t>(count), -5);
    src[3] = int64_t{1} << 31;
    src[4] = INT32_MIN;
    src.back() = -(int64_t{1} << 40) + 7;
    std::vector<int32_t> dst(src.size());
    const CopyDescriptor copy{F::IEEE_INT64, F::IEEE_INT32, {{{{count, 1, 1}}, 0, 0}}};
    CHECK_EQUAL(execute_copy(copy, src.data(), dst.data()).narrowed_out_of_range, 2u);
    CHECK(dst[0] == -5 && dst[3] == INT32_MIN && dst[4] == INT32_MIN && dst.back() == 7);
    const CopyDescriptor fill{F::IEEE_INT64, F::IEEE_INT32, {{{{count, 0, 1}}, 3, 0}}};
    CHECK_EQUAL(execute_copy(fill, src.data(), dst.data()).narrowed_out_of_range,
                static_cast<uint64_t>(count));
  }
}

TEST("dma: elements smaller than a byte are copied in whole bytes only") {
  const uint8_t src[] = {1, 2, 3, 4, 5, 6, 7, 8};
  uint8_t dst[8] = {};
  CHECK(can_convert(F::SENINT4, F::SENINT4));
  execute_copy({F::SENINT4, F::SENINT4, {{{{4, 1, 1}, {2, 8, 4}}, 2, 0}}}, src, dst);
  CHECK(dst[0] == 2 && dst[1] == 3 && dst[2] == 6 && dst[3] == 7 && dst[4] == 0);
  execute_copy({F::SENUINT2, F::SENUINT2, {{{{4, 1, 1}, {2, 4, 4}}, 0, 24}}}, src, dst);
  CHECK(dst[5] == 0 && dst[6] == 1 && dst[7] == 2);
  const auto rejected = [&](const CopyNest& nest) {
    CHECK_THROWS(std::invalid_argument, execute_copy({F::SENINT4, F::SENINT4, {nest}}, src, dst));
  };
  rejected({{{3, 1, 1}}, 0, 0});
  rejected({{{4, 1, 1}}, 1, 0});
  rejected({{{4, 2, 1}}, 0, 0});
  rejected({{{4, 1, 1}, {2, 5, 4}}, 0, 0});
  rejected({{}, 0, 0});
  const int64_t offset = 0;
  CHECK_THROWS(std::invalid_argument,
               copy_elements(F::SENINT4, F::SENINT4, src, dst, &offset, &offset, 1));
}

TEST("dma: elements of 128 bits are copied with any strides") {
  std::mt19937_64 random(7);
  using Element = std::array<uint64_t, 2>;
  CHECK(can_convert(F::RAW128, F::RAW128));
  CHECK(!can_convert(F::RAW128, F::RAW64));
  std::vector<Element> src(400);
  for (Element& element : src) element = {random(), random()};
  const CopyNest nests[] = {
      {{}, 3, 5},                             // one element
      {{{300, 1, 1}}, 7, 2},                  // contiguous
      {{{17, 1, 9}, {9, 17, 1}}, 0, 0},       // a transpose
      {{{11, 3, 2}, {7, 40, 30}}, 1, 4},      // gaps on both sides
      {{{8, 0, 1}, {6, 5, 8}}, 2, 1},         // a broadcast
      {{{10, -2, 3}, {4, 30, 31}}, 200, 10},  // backwards
  };
  for (const CopyNest& nest : nests) {
    const std::vector<Element> before(400, Element{1, 2});
    std::vector<Element> dst = before, expected = before;
    std::vector<int64_t> from{nest.src_offset}, to{nest.dst_offset};
    for (const CopyLoop& loop : nest.loops) {
      const size_t count = from.size();
      for (int64_t i = 1; i < loop.size; ++i) {
        for (size_t j = 0; j < count; ++j) {
          from.push_back(from[j] + i * loop.src_stride);
          to.push_back(to[j] + i * loop.dst_stride);
        }
      }
    }
    for (size_t i = 0; i < from.size(); ++i) {
      expected.at(static_cast<size_t>(to[i])) = src.at(static_cast<size_t>(from[i]));
    }
    execute_copy({F::RAW128, F::RAW128, {nest}}, src.data(), dst.data());
    CHECK(dst == expected);
    dst = before;
    copy_elements(F::RAW128, F::RAW128, src.data(), dst.data(), from.data(), to.data(),
                  from.size());
    CHECK(dst == expected);
  }
}

TEST("dma: unsupported conversions are rejected") {
  CHECK(!can_convert(F::SENINT8, F::SEN169_FP16));
  CHECK(!can_convert(F::IEEE_FP16, F::BFLOAT16));
  CHECK(!can_convert(F::INVALID, F::INVALID));
  CHECK(!can_convert(F::SEN153_FP9, F::SEN153_FP9));
  CHECK(!can_convert(F::SENINT4, F::SENINT8));
  for (const Pair& pair : kPairs) CHECK(can_convert(pair.src, pair.dst));
  uint64_t buffer[2] = {};
  CHECK_THROWS(std::invalid_argument,
               execute_copy({F::SENINT8, F::IEEE_FP32, {}}, buffer, buffer + 1));
}

TEST("dma: with IEEE binary16 in device memory") {
  set_ieee_fp16(true);
  std::mt19937_64 random(5);
  const CopyNest nest{{{64, 1, 1}, {1025, 64, 64}}, 0, 0};
  for (const Pair& pair : {Pair{F::IEEE_FP16, F::SEN169_FP16, Conversion::COPY_16},
                           Pair{F::SEN169_FP16, F::IEEE_FP16, Conversion::COPY_16},
                           Pair{F::IEEE_FP32, F::SEN169_FP16, Conversion::FP32_TO_FP16},
                           Pair{F::SEN169_FP16, F::IEEE_FP32, Conversion::FP16_TO_FP32},
                           Pair{F::BFLOAT16, F::SEN169_FP16, Conversion::BF16_TO_FP16},
                           Pair{F::SEN169_FP16, F::BFLOAT16, Conversion::FP16_TO_BF16},
                           Pair{F::BOOL, F::SEN169_FP16, Conversion::BOOL_TO_FP16},
                           Pair{F::SEN169_FP16, F::BOOL, Conversion::FLOAT16_TO_BOOL}}) {
    check_copy(pair, nest, random);
  }
  set_ieee_fp16(false);
}

TEST("dma: listed elements") {
  std::mt19937_64 random(6);
  for (const size_t count : {size_t{0}, size_t{100}, size_t{200000}}) {
    for (const Pair& pair : kPairs) {
      const Bytes src = random_bytes((count + 1) * static_cast<size_t>(bytes_of(pair.src)), random);
      Bytes dst((2 * count + 1) * static_cast<size_t>(bytes_of(pair.dst)), std::byte{0x5A});
      Bytes expected = dst;
      std::vector<int64_t> from(count);
      std::vector<int64_t> to(count);
      for (size_t i = 0; i < count; ++i) {
        from[i] = static_cast<int64_t>(random() % count);
        to[i] = static_cast<int64_t>(2 * (count - 1 - i));
        const CopyNest single{{}, from[i], to[i]};
        copy_plainly(pair, single, 0, from[i], to[i], src, expected);
      }
      copy_elements(pair.src, pair.dst, src.data(), dst.data(), from.data(), to.data(), count);
      CHECK(dst == expected);
    }
  }
}

}  // namespace
}  // namespace spyre::emulator
