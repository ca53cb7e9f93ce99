// Compares the copy nests of layouts and views with the map of single offsets.
#include <algorithm>
#include <random>
#include <set>

#include "check.h"
#include "flex/copy_builder.h"
#include "flex/layout_check.h"

using namespace spyre;

namespace {

constexpr auto kFp16 = DataFormat::SEN169_FP16;
using Pairs = std::set<std::pair<int64_t, int64_t>>;

Sizes column(const CopyNest& nest, int64_t CopyLoop::* field) {
  Sizes values;
  for (const CopyLoop& loop : nest.loops) values.push_back(loop.*field);
  return values;
}

void expand(const CopyNest& nest, size_t loop, int64_t src, int64_t dst, Pairs& pairs) {
  if (loop == nest.loops.size()) {
    pairs.emplace(src, dst);
    return;
  }
  for (int64_t i = 0; i < nest.loops[loop].size; ++i) {
    expand(nest, loop + 1, src + i * nest.loops[loop].src_stride,
           dst + i * nest.loops[loop].dst_stride, pairs);
  }
}

Pairs pairs_of(const std::vector<CopyNest>& nests) {
  Pairs pairs;
  for (const CopyNest& nest : nests) expand(nest, 0, nest.src_offset, nest.dst_offset, pairs);
  return pairs;
}

Pairs zip(const std::vector<int64_t>& src, const std::vector<int64_t>& dst) {
  Pairs pairs;
  for (size_t i = 0; i < src.size(); ++i) pairs.emplace(src[i], dst[i]);
  return pairs;
}

Binding contiguous_binding(const Sizes& size, DataFormat format) {
  return {TensorLayout::of(size, format), size, contiguous_strides(size)};
}

}  // namespace

TEST("the nests of a ragged matrix are the published ones") {
  const Binding binding = contiguous_binding({512, 240}, kFp16);
  const auto nests = describe_to_device(binding, {{512, 240}, {240, 1}, 0});
  CHECK_EQUAL(nests.size(), size_t{2});
  CHECK(column(nests[0], &CopyLoop::size) == (Sizes{64, 512, 3}));
  CHECK(column(nests[1], &CopyLoop::size) == (Sizes{48, 512, 1}));
  CHECK(column(nests[0], &CopyLoop::src_stride) == (Sizes{1, 240, 64}));
  CHECK(column(nests[0], &CopyLoop::dst_stride) == (Sizes{1, 64, 32768}));
  CHECK_EQUAL(nests[1].src_offset, int64_t{192});
  CHECK_EQUAL(nests[1].dst_offset, int64_t{98304});
}

TEST("two ragged splits make four nests, coarse remainders first") {
  const Binding binding{
      TensorLayout::from_fields({3, 2, 14, 64}, {120, 64, 360, 1}, kFp16), {4800}, {1}};
  const auto nests = describe_to_device(binding, {{4800}, {1}, 0});
  CHECK_EQUAL(nests.size(), size_t{4});
  CHECK(column(nests[0], &CopyLoop::size) == (Sizes{64, 13, 1, 3}));
  CHECK(column(nests[3], &CopyLoop::size) == (Sizes{56, 1, 1, 1}));
  CHECK_EQUAL(nests[1].src_offset, int64_t{4680});
  CHECK_EQUAL(nests[2].dst_offset, int64_t{896});
}

TEST("random views of random layouts copy exactly their elements") {
  std::mt19937 random(7);
  const auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  for (int round = 0; round < 400; ++round) {
    Sizes size(pick(1, 4));
    for (int64_t& n : size) n = pick(0, 3) == 0 ? pick(60, 70) : pick(1, 5);
    Sizes order(size.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
    std::shuffle(order.begin(), order.end(), random);
    if (pick(0, 4) == 0) order.push_back(-1);
    const Sizes strides = contiguous_strides(size);
    const Binding binding{TensorLayout::of(size, strides, kFp16, order), size, strides};
    check_layout_holds(binding.layout, size, strides);

    // A slice with steps in every dim.
    HostView view{size, strides, 0};
    for (size_t i = 0; i < size.size(); ++i) {
      const int64_t start = pick(0, size[i] - 1), step = pick(1, 3);
      view.offset += start * strides[i];
      view.size[i] = (size[i] - start + step - 1) / step;
      view.strides[i] = strides[i] * step;
    }
    const HostView host{view.size, contiguous_strides(view.size), 0};
    const auto nests = build_to_device(host, {binding, view});
    CHECK(nests.has_value());
    CHECK(pairs_of(*nests) == zip(list_offsets(host), list_offsets(DeviceView{binding, view})));
    const auto back = build_to_host({binding, view}, host);
    CHECK(pairs_of(*back) == zip(list_offsets(DeviceView{binding, view}), list_offsets(host)));

    const Binding other = contiguous_binding(view.size, kFp16);
    const DeviceView target{other, {view.size, other.host_strides, 0}};
    const auto moved = build_on_device({binding, view}, target);
    CHECK(moved.has_value());
    CHECK(pairs_of(*moved) == zip(list_offsets(DeviceView{binding, view}), list_offsets(target)));
  }
}

TEST("strides without a common grid are split into many short nests") {
  const Binding binding = contiguous_binding({4, 6, 130}, kFp16);
  const HostView view{{40, 50}, {7, 11}, 2};
  const HostView host{{40, 50}, {50, 1}, 0};
  const auto nests = build_to_host({binding, view}, host);
  CHECK(nests.has_value());
  CHECK(pairs_of(*nests) == zip(list_offsets(DeviceView{binding, view}), list_offsets(host)));
}

TEST("steps that share no factor with the stick repeat after a few nests") {
  const Binding binding = contiguous_binding({200000}, kFp16);
  for (const int64_t step : {3, 5, 6, 63, 65, 96, 1000}) {
    const HostView view{{190000 / step}, {step}, 7};
    const HostView host{view.size, {1}, 0};
    const auto nests = build_to_host({binding, view}, host);
    CHECK(nests.has_value());
    CHECK(nests->size() <= 2 * static_cast<size_t>(step) + 4);
    CHECK(pairs_of(*nests) == zip(list_offsets(DeviceView{binding, view}), list_offsets(host)));
  }
  // With two dims, the sticks of a row are not contiguous.
  const Binding rows = contiguous_binding({2, 100000}, kFp16);
  const HostView view{{60000}, {3}, 0}, host{{60000}, {1}, 0};
  const auto nests = build_to_host({rows, view}, host);
  CHECK(nests->size() <= 16);
  CHECK(pairs_of(*nests) == zip(list_offsets(DeviceView{rows, view}), list_offsets(host)));
}

TEST("a contiguous tensor is copied in one nest for every step") {
  const Binding binding = contiguous_binding({200000}, kFp16);
  for (const int64_t step : {1, 2, 3, 65, 1000}) {
    const HostView view{{190000 / step}, {step}, 7}, host{{190000 / step}, {1}, 0};
    CHECK_EQUAL(build_to_host({binding, view}, host)->size(), size_t{1});
  }
}

TEST("steps that cross rows and sticks are split into few nests") {
  const Binding binding = contiguous_binding({300, 200}, kFp16);
  const HostView view{{300, 66}, {200, 3}, 1};
  const HostView host{{300, 66}, {66, 1}, 0};
  const auto rows = build_to_host({binding, view}, host);
  CHECK(rows->size() <= 8);
  CHECK(pairs_of(*rows) == zip(list_offsets(DeviceView{binding, view}), list_offsets(host)));
  const HostView flat{{19999}, {3}, 1};
  const auto nests = build_to_host({binding, flat}, {{19999}, {1}, 0});
  CHECK(nests->size() <= 64);
  CHECK(pairs_of(*nests) ==
        zip(list_offsets(DeviceView{binding, flat}), list_offsets(HostView{{19999}, {1}, 0})));
}

TEST("a view that needs too many nests is reported") {
  const Binding binding = contiguous_binding({400, 500}, kFp16);
  const HostView scattered{{500, 500}, {131, 97}, 0};
  CHECK(!build_to_host({binding, scattered}, {{500, 500}, {500, 1}, 0}).has_value());
}

TEST("elements outside the layout are rejected") {
  const TensorLayout layout = TensorLayout::of({4, 100}, {1000, 1}, kFp16, {0, 1});
  const Binding gapped{layout, {4, 100}, {1000, 1}};
  CHECK_THROWS(std::invalid_argument, build_to_host({gapped, {{600}, {1}, 0}}, {{600}, {1}, 0}));
  CHECK_THROWS(std::invalid_argument,
               check_layout_holds(TensorLayout::from_fields({1, 64}, {64, 1}, kFp16), {65}, {1}));
  CHECK_THROWS(std::invalid_argument,
               check_layout_holds(TensorLayout::from_fields({4, 64}, {128, 2}, kFp16), {10}, {1}));
}

TEST("staggered sticks follow the published maps") {
  const auto widened = TensorLayout::of({128}, DataFormat::IEEE_FP32)
                           .with_arrangement(ElementArrangement::DL16_TO_FP32);
  const OffsetMap wide(widened);
  CHECK_EQUAL(wide(37), int64_t{32 + 17});
  CHECK_EQUAL(wide(70), int64_t{3 * 32 + 2});
  CHECK_EQUAL(wide(63), int64_t{32 + 31});
  const auto narrowed =
      TensorLayout::of({64}, kFp16).with_arrangement(ElementArrangement::FP32_TO_DL16);
  const OffsetMap narrow(narrowed);
  CHECK_EQUAL(narrow(4), int64_t{8});
  CHECK_EQUAL(narrow(36), int64_t{12});
  CHECK_EQUAL(narrow(63), int64_t{63});
}

TEST("a replicated layout writes every copy and reads the first") {
  const Binding binding{TensorLayout::from_fields({1, 512, 64}, {64, 0, 1}, kFp16), {60}, {1}};
  const HostView view{{60}, {1}, 0};
  CHECK_EQUAL(pairs_of(*build_to_device(view, {binding, view})).size(), size_t{60 * 512});
  CHECK_EQUAL(pairs_of(*build_to_host({binding, view}, view)).size(), size_t{60});
}

TEST("an arrangement rejects sticks of another width") {
  const auto wide = DataFormat::IEEE_FP32;
  CHECK_THROWS(std::invalid_argument,
               TensorLayout::of({64}, kFp16).with_arrangement(ElementArrangement::DL16_TO_FP32));
  CHECK_THROWS(std::invalid_argument,
               TensorLayout::from_fields({1, 32}, {32, 1}, wide, ElementArrangement::FP32_TO_DL16));
  CHECK_THROWS(std::invalid_argument,
               TensorLayout::of({64}, {1}, wide, {0}, ElementArrangement::FP32_TO_DL16));
  CHECK_THROWS(std::invalid_argument,
               TensorLayout::pool(2).with_arrangement(ElementArrangement::FP32_TO_DL16));
}

TEST("strides of an arrangement that overflow are an error") {
  for (const int64_t step : {int64_t{1} << 56, int64_t{1} << 58, int64_t{1} << 62}) {
    const auto narrowed =
        TensorLayout::from_fields({1, 64}, {-1, step}, kFp16, ElementArrangement::FP32_TO_DL16);
    const auto widened = TensorLayout::from_fields({4, 32}, {step, step}, DataFormat::IEEE_FP32,
                                                   ElementArrangement::DL16_TO_FP32);
    if (step > int64_t{1} << 57) {
      CHECK_THROWS(std::overflow_error, OffsetMap(narrowed));
      CHECK_THROWS(std::overflow_error, OffsetMap(widened));
    } else {
      CHECK_EQUAL(OffsetMap(narrowed)(33 * step), int64_t{5});
    }
  }
}
