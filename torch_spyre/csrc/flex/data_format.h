// The number formats of a card, with the numeric values that layouts, saved files and
// generated code rely on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace spyre {

inline constexpr int64_t kBytesInStick = 128;

enum class DataFormat : int32_t {
  SEN169_FP16 = 0,
  IEEE_FP32 = 1,
  INVALID = 2,
  SEN143_FP8 = 3,
  SEN152_FP8 = 4,
  SEN153_FP9 = 5,
  SENINT2 = 6,
  SENINT4 = 7,
  SENINT8 = 8,
  SENINT16 = 9,
  SENINT24 = 10,
  IEEE_INT64 = 11,
  IEEE_INT32 = 12,
  SENUINT32 = 13,
  SENUINT2 = 14,
  IEEE_FP16 = 15,
  BOOL = 16,
  BFLOAT16 = 17,
  SEN18F_FP24 = 18,
  // Only in this process: the host byte of torch.uint8, whose device format is SENUINT32.
  HOST_UINT8 = 100,
};

// The formats of the card and its files: values 0 to 18.
inline constexpr int kDataFormatCount = 19;

// The order of elements inside sticks; see docs/layouts.md.
enum class ElementArrangement : int32_t {
  STANDARD = 0,
  DL16_TO_FP32 = 1,
  QFP8CH = 2,
  EXX2 = 3,
  FP32_TO_DL16 = 4,
  QFP8WT = 5,
};

// Whether it is published where the elements lie: without, only kernels can use the arrangement.
constexpr bool has_known_order(ElementArrangement arrangement) {
  return arrangement == ElementArrangement::STANDARD ||
         arrangement == ElementArrangement::DL16_TO_FP32 ||
         arrangement == ElementArrangement::FP32_TO_DL16;
}

// Bits that one element takes in memory.
constexpr int bits_per_element(DataFormat format) {
  switch (format) {
    case DataFormat::SENINT2:
    case DataFormat::SENUINT2:
      return 2;
    case DataFormat::SENINT4:
      return 4;
    case DataFormat::SEN143_FP8:
    case DataFormat::SEN152_FP8:
    case DataFormat::SENINT8:
    case DataFormat::BOOL:
    case DataFormat::HOST_UINT8:
      return 8;
    case DataFormat::SEN169_FP16:
    case DataFormat::SENINT16:
    case DataFormat::IEEE_FP16:
    case DataFormat::BFLOAT16:
      return 16;
    case DataFormat::IEEE_FP32:
    case DataFormat::IEEE_INT32:
    case DataFormat::SENUINT32:
      return 32;
    case DataFormat::IEEE_INT64:
      return 64;
    // Accumulator formats have no published memory form.
    case DataFormat::SEN153_FP9:
    case DataFormat::SENINT24:
    case DataFormat::SEN18F_FP24:
    case DataFormat::INVALID:
      return 0;
  }
  return 0;
}

// Elements per 128-byte stick; 0 for a format that never lies in device memory.
constexpr int64_t elems_per_stick(DataFormat format) {
  if (format == DataFormat::BOOL || format == DataFormat::HOST_UINT8) return 0;
  if (bits_per_element(format) == 0) return 0;
  return kBytesInStick * 8 / bits_per_element(format);
}

// When on, memory of format SEN169_FP16 holds IEEE binary16 instead: a process-wide switch.
void set_ieee_fp16(bool enabled);
bool ieee_fp16();

std::string_view name_of(DataFormat format);
std::string_view name_of(ElementArrangement arrangement);

}  // namespace spyre
