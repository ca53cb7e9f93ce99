// The data formats of a card and the arrangements of elements in sticks. Layouts, saved files and
// generated code rely on their numeric values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace spyre {

inline constexpr int64_t kBytesInStick = 128;

// The table of data formats: name, value, bits of one element in memory, and whether device memory
// can hold the format in sticks. Accumulator formats have no published memory form (0 bits).
// From 100 on they are our own, not the card's: HOST_UINT8 is the host format of torch.uint8, whose
// device format is SENUINT32. The RAW formats are the bits of dtypes that the card only stores.
#define SPYRE_DATA_FORMATS(FORMAT)  \
  FORMAT(SEN169_FP16, 0, 16, true)  \
  FORMAT(IEEE_FP32, 1, 32, true)    \
  FORMAT(INVALID, 2, 0, false)      \
  FORMAT(SEN143_FP8, 3, 8, true)    \
  FORMAT(SEN152_FP8, 4, 8, true)    \
  FORMAT(SEN153_FP9, 5, 0, false)   \
  FORMAT(SENINT2, 6, 2, true)       \
  FORMAT(SENINT4, 7, 4, true)       \
  FORMAT(SENINT8, 8, 8, true)       \
  FORMAT(SENINT16, 9, 16, true)     \
  FORMAT(SENINT24, 10, 0, false)    \
  FORMAT(IEEE_INT64, 11, 64, true)  \
  FORMAT(IEEE_INT32, 12, 32, true)  \
  FORMAT(SENUINT32, 13, 32, true)   \
  FORMAT(SENUINT2, 14, 2, true)     \
  FORMAT(IEEE_FP16, 15, 16, true)   \
  FORMAT(BOOL, 16, 8, false)        \
  FORMAT(BFLOAT16, 17, 16, true)    \
  FORMAT(SEN18F_FP24, 18, 0, false) \
  FORMAT(HOST_UINT8, 100, 8, false) \
  FORMAT(RAW8, 101, 8, true)        \
  FORMAT(RAW16, 102, 16, true)      \
  FORMAT(RAW32, 103, 32, true)      \
  FORMAT(RAW64, 104, 64, true)      \
  FORMAT(RAW128, 105, 128, true)

// The table of element arrangements, the orders of elements inside sticks (see docs/layouts.md):
// name, value, and whether the order is published. Only kernels can use the others.
#define SPYRE_ELEMENT_ARRANGEMENTS(ARRANGEMENT) \
  ARRANGEMENT(STANDARD, 0, true)                \
  ARRANGEMENT(DL16_TO_FP32, 1, true)            \
  ARRANGEMENT(QFP8CH, 2, false)                 \
  ARRANGEMENT(EXX2, 3, false)                   \
  ARRANGEMENT(FP32_TO_DL16, 4, true)            \
  ARRANGEMENT(QFP8WT, 5, false)

#define SPYRE_ENUMERATOR(name, value, ...) name = value,
enum class DataFormat : int32_t { SPYRE_DATA_FORMATS(SPYRE_ENUMERATOR) };
enum class ElementArrangement : int32_t { SPYRE_ELEMENT_ARRANGEMENTS(SPYRE_ENUMERATOR) };
#undef SPYRE_ENUMERATOR

// The number of formats of the card and its files: their values are 0 to kDataFormatCount - 1.
#define SPYRE_COUNT(name, value, bits, in_sticks) +(value < 100)
inline constexpr int kDataFormatCount = SPYRE_DATA_FORMATS(SPYRE_COUNT);
#undef SPYRE_COUNT

// Returns whether the order of elements is published.
constexpr bool has_known_order(ElementArrangement arrangement) {
  switch (arrangement) {
#define SPYRE_CASE(name, value, is_published) \
  case ElementArrangement::name:              \
    return is_published;
    SPYRE_ELEMENT_ARRANGEMENTS(SPYRE_CASE)
#undef SPYRE_CASE
  }
  return false;
}

// Returns the bits of one element in memory; 0 for a format without a memory form.
constexpr int bits_per_element(DataFormat format) {
  switch (format) {
#define SPYRE_CASE(name, value, bits, in_sticks) \
  case DataFormat::name:                         \
    return bits;
    SPYRE_DATA_FORMATS(SPYRE_CASE)
#undef SPYRE_CASE
  }
  return 0;
}

// Returns the elements of a 128-byte stick; 0 for a format that device memory cannot hold.
constexpr int64_t elems_per_stick(DataFormat format) {
  switch (format) {
#define SPYRE_CASE(name, value, bits, in_sticks) \
  case DataFormat::name:                         \
    return in_sticks ? kBytesInStick * 8 / (bits == 0 ? 1 : bits) : 0;
    SPYRE_DATA_FORMATS(SPYRE_CASE)
#undef SPYRE_CASE
  }
  return 0;
}

// Returns whether the format is the bits of a dtype that the card only stores.
constexpr bool is_raw(DataFormat format) {
  return format >= DataFormat::RAW8 && format <= DataFormat::RAW128;
}

// A process-wide switch: while it is on, memory of format SEN169_FP16 holds IEEE binary16.
void set_ieee_fp16(bool enabled);
bool ieee_fp16();

std::string_view name_of(DataFormat format);
std::string_view name_of(ElementArrangement arrangement);

}  // namespace spyre
