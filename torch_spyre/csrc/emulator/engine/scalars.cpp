#include "emulator/engine/scalars.h"

#include <array>
#include <cstring>
#include <stdexcept>
#include <string>

#include "emulator/engine/direct_tiles.h"
#include "emulator/engine/lanes.h"
#include "emulator/engine/matmul.h"
#include "emulator/engine/vector_ops.h"

namespace spyre::emulator::engine {

namespace {

constexpr size_t kMaxInputs = 6;

// A matrix in the scratchpad, with bounds checked. Strides of dimensions of extent 1 are not used
// and may have any value.
struct MatrixOperand {
  std::byte* data;
  ElementType type;
  int64_t batch_bytes, row_stride, column_stride;

  MatrixOperand(const Core& core, const Operand& operand, int64_t batch, int64_t rows,
                int64_t columns)
      : data(elements_of(core, operand, std::array{batch, rows, columns})),
        type(operand.type),
        batch_bytes(batch > 1 ? operand.strides[0] * bytes_of(operand.type) : 0),
        row_stride(rows > 1 ? operand.strides[1] : 0),
        column_stride(columns > 1 ? operand.strides[2] : 0) {}

  Matrix in(int64_t batch) const {
    return {data + batch * batch_bytes, type, row_stride, column_stride};
  }
  MatrixOut out(int64_t batch) const {
    return {data + batch * batch_bytes, type, row_stride, column_stride};
  }
};

// Returns B as the matmul reads it: from memory, if a load has left it there in a supported form.
Matrix matrix_b(const Matmul& instruction, Core& core, std::span<const int64_t> sizes,
                const Matrix& in_scratchpad) {
  if (instruction.direct_tile == kNoDirectTile) return in_scratchpad;
  DirectTile& tile = core.direct_tiles[static_cast<size_t>(instruction.direct_tile)];
  if (tile.data == nullptr) return in_scratchpad;
  const int64_t batch = sizes[0], rows = sizes[1], columns = sizes[2], inner = sizes[3];
  const bool fits = batch == 1 && inner <= tile.rows && columns <= tile.runs * tile.run &&
                    in_scratchpad.row_stride == tile.runs * tile.run &&
                    in_scratchpad.column_stride == 1 &&
                    reads_runs(rows, columns, instruction.output.type, tile.run);
  if (fits) return {tile.data, in_scratchpad.type, tile.row_stride, 1, tile.run, tile.run_stride};
  materialise(tile);
  return in_scratchpad;
}

}  // namespace

void execute(const Scalar& scalar, Core& core) {
  std::array<const void*, kMaxInputs> inputs{};
  for (size_t i = 0; i < scalar.inputs.size(); ++i) inputs[i] = core.lane(scalar.inputs[i]);
  uint64_t result = 0;
  vector_function(scalar.op, scalar.operand, scalar.result)(inputs.data(), &result, 1);
  core.registers[static_cast<size_t>(scalar.destination)] = result;
}

void execute(const Extract& extract, Core& core) {
  const std::vector<int64_t> extents = extents_of(core, extract.extents);
  const std::byte* first = elements_of(core, extract.source, extents);
  int64_t element = 0;
  for (size_t d = 0; d < extents.size(); ++d) {
    const int64_t index = core.integer(extract.indices[d]);
    if (index < 0 || index >= extents[d]) {
      throw KernelIndexError("index " + std::to_string(index) + " is out of range in dimension " +
                             std::to_string(d) + " of size " + std::to_string(extents[d]));
    }
    if (index > 0) element += index * extract.source.strides[d];
  }
  uint64_t result = 0;
  load_lanes(extract.source.type)(first + element * bytes_of(extract.source.type), 1, &result, 1);
  core.registers[static_cast<size_t>(extract.destination)] = result;
}

void execute(const Matmul& instruction, Core& core) {
  const std::vector<int64_t> sizes = extents_of(
      core,
      std::array{instruction.batch, instruction.rows, instruction.columns, instruction.inner});
  const int64_t batch = sizes[0], rows = sizes[1], columns = sizes[2], inner = sizes[3];
  const MatrixOperand a(core, instruction.a, batch, rows, inner);
  const MatrixOperand b(core, instruction.b, batch, inner, columns);
  const MatrixOperand output(core, instruction.output, batch, rows, columns);
  const MatrixOperand initial(core,
                              instruction.has_initial ? instruction.initial : instruction.output,
                              batch, rows, columns);
  try {
    for (int64_t i = 0; i < batch; ++i) {
      matmul(rows, columns, inner, a.in(i), matrix_b(instruction, core, sizes, b.in(i)),
             instruction.has_initial ? initial.in(i) : Matrix{}, output.out(i));
    }
  } catch (const std::invalid_argument& error) {
    throw KernelError(error.what());
  }
}

}  // namespace spyre::emulator::engine
