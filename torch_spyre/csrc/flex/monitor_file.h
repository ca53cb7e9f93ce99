// The file in which this process shows its cards to monitors (`spyre smi`): a header and one record
// for each card, in shared memory. No process can write it but this one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "flex/card_meter.h"

namespace spyre::flex {

struct MonitorOptions {
  // The folder of the files of this user's processes; empty: show nothing. It must belong to the
  // user, and nobody else may write it. It is created if it does not exist.
  std::string folder;
  // What monitors need to know about the cards, as JSON.
  std::string description;
};

// `torch_spyre/monitor/segment.py` reads this layout.
struct MonitorHeader {
  static constexpr char kMagic[8] = {'S', 'P', 'Y', 'R', 'E', 'S', 'M', 'I'};
  static constexpr uint32_t kVersion = 1;

  char magic[8];  // written last
  uint32_t version;
  uint32_t num_cards;
  uint64_t pid;
  uint64_t start_ticks;    // when the process started: its number may be used again
  uint64_t pid_namespace;  // in which it has this number
  char description[984];   // padded with zeros
};
static_assert(sizeof(MonitorHeader) == 1024);

struct MonitoredCard {
  int index = 0;  // in the machine
  int64_t total_bytes = 0;
};

// While it is open, the file is locked, which tells readers that the process that wrote it still
// runs the program that did. It is removed when the process exits. A forked child gets a private
// copy of the records that nobody reads, and leaves the file alone.
class MonitorFile {
 public:
  // Throws std::runtime_error with the reason why the file cannot be created. A process has at most
  // one; it is never destroyed, because threads of streams may write until the process ends.
  static MonitorFile& create(const MonitorOptions& options,
                             const std::vector<MonitoredCard>& cards);

  CardRecord& card(size_t position) { return records_[position]; }
  const std::string& path() const { return path_; }

 private:
  MonitorFile(const MonitorOptions& options, const std::vector<MonitoredCard>& cards);
  void map(int file, const std::vector<MonitoredCard>& cards);
  void remove() const;
  void leave_to_parent();

  std::string path_;
  int64_t pid_ = 0;
  int file_ = -1;
  size_t bytes_ = 0;
  std::byte* memory_ = nullptr;
  CardRecord* records_ = nullptr;
};

}  // namespace spyre::flex
