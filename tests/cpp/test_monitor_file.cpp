// The file that shows the cards of this process to monitors: content, safety, forks.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "check.h"
#include "flex/monitor_file.h"

using namespace spyre::flex;

namespace {

namespace fs = std::filesystem;

// A new folder, removed at the end of the test.
class Folder {
 public:
  Folder() {
    std::string name = fs::temp_directory_path() / "monitor_file_XXXXXX";
    CHECK(mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~Folder() { fs::remove_all(path); }

  fs::path path;
};

std::vector<std::byte> read_bytes(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY);
  std::vector<std::byte> bytes(fs::file_size(path));
  CHECK_EQUAL(::read(file, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  close(file);
  return bytes;
}

uint64_t launches_in(const std::string& path) {
  constexpr size_t kOffset = offsetof(CardRecord, finished);
  const std::vector<std::byte> bytes = read_bytes(path);
  uint64_t launches = 0;
  std::memcpy(&launches,
              bytes.data() + sizeof(MonitorHeader) + kOffset +
                  static_cast<size_t>(Amount::kLaunches) * sizeof(launches),
              sizeof(launches));
  return launches;
}

bool is_locked(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY);
  struct flock query{};
  query.l_type = F_RDLCK;
  query.l_whence = SEEK_SET;
  CHECK(fcntl(file, F_OFD_GETLK, &query) == 0);
  close(file);
  return query.l_type != F_UNLCK;
}

std::string failure_of(const std::string& folder, const std::string& description = "{}") {
  try {
    MonitorFile::create({folder, description}, {{0, 1}});
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST("folders that others could change are refused") {
  const Folder parent;
  const fs::path folder = parent.path / "cards";
  CHECK_EQUAL(mkdir(folder.c_str(), 0700), 0);
  fs::create_directory_symlink(folder, parent.path / "link");
  CHECK(failure_of(parent.path / "link").starts_with("it cannot be opened as a folder"));
  CHECK_EQUAL(chmod(folder.c_str(), 0770), 0);
  CHECK(failure_of(folder) == "other users may write to it");
  CHECK_EQUAL(chmod(folder.c_str(), 0700), 0);
  CHECK(failure_of(parent.path / "missing" / "cards").starts_with("it cannot be created"));
  CHECK(failure_of(folder, std::string(985, ' ')).find("too long") != std::string::npos);
  if (geteuid() == 0) {
    CHECK_EQUAL(chown(folder.c_str(), 12345, 12345), 0);
    CHECK(failure_of(folder) == "it belongs to another user");
  }
  CHECK(fs::is_empty(folder));
}

TEST("the file has a header, private permissions and a lock; a forked child leaves it alone") {
  const Folder parent;
  const fs::path folder = parent.path / "cards";
  const std::string description = R"({"name": "a card"})";
  MonitorFile& file = MonitorFile::create({folder, description}, {{3, 1 << 20}, {5, 1 << 21}});
  struct stat status{};
  CHECK_EQUAL(stat(folder.c_str(), &status), 0);
  CHECK_EQUAL(status.st_mode & 0777, 0700u);
  CHECK_EQUAL(stat(file.path().c_str(), &status), 0);
  CHECK_EQUAL(status.st_mode & 0777, 0600u);
  CHECK(is_locked(file.path()));

  const std::vector<std::byte> bytes = read_bytes(file.path());
  CHECK_EQUAL(bytes.size(), sizeof(MonitorHeader) + 2 * sizeof(CardRecord));
  MonitorHeader header{};
  std::memcpy(&header, bytes.data(), sizeof(header));
  CHECK_EQUAL(std::memcmp(header.magic, "SPYRESMI", 8), 0);
  CHECK_EQUAL(header.version, 1u);
  CHECK_EQUAL(header.num_cards, 2u);
  CHECK_EQUAL(header.pid, static_cast<uint64_t>(getpid()));
  CHECK(header.start_ticks > 0);
  CHECK(std::string(header.description) == description);
  CHECK_EQUAL(file.card(0).index, 3u);
  CHECK_EQUAL(file.card(1).index, 5u);
  CHECK_EQUAL(file.card(1).total_bytes, uint64_t{1 << 21});

  auto& launches = file.card(0).finished[static_cast<size_t>(Amount::kLaunches)];
  launches = 7;
  CHECK_EQUAL(launches_in(file.path()), 7u);
  const pid_t child = fork();
  if (child == 0) {
    launches = 8;  // of nobody
    // A file that takes the number of the closed one is no business of a child of the child.
    const int other = open("/dev/null", O_RDONLY);
    const pid_t grandchild = fork();
    if (grandchild == 0) _exit(fcntl(other, F_GETFD) >= 0 ? 0 : 1);
    int outcome = 0;
    waitpid(grandchild, &outcome, 0);
    _exit(launches == 8 && outcome == 0 ? 0 : 1);
  }
  int outcome = 0;
  waitpid(child, &outcome, 0);
  CHECK_EQUAL(outcome, 0);
  CHECK_EQUAL(launches_in(file.path()), 7u);
  CHECK(is_locked(file.path()));
}
