#include "emulator/engine/subscripts.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "emulator/engine/box_copy.h"
#include "emulator/engine/program_limits.h"

namespace spyre::emulator::engine {

namespace {

using Kind = TermKind;

void check_overflow(bool overflows) {
  if (overflows) throw KernelError("a subscript overflows");
}

int64_t apply(Kind kind, int64_t a, int64_t b) {
  int64_t result = 0;
  if (kind == Kind::kAdd) {
    check_overflow(__builtin_add_overflow(a, b, &result));
    return result;
  }
  if (kind == Kind::kMultiply) {
    check_overflow(__builtin_mul_overflow(a, b, &result));
    return result;
  }
  if (b == 0) throw KernelError("a subscript divides by zero");
  if (b == -1) {
    if (kind == Kind::kModulo) return 0;
    // The negation of the smallest integer overflows.
    check_overflow(__builtin_sub_overflow(int64_t{0}, a, &result));
    return result;
  }
  const int64_t quotient = a / b, remainder = a % b;
  const bool below_zero = remainder != 0 && (remainder < 0) != (b < 0);
  switch (kind) {
    case Kind::kFloorDivide:
      return below_zero ? quotient - 1 : quotient;
    case Kind::kCeilDivide:
      return remainder != 0 && !below_zero ? quotient + 1 : quotient;
    default:
      return below_zero ? remainder + b : remainder;
  }
}

int64_t value_of(const Term& term, const Core& core, std::span<const int64_t> variables) {
  if (term.kind == Kind::kRegister) return core.integer(static_cast<Register>(term.value));
  if (term.kind == Kind::kVariable) return variables[static_cast<size_t>(term.value)];
  return term.value;
}

bool is_leaf(const Term& term) { return term.kind <= Kind::kVariable; }

bool is_in_range(int64_t value, size_t dimension, const std::vector<int64_t>& extents) {
  return value >= 0 && (extents.empty() || value < extents[dimension]);
}

std::string range_error(int64_t value, size_t dimension, const std::vector<int64_t>& extents,
                        const char* kind_of_index) {
  return std::string(kind_of_index) + " " + std::to_string(value) +
         " is out of range in dimension " + std::to_string(dimension) +
         (extents.empty() ? " of unknown size" : " of size " + std::to_string(extents[dimension]));
}

int64_t sign_extended(const std::byte* data, ElementType type) {
  const auto read = [data]<typename Number>(Number value) -> int64_t {
    std::memcpy(&value, data, sizeof value);
    return value;
  };
  switch (type) {
    case ElementType::I8:
      return read(int8_t{});
    case ElementType::I16:
      return read(int16_t{});
    case ElementType::I32:
      return read(int32_t{});
    default:
      return read(int64_t{});
  }
}

std::vector<int64_t> sizes_of(const View& view, const Core& core) {
  std::vector<int64_t> sizes;
  for (Register extent : view.extents) sizes.push_back(core.integer(extent));
  return sizes;
}

}  // namespace

int64_t evaluate(const Expression& expression, const Core& core,
                 std::span<const int64_t> variables) {
  std::array<int64_t, kMaxExpressionDepth> stack;
  size_t depth = 0;
  for (const Term& term : expression) {
    if (is_leaf(term)) {
      stack[depth++] = value_of(term, core, variables);
    } else {
      --depth;
      stack[depth - 1] = apply(term.kind, stack[depth - 1], stack[depth]);
    }
  }
  return stack[0];
}

size_t num_variables_used(const IndirectTransfer& transfer) {
  int64_t used = 0;
  for (const Subscript& subscript : transfer.subscripts) {
    for (const Expression& expression : subscript.expressions) {
      for (const Term& term : expression) {
        if (term.kind == Kind::kVariable) used = std::max(used, term.value + 1);
      }
    }
  }
  return static_cast<size_t>(used);
}

Subscripts::Subscripts(const IndirectTransfer& transfer, const Core& core, const Memory& memory)
    : transfer_(transfer), core_(core), extents_(sizes_of(transfer.view, core)) {
  for (const Subscript& subscript : transfer.subscripts) {
    Index index;
    if (subscript.indirect) {
      index = {memory.region(subscript.index, core), sizes_of(subscript.index, core)};
    }
    indices_.push_back(std::move(index));
  }
}

int64_t Subscripts::read_index(size_t dimension, std::span<const int64_t> variables) const {
  const Subscript& subscript = transfer_.subscripts[dimension];
  const Index& index = indices_[dimension];
  std::array<int64_t, kMaxRank> position;
  const size_t rank = subscript.expressions.size();
  for (size_t d = 0; d < rank; ++d) {
    position[d] = evaluate(subscript.expressions[d], core_, variables);
    if (!is_in_range(position[d], d, index.extents)) {
      throw KernelIndexError(
          range_error(position[d], d, index.extents, "the position of an index"));
    }
  }
  std::array<std::byte, sizeof(int64_t)> element{};
  copy_element(index.region, offset_of(index.region, {position.data(), rank}), element.data(),
               false);
  return sign_extended(element.data(), subscript.index.type);
}

std::vector<int64_t> Subscripts::index_position(size_t dimension,
                                                std::span<const int64_t> variables) const {
  std::vector<int64_t> position;
  for (const Expression& expression : transfer_.subscripts[dimension].expressions) {
    position.push_back(evaluate(expression, core_, variables));
  }
  return position;
}

void Subscripts::check_coordinate(size_t dimension, int64_t coordinate,
                                  std::span<const int64_t> variables) const {
  if (is_in_range(coordinate, dimension, extents_)) return;
  if (!transfer_.subscripts[dimension].indirect) {
    throw KernelIndexError(range_error(coordinate, dimension, extents_, "coordinate"));
  }
  throw KernelIndexError(range_error(coordinate, dimension, extents_, "index"),
                         flex::InvalidIndex{.value = coordinate,
                                            .size = extents_.empty() ? -1 : extents_[dimension],
                                            .dimension = static_cast<int64_t>(dimension),
                                            .position = index_position(dimension, variables)});
}

int64_t Subscripts::coordinate(size_t dimension, std::span<const int64_t> variables) const {
  const Subscript& subscript = transfer_.subscripts[dimension];
  const int64_t value = subscript.indirect ? read_index(dimension, variables)
                                           : evaluate(subscript.expressions[0], core_, variables);
  check_coordinate(dimension, value, variables);
  return value;
}

void Subscripts::coordinates(std::span<const int64_t> variables, std::vector<int64_t>& out) const {
  for (size_t d = 0; d < transfer_.subscripts.size(); ++d) out[d] = coordinate(d, variables);
}

std::optional<int64_t> Subscripts::extent(size_t dimension) const {
  if (extents_.empty()) return std::nullopt;
  return extents_[dimension];
}

std::optional<int64_t> Subscripts::index_extent(size_t dimension, size_t d) const {
  const std::vector<int64_t>& extents = indices_[dimension].extents;
  if (extents.empty()) return std::nullopt;
  return extents[d];
}

}  // namespace spyre::emulator::engine
