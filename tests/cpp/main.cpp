// Runs all tests, or those whose names contain one of the arguments; benchmarks only if named.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <span>

#include "check.h"

namespace {

bool is_selected(std::string_view name, std::span<char*> words) {
  if (words.empty()) return !name.starts_with("benchmark:");
  return std::any_of(words.begin(), words.end(),
                     [&](const char* word) { return name.find(word) != std::string_view::npos; });
}

bool passes(const check::Test& test) {
  try {
    test.run();
    return true;
  } catch (const std::exception& error) {
    std::printf("FAILED %s\n  %s\n", std::string(test.name).c_str(), error.what());
  } catch (...) {
    std::printf("FAILED %s\n  something that is no std::exception\n",
                std::string(test.name).c_str());
  }
  return false;
}

}  // namespace

int main(int count, char** arguments) {
  const std::span<char*> words(arguments + 1, static_cast<size_t>(count - 1));
  int passed = 0;
  int failed = 0;
  for (const check::Test& test : check::all_tests()) {
    if (!is_selected(test.name, words)) continue;
    (passes(test) ? passed : failed) += 1;
  }
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed == 0 ? 0 : 1;
}
