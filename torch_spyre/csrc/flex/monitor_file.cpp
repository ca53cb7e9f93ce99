#include "flex/monitor_file.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <new>
#include <stdexcept>
#include <utility>

namespace spyre::flex {

namespace {

constexpr const char* kSuffix = ".smi";
// Field 22 of /proc/<pid>/stat, counted from the one after the name of the program.
constexpr int kStartField = 22 - 3;

MonitorFile* file_of_process = nullptr;

[[noreturn]] void fail(const std::string& what, int error) {
  throw std::runtime_error(what + ": " + std::strerror(error));
}

class Descriptor {
 public:
  Descriptor(int value, const std::string& what) : value_(value) {
    if (value_ < 0) fail(what, errno);
  }
  ~Descriptor() {
    if (value_ >= 0) close(value_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int get() const { return value_; }
  int release() { return std::exchange(value_, -1); }

 private:
  int value_;
};

uint64_t start_ticks_of_process() {
  std::ifstream stat("/proc/self/stat");
  const std::string text{std::istreambuf_iterator<char>(stat), {}};
  // The name of the program may contain anything; nothing after it contains a parenthesis.
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) throw std::runtime_error("/proc/self/stat cannot be read");
  const char* position = text.c_str() + name_end + 1;
  for (int field = 0; field < kStartField; ++field) {
    position += std::strspn(position, " ");
    position += std::strcspn(position, " ");
  }
  return std::strtoull(position, nullptr, 10);
}

uint64_t pid_namespace_of_process() {
  struct stat status{};
  if (stat("/proc/self/ns/pid", &status) != 0) fail("/proc/self/ns/pid", errno);
  return status.st_ino;
}

// Opens the folder; creates it if there is none. A symbolic link is not followed.
int open_folder(const std::string& path) {
  if (mkdir(path.c_str(), S_IRWXU) != 0 && errno != EEXIST) fail("it cannot be created", errno);
  Descriptor folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
                    "it cannot be opened as a folder");
  struct stat status{};
  if (fstat(folder.get(), &status) != 0) fail("its owner is unknown", errno);
  if (status.st_uid != geteuid()) throw std::runtime_error("it belongs to another user");
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    throw std::runtime_error("other users may write to it");
  }
  return folder.release();
}

// Locks the file until the process ends or executes another program.
void lock(int file) {
  struct flock whole{};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  if (fcntl(file, F_OFD_SETLK, &whole) != 0) fail("a file in it cannot be locked", errno);
}

}  // namespace

MonitorFile& MonitorFile::create(const MonitorOptions& options,
                                 const std::vector<MonitoredCard>& cards) {
  auto* file = new MonitorFile(options, cards);
  file_of_process = file;
  std::atexit([] { file_of_process->remove(); });
  pthread_atfork(nullptr, nullptr, [] { file_of_process->leave_to_parent(); });
  return *file;
}

MonitorFile::MonitorFile(const MonitorOptions& options, const std::vector<MonitoredCard>& cards)
    : pid_(getpid()), bytes_(sizeof(MonitorHeader) + cards.size() * sizeof(CardRecord)) {
  MonitorHeader header{};
  header.version = MonitorHeader::kVersion;
  header.num_cards = static_cast<uint32_t>(cards.size());
  header.pid = static_cast<uint64_t>(pid_);
  header.start_ticks = start_ticks_of_process();
  header.pid_namespace = pid_namespace_of_process();
  if (options.description.size() > sizeof(header.description)) {
    throw std::runtime_error("the description of the card is too long");
  }
  options.description.copy(header.description, sizeof(header.description));

  const Descriptor folder(open_folder(options.folder), "it cannot be opened");
  const std::string name = std::to_string(header.pid_namespace) + "-" + std::to_string(pid_) + "-" +
                           std::to_string(header.start_ticks) + kSuffix;
  // A file of this name was left by a program that this process has executed before.
  unlinkat(folder.get(), name.c_str(), 0);
  const int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  Descriptor file(openat(folder.get(), name.c_str(), flags, S_IRUSR | S_IWUSR),
                  "no file can be created in it");
  path_ = options.folder + "/" + name;
  try {
    lock(file.get());
    map(file.get(), cards);
  } catch (...) {
    unlinkat(folder.get(), name.c_str(), 0);
    throw;
  }
  file_ = file.release();
  std::memcpy(memory_ + sizeof(header.magic), &header.version,
              sizeof(header) - offsetof(MonitorHeader, version));
  std::atomic_thread_fence(std::memory_order_release);
  std::memcpy(memory_, MonitorHeader::kMagic, sizeof(header.magic));
}

void MonitorFile::map(int file, const std::vector<MonitoredCard>& cards) {
  // Reserves the memory: a write to a page that a full file system cannot back would be fatal.
  const int error = posix_fallocate(file, 0, static_cast<off_t>(bytes_));
  if (error != 0) fail("a file in it has no space", error);
  void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) fail("a file in it cannot be mapped", errno);
  memory_ = static_cast<std::byte*>(memory);
  records_ = reinterpret_cast<CardRecord*>(memory_ + sizeof(MonitorHeader));
  for (size_t i = 0; i < cards.size(); ++i) {
    auto* record = new (&records_[i]) CardRecord();
    record->index = static_cast<uint64_t>(cards[i].index);
    record->total_bytes = static_cast<uint64_t>(cards[i].total_bytes);
  }
}

void MonitorFile::remove() const {
  if (getpid() == pid_) unlink(path_.c_str());
}

// Runs in a forked child, where only system calls are allowed.
void MonitorFile::leave_to_parent() {
  mmap(memory_, bytes_, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (file_ >= 0) close(file_);
  file_ = -1;
}

}  // namespace spyre::flex
