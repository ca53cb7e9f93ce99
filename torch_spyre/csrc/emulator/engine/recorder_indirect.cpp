// Counts the traffic of indirect transfers, whose addresses are computed by expressions. The
// positions that indices select are not known; everything else is counted by its addresses.
#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "emulator/engine/recorder.h"
#include "emulator/engine/recorder_memory.h"
#include "emulator/engine/subscripts.h"

namespace spyre::emulator::engine {
namespace {

int64_t floor_divided(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }
int64_t ceil_divided(int64_t a, int64_t b) { return a / b + (a % b != 0 && (a < 0) == (b < 0)); }

// Wraps around, and returns zero for a division by zero: the execution reports the error.
int64_t evaluate_wrapping(const Expression& expression, const Core& core,
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
    const bool divides = right != 0 && right != -1;
    const int64_t negated = right == -1 ? static_cast<int64_t>(-static_cast<uint64_t>(left)) : 0;
    switch (term.kind) {
      case TermKind::kAdd:
        left = static_cast<int64_t>(static_cast<uint64_t>(left) + static_cast<uint64_t>(right));
        break;
      case TermKind::kMultiply:
        left = static_cast<int64_t>(static_cast<uint64_t>(left) * static_cast<uint64_t>(right));
        break;
      case TermKind::kFloorDivide:
        left = divides ? floor_divided(left, right) : negated;
        break;
      case TermKind::kCeilDivide:
        left = divides ? ceil_divided(left, right) : negated;
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
  std::vector<bool> linear, other;  // by variable

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

bool is_register(const Term& term) { return term.kind == TermKind::kRegister; }

// The addresses of a view as a function of variables: the base plus terms.
class AddressPattern {
 public:
  AddressPattern(const View& view, std::span<const Expression* const> expressions, size_t variables,
                 const Core& core)
      : is_linear(variables, true), steps(variables, 0), core_(core) {
    element_bytes = bytes_of(view.type);
    base_ = narrowed(static_cast<__int128>(core.integer(view.base)) * element_bytes);
    const std::vector<int64_t> origin(variables, 0);
    std::vector<int64_t> point = origin;
    for (size_t i = 0; i < expressions.size(); ++i) {
      if (expressions[i] == nullptr) continue;  // an index decides on this coordinate
      const int64_t stride =
          narrowed(static_cast<__int128>(core.integer(view.strides[i])) * element_bytes);
      terms_.push_back({expressions[i], stride});
      const Dependence dependence = dependence_of(*expressions[i], variables);
      const int64_t constant = evaluate_wrapping(*expressions[i], core, origin);
      for (size_t v = 0; v < variables; ++v) {
        if (dependence.other[v]) is_linear[v] = false;
        if (!dependence.linear[v]) continue;
        point[v] = 1;
        const int64_t factor = evaluate_wrapping(*expressions[i], core, point) - constant;
        point[v] = 0;
        steps[v] = narrowed(steps[v] + static_cast<__int128>(factor) * stride);
      }
    }
  }

  int64_t address_of(std::span<const int64_t> variables) const {
    __int128 address = base_;
    for (const AddressTerm& term : terms_) {
      address += static_cast<__int128>(evaluate_wrapping(*term.expression, core_, variables)) *
                 term.stride;
    }
    return narrowed(address);
  }

  int64_t element_bytes = 0;
  // By variable: whether the address is linear in it, and then by how many bytes it advances.
  std::vector<bool> is_linear;
  std::vector<int64_t> steps;

 private:
  struct AddressTerm {
    const Expression* expression;
    int64_t stride;  // bytes
  };
  const Core& core_;
  int64_t base_;
  std::vector<AddressTerm> terms_;
};

}  // namespace

// The points of the variables: all within extents, or a list.
struct Recorder::Points {
  std::vector<int64_t> extents;
  std::span<const int64_t> list;
  size_t num_variables = 0;

  int64_t count() const { return count_of(extents); }
};

// Notes that the counts are estimates if a register depends on data. Throws NonUniformLoop if one
// changes in a loop that is visited once: it is not known if the addresses then advance by whole
// sticks.
void Recorder::check_registers(size_t at, const View& view, Expressions expressions) {
  std::vector<Register> sources = view.strides;
  for (const Expression* expression : expressions) {
    if (expression == nullptr) continue;
    for (const Term& term : *expression) {
      if (is_register(term)) sources.push_back(static_cast<Register>(term.value));
    }
  }
  if (!are_known(sources)) limit_exactness(at, Exactness::kEstimate);
  sources.push_back(view.base);
  for (const Level& level : levels_) {
    if (!level.is_exact) continue;
    for (const Register source : sources) {
      if (level.slopes[static_cast<size_t>(source)] != 0) throw NonUniformLoop(level.loop);
    }
  }
}

// Returns the accesses of the rows, one for each point of the separate variables. Rows that differ
// only by whole sticks, or by the alignment of rows at unknown addresses, are returned once.
std::vector<Recorder::Row> Recorder::rows_of(const View& view, Expressions expressions,
                                             const Points& points,
                                             const std::vector<bool>& is_separate,
                                             int64_t alignment) const {
  const AddressPattern pattern(view, expressions, points.num_variables, core_);
  std::vector<Row> rows;
  if (!points.list.empty()) {
    std::map<std::vector<int64_t>, std::vector<ByteRange>> ranges;  // by separate variables
    for (size_t first = 0; first < points.list.size(); first += points.num_variables) {
      const auto point = points.list.subspan(first, points.num_variables);
      std::vector<int64_t> key;
      for (size_t v = 0; v < point.size(); ++v) {
        if (is_separate[v]) key.push_back(point[v]);
      }
      const int64_t address = pattern.address_of(point);
      ranges[key].push_back({address, address + pattern.element_bytes});
    }
    for (auto& [key, of_row] : ranges) {
      DeviceAccess row;
      row.ranges = std::move(of_row);
      rows.push_back({std::move(row), 1});
    }
    return rows;
  }
  std::vector<bool> is_enumerated(points.num_variables);
  bool is_box = true, are_alike = true;
  for (size_t v = 0; v < points.num_variables; ++v) {
    is_enumerated[v] = !is_separate[v] && !pattern.is_linear[v];
    is_box &= !is_enumerated[v];
    if (is_separate[v]) are_alike &= pattern.is_linear[v] && pattern.steps[v] % alignment == 0;
  }
  std::vector<int64_t> point(points.num_variables, 0);
  const auto box_here = [&] {
    DeviceBox box(pattern.address_of(point), pattern.element_bytes);
    for (size_t v = 0; v < points.num_variables; ++v) {
      if (!is_separate[v] && !is_enumerated[v]) box.add(points.extents[v], pattern.steps[v]);
    }
    box.normalise();
    return box;
  };
  const auto row_here = [&] {
    DeviceAccess row;
    if (is_box) {
      row.box = box_here();
      return row;
    }
    std::vector<int64_t> separate_point = point;
    visit_points(point, points.extents, is_enumerated, [&] {
      box_here().visit_runs(
          [&](int64_t begin, int64_t end) { row.ranges.push_back({begin, end}); });
    });
    point = separate_point;
    return row;
  };
  if (are_alike) {
    int64_t count = 1;
    for (size_t v = 0; v < points.num_variables; ++v) {
      if (is_separate[v]) count *= points.extents[v];
    }
    rows.push_back({row_here(), count});
    return rows;
  }
  visit_points(point, points.extents, is_separate, [&] { rows.push_back({row_here(), 1}); });
  return rows;
}

bool Recorder::lies_inside(const View& view, ByteRange limits) const {
  if (view.extents.empty() || !are_known(view.extents) || !value_of(view.base).is_known)
    return false;
  const int64_t element = bytes_of(view.type);
  DeviceBox box(narrowed(static_cast<__int128>(core_.integer(view.base)) * element), element);
  for (size_t i = 0; i < view.extents.size(); ++i) {
    const int64_t extent = core_.integer(view.extents[i]);
    if (extent <= 0) return true;
    box.add(extent, narrowed(static_cast<__int128>(core_.integer(view.strides[i])) * element));
  }
  const ByteRange hull = box.hull();
  return hull.begin >= limits.begin && hull.end <= limits.end;
}

void Recorder::count_indices(size_t at, CoreCounts& execution, const Subscript& subscript,
                             const Points& points) {
  const View& view = subscript.index;
  if (view.space == Space::kScratchpad) {
    execution.scratchpad_bytes += points.count() * bytes_of(view.type);
    return;
  }
  std::vector<const Expression*> expressions;
  for (const Expression& expression : subscript.expressions) expressions.push_back(&expression);
  check_registers(at, view, expressions);
  const bool is_known = value_of(view.base).is_known;
  if (!is_known) limit_exactness(at, Exactness::kUpperBound);
  const std::vector<bool> none(points.num_variables, false);
  for (Row& row : rows_of(view, expressions, points, none, kBytesInStick)) {
    row.access.is_known = is_known;
    row.access.alignment = bytes_of(view.type);
    const BoxCost cost = cost_of(at, row.access, limits_of(view));
    execution.index_bytes += cost.sticks * kBytesInStick;
    execution.index_runs += cost.runs;
  }
  if (program_.cores() > 1) accessed_.add(limits_of(view), false);
}

// Counts the tile of the view in device memory.
void Recorder::count_rows(size_t at, CoreCounts& execution, const IndirectTransfer& transfer,
                          const Points& points) {
  const View& view = transfer.view;
  const int64_t element = bytes_of(view.type);
  std::vector<const Expression*> expressions;
  std::vector<bool> is_separate(points.num_variables, false);
  bool has_indices = false;
  int64_t alignment = value_of(view.base).is_known ? kBytesInStick : element;
  for (size_t i = 0; i < transfer.subscripts.size(); ++i) {
    const Subscript& subscript = transfer.subscripts[i];
    expressions.push_back(subscript.indirect ? nullptr : subscript.expressions.data());
    if (!subscript.indirect) continue;
    has_indices = true;
    const auto stride = static_cast<__int128>(core_.integer(view.strides[i]));
    alignment = std::gcd(alignment, narrowed(stride * element));
    for (const Expression& expression : subscript.expressions) {
      const Dependence dependence = dependence_of(expression, points.num_variables);
      for (size_t v = 0; v < points.num_variables; ++v) {
        if (dependence.linear[v] || dependence.other[v]) is_separate[v] = true;
      }
    }
  }
  check_registers(at, view, expressions);
  std::vector<Row> rows = rows_of(view, expressions, points, is_separate, alignment);
  if (!has_indices) {
    DeviceAccess& access = rows[0].access;
    access.is_known = value_of(view.base).is_known;
    access.alignment = element;
    access.steps.assign(levels_.size(), 0);
    return count_access(at, execution, std::move(access), view, transfer.store);
  }
  const bool is_exact = alignment == kBytesInStick && lies_inside(view, limits_of(view));
  if (!is_exact) limit_exactness(at, Exactness::kUpperBound);
  int64_t bytes = 0;
  for (Row& row : rows) {
    row.access.is_known = false;
    row.access.alignment = alignment;
    const BoxCost cost = cost_of(at, row.access, kEverywhere);
    bytes += row.count * cost.sticks * kBytesInStick;
    execution.device_runs += row.count * cost.runs;
  }
  execution.device_bytes += bytes;
  add_unshared(at, bytes);
  if (program_.cores() > 1) accessed_.add(limits_of(view), transfer.store);
}

void Recorder::visit(size_t at, const IndirectTransfer& transfer) {
  CoreCounts execution{.executions = 1};
  num_visited_ += kTransferWeight;
  Points points{extents(at, transfer.variables), transfer.points, transfer.variables.size()};
  const int64_t count = points.count();
  const auto num_listed = static_cast<int64_t>(transfer.points.size());
  if (!points.list.empty() && count > 0) {
    points.num_variables = static_cast<size_t>(num_listed / count);
  }
  // An execution reports an error if the list does not have the length of the tile.
  if (count == 0 || (!points.list.empty() && num_listed % count != 0) ||
      points.num_variables < num_variables_used(transfer)) {
    return add(at, execution);
  }
  execution.scratchpad_bytes = operand_bytes(transfer.tile, points.extents);
  for (const Subscript& subscript : transfer.subscripts) {
    if (subscript.indirect) count_indices(at, execution, subscript, points);
  }
  if (transfer.view.space == Space::kScratchpad) {
    count_scratchpad_view(at, transfer.view, count, execution);
  } else {
    count_rows(at, execution, transfer, points);
  }
  add(at, execution);
}

}  // namespace spyre::emulator::engine
