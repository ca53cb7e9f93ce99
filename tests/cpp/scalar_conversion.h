// Scalar conversions of the DMA engine, defined by float_formats.h.
#pragma once

#include <cstdint>
#include <cstring>

#include "emulator/convert.h"
#include "flex/float_formats.h"

namespace spyre::emulator {

inline uint64_t convert_one(Conversion conversion, uint64_t bits) {
  const auto byte = static_cast<uint8_t>(bits);
  const auto half = static_cast<uint16_t>(bits);
  const auto single = static_cast<uint32_t>(bits);
  switch (conversion) {
    case Conversion::COPY_8:
      return byte;
    case Conversion::COPY_16:
      return half;
    case Conversion::COPY_32:
      return single;
    case Conversion::COPY_64:
      return bits;
    case Conversion::FP16_TO_SEN169:
      return sen169_from_fp16(half);
    case Conversion::BF16_TO_SEN169:
      return sen169_from_bf16(half);
    case Conversion::FP32_TO_SEN169:
      return sen169_from_fp32(single);
    case Conversion::BOOL_TO_SEN169:
      return byte != 0 ? kSen169One : 0;
    case Conversion::SEN169_TO_FP16:
      return sen169_to_fp16(half);
    case Conversion::SEN169_TO_BF16:
      return sen169_to_bf16(half);
    case Conversion::SEN169_TO_FP32:
      return sen169_to_fp32(half);
    case Conversion::FLOAT16_TO_BOOL:
      return half != 0 && half != 0x8000 ? 1 : 0;
    case Conversion::FP16_TO_FP32:
      return fp32_from_fp16(half);
    case Conversion::BF16_TO_FP32:
      return fp32_from_bf16(half);
    case Conversion::FP32_TO_FP16:
      return fp16_from_fp32(single);
    case Conversion::FP32_TO_BF16:
      return bf16_from_fp32(single);
    case Conversion::FP16_TO_BF16:
      return bf16_from_fp32(fp32_from_fp16(half));
    case Conversion::BF16_TO_FP16:
      return fp16_from_fp32(fp32_from_bf16(half));
    case Conversion::BOOL_TO_FP16:
      return byte != 0 ? kFp16One : 0;
    case Conversion::INT64_TO_INT32:
      return single;
    case Conversion::INT32_TO_INT64:
      return static_cast<uint64_t>(static_cast<int64_t>(static_cast<int32_t>(single)));
    case Conversion::UINT8_TO_UINT32:
      return byte;
    case Conversion::UINT32_TO_UINT8:
      return byte;
  }
  return 0;
}

// Loads and stores unaligned elements of 1, 2, 4 or 8 bytes.
inline uint64_t load_element(const std::byte* from, int bytes) {
  uint8_t byte;
  uint16_t half;
  uint32_t single;
  uint64_t whole;
  switch (bytes) {
    case 1:
      std::memcpy(&byte, from, 1);
      return byte;
    case 2:
      std::memcpy(&half, from, 2);
      return half;
    case 4:
      std::memcpy(&single, from, 4);
      return single;
    default:
      std::memcpy(&whole, from, 8);
      return whole;
  }
}

inline void store_element(std::byte* to, uint64_t value, int bytes) {
  const auto byte = static_cast<uint8_t>(value);
  const auto half = static_cast<uint16_t>(value);
  const auto single = static_cast<uint32_t>(value);
  switch (bytes) {
    case 1:
      std::memcpy(to, &byte, 1);
      return;
    case 2:
      std::memcpy(to, &half, 2);
      return;
    case 4:
      std::memcpy(to, &single, 4);
      return;
    default:
      std::memcpy(to, &value, 8);
  }
}

}  // namespace spyre::emulator
