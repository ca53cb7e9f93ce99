#include "emulator/engine/direct_tiles.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>

#include "emulator/engine/scratchpad_use.h"

namespace spyre::emulator::engine {

namespace {

// Bounds the time of loading a long program: the product of tiles and instructions.
constexpr size_t kMaxExaminedInstructions = 1 << 20;

// The location of a tile in the scratchpad.
struct Tile {
  int64_t address, bytes;
  ElementType type;

  explicit Tile(const Operand& operand)
      : address(operand.address), bytes(operand.bytes), type(operand.type) {}
  auto operator<=>(const Tile&) const = default;

  bool overlaps(int64_t begin, int64_t size) const {
    return begin < address + bytes && address < begin + size;
  }
  bool is_buffer_of(const Operand& operand) const {
    return operand.offset == kNoRegister && Tile(operand) == *this;
  }
};

// Returns whether the transfer is a load that fills its whole tile from one global view, for all
// values of registers.
bool may_be_direct(const Transfer& transfer, const ConstantRegisters& constants) {
  if (transfer.store || transfer.views.size() != 1 || !transfer.points.empty()) return false;
  const View& view = transfer.views[0];
  if (view.space != Space::kGlobal || !view.lower.empty()) return false;
  const auto extents = constants.values(transfer.extents);
  return extents && covers_buffer(transfer.tile, *extents);
}

// Returns whether memory may change during the instruction: it writes memory or waits for another
// core.
bool changes_memory(const Action& action) {
  if (const auto* direct = std::get_if<Transfer>(&action)) return direct->store;
  if (const auto* indirect = std::get_if<IndirectTransfer>(&action)) return indirect->store;
  return std::holds_alternative<Publish>(action) || std::holds_alternative<Receive>(action);
}

class DirectTileFinder {
 public:
  explicit DirectTileFinder(Program& program) : program_(program), constants_(program) {}

  void run() {
    std::map<Tile, std::vector<size_t>> loads;
    for (size_t i = 0; i < program_.code.size(); ++i) {
      const auto* transfer = std::get_if<Transfer>(&program_.code[i].action);
      if (transfer != nullptr && may_be_direct(*transfer, constants_)) {
        loads[Tile(transfer->tile)].push_back(i);
      }
    }
    size_t examined = 0;
    for (const auto& [tile, load_indices] : loads) {
      examined += (load_indices.size() + 1) * program_.code.size();
      if (examined > kMaxExaminedInstructions) return;
      if (is_read_by_matmuls_only(tile) && std::ranges::none_of(load_indices, [&](size_t load) {
            return is_read_after_write(tile, load);
          })) {
        assign_number(tile);
      }
    }
  }

 private:
  bool is_load(const Tile& tile, const Action& action) const {
    const auto* transfer = std::get_if<Transfer>(&action);
    return transfer != nullptr && tile.is_buffer_of(transfer->tile) &&
           may_be_direct(*transfer, constants_);
  }
  static bool is_read_by(const Tile& tile, const Action& action) {
    const auto* matmul = std::get_if<Matmul>(&action);
    return matmul != nullptr && tile.is_buffer_of(matmul->b);
  }

  bool is_read_by_matmuls_only(const Tile& tile) const {
    bool is_read = false;
    for (const Instruction& instruction : program_.code) {
      const Action& action = instruction.action;
      const bool reads = is_read_by(tile, action), loads = is_load(tile, action);
      is_read |= reads;
      bool is_touched = false;
      visit_accesses(action, [&](const ScratchpadAccess& access) {
        const auto* matmul = std::get_if<Matmul>(&action);
        const bool is_expected = loads || (reads && &access.operand == &matmul->b);
        is_touched |= !is_expected && tile.overlaps(access.operand.address, access.operand.bytes);
      });
      if (const auto* literal = std::get_if<Literal>(&action)) {
        is_touched |= tile.overlaps(literal->destination.address, literal->destination.bytes);
      }
      if (const auto* publish = std::get_if<Publish>(&action)) {
        for (const PublishedTile& part : publish->tiles) {
          is_touched |= tile.overlaps(part.address, part.bytes);
        }
      }
      if (is_touched) return false;
    }
    return is_read;
  }

  // Returns whether there is a path from the load to a matmul, without another load of the tile, on
  // which memory may change.
  bool is_read_after_write(const Tile& tile, size_t load) const {
    const size_t end = program_.code.size();
    std::vector<bool> visited(2 * (end + 1), false);
    std::vector<std::pair<size_t, bool>>
        worklist;  // an instruction, and whether memory has changed
    const auto push = [&](size_t next, bool changed) {
      if (next >= end || visited[2 * next + changed]) return;
      visited[2 * next + changed] = true;
      worklist.emplace_back(next, changed);
    };
    push(load + 1, false);
    while (!worklist.empty()) {
      auto [at, changed] = worklist.back();
      worklist.pop_back();
      const Action& action = program_.code[at].action;
      if (is_load(tile, action)) continue;
      if (changed && is_read_by(tile, action)) return true;
      changed |= changes_memory(action);
      if (const auto* jump = std::get_if<Jump>(&action)) {
        push(static_cast<size_t>(jump->target), changed);
        continue;
      }
      push(at + 1, changed);
      if (const auto* branch = std::get_if<Branch>(&action)) {
        push(static_cast<size_t>(branch->target), changed);
      } else if (const auto* loop = std::get_if<LoopBegin>(&action)) {
        push(static_cast<size_t>(loop->end) + 1, changed);
      } else if (const auto* loop_end = std::get_if<LoopEnd>(&action)) {
        push(static_cast<size_t>(loop_end->begin) + 1, changed);
      }
    }
    return false;
  }

  void assign_number(const Tile& tile) {
    const int32_t number = program_.direct_tiles++;
    for (Instruction& instruction : program_.code) {
      if (is_load(tile, instruction.action)) {
        std::get<Transfer>(instruction.action).direct_tile = number;
      } else if (is_read_by(tile, instruction.action)) {
        std::get<Matmul>(instruction.action).direct_tile = number;
      }
    }
  }

  Program& program_;
  const ConstantRegisters constants_;
};

}  // namespace

void find_direct_tiles(Program& program) {
  program.direct_tiles = 0;
  for (Instruction& instruction : program.code) {
    if (auto* transfer = std::get_if<Transfer>(&instruction.action)) {
      transfer->direct_tile = kNoDirectTile;
    } else if (auto* matmul = std::get_if<Matmul>(&instruction.action)) {
      matmul->direct_tile = kNoDirectTile;
    }
  }
  DirectTileFinder(program).run();
}

void materialise(DirectTile& tile) {
  if (tile.data == nullptr) return;
  const auto bytes = static_cast<size_t>(tile.run * tile.element_bytes);
  std::byte* to = tile.tile;
  for (int64_t row = 0; row < tile.rows; ++row) {
    const std::byte* from = tile.data + row * tile.row_stride * tile.element_bytes;
    for (int64_t run = 0; run < tile.runs; ++run, to += bytes) {
      std::memcpy(to, from + run * tile.run_stride * tile.element_bytes, bytes);
    }
  }
  tile.data = nullptr;
}

}  // namespace spyre::emulator::engine
