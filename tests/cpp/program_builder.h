// Builds small programs for tests.
#pragma once

#include <bit>
#include <utility>
#include <vector>

#include "emulator/engine/program.h"

namespace spyre::emulator::engine {

class ProgramBuilder {
 public:
  explicit ProgramBuilder(std::array<int64_t, 3> grid) { program.grid = grid; }

  Register fresh() { return program.registers++; }
  Register constant(int64_t value) {
    const Register target = fresh();
    program.constants.push_back({target, value});
    return target;
  }
  std::vector<Register> constants(const std::vector<int64_t>& values) {
    std::vector<Register> registers;
    for (const int64_t value : values) registers.push_back(constant(value));
    return registers;
  }
  Register array(ElementType type = ElementType::F16) {
    Argument argument;
    argument.is_array = true;
    argument.destination = fresh();
    argument.type = type;
    program.arguments.push_back(argument);
    return argument.destination;
  }
  Operand tile(int64_t elements, std::vector<int64_t> strides,
               ElementType type = ElementType::F16) {
    Operand operand;
    operand.address = program.scratchpad_bytes;
    operand.bytes = elements * bytes_of(type);
    operand.type = type;
    operand.strides = std::move(strides);
    program.scratchpad_bytes += operand.bytes;
    return operand;
  }

  size_t add(Action action) {
    program.code.push_back({0, std::move(action)});
    return program.code.size() - 1;
  }
  Register compute(VectorOp op, std::vector<Register> inputs,
                   ElementType operand = ElementType::I64, ElementType result = ElementType::I64) {
    const Register target = fresh();
    add(Scalar{op, operand, result, target, std::move(inputs)});
    return target;
  }
  Register sum(Register a, Register b) { return compute(VectorOp::ADDI, {a, b}); }
  Register product(Register a, Register b) { return compute(VectorOp::MULI, {a, b}); }

  // Adds a loop: body(variable) adds the instructions of an iteration. Returns the index of the
  // loop.
  template <typename Body>
  size_t loop(Register lower, Register upper, Register step, Body body) {
    const Register variable = fresh();
    const size_t begin = add(LoopBegin{variable, lower, upper, step, 0});
    body(variable);
    const size_t end = add(LoopEnd{static_cast<int32_t>(begin)});
    std::get<LoopBegin>(program.code[begin].action).end = static_cast<int32_t>(end);
    return begin;
  }
  template <typename Then, typename Else>
  void branch(Register condition, Then then, Else otherwise) {
    const size_t branch = add(Branch{condition, 0});
    then();
    const size_t jump = add(Jump{0});
    std::get<Branch>(program.code[branch].action).target = next();
    otherwise();
    std::get<Jump>(program.code[jump].action).target = next();
  }
  int32_t next() const { return static_cast<int32_t>(program.code.size()); }

  View view(Register base, std::vector<Register> strides, ElementType type = ElementType::F16) {
    View view;
    view.type = type;
    view.base = base;
    view.strides = std::move(strides);
    return view;
  }
  // Adds a transfer of a contiguous tile.
  size_t transfer(bool store, const View& view, std::vector<Register> anchor,
                  std::vector<int64_t> extents) {
    Transfer transfer;
    transfer.store = store;
    transfer.extents = constants(extents);
    transfer.anchor = std::move(anchor);
    transfer.views = {view};
    std::vector<int64_t> strides(extents.size());
    int64_t size = 1;
    for (size_t i = extents.size(); i-- > 0;) {
      strides[i] = size;
      size *= extents[i];
    }
    transfer.tile = tile(size, std::move(strides), view.type);
    return add(transfer);
  }

  Program program;
};

}  // namespace spyre::emulator::engine
