// Compares sorts of rows with a stable sort of single elements.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "check.h"
#include "emulator/engine/lanes.h"
#include "engine_fixture.h"

namespace spyre::emulator::engine {
namespace {

constexpr ElementType kKeyTypes[] = {ElementType::F16, ElementType::BF16,  ElementType::F32,
                                     ElementType::I8,  ElementType::I16,   ElementType::I32,
                                     ElementType::I1,  ElementType::F8E4M3};

struct Element {
  double key;
  int32_t index;
};

double key_at(TestCore& test, const Operand& operand, int64_t offset) {
  const std::byte* at = test.at(operand) + offset * bytes_of(operand.type);
  if (is_float(operand.type)) {
    float lane = 0;
    load_lanes(operand.type)(at, 1, &lane, 1);
    return lane;
  }
  int32_t lane = 0;
  load_lanes(operand.type)(at, 1, &lane, 1);
  return lane;
}

int32_t index_at(TestCore& test, const Operand& operand, int64_t offset) {
  int32_t index = 0;
  std::memcpy(&index, test.at(operand) + offset * 4, sizeof(index));
  return index;
}

bool is_before(const Element& a, const Element& b, bool descending) {
  const bool equal = a.key == b.key || (std::isnan(a.key) && std::isnan(b.key));
  if (equal) return a.index < b.index;
  const bool smaller = std::isnan(b.key) || a.key < b.key;
  return smaller != descending;
}

// A sort of rows whose elements are `stride` apart, with few distinct keys.
struct Case {
  Case(TestCore& test, ElementType type, int64_t rows, int64_t length, int64_t kept, int64_t stride,
       bool descending, uint32_t seed) {
    sort.extents = test.integers(std::vector<int64_t>{rows, length});
    sort.first = test.integer(0);
    sort.kept = test.integer(kept);
    sort.run = 1;
    sort.descending = descending;
    sort.keys = test.buffer(type, rows * length * stride, {length * stride, stride});
    sort.indices = test.buffer(ElementType::I32, rows * length, {length, 1});
    sort.sorted_keys = test.buffer(type, rows * kept, {1, rows});
    sort.sorted_indices = test.buffer(ElementType::I32, rows * kept, {kept, 1});
    test.fill(sort.keys, seed);
    for (int64_t i = 0; i < rows * length; ++i)
      set_index(test, i, static_cast<int32_t>(i % length));
  }

  void set_index(TestCore& test, int64_t at, int32_t index) const {
    std::memcpy(test.at(sort.indices) + at * 4, &index, sizeof(index));
  }
  void shuffle_indices(TestCore& test, int64_t rows, int64_t length, uint32_t seed) const {
    std::minstd_rand random(seed);
    for (int64_t row = 0; row < rows; ++row) {
      std::vector<int32_t> order(static_cast<size_t>(length));
      std::iota(order.begin(), order.end(), -length / 2);
      std::shuffle(order.begin(), order.end(), random);
      for (int64_t i = 0; i < length; ++i) set_index(test, row * length + i, order[i]);
    }
  }

  Sort sort;
};

std::vector<Element> row_of(TestCore& test, const Sort& sort, int64_t row, int64_t length) {
  std::vector<Element> elements;
  for (int64_t i = 0; i < length; ++i) {
    elements.push_back(
        {key_at(test, sort.keys, row * sort.keys.strides[0] + i * sort.keys.strides[1]),
         index_at(test, sort.indices, row * sort.indices.strides[0] + i)});
  }
  return elements;
}

void check_like_stable_sort(TestCore& test, const Sort& sort, const std::string& what) {
  const int64_t rows = test.core.integer(sort.extents[0]),
                length = test.core.integer(sort.extents[1]);
  const int64_t first = test.core.integer(sort.first), kept = test.core.integer(sort.kept);
  execute(sort, test.core);
  for (int64_t row = 0; row < rows; ++row) {
    std::vector<Element> expected = row_of(test, sort, row, length);
    std::ranges::stable_sort(expected, [&](const Element& a, const Element& b) {
      return is_before(a, b, sort.descending);
    });
    for (int64_t i = 0; i < kept; ++i) {
      const Element& element = expected[static_cast<size_t>(first + i)];
      const double key =
          key_at(test, sort.sorted_keys,
                 row * sort.sorted_keys.strides[0] + i * sort.sorted_keys.strides[1]);
      const int32_t index =
          index_at(test, sort.sorted_indices, row * sort.sorted_indices.strides[0] + i);
      const bool is_same = key == element.key || (std::isnan(key) && std::isnan(element.key));
      if (!is_same || index != element.index) check::fail(__FILE__, __LINE__, what);
    }
  }
}

TEST("rows of all types are sorted with their indices") {
  uint32_t seed = 0;
  for (const ElementType type : kKeyTypes) {
    for (const int64_t length : {1, 2, 63, 64, 129, 500}) {
      for (const bool descending : {false, true}) {
        TestCore test(1 << 20, ++seed);
        const Case all(test, type, 3, length, length, 1 + seed % 3, descending, seed);
        const std::string what = "seed " + std::to_string(seed);
        check_like_stable_sort(test, all.sort, what);
        all.shuffle_indices(test, 3, length, seed);
        check_like_stable_sort(test, all.sort, what + ", any indices");
        const Case some(test, type, 2, length, 1 + length / 7, 1, descending, seed);
        check_like_stable_sort(test, some.sort, what + ", some");
        some.shuffle_indices(test, 2, length, seed);
        check_like_stable_sort(test, some.sort, what + ", some of any indices");
      }
    }
  }
}

TEST("the first elements are found in any order of the keys") {
  for (const int step : {1, -1, 7}) {
    TestCore test(1 << 20);
    const Case sorted(test, ElementType::F32, 1, 10000, 40, 1, false, 3);
    for (int64_t i = 0; i < 10000; ++i) {
      const auto value = static_cast<float>((i * step + 10000) % 10007);
      std::memcpy(test.at(sorted.sort.keys) + i * 4, &value, sizeof(value));
    }
    check_like_stable_sort(test, sorted.sort, "step " + std::to_string(step));
  }
}

TEST("zeros are equal, and a NaN is larger than infinity") {
  for (const bool descending : {false, true}) {
    TestCore test(1 << 16);
    const Case special(test, ElementType::F32, 1, 8, 8, 1, descending, 1);
    const float infinity = std::numeric_limits<float>::infinity();
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const float values[] = {nan, -0.0f, infinity, 0.0f, -nan, -infinity, -0.0f, 1e-40f};
    std::memcpy(test.at(special.sort.keys), values, sizeof(values));
    check_like_stable_sort(test, special.sort, "special values");
    // Keys keep their bits.
    float sorted[8];
    std::memcpy(sorted, test.at(special.sort.sorted_keys), sizeof(sorted));
    CHECK_EQUAL(std::signbit(sorted[descending ? 4 : 1]), true);
    CHECK_EQUAL(std::signbit(sorted[descending ? 5 : 2]), false);
  }
}

TEST("sorted runs are merged, and either half can be kept") {
  for (const int64_t run : {2, 5, 64, 100}) {
    for (const bool is_last : {false, true}) {
      TestCore test(1 << 20);
      Case halves(test, ElementType::F16, 4, 2 * run, run, 1, run % 2 == 1, 9);
      halves.shuffle_indices(test, 4, 2 * run, 5);
      halves.sort.run = run;
      halves.sort.first = test.integer(is_last ? run : 0);
      // Sort the runs first.
      Sort runs = halves.sort;
      runs.extents = test.integers(std::vector<int64_t>{8, run});
      runs.first = test.integer(0);
      runs.kept = test.integer(run);
      runs.run = 1;
      runs.keys.strides = runs.indices.strides = {run, 1};
      runs.sorted_keys = test.buffer(ElementType::F16, 8 * run, {run, 1});
      runs.sorted_indices = test.buffer(ElementType::I32, 8 * run, {run, 1});
      execute(runs, test.core);
      halves.sort.keys = runs.sorted_keys;
      halves.sort.indices = runs.sorted_indices;
      halves.sort.keys.strides = halves.sort.indices.strides = {2 * run, 1};
      check_like_stable_sort(test, halves.sort, "runs of " + std::to_string(run));
    }
  }
}

TEST("elements that a network does not select are refused") {
  TestCore test(1 << 16);
  Case sorted(test, ElementType::F16, 1, 16, 4, 1, false, 1);
  for (const auto& [first, kept] : {std::pair{0, 17}, {0, -1}, {12, 4}, {4, 8}, {-1, 4}, {9, 8}}) {
    sorted.sort.first = test.integer(first);
    sorted.sort.kept = test.integer(kept);
    CHECK_THROWS(KernelError, execute(sorted.sort, test.core));
  }
  sorted.sort.first = test.integer(0);
  sorted.sort.kept = test.integer(0);
  execute(sorted.sort, test.core);
}

}  // namespace
}  // namespace spyre::emulator::engine
