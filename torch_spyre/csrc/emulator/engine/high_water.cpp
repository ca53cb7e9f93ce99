#include "emulator/engine/high_water.h"

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "emulator/engine/indexed.h"

namespace spyre::emulator::engine {
namespace {

// Returns the end of the last element of an operand that a box of these extents accesses.
int64_t end_of(const Operand& operand, const Core& core, std::span<const int64_t> extents) {
  int64_t last = operand.offset == kNoRegister ? 0 : core.integer(operand.offset);
  for (size_t d = 0; d < extents.size(); ++d) {
    if (extents[d] == 0) return 0;
    last += std::max<int64_t>(0, (extents[d] - 1) * operand.strides[d]);
  }
  return operand.address + (last + 1) * bytes_of(operand.type);
}

struct EndVisitor {
  const Core& core;

  int64_t body(const ChainBody& chain, std::span<const int64_t> extents) const {
    int64_t end = 0;
    for (const Input& input : chain.inputs) {
      if (input.kind == InputKind::kOperand)
        end = std::max(end, end_of(input.operand, core, extents));
    }
    for (const Lookup& lookup : chain.lookups) {
      end = std::max(end, end_of(lookup.operand, core, extents_of(core, lookup.extents)));
    }
    return end;
  }

  int64_t operator()(const Extract& extract) const {
    std::vector<int64_t> extents;
    for (const Register index : extract.indices) extents.push_back(core.integer(index) + 1);
    return end_of(extract.source, core, extents);
  }
  int64_t operator()(const Transfer& transfer) const {
    return end_of(transfer.tile, core, extents_of(core, transfer.extents));
  }
  int64_t operator()(const IndirectTransfer& transfer) const {
    return end_of(transfer.tile, core, extents_of(core, transfer.variables));
  }
  int64_t operator()(const Chain& chain) const {
    const std::vector<int64_t> extents = extents_of(core, chain.extents);
    int64_t end = body(chain, extents);
    for (const ChainOutput& output : chain.outputs) {
      end = std::max(end, end_of(output.operand, core, extents));
    }
    return end;
  }
  int64_t operator()(const Reduce& reduce) const {
    const std::vector<int64_t> extents = extents_of(core, reduce.extents);
    int64_t end = body(reduce, extents);
    std::vector<int64_t> result_extents = extents;
    for (const int32_t dimension : reduce.reduced) {
      result_extents[static_cast<size_t>(dimension)] = 1;
    }
    for (const auto* operands : {&reduce.initial, &reduce.outputs}) {
      for (const Operand& operand : *operands) {
        end = std::max(end, end_of(operand, core, result_extents));
      }
    }
    return end;
  }
  int64_t operator()(const Matmul& matmul) const {
    const std::array sources{matmul.batch, matmul.rows, matmul.columns, matmul.inner};
    const std::vector<int64_t> sizes = extents_of(core, sources);
    const int64_t batch = sizes[0], rows = sizes[1], columns = sizes[2], inner = sizes[3];
    const std::array output{batch, rows, columns};
    const int64_t addend = matmul.has_initial ? end_of(matmul.initial, core, output) : 0;
    return std::max({addend, end_of(matmul.a, core, std::array{batch, rows, inner}),
                     end_of(matmul.b, core, std::array{batch, inner, columns}),
                     end_of(matmul.output, core, output)});
  }
  int64_t operator()(const Copy& copy) const {
    const std::vector<int64_t> extents = extents_of(core, copy.extents);
    return std::max(end_of(copy.source, core, extents), end_of(copy.destination, core, extents));
  }
  int64_t operator()(const Sort& sort) const {
    std::vector<int64_t> extents = extents_of(core, sort.extents);
    const int64_t end =
        std::max(end_of(sort.keys, core, extents), end_of(sort.indices, core, extents));
    extents.back() = core.integer(sort.kept);
    return std::max(
        {end, end_of(sort.sorted_keys, core, extents), end_of(sort.sorted_indices, core, extents)});
  }
  int64_t operator()(const Indexed& indexed) const {
    const std::vector<int64_t> extents = extents_of(core, indexed.extents);
    const IndexedTable table(indexed, core, extents);
    return std::max({end_of(indexed.index, core, extents), end_of(indexed.tile, core, extents),
                     end_of(table.operand, core, table.extents)});
  }
  int64_t operator()(const Publish& publish) const {
    int64_t end = 0;
    for (const PublishedTile& tile : publish.tiles) end = std::max(end, tile.address + tile.bytes);
    return end;
  }
  int64_t operator()(const Receive& receive) const {
    return end_of(receive.destination, core, extents_of(core, receive.extents));
  }
  int64_t operator()(const Literal& literal) const {
    const auto count = static_cast<int64_t>(literal.values.size());
    return literal.destination.address + count * bytes_of(literal.destination.type);
  }
  template <typename Other>
  int64_t operator()(const Other&) const {
    return 0;
  }
};

}  // namespace

int64_t scratchpad_end(const Action& action, const Core& core) {
  return std::visit(EndVisitor{core}, action);
}

}  // namespace spyre::emulator::engine
