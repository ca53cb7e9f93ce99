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
#define SPYRE_CASE(name, ...) \
  case DataFormat::name:      \
    return #name;
    SPYRE_DATA_FORMATS(SPYRE_CASE)
#undef SPYRE_CASE
  }
  return "unknown DataFormat";
}

std::string_view name_of(ElementArrangement arrangement) {
  switch (arrangement) {
#define SPYRE_CASE(name, ...)    \
  case ElementArrangement::name: \
    return #name;
    SPYRE_ELEMENT_ARRANGEMENTS(SPYRE_CASE)
#undef SPYRE_CASE
  }
  return "unknown ElementArrangement";
}

}  // namespace spyre
