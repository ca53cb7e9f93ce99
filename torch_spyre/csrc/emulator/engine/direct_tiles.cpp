#include "emulator/engine/direct_tiles.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>

#include "emulator/engine/scratchpad_use.h"

namespace spyre::emulator::engine {

namespace {

// So that loading a long program takes no long time: tiles times instructions.
constexpr size_t kMostLooks = 1 << 20;

// Where a tile lies.
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

// A load that fills all of its tile from one plain view of memory, whatever registers contain.
bool may_be_direct(const Transfer& transfer, const ConstantRegisters& constants) {
  if (transfer.store || transfer.views.size() != 1 || !transfer.points.empty()) return false;
  const View& view = transfer.views[0];
  if (view.space != Space::kGlobal || !view.lower.empty()) return false;
  const auto extents = constants.values(transfer.extents);
  return extents && covers_buffer(transfer.tile, *extents);
}

// Whether memory may be different after the instruction: it is written, or others get the chance.
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
    size_t looks = 0;
    for (const auto& [tile, places] : loads) {
      looks += (places.size() + 1) * program_.code.size();
      if (looks > kMostLooks) return;
      if (is_read_by_matmuls_only(tile) && std::ranges::none_of(places, [&](size_t load) {
            return is_read_after_a_change(tile, load);
          })) {
        mark(tile);
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

  // Returns whether a path leads from the load to a matmul, without another load of the tile, on
  // which memory may change.
  bool is_read_after_a_change(const Tile& tile, size_t load) const {
    const size_t end = program_.code.size();
    std::vector<bool> seen(2 * (end + 1), false);
    std::vector<std::pair<size_t, bool>> open;  // the next instruction, and if memory has changed
    const auto reach = [&](size_t next, bool changed) {
      if (next >= end || seen[2 * next + changed]) return;
      seen[2 * next + changed] = true;
      open.emplace_back(next, changed);
    };
    reach(load + 1, false);
    while (!open.empty()) {
      auto [at, changed] = open.back();
      open.pop_back();
      const Action& action = program_.code[at].action;
      if (is_load(tile, action)) continue;
      if (changed && is_read_by(tile, action)) return true;
      changed |= changes_memory(action);
      if (const auto* jump = std::get_if<Jump>(&action)) {
        reach(static_cast<size_t>(jump->target), changed);
        continue;
      }
      reach(at + 1, changed);
      if (const auto* branch = std::get_if<Branch>(&action)) {
        reach(static_cast<size_t>(branch->target), changed);
      } else if (const auto* loop = std::get_if<LoopBegin>(&action)) {
        reach(static_cast<size_t>(loop->end) + 1, changed);
      } else if (const auto* loop_end = std::get_if<LoopEnd>(&action)) {
        reach(static_cast<size_t>(loop_end->begin) + 1, changed);
      }
    }
    return false;
  }

  void mark(const Tile& tile) {
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

void copy_now(DirectTile& tile) {
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
