// A minimal test harness: TEST("the behaviour under test") { CHECK(condition); }.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace check {

struct Test {
  std::string_view name;
  void (*run)();
};

inline std::vector<Test>& all_tests() {
  static std::vector<Test> tests;
  return tests;
}

inline bool add_test(std::string_view name, void (*run)()) {
  all_tests().push_back({name, run});
  return true;
}

// Thrown to end a failed test.
struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

[[noreturn]] inline void fail(const char* file, int line, const std::string& what) {
  throw Failure(std::string(file) + ":" + std::to_string(line) + ": " + what);
}

template <typename Left, typename Right>
void check_equal(const char* file, int line, const char* expression, const Left& left,
                 const Right& right) {
  if (left == right) return;
  std::ostringstream what;
  what << expression << ", but " << +left << " != " << +right << std::hex << " (hex " << +left
       << ", " << +right << ")";
  fail(file, line, what.str());
}

}  // namespace check

#define CHECK_CONCAT_(a, b) a##b
#define CHECK_CONCAT(a, b) CHECK_CONCAT_(a, b)
#define TEST_WITH_ID(name, id)                                     \
  static void CHECK_CONCAT(test_, id)();                           \
  [[maybe_unused]] static const bool CHECK_CONCAT(is_added_, id) = \
      ::check::add_test(name, CHECK_CONCAT(test_, id));            \
  static void CHECK_CONCAT(test_, id)()
#define TEST(name) TEST_WITH_ID(name, __COUNTER__)

#define CHECK(condition)                                             \
  do {                                                               \
    if (!(condition)) ::check::fail(__FILE__, __LINE__, #condition); \
  } while (false)

// Fails with the message `what` unless the condition holds.
#define CHECK_THAT(condition, what)                                                             \
  do {                                                                                          \
    if (!(condition)) ::check::fail(__FILE__, __LINE__, std::string(#condition ": ") + (what)); \
  } while (false)

// Compares numbers and shows both values on failure.
#define CHECK_EQUAL(left, right) \
  ::check::check_equal(__FILE__, __LINE__, #left " == " #right, left, right)

#define CHECK_THROWS(Exception, ...)                                                \
  do {                                                                              \
    bool threw = false;                                                             \
    try {                                                                           \
      static_cast<void>(__VA_ARGS__);                                               \
    } catch (const Exception&) {                                                    \
      threw = true;                                                                 \
    }                                                                               \
    if (!threw) {                                                                   \
      ::check::fail(__FILE__, __LINE__, #__VA_ARGS__ " did not throw " #Exception); \
    }                                                                               \
  } while (false)
