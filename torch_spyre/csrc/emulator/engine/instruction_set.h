// The instruction set that this library was compiled with. A test compares it with the Python
// description (torch_spyre/backend/program/description.py).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace spyre::emulator::engine {

struct RecordDescription {
  std::string name;
  int64_t opcode = 0;                                       // 0 if it is no instruction
  std::string mnemonic;                                     // empty if it is no instruction
  std::vector<std::pair<std::string, std::string>> fields;  // name and type
};

// Returns every record, after the records of its fields, then the instructions.
std::vector<RecordDescription> describe_instruction_set();

}  // namespace spyre::emulator::engine
