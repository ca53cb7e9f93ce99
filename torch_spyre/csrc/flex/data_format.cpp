#include "flex/data_format.h"

#include <atomic>

namespace spyre {

namespace {

std::atomic<bool> ieee_fp16_enabled = false;

}  // namespace

void set_ieee_fp16(bool enabled) { ieee_fp16_enabled = enabled; }
bool ieee_fp16() { return ieee_fp16_enabled.load(std::memory_order_relaxed); }

std::string_view name_of(DataFormat format) {
  switch (format) {
    case DataFormat::SEN169_FP16:
      return "SEN169_FP16";
    case DataFormat::IEEE_FP32:
      return "IEEE_FP32";
    case DataFormat::INVALID:
      return "INVALID";
    case DataFormat::SEN143_FP8:
      return "SEN143_FP8";
    case DataFormat::SEN152_FP8:
      return "SEN152_FP8";
    case DataFormat::SEN153_FP9:
      return "SEN153_FP9";
    case DataFormat::SENINT2:
      return "SENINT2";
    case DataFormat::SENINT4:
      return "SENINT4";
    case DataFormat::SENINT8:
      return "SENINT8";
    case DataFormat::SENINT16:
      return "SENINT16";
    case DataFormat::SENINT24:
      return "SENINT24";
    case DataFormat::IEEE_INT64:
      return "IEEE_INT64";
    case DataFormat::IEEE_INT32:
      return "IEEE_INT32";
    case DataFormat::SENUINT32:
      return "SENUINT32";
    case DataFormat::SENUINT2:
      return "SENUINT2";
    case DataFormat::IEEE_FP16:
      return "IEEE_FP16";
    case DataFormat::BOOL:
      return "BOOL";
    case DataFormat::BFLOAT16:
      return "BFLOAT16";
    case DataFormat::SEN18F_FP24:
      return "SEN18F_FP24";
    case DataFormat::HOST_UINT8:
      return "HOST_UINT8";
  }
  return "unknown DataFormat";
}

std::string_view name_of(ElementArrangement arrangement) {
  switch (arrangement) {
    case ElementArrangement::STANDARD:
      return "STANDARD";
    case ElementArrangement::DL16_TO_FP32:
      return "DL16_TO_FP32";
    case ElementArrangement::QFP8CH:
      return "QFP8CH";
    case ElementArrangement::EXX2:
      return "EXX2";
    case ElementArrangement::FP32_TO_DL16:
      return "FP32_TO_DL16";
    case ElementArrangement::QFP8WT:
      return "QFP8WT";
  }
  return "unknown ElementArrangement";
}

}  // namespace spyre
