// Tests of the checks of sizes, strides and offsets, and of layouts for them.
#include <cstdint>
#include <stdexcept>

#include "check.h"
#include "flex/layout_check.h"

using namespace spyre;

namespace {

constexpr auto kFp16 = DataFormat::SEN169_FP16;
constexpr int64_t kLargest = INT64_MAX;

}  // namespace

TEST("a geometry needs as many strides as sizes, and none may be negative") {
  check_geometry({}, {});
  check_geometry({2, 0, 3}, {3, 3, 1}, 5);
  CHECK_THROWS(std::invalid_argument, check_geometry({2, 3}, {1}));
  CHECK_THROWS(std::invalid_argument, check_geometry({2}, {3, 1}));
  CHECK_THROWS(std::invalid_argument, check_geometry({-1}, {1}));
  CHECK_THROWS(std::invalid_argument, check_geometry({0, -1}, {1, 1}));
  CHECK_THROWS(std::invalid_argument, check_geometry({2}, {-1}));
  CHECK_THROWS(std::invalid_argument, check_geometry({2}, {1}, -1));
}

TEST("a geometry beyond the address space is an error") {
  check_geometry({int64_t{1} << 59}, {2});
  CHECK_THROWS(std::overflow_error, check_geometry({int64_t{1} << 61}, {1}));
  CHECK_THROWS(std::overflow_error, check_geometry({2}, {kLargest}));
  CHECK_THROWS(std::overflow_error, check_geometry({1}, {1}, kLargest));
  CHECK_THROWS(std::overflow_error, check_geometry({int64_t{1} << 40, int64_t{1} << 40}, {0, 0}));
  // There are no elements: the strides do not matter.
  check_geometry({int64_t{1} << 40, 0}, {int64_t{1} << 40, 1});
}

TEST("sizes that overflow are an error") {
  CHECK_THROWS(std::overflow_error, TensorLayout::of({int64_t{1} << 40, int64_t{1} << 40}, kFp16));
  CHECK_THROWS(std::overflow_error, host_extent({int64_t{1} << 40}, {int64_t{1} << 40}));
  CHECK_THROWS(std::overflow_error, host_extent({2}, {kLargest}));
  CHECK_EQUAL(host_extent({int64_t{1} << 40, 0}, {int64_t{1} << 40, 1}), int64_t{0});
}

TEST("layouts reject invalid geometries") {
  CHECK_THROWS(std::invalid_argument, TensorLayout::of({4, 4}, {-4, 1}, kFp16, {0, 1}));
  CHECK_THROWS(std::invalid_argument, TensorLayout::of({4, 4}, {1}, kFp16, {0, 1}));
  CHECK_THROWS(std::invalid_argument,
               check_layout_holds(TensorLayout::of({4, 4}, kFp16), {4, 4}, {4}));
}

TEST("a huge view is checked against a huge layout without visiting its elements") {
  const int64_t many = int64_t{1} << 40;
  const TensorLayout line = TensorLayout::of({3 * many}, kFp16);
  check_layout_holds(line, {many}, {3});
  check_layout_holds(line, {many, 1 << 20}, {1, 1});
  check_layout_holds(line, {many, 64}, {0, 1}, 17);
  CHECK_THROWS(std::invalid_argument, check_layout_holds(line, {many + 64}, {3}));
  CHECK_THROWS(std::invalid_argument, check_layout_holds(line, {many}, {3}, 66));
  // Rows padded from 100 to 128 elements: the elements between them have no device offset.
  const TensorLayout padded = TensorLayout::from_fields({2, many, 64}, {64, 100, 1}, kFp16);
  check_layout_holds(padded, {many / 7, 100}, {700, 1});
  check_layout_holds(padded, {many}, {3});
  const TensorLayout gapped = TensorLayout::from_fields({1, many, 64}, {64, 100, 1}, kFp16);
  CHECK_THROWS(std::invalid_argument, check_layout_holds(gapped, {many}, {3}));
  check_layout_holds(gapped, {many, 64}, {100, 1});
  const TensorLayout even = TensorLayout::from_fields({many, 64}, {128, 2}, kFp16);
  check_layout_holds(even, {many}, {6});
  CHECK_THROWS(std::invalid_argument, check_layout_holds(even, {many}, {3}));
}

TEST("a staggered layout without half of its sticks holds only the other half") {
  const auto one_stick =
      TensorLayout::of({32}, {1}, DataFormat::IEEE_FP32, {0}, ElementArrangement::DL16_TO_FP32);
  CHECK_THROWS(std::invalid_argument, check_layout_holds(one_stick, {32}, {1}));
  check_layout_holds(one_stick, {4}, {1});
  const auto unknown =
      TensorLayout::of({32}, {1}, DataFormat::IEEE_FP32, {0}, ElementArrangement::EXX2);
  check_layout_holds(unknown, {32}, {1});
}

TEST("an irregular view is checked element by element, and one too large for that is rejected") {
  // 130 is not a multiple of 64, so that every element between rows must be visited.
  const TensorLayout ragged = TensorLayout::from_fields({3, 1000, 64}, {64, 130, 1}, kFp16);
  check_layout_holds(ragged, {200, 300}, {131, 97});
  const TensorLayout large =
      TensorLayout::from_fields({3, int64_t{1} << 30, 64}, {64, 130, 1}, kFp16);
  CHECK_THROWS(std::invalid_argument,
               check_layout_holds(large, {1 << 20, 1 << 20}, {131071, 65537}));
}
