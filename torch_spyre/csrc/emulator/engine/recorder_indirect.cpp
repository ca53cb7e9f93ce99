// Counts the traffic of indirect transfers, whose addresses are computed by expressions. The
// positions that indices select are not known; everything else is counted by its addresses.
#include <algorithm>
#include <limits>

#include "emulator/engine/recorder.h"
#include "emulator/engine/recorder_memory.h"

namespace spyre::emulator::engine {
namespace {

int64_t floor_divided(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

// Wraps, and returns zero for a division by zero: the execution reports the error.
int64_t evaluate(const Expression& expression, const Core& core,
                 std::span<const int64_t> variables) {
  std::vector<int64_t> stack;
  for (const Term& term : expression) {
    switch (term.kind) {
      case TermKind::kConstant:
        stack.push_back(term.value);
        continue;
      case TermKind::kRegister:
        stack.push_back(core.integer(static_cast<Register>(term.value)));
        continue;
      case TermKind::kVariable:
        stack.push_back(variables[static_cast<size_t>(term.value)]);
        continue;
      default:
        break;
    }
    const int64_t right = stack.back();
    stack.pop_back();
    int64_t& left = stack.back();
    const bool divides = right > 0;
    switch (term.kind) {
      case TermKind::kAdd:
        left = static_cast<int64_t>(static_cast<uint64_t>(left) + static_cast<uint64_t>(right));
        break;
      case TermKind::kMultiply:
        left = static_cast<int64_t>(static_cast<uint64_t>(left) * static_cast<uint64_t>(right));
        break;
      case TermKind::kFloorDivide:
        left = divides ? floor_divided(left, right) : 0;
        break;
      case TermKind::kCeilDivide:
        left = divides ? -floor_divided(-left, right) : 0;
        break;
      default:
        left = divides ? left - floor_divided(left, right) * right : 0;
    }
  }
  return stack.back();
}

// How an expression depends on the variables: linearly, with a factor that no variable changes, or
// otherwise.
struct Dependence {
  std::vector<bool> linear, other;

  explicit Dependence(size_t variables) : linear(variables, false), other(variables, false) {}

  bool is_constant() const {
    const auto is_set = [](bool depends) { return depends; };
    return std::none_of(linear.begin(), linear.end(), is_set) &&
           std::none_of(other.begin(), other.end(), is_set);
  }
  void add(const Dependence& operand) {
    for (size_t v = 0; v < linear.size(); ++v) {
      linear[v] = linear[v] || operand.linear[v];
      other[v] = other[v] || operand.other[v];
    }
  }
  void lose_linearity() {
    for (size_t v = 0; v < linear.size(); ++v) other[v] = other[v] || linear[v];
  }
};

Dependence dependence_of(const Expression& expression, size_t variables) {
  std::vector<Dependence> stack;
  for (const Term& term : expression) {
    if (term.kind <= TermKind::kVariable) {
      stack.emplace_back(variables);
      if (term.kind == TermKind::kVariable) {
        stack.back().linear[static_cast<size_t>(term.value)] = true;
      }
      continue;
    }
    const Dependence right = std::move(stack.back());
    stack.pop_back();
    Dependence& left = stack.back();
    const bool is_product = term.kind == TermKind::kMultiply;
    const bool stays_linear =
        term.kind == TermKind::kAdd || (is_product && (left.is_constant() || right.is_constant()));
    left.add(right);
    if (!stays_linear) left.lose_linearity();
  }
  return stack.back();
}

// Calls visit() for every point of the chosen variables, which it sets in `point`; the others stay.
template <typename Visit>
void visit_points(std::vector<int64_t>& point, std::span<const int64_t> extents,
                  const std::vector<bool>& is_chosen, Visit visit) {
  while (true) {
    visit();
    size_t v = point.size();
    for (; v-- > 0;) {
      if (!is_chosen[v]) continue;
      if (++point[v] < extents[v]) break;
      point[v] = 0;
    }
    if (v == std::numeric_limits<size_t>::max()) return;
  }
}

BoxCost cost_of_ranges(std::vector<ByteRange>& ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const ByteRange& a, const ByteRange& b) { return a.begin < b.begin; });
  BoxCost cost;
  int64_t end = std::numeric_limits<int64_t>::min(), next_stick = end;
  for (const ByteRange& range : ranges) {
    cost.runs += range.begin > end;
    end = std::max(end, range.end);
    const int64_t first = std::max(floor_divided(range.begin, kBytesInStick), next_stick);
    const int64_t last = floor_divided(range.end - 1, kBytesInStick);
    if (last >= first) cost.sticks += last - first + 1;
    next_stick = std::max(next_stick, last + 1);
  }
  return cost;
}

}  // namespace

Recorder::AddressPattern Recorder::pattern_of(const View& view,
                                              std::span<const Expression* const> expressions,
                                              size_t variables) const {
  AddressPattern pattern;
  pattern.base = narrowed(static_cast<__int128>(core_.integer(view.base)) * bytes_of(view.type));
  pattern.element_bytes = bytes_of(view.type);
  pattern.is_linear.assign(variables, true);
  pattern.steps.assign(variables, 0);
  const std::vector<int64_t> origin(variables, 0);
  std::vector<int64_t> point = origin;
  for (size_t i = 0; i < expressions.size(); ++i) {
    if (expressions[i] == nullptr) continue;  // an index decides on this coordinate
    const int64_t stride =
        narrowed(static_cast<__int128>(core_.integer(view.strides[i])) * pattern.element_bytes);
    pattern.terms.push_back({expressions[i], stride});
    const Dependence dependence = dependence_of(*expressions[i], variables);
    const int64_t constant = evaluate(*expressions[i], core_, origin);
    for (size_t v = 0; v < variables; ++v) {
      if (dependence.other[v]) pattern.is_linear[v] = false;
      if (!dependence.linear[v]) continue;
      point[v] = 1;
      const int64_t factor = evaluate(*expressions[i], core_, point) - constant;
      point[v] = 0;
      pattern.steps[v] = narrowed(pattern.steps[v] + static_cast<__int128>(factor) * stride);
    }
  }
  return pattern;
}

int64_t Recorder::address_of(const AddressPattern& pattern,
                             std::span<const int64_t> variables) const {
  __int128 address = pattern.base;
  for (const AddressTerm& term : pattern.terms) {
    address += static_cast<__int128>(evaluate(*term.expression, core_, variables)) * term.stride;
  }
  return narrowed(address);
}

// A loop that is visited once must access the same addresses, apart from whole sticks, in all
// iterations. This is not known if registers of an expression change.
void Recorder::check_levels(const View& view,
                            std::span<const Expression* const> expressions) const {
  for (const Level& level : levels_) {
    if (!level.is_exact) continue;
    bool changes = level.slopes[static_cast<size_t>(view.base)] != 0;
    for (const Expression* expression : expressions) {
      if (expression == nullptr) continue;
      for (const Term& term : *expression) {
        changes |=
            term.kind == TermKind::kRegister && level.slopes[static_cast<size_t>(term.value)] != 0;
      }
    }
    if (changes) throw NonUniformLoop(level.loop);
  }
}

// Returns the cost of all points of the variables that are not separate, at a point of those that
// are.
BoxCost Recorder::cost_at(const AddressPattern& pattern, std::span<const int64_t> extents,
                          const std::vector<bool>& is_separate, std::vector<int64_t> point,
                          ByteRange limits) {
  std::vector<bool> is_enumerated(extents.size());
  bool is_box = true;
  for (size_t v = 0; v < extents.size(); ++v) {
    is_enumerated[v] = !is_separate[v] && !pattern.is_linear[v];
    is_box &= !is_enumerated[v];
  }
  const auto box_here = [&] {
    DeviceBox box(address_of(pattern, point), pattern.element_bytes);
    for (size_t v = 0; v < extents.size(); ++v) {
      if (!is_separate[v] && !is_enumerated[v]) box.add(extents[v], pattern.steps[v]);
    }
    box.normalise();
    return box;
  };
  if (is_box) return cost_of(box_here(), limits);
  std::vector<ByteRange> ranges;
  visit_points(point, extents, is_enumerated, [&] {
    box_here().visit_runs([&](int64_t begin, int64_t end) {
      begin = std::max(begin, limits.begin);
      end = std::min(end, limits.end);
      if (begin < end) ranges.push_back({begin, end});
    });
  });
  return cost_of_ranges(ranges);
}

BoxCost Recorder::cost_of_pattern(const AddressPattern& pattern, std::span<const int64_t> extents,
                                  const std::vector<bool>& is_separate, ByteRange limits) {
  int64_t rows = 1, elements = 1;
  bool are_rows_alike = limits.begin == kEverywhere.begin;
  for (size_t v = 0; v < extents.size(); ++v) {
    (is_separate[v] ? rows : elements) *= extents[v];
    if (!is_separate[v]) continue;
    are_rows_alike &= pattern.is_linear[v] && pattern.steps[v] % kBytesInStick == 0;
  }
  if (elements == 1 && rows > 1) return {rows, rows};
  std::vector<int64_t> point(extents.size(), 0);
  if (rows == 1 || are_rows_alike) {
    const BoxCost row = cost_at(pattern, extents, is_separate, point, limits);
    return {rows * row.sticks, rows * row.runs};
  }
  BoxCost cost;
  visit_points(point, extents, is_separate, [&] {
    const BoxCost row = cost_at(pattern, extents, is_separate, point, limits);
    cost.sticks += row.sticks;
    cost.runs += row.runs;
  });
  return cost;
}

void Recorder::count_indices(CoreCounts& counts, size_t at, const Subscript& subscript,
                             std::span<const int64_t> variables) {
  const View& view = subscript.index;
  if (view.space == Space::kScratchpad) {
    return add_for_all_trips(counts.scratchpad_bytes, count_of(variables) * bytes_of(view.type));
  }
  std::vector<const Expression*> expressions;
  for (const Expression& expression : subscript.expressions) expressions.push_back(&expression);
  check_levels(view, expressions);
  const ByteRange limits = value_of(view.base).is_known ? limits_of(view) : kEverywhere;
  const AddressPattern pattern = pattern_of(view, expressions, variables.size());
  const std::vector<bool> none(variables.size(), false);
  const BoxCost cost = cost_of_pattern(pattern, variables, none, limits);
  add_for_all_trips(counts.index_bytes, cost.sticks * kBytesInStick);
  add_for_all_trips(result_.instructions[at].index_runs, cost.runs);
  if (program_.cores() > 1) accessed_.add(limits_of(view), false);
}

void Recorder::visit(size_t at, const IndirectTransfer& transfer) {
  CoreCounts& counts = count_execution(at);
  num_visited_ += kTransferWeight;
  const std::vector<int64_t> variables = extents(transfer.variables);
  const bool is_list = !transfer.points.empty();
  const auto rank = static_cast<int64_t>(variables.size());
  const int64_t points =
      is_list ? static_cast<int64_t>(transfer.points.size()) / std::max<int64_t>(rank, 1)
              : count_of(variables);
  if (points == 0) return;
  const View& view = transfer.view;
  const int64_t element = bytes_of(view.type);
  add_for_all_trips(counts.scratchpad_bytes, points * element);

  // The address of an indirect access is not known: each point of the variables in indirect
  // subscripts is a separate row.
  std::vector<bool> is_separate(variables.size(), false);
  std::vector<const Expression*> expressions;
  bool has_indices = false;
  for (const Subscript& subscript : transfer.subscripts) {
    expressions.push_back(subscript.indirect ? nullptr : subscript.expressions.data());
    if (!subscript.indirect) continue;
    has_indices = true;
    count_indices(counts, at, subscript, variables);
    for (const Expression& expression : subscript.expressions) {
      const Dependence dependence = dependence_of(expression, variables.size());
      for (size_t v = 0; v < variables.size(); ++v) {
        if (dependence.linear[v] || dependence.other[v]) is_separate[v] = true;
      }
    }
  }
  if (view.space == Space::kScratchpad) {
    add_for_all_trips(counts.scratchpad_bytes, points * element);
    return count_remote(counts, view.core, points * element);
  }
  check_levels(view, expressions);
  const bool is_known = value_of(view.base).is_known && !has_indices && !is_list;
  BoxCost cost{points, points};  // of a list: single elements
  if (!is_list) {
    const AddressPattern pattern = pattern_of(view, expressions, variables.size());
    cost =
        cost_of_pattern(pattern, variables, is_separate, is_known ? limits_of(view) : kEverywhere);
  }
  InstructionCounts& all = result_.instructions[at];
  const int64_t bytes = cost.sticks * kBytesInStick;
  add_for_all_trips(counts.device_bytes, bytes);
  add_for_all_trips(all.device_runs, cost.runs);
  if (!is_known || is_first_move(at, view, expressions, variables)) {
    add_for_all_trips(all.distinct_device_bytes, bytes);
    add_for_all_trips(all.unique_device_bytes, bytes);
  }
  if (program_.cores() > 1) accessed_.add(limits_of(view), transfer.store);
}

// Equal registers give equal addresses.
bool Recorder::is_first_move(size_t at, const View& view,
                             std::span<const Expression* const> expressions,
                             std::span<const int64_t> variables) {
  if (program_.cores() == 1 || moved_tiles_.size() >= kMaxTrackedTiles) return true;
  uint64_t hash = mixed(mixed(at, visits_[at]), multiplier_);
  hash = mixed(hash, core_.integer(view.base));
  for (const int64_t extent : variables) hash = mixed(hash, extent);
  for (const Expression* expression : expressions) {
    if (expression == nullptr) continue;
    for (const Term& term : *expression) {
      if (term.kind != TermKind::kRegister) continue;
      hash = mixed(hash, core_.integer(static_cast<Register>(term.value)));
    }
  }
  return moved_tiles_.insert(hash).second;
}

}  // namespace spyre::emulator::engine
