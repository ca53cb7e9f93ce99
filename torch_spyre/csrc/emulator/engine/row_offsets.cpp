#include "emulator/engine/row_offsets.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace spyre::emulator::engine {

namespace {

using Kind = TermKind;
using Wide = __int128;

// Values up to this one can be added without an overflow.
constexpr Wide kMaxValue = Wide{1} << 62;

bool is_safe(const ValueRange& range) { return range.low >= -kMaxValue && range.high <= kMaxValue; }

ValueRange sum_of(const ValueRange& a, const ValueRange& b) {
  return {a.low + b.low, a.high + b.high};
}

ValueRange product_of(const ValueRange& a, const ValueRange& b) {
  const auto [low, high] =
      std::minmax({a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high});
  return {low, high};
}

Wide floor_divide(Wide a, Wide b) {
  const Wide quotient = a / b;
  return quotient - (a % b < 0 ? 1 : 0);
}

// Replaces each value by body(value).
template <typename Body>
void transform(RowValues& row, Body body) {
  for (int64_t& value : row.values) value = body(value);
}

bool is_power_of_two(int64_t value) { return (value & (value - 1)) == 0; }

// Divides by a positive number, rounding down.
void divide(RowValues& row, int64_t divisor) {
  if (is_power_of_two(divisor)) {
    const int shift = __builtin_ctzll(static_cast<uint64_t>(divisor));
    return transform(row, [shift](int64_t value) { return value >> shift; });
  }
  if (row.range.low >= 0 && row.range.high <= UINT32_MAX && divisor <= UINT32_MAX) {
    const auto narrow = static_cast<uint32_t>(divisor);
    return transform(row, [narrow](int64_t value) {
      return static_cast<int64_t>(static_cast<uint32_t>(value) / narrow);
    });
  }
  transform(row,
            [divisor](int64_t value) { return value / divisor - (value % divisor < 0 ? 1 : 0); });
}

// Replaces values by their remainders from 0 to divisor - 1.
void take_modulo(RowValues& row, int64_t divisor) {
  if (is_power_of_two(divisor)) {
    return transform(row, [divisor](int64_t value) { return value & (divisor - 1); });
  }
  if (row.range.low >= 0 && row.range.high <= UINT32_MAX && divisor <= UINT32_MAX) {
    const auto narrow = static_cast<uint32_t>(divisor);
    return transform(row, [narrow](int64_t value) {
      return static_cast<int64_t>(static_cast<uint32_t>(value) % narrow);
    });
  }
  transform(row, [divisor](int64_t value) {
    const int64_t remainder = value % divisor;
    return remainder < 0 ? remainder + divisor : remainder;
  });
}

// Replaces the first row by a combination of both. Returns false for what has to be computed value
// by value: overflows, and divisors that vary or are not positive.
bool combine(Kind kind, RowValues& a, RowValues& b) {
  if (kind == Kind::kAdd || kind == Kind::kMultiply) {
    const ValueRange range =
        kind == Kind::kAdd ? sum_of(a.range, b.range) : product_of(a.range, b.range);
    if (!is_safe(range)) return false;
    if (a.is_uniform) std::swap(a, b);
    if (!a.is_uniform) {
      const auto apply = [&](auto body) {
        if (b.is_uniform) {
          const auto value = static_cast<int64_t>(b.range.low);
          transform(a, [&](int64_t x) { return body(x, value); });
        } else {
          for (size_t i = 0; i < a.values.size(); ++i) {
            a.values[i] = body(a.values[i], b.values[i]);
          }
        }
      };
      if (kind == Kind::kAdd) {
        apply([](int64_t x, int64_t y) { return x + y; });
      } else {
        apply([](int64_t x, int64_t y) { return x * y; });
      }
    }
    a.range = range;
    return true;
  }
  if (!b.is_uniform || b.range.low <= 0) return false;
  const auto divisor = static_cast<int64_t>(b.range.low);
  const ValueRange& range = a.range;
  if (kind == Kind::kModulo) {
    if (range.low >= 0 && range.high < divisor) return true;
    if (a.is_uniform) {
      const Wide value = range.low - floor_divide(range.low, divisor) * divisor;
      a.range = {value, value};
      return true;
    }
    take_modulo(a, divisor);
    a.range = {0, Wide{divisor} - 1};
    return true;
  }
  // Rounded up: the same as rounding down (value + divisor - 1).
  const Wide shift = kind == Kind::kCeilDivide ? Wide{divisor} - 1 : 0;
  const ValueRange shifted = {range.low + shift, range.high + shift};
  if (!is_safe(shifted)) return false;
  a.range = shifted;
  if (!a.is_uniform) {
    if (shift != 0) {
      transform(a, [&](int64_t value) { return value + static_cast<int64_t>(shift); });
    }
    divide(a, divisor);
  }
  a.range = {floor_divide(shifted.low, divisor), floor_divide(shifted.high, divisor)};
  return true;
}

template <typename Number>
void load_each(const std::byte* data, std::vector<int64_t>& values) {
  for (int64_t& value : values) {
    Number number;
    std::memcpy(&number, data + value, sizeof number);
    value = number;
  }
}

// Replaces byte offsets by the indices that are stored there.
void load_indices_at(const std::byte* data, ElementType type, std::vector<int64_t>& values) {
  switch (type) {
    case ElementType::I8:
      return load_each<int8_t>(data, values);
    case ElementType::I16:
      return load_each<int16_t>(data, values);
    case ElementType::I32:
      return load_each<int32_t>(data, values);
    default:
      return load_each<int64_t>(data, values);
  }
}

ValueRange range_of(const std::vector<int64_t>& values) {
  const auto [low, high] = std::ranges::minmax(values);
  return {low, high};
}

bool uses(const Expression& expression, size_t variable) {
  return std::ranges::any_of(expression, [&](const Term& term) {
    return term.kind == Kind::kVariable && static_cast<size_t>(term.value) == variable;
  });
}

bool uses_other(const Expression& expression, size_t variable) {
  return std::ranges::any_of(expression, [&](const Term& term) {
    return term.kind == Kind::kVariable && static_cast<size_t>(term.value) != variable;
  });
}

}  // namespace

RowOffsets::RowOffsets(const IndirectTransfer& transfer, const Core& core, const Memory& memory,
                       const Region& region, const Subscripts& subscripts, size_t varied)
    : transfer_(transfer),
      core_(core),
      region_(region),
      subscripts_(subscripts),
      varied_(varied),
      stack_(static_cast<size_t>(kMaxExpressionDepth)) {
  for (const Subscript& subscript : transfer.subscripts) {
    dependences_.push_back(dependence_of(subscript));
    if (dependences_.back() == Dependence::kBoth) has_equal_rows_ = false;
    index_regions_.push_back(subscript.indirect ? memory.region(subscript.index, core) : Region{});
  }
}

RowOffsets::Dependence RowOffsets::dependence_of(const Subscript& subscript) const {
  const auto is_used = [&](auto uses_it) {
    return std::ranges::any_of(subscript.expressions,
                               [&](const Expression& e) { return uses_it(e, varied_); });
  };
  if (!is_used(uses)) return Dependence::kOuter;
  return is_used(uses_other) ? Dependence::kBoth : Dependence::kRow;
}

// Leaves the result in stack_[depth].
bool RowOffsets::evaluate_row(const Expression& expression, std::span<const int64_t> variables,
                              int64_t count, size_t depth) {
  size_t top = depth;
  for (const Term& term : expression) {
    if (term.kind > Kind::kVariable) {
      --top;
      if (!combine(term.kind, stack_[top - 1], stack_[top])) return false;
      continue;
    }
    if (top == stack_.size()) return false;
    RowValues& row = stack_[top++];
    const auto position = static_cast<size_t>(term.value);
    row.is_uniform = term.kind != Kind::kVariable || position != varied_;
    if (row.is_uniform) {
      const int64_t value = term.kind == Kind::kConstant   ? term.value
                            : term.kind == Kind::kRegister ? core_.integer(term.value)
                                                           : variables[position];
      row.range = {value, value};
      if (!is_safe(row.range)) return false;
      continue;
    }
    const int64_t first = variables[varied_];
    row.values.resize(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) row.values[static_cast<size_t>(i)] = first + i;
    row.range = {first, first + count - 1};
  }
  return true;
}

bool RowOffsets::lies_inside(const ValueRange& range, std::optional<int64_t> extent) const {
  return range.low >= 0 && (!extent || range.high < *extent);
}

// Adds coordinates times the stride to the offsets.
bool RowOffsets::add_offsets(const RowValues& row, int64_t stride) {
  const ValueRange range = product_of(row.range, {stride, stride});
  range_ = sum_of(range_, range);
  if (!is_safe(range) || !is_safe(range_)) return false;
  if (row.is_uniform) {
    for (int64_t& offset : offsets_) offset += static_cast<int64_t>(range.low);
    return true;
  }
  for (size_t i = 0; i < offsets_.size(); ++i) offsets_[i] += row.values[i] * stride;
  return true;
}

// Leaves the indices in index_.
bool RowOffsets::load_indices(size_t dimension, std::span<const int64_t> variables, int64_t count) {
  const Subscript& subscript = transfer_.subscripts[dimension];
  const Region& region = index_regions_[dimension];
  index_.values.assign(static_cast<size_t>(count), region.first);
  index_.is_uniform = false;
  ValueRange range = {region.first, region.first};
  for (size_t d = 0; d < subscript.expressions.size(); ++d) {
    if (!evaluate_row(subscript.expressions[d], variables, count, 0)) return false;
    RowValues& position = stack_[0];
    const std::optional<int64_t> extent = subscripts_.index_extent(dimension, d);
    if (!position.is_uniform && !lies_inside(position.range, extent)) {
      position.range = range_of(position.values);
    }
    if (!lies_inside(position.range, extent)) return false;
    const int64_t stride = region.strides[d];
    const ValueRange part = product_of(position.range, {stride, stride});
    range = sum_of(range, part);
    if (!is_safe(part) || !is_safe(range)) return false;
    for (size_t i = 0; i < index_.values.size(); ++i) {
      index_.values[i] +=
          (position.is_uniform ? static_cast<int64_t>(position.range.low) : position.values[i]) *
          stride;
    }
  }
  if (range.low < 0 || range.high + region.element_bytes > region.bytes) return false;
  load_indices_at(region.data, subscript.index.type, index_.values);
  index_.range = range_of(index_.values);
  return true;
}

bool RowOffsets::add_dimension(size_t dimension, std::span<const int64_t> variables,
                               int64_t count) {
  const Subscript& subscript = transfer_.subscripts[dimension];
  const std::optional<int64_t> extent = subscripts_.extent(dimension);
  if (subscript.indirect) {
    if (!load_indices(dimension, variables, count)) return false;
    return lies_inside(index_.range, extent) && add_offsets(index_, region_.strides[dimension]);
  }
  if (!evaluate_row(subscript.expressions[0], variables, count, 0)) return false;
  RowValues& row = stack_[0];
  if (!row.is_uniform && !lies_inside(row.range, extent)) row.range = range_of(row.values);
  return lies_inside(row.range, extent) && add_offsets(row, region_.strides[dimension]);
}

void RowOffsets::find_runs() {
  runs_.clear();
  const auto count = static_cast<int64_t>(offsets_.size());
  for (int64_t i = 0; i < count; ++i) {
    const int64_t offset = offsets_[static_cast<size_t>(i)];
    if (!runs_.empty()) {
      ContiguousRun& last = runs_.back();
      if (offset == last.offset + last.count * region_.element_bytes) {
        ++last.count;
        continue;
      }
    }
    runs_.push_back({i, 1, offset});
  }
}

bool RowOffsets::compute(std::span<const int64_t> variables, int64_t count) {
  const size_t rank = transfer_.subscripts.size();
  if (row_begin_ != variables[varied_] || row_count_ != count) {
    offsets_.assign(static_cast<size_t>(count), 0);
    range_ = {};
    row_count_ = -1;
    for (size_t d = 0; d < rank; ++d) {
      if (dependences_[d] == Dependence::kRow && !add_dimension(d, variables, count)) return false;
    }
    row_begin_ = variables[varied_];
    row_count_ = count;
    row_offsets_ = offsets_;
    row_range_ = range_;
    if (has_equal_rows_) find_runs();
  }
  range_ = row_range_;
  if (!has_equal_rows_) {
    offsets_ = row_offsets_;
    for (size_t d = 0; d < rank; ++d) {
      if (dependences_[d] == Dependence::kBoth && !add_dimension(d, variables, count)) return false;
    }
  }
  Wide base = region_.first;
  for (size_t d = 0; d < rank; ++d) {
    if (dependences_[d] != Dependence::kOuter) continue;
    base += Wide{subscripts_.coordinate(d, variables)} * region_.strides[d];
  }
  if (base + range_.low < 0 || base + range_.high + region_.element_bytes > region_.bytes) {
    return false;
  }
  base_ = static_cast<int64_t>(base);
  return true;
}

bool reads_what_it_stores(const IndirectTransfer& transfer, const Core& core, const Memory& memory,
                          const Region& region) {
  if (!transfer.store) return false;
  return std::ranges::any_of(transfer.subscripts, [&](const Subscript& subscript) {
    if (!subscript.indirect) return false;
    const Region index = memory.region(subscript.index, core);
    return index.data < region.data + region.bytes && region.data < index.data + index.bytes;
  });
}

}  // namespace spyre::emulator::engine
