#include "torch/dtypes.h"

#include <c10/util/Exception.h>

#include <array>
#include <atomic>
#include <string>

#include "flex/data_format.h"

namespace spyre {

namespace {

using c10::ScalarType;

enum class Kind { kUnsupported, kHalf, kFloat, kFloat8, kInteger, kBool, kQuantized, kRaw };

struct DtypeRecord {
  DataFormat device = DataFormat::INVALID;
  DataFormat host = DataFormat::INVALID;
  Kind kind = Kind::kUnsupported;
};

struct DtypeRow {
  ScalarType dtype;
  DtypeRecord record;
};

using enum DataFormat;

// The table of dtypes: format on the card, format in host memory, kind. torch_spyre/dtype_table.py
// is the table of the Python code. Layouts may be created for quantized dtypes, but no tensor on a
// card has one. Tensors of kind kRaw exist on request: see set_stores_unsupported_dtypes.
constexpr DtypeRow kDtypes[] = {
    {ScalarType::Half, {SEN169_FP16, IEEE_FP16, Kind::kHalf}},
    {ScalarType::BFloat16, {SEN169_FP16, BFLOAT16, Kind::kHalf}},
    {ScalarType::Float, {IEEE_FP32, IEEE_FP32, Kind::kFloat}},
    {ScalarType::Bool, {SEN169_FP16, BOOL, Kind::kBool}},
    {ScalarType::Char, {SENINT8, SENINT8, Kind::kInteger}},
    {ScalarType::Byte, {SENUINT32, HOST_UINT8, Kind::kInteger}},
    {ScalarType::Short, {SENINT16, SENINT16, Kind::kInteger}},
    {ScalarType::Int, {IEEE_INT32, IEEE_INT32, Kind::kInteger}},
    {ScalarType::Long, {IEEE_INT32, IEEE_INT64, Kind::kInteger}},
    {ScalarType::Float8_e4m3fn, {SEN143_FP8, SEN143_FP8, Kind::kFloat8}},
    {ScalarType::Float8_e5m2fnuz, {SEN152_FP8, SEN152_FP8, Kind::kFloat8}},
    {ScalarType::QInt8, {SENINT8, SENINT8, Kind::kQuantized}},
    {ScalarType::QUInt8, {SENUINT32, SENUINT32, Kind::kQuantized}},
    {ScalarType::QUInt4x2, {SENUINT2, SENUINT2, Kind::kQuantized}},
    {ScalarType::QUInt2x4, {SENUINT2, SENUINT2, Kind::kQuantized}},
    {ScalarType::Double, {RAW64, RAW64, Kind::kRaw}},
    {ScalarType::ComplexHalf, {RAW32, RAW32, Kind::kRaw}},
    {ScalarType::ComplexFloat, {RAW64, RAW64, Kind::kRaw}},
    {ScalarType::ComplexDouble, {RAW128, RAW128, Kind::kRaw}},
    {ScalarType::UInt16, {RAW16, RAW16, Kind::kRaw}},
    {ScalarType::UInt32, {RAW32, RAW32, Kind::kRaw}},
    {ScalarType::UInt64, {RAW64, RAW64, Kind::kRaw}},
    {ScalarType::Float8_e5m2, {RAW8, RAW8, Kind::kRaw}},
    {ScalarType::Float8_e4m3fnuz, {RAW8, RAW8, Kind::kRaw}},
    {ScalarType::Float8_e8m0fnu, {RAW8, RAW8, Kind::kRaw}},
};

constexpr size_t kNumDtypes = static_cast<size_t>(ScalarType::NumOptions) + 1;

// The rows by dtype, for fast access: every copy looks up formats.
constexpr std::array<DtypeRecord, kNumDtypes> kRecords = [] {
  std::array<DtypeRecord, kNumDtypes> records{};
  records.fill(DtypeRecord{INVALID, INVALID, Kind::kUnsupported});
  for (const DtypeRow& row : kDtypes) records[static_cast<size_t>(row.dtype)] = row.record;
  return records;
}();

// Set by a knob.
std::atomic<bool> stores_unsupported = false;

const DtypeRecord& record_of(ScalarType dtype) { return kRecords[static_cast<size_t>(dtype)]; }

std::string tensor_dtype_names() {
  std::string names;
  for (const DtypeRow& row : kDtypes) {
    if (row.record.kind == Kind::kQuantized || row.record.kind == Kind::kRaw) continue;
    if (!names.empty()) names += ", ";
    names += c10::getDtypeNames(row.dtype).first;
  }
  return names;
}

}  // namespace

void set_stores_unsupported_dtypes(bool stores) { stores_unsupported = stores; }

bool stores_unsupported_dtypes() { return stores_unsupported.load(std::memory_order_relaxed); }

bool is_raw_dtype(ScalarType dtype) { return record_of(dtype).kind == Kind::kRaw; }

std::string_view way_to_store(ScalarType dtype) {
  if (!is_raw_dtype(dtype)) return "";
  return " TORCH_SPYRE_UNSUPPORTED_DTYPE=store keeps such tensors on the card and runs their ops "
         "on the CPU.";
}

DataFormat device_format(ScalarType dtype) {
  const DtypeRecord& record = record_of(dtype);
  return record.kind == Kind::kRaw && !stores_unsupported_dtypes() ? INVALID : record.device;
}

DataFormat host_format(ScalarType dtype, DataFormat device) {
  // Bytes, if the storage is raw.
  if (dtype == ScalarType::Byte && device == SENINT8) return SENINT8;
  return record_of(dtype).host;
}

DataFormat checked_device_format(ScalarType dtype) {
  const DataFormat format = device_format(dtype);
  TORCH_CHECK(format != INVALID, "Spyre backend does not support dtype ", dtype, " (",
              c10::getDtypeNames(dtype).first, "). Supported: ", tensor_dtype_names(),
              "; convert on the CPU first, for example with .to(torch.float32).",
              way_to_store(dtype));
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
  const DtypeRecord& record = record_of(dtype);
  if (record.kind == Kind::kUnsupported || record.kind == Kind::kQuantized) return false;
  if (dtype == ScalarType::Half) return ieee_fp16();
  return record.device == record.host;
}

bool dma_converts(ScalarType from, ScalarType to) {
  if (from == to) return true;
  const Kind source = record_of(from).kind, target = record_of(to).kind;
  if (source == Kind::kBool) return target == Kind::kHalf;
  const auto is_float = [](Kind kind) { return kind == Kind::kHalf || kind == Kind::kFloat; };
  return is_float(source) && is_float(target);
}

}  // namespace spyre
