#include "torch/dtypes.h"

#include <c10/util/Exception.h>

#include "emulator/convert.h"

namespace spyre {

using c10::ScalarType;

DataFormat device_format(ScalarType dtype) {
  switch (dtype) {
    case ScalarType::Half:
    case ScalarType::BFloat16:
    case ScalarType::Bool:
      return DataFormat::SEN169_FP16;
    case ScalarType::Float:
      return DataFormat::IEEE_FP32;
    case ScalarType::Char:
    case ScalarType::QInt8:
      return DataFormat::SENINT8;
    case ScalarType::Short:
      return DataFormat::SENINT16;
    case ScalarType::Int:
    case ScalarType::Long:
      return DataFormat::IEEE_INT32;
    case ScalarType::Byte:
    case ScalarType::QUInt8:
      return DataFormat::SENUINT32;
    case ScalarType::QUInt4x2:
    case ScalarType::QUInt2x4:
      return DataFormat::SENUINT2;
    case ScalarType::Float8_e4m3fn:
      return DataFormat::SEN143_FP8;
    case ScalarType::Float8_e5m2fnuz:
      return DataFormat::SEN152_FP8;
    default:
      return DataFormat::INVALID;
  }
}

DataFormat host_format(ScalarType dtype, DataFormat device) {
  switch (dtype) {
    case ScalarType::Half:
      return DataFormat::IEEE_FP16;
    case ScalarType::BFloat16:
      return DataFormat::BFLOAT16;
    case ScalarType::Bool:
      return DataFormat::BOOL;
    case ScalarType::Long:
      return DataFormat::IEEE_INT64;
    case ScalarType::Byte:
      // Plain bytes, where a storage is raw.
      return device == DataFormat::SENINT8 ? DataFormat::SENINT8 : DataFormat::HOST_UINT8;
    default:
      return device_format(dtype);
  }
}

DataFormat checked_device_format(ScalarType dtype) {
  const DataFormat format = device_format(dtype);
  TORCH_CHECK(format != DataFormat::INVALID, "Spyre backend does not support dtype ", dtype, " (",
              c10::getDtypeNames(dtype).first,
              "). Supported: float16, bfloat16, float32, bool, int8, uint8, int16, int32, int64, "
              "float8_e4m3fn, float8_e5m2fnuz; convert on the CPU first, for example with "
              ".to(torch.float32).");
  return format;
}

DataFormat checked_tensor_format(ScalarType dtype) {
  const DataFormat format = checked_device_format(dtype);
  TORCH_CHECK(!c10::isQIntType(dtype), "Spyre backend does not support dtype ", dtype, " (",
              c10::getDtypeNames(dtype).first,
              ") for tensors: a card holds no quantized ones; use the integers, x.int_repr()");
  return format;
}

bool holds_host_bits(ScalarType dtype) {
  switch (device_format(dtype)) {
    case DataFormat::SEN169_FP16:
      return dtype == ScalarType::Half && emulator::ieee_fp16();
    case DataFormat::IEEE_INT32:
      return dtype == ScalarType::Int;
    case DataFormat::SENUINT32:
    case DataFormat::SENUINT2:
    case DataFormat::INVALID:
      return false;
    default:
      return true;
  }
}

bool dma_converts(ScalarType from, ScalarType to) {
  if (from == to) return true;
  const auto is_float = [](ScalarType dtype) {
    return dtype == ScalarType::Half || dtype == ScalarType::BFloat16 || dtype == ScalarType::Float;
  };
  if (from == ScalarType::Bool) return to == ScalarType::Half || to == ScalarType::BFloat16;
  return is_float(from) && is_float(to);
}

}  // namespace spyre
