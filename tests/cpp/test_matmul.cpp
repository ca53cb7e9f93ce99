// Compares the bits of the matrix instruction with sequential fused multiply-adds.
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "check.h"
#include "emulator/convert.h"
#include "emulator/engine/matmul.h"
#include "emulator/thread_pool.h"
#include "engine_settings.h"
#include "scalar_elements.h"

namespace spyre::emulator::engine {
namespace {

constexpr ElementType kFloats[] = {ElementType::F16, ElementType::BF16, ElementType::F32,
                                   ElementType::F8E4M3, ElementType::F8E5M2};
constexpr ElementType kIntegers[] = {ElementType::I1, ElementType::I8, ElementType::I16,
                                     ElementType::I32, ElementType::I64};

enum class Order { ROWS, COLUMNS, GAPS, REPEATED_ROW, REPEATED_COLUMN };

// A matrix in memory of its exact size, so that a sanitizer detects every out-of-bounds access.
struct Stored {
  Stored(int64_t rows, int64_t columns, ElementType type, Order order) : type(type) {
    switch (order) {
      case Order::ROWS:
        row_stride = columns;
        column_stride = 1;
        break;
      case Order::COLUMNS:
        row_stride = 1;
        column_stride = rows;
        break;
      case Order::GAPS:
        row_stride = 3 * columns + 1;
        column_stride = 3;
        break;
      case Order::REPEATED_ROW:
        row_stride = 0;
        column_stride = 1;
        break;
      case Order::REPEATED_COLUMN:
        row_stride = 1;
        column_stride = 0;
        break;
    }
    const int64_t reach = (rows - 1) * row_stride + (columns - 1) * column_stride + 1;
    const int64_t elements = rows > 0 && columns > 0 ? reach : 0;
    bytes.resize(static_cast<size_t>(elements * bytes_of(type)));
  }

  Matrix matrix() const { return {bytes.data(), type, row_stride, column_stride}; }
  MatrixOut out() { return {bytes.data(), type, row_stride, column_stride}; }
  int64_t elements() const { return static_cast<int64_t>(bytes.size()) / bytes_of(type); }

  ElementType type;
  int64_t row_stride = 0;
  int64_t column_stride = 0;
  std::vector<std::byte> bytes;
};

// Values near one and zeros of both signs; small integers.
void fill(Stored& matrix, std::mt19937& random) {
  std::normal_distribution<float> normal;
  for (int64_t i = 0; i < matrix.elements(); ++i) {
    const bool is_zero = random() % 16 == 0;
    const float number = is_zero ? std::copysign(0.0F, normal(random)) : normal(random);
    if (is_float(matrix.type)) {
      store_float(matrix.bytes.data(), i, matrix.type, number);
    } else {
      store_integer(matrix.bytes.data(), i, matrix.type, random());
    }
  }
}

void fill_with_any_bits(Stored& matrix, std::mt19937& random) {
  for (std::byte& byte : matrix.bytes) byte = static_cast<std::byte>(random());
  if (matrix.type != ElementType::I1) return;
  for (std::byte& byte : matrix.bytes) byte &= std::byte{1};
}

int64_t index_of(const Matrix& matrix, int64_t row, int64_t column) {
  return row * matrix.row_stride + column * matrix.column_stride;
}

void multiply_plainly(int64_t m, int64_t n, int64_t k, const Matrix& a, const Matrix& b,
                      const Matrix& c_in, const MatrixOut& c_out) {
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      const int64_t at = i * c_out.row_stride + j * c_out.column_stride;
      if (!is_float(c_out.type)) {
        uint64_t sum = 0;
        if (c_in.data) sum = load_integer(c_in.data, index_of(c_in, i, j), c_in.type);
        for (int64_t step = 0; step < k; ++step) {
          sum += load_integer(a.data, index_of(a, i, step), a.type) *
                 load_integer(b.data, index_of(b, step, j), b.type);
        }
        store_integer(c_out.data, at, c_out.type, sum);
        continue;
      }
      float sum = 0;
      if (c_in.data) sum = load_float(c_in.data, index_of(c_in, i, j), c_in.type);
      for (int64_t step = 0; step < k; ++step) {
        sum = std::fma(load_float(a.data, index_of(a, i, step), a.type),
                       load_float(b.data, index_of(b, step, j), b.type), sum);
      }
      store_float(c_out.data, at, c_out.type, sum);
    }
  }
}

// Runs with every instruction set of the host, one and two threads, and restores the settings.
template <typename Visit>
void for_each_host(Visit visit) {
  const int threads_before = host_threads();
  for (const std::string_view name : available_capabilities()) {
    set_cpu_capability(name);
    for (const int threads : {1, 2}) {
      set_host_threads(threads);
      visit();
    }
  }
  set_cpu_capability("");
  set_host_threads(threads_before);
}

void check_same(const Stored& actual, const Stored& expected, const std::string& what) {
  for (size_t i = 0; i < expected.bytes.size(); ++i) {
    if (actual.bytes[i] == expected.bytes[i]) continue;
    const auto size = static_cast<size_t>(bytes_of(actual.type));
    check::fail(__FILE__, __LINE__,
                what + ": element " + std::to_string(i / size) + " of memory differs, " +
                    std::to_string(static_cast<int>(actual.bytes[i])) + " instead of " +
                    std::to_string(static_cast<int>(expected.bytes[i])) + " in byte " +
                    std::to_string(i % size));
  }
}

struct Case {
  int64_t m, n, k;
  ElementType a, b, c_in, c_out;
  Order a_order = Order::ROWS;
  Order b_order = Order::ROWS;
  Order c_in_order = Order::ROWS;
  Order c_out_order = Order::ROWS;
  bool has_c_in = true;
  bool any_bits = false;

  std::string text() const {
    const auto order = [](Order o) { return "rcgRC"[static_cast<int>(o)]; };
    return std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k) + " " +
           std::string(name_of(a)) + order(a_order) + " " + std::string(name_of(b)) +
           order(b_order) + " " + std::string(name_of(c_in)) + order(c_in_order) + " " +
           std::string(name_of(c_out)) + order(c_out_order) + (any_bits ? " any bits" : "");
  }
};

void check_case(const Case& test) {
  std::mt19937 random(static_cast<unsigned>(test.m * 31 + test.n * 7 + test.k));
  Stored a(test.m, test.k, test.a, test.a_order);
  Stored b(test.k, test.n, test.b, test.b_order);
  Stored c_in(test.m, test.n, test.c_in, test.c_in_order);
  Stored expected(test.m, test.n, test.c_out, test.c_out_order);
  for (Stored* matrix : {&a, &b, &c_in}) {
    test.any_bits ? fill_with_any_bits(*matrix, random) : fill(*matrix, random);
  }
  // The bytes between the elements of the result must not change.
  fill_with_any_bits(expected, random);
  const Stored before = expected;
  const Matrix c = test.has_c_in ? c_in.matrix() : Matrix{};
  multiply_plainly(test.m, test.n, test.k, a.matrix(), b.matrix(), c, expected.out());
  for_each_host([&] {
    Stored actual = before;
    matmul(test.m, test.n, test.k, a.matrix(), b.matrix(), c, actual.out());
    check_same(actual, expected,
               test.text() + " on " + std::string(active_kernels().name) + ", " +
                   std::to_string(host_threads()) + " threads");
  });
}

constexpr struct {
  int64_t m, n, k;
} kSizes[] = {{1, 1, 1},    {1, 33, 7},    {2, 40, 70},  {3, 65, 300}, {4, 1100, 5},
              {5, 1, 9},    {6, 16, 31},   {14, 32, 64}, {15, 31, 33}, {29, 70, 70},
              {100, 3, 40}, {33, 96, 513}, {64, 64, 128}};

TEST("matmul: every size gives the bits of sequential fused multiply-adds") {
  const ElementType f16 = ElementType::F16;
  for (const auto& size : kSizes) {
    for (const bool has_c_in : {false, true}) {
      Case test{size.m, size.n, size.k, f16, f16, f16, f16};
      test.has_c_in = has_c_in;
      check_case(test);
    }
  }
}

TEST("matmul: every mix of float types") {
  for (const ElementType a : kFloats) {
    for (const ElementType b : kFloats) {
      for (const ElementType c : kFloats) {
        check_case({18, 37, 69, a, b, ElementType::F32, c});
        check_case({2, 37, 69, a, b, c, a});
      }
    }
  }
}

TEST("matmul: every order of elements in memory for every type") {
  constexpr Order kOrders[] = {Order::ROWS, Order::COLUMNS, Order::GAPS, Order::REPEATED_ROW,
                               Order::REPEATED_COLUMN};
  const auto check_orders = [&](ElementType type, ElementType result) {
    for (const Order a : kOrders) {
      for (const Order b : kOrders) {
        for (const int64_t m : {2, 17}) {
          check_case({m, 35, 67, type, type, type, result, a, b, a, Order::ROWS});
          check_case({m, 35, 67, type, type, type, result, a, b, b, Order::COLUMNS});
        }
        check_case({17, 35, 67, type, type, type, result, a, b, b, Order::GAPS});
      }
    }
  };
  for (const ElementType type : kFloats) check_orders(type, type);
  for (const ElementType type : kIntegers) check_orders(type, ElementType::I32);
}

TEST("matmul: NaN, infinities, subnormals and everything else") {
  for (const ElementType a : kFloats) {
    for (const ElementType b : kFloats) {
      for (const int64_t m : {3, 20}) {
        Case test{m, 300, 3, a, b, ElementType::F32, ElementType::F32};
        test.any_bits = true;
        check_case(test);
        test.c_in = test.c_out = a;
        test.b_order = Order::COLUMNS;
        check_case(test);
      }
    }
  }
}

TEST("matmul: few rows by every code of 16 bits") {
  constexpr int64_t kColumns = 64;
  for (const ElementType type : {ElementType::F16, ElementType::BF16}) {
    for (const int64_t m : {1, 4}) {
      Stored a(m, 1, type, Order::ROWS);
      for (int64_t row = 0; row < m; ++row) {
        store_float(a.bytes.data(), row, type, static_cast<float>(row + 1));
      }
      for (int64_t first = 0; first < 0x10000; first += kColumns) {
        Stored b(1, kColumns, type, Order::ROWS);
        for (int64_t i = 0; i < kColumns; ++i) {
          const auto code = static_cast<uint16_t>(first + i);
          std::memcpy(b.bytes.data() + 2 * i, &code, sizeof(code));
        }
        Stored expected(m, kColumns, ElementType::F32, Order::ROWS);
        const Stored before = expected;
        multiply_plainly(m, kColumns, 1, a.matrix(), b.matrix(), {}, expected.out());
        for_each_host([&] {
          Stored actual = before;
          matmul(m, kColumns, 1, a.matrix(), b.matrix(), {}, actual.out());
          check_same(actual, expected, std::string(name_of(type)));
        });
      }
    }
  }
}

TEST("matmul: few rows by contiguous rows") {
  for (const ElementType type : kFloats) {
    for (const int64_t m : {1, 2, 3, 4}) {
      for (const int64_t columns : {8, 16, 31, 32, 48, 61, 64}) {
        check_case({m, columns, 333, ElementType::F16, type, ElementType::F32, ElementType::F16});
      }
    }
  }
}

TEST("matmul: signs of zeros") {
  for (const ElementType type : kFloats) {
    for (const int64_t m : {3, 20}) {
      for (const Order order : {Order::ROWS, Order::COLUMNS, Order::GAPS}) {
        std::mt19937 random(11);
        Stored a(m, 2, type, Order::ROWS);
        Stored b(2, 64, type, order);
        Stored c(m, 64, type, Order::ROWS);
        Stored expected = c;
        for (Stored* matrix : {&a, &b, &c}) {
          for (int64_t i = 0; i < matrix->elements(); ++i) {
            const float sign = random() % 2 == 0 ? 1.0F : -1.0F;
            store_float(matrix->bytes.data(), i, type, random() % 2 == 0 ? sign : sign * 0.0F);
          }
        }
        multiply_plainly(m, 64, 2, a.matrix(), b.matrix(), c.matrix(), expected.out());
        for_each_host([&] {
          Stored actual = c;
          matmul(m, 64, 2, a.matrix(), b.matrix(), actual.matrix(), actual.out());
          check_same(actual, expected, std::string(name_of(type)));
        });
      }
    }
  }
}

TEST("matmul: integers wrap to the width of the result") {
  for (const ElementType a : kIntegers) {
    for (const ElementType c : kIntegers) {
      if (c == ElementType::I1) continue;
      Case test{9, 40, 66, a, ElementType::I32, ElementType::I64, c};
      test.any_bits = true;
      check_case(test);
      check_case({9, 40, 66, ElementType::I8, a, ElementType::I8, c});
    }
  }
}

TEST("matmul: F16 as binary16") {
  const EngineSettings settings("", true);
  const ElementType f16 = ElementType::F16;
  for (const Order order : {Order::ROWS, Order::COLUMNS, Order::GAPS}) {
    for (const bool any_bits : {false, true}) {
      for (const int64_t m : {1, 19}) {
        Case test{m, 257, any_bits ? 4 : 129, f16, f16, f16, f16, order, order, order};
        test.any_bits = any_bits;
        check_case(test);
      }
    }
  }
}

TEST("matmul: a matmul on all threads") {
  const ElementType f16 = ElementType::F16;
  const ElementType f32 = ElementType::F32;
  check_case({150, 530, 300, f16, f16, f32, f16, Order::ROWS, Order::COLUMNS});
  check_case({600, 40, 270, f16, f32, f32, f16});
  check_case({2, 2500, 600, f16, f16, f16, f16});
  check_case({40, 300, 300, ElementType::I16, ElementType::I8, ElementType::I8, ElementType::I64});
}

TEST("matmul: C_in may alias C_out") {
  for (const ElementType type : {ElementType::F16, ElementType::F32, ElementType::I32}) {
    for (const int64_t m : {3, 40}) {
      for (const Order order : {Order::ROWS, Order::COLUMNS, Order::GAPS}) {
        std::mt19937 random(5);
        Stored a(m, 600, type, Order::ROWS);
        Stored b(600, 70, type, Order::ROWS);
        Stored c(m, 70, type, order);
        for (Stored* matrix : {&a, &b, &c}) fill(*matrix, random);
        Stored expected = c;
        multiply_plainly(m, 70, 600, a.matrix(), b.matrix(), c.matrix(), expected.out());
        for_each_host([&] {
          Stored actual = c;
          matmul(m, 70, 600, a.matrix(), b.matrix(), actual.matrix(), actual.out());
          check_same(actual, expected, "in place");
        });
      }
    }
  }
}

TEST("matmul: without steps the result is C_in, rounded") {
  check_case({3, 40, 0, ElementType::F32, ElementType::F32, ElementType::F32, ElementType::F16});
  check_case({30, 40, 0, ElementType::I8, ElementType::I8, ElementType::I32, ElementType::I64});
  const Stored nothing(0, 0, ElementType::F32, Order::ROWS);
  matmul(0, 4, 4, nothing.matrix(), Stored(4, 4, ElementType::F32, Order::ROWS).matrix(), {},
         {nullptr, ElementType::F32, 4, 1});
}

TEST("matmul: the host's floating-point settings do not matter") {
  const ElementType f32 = ElementType::F32;
  for (const int64_t m : {2, 20}) {
    Stored a(m, 3, f32, Order::ROWS);
    Stored b(3, 400, f32, Order::ROWS);
    Stored expected(m, 400, f32, Order::ROWS);
    std::mt19937 random(3);
    fill_with_any_bits(a, random);
    fill_with_any_bits(b, random);
    multiply_plainly(m, 400, 3, a.matrix(), b.matrix(), {}, expected.out());
    for_each_host([&] {
      Stored actual(m, 400, f32, Order::ROWS);
      {
        const UnusualFloatingPoint settings;
        matmul(m, 400, 3, a.matrix(), b.matrix(), {}, actual.out());
      }
      check_same(actual, expected, "rounding upwards, without subnormals");
    });
  }
}

TEST("matmul: invalid arguments are rejected") {
  Stored f(4, 4, ElementType::F32, Order::ROWS);
  Stored i(4, 4, ElementType::I8, Order::ROWS);
  Stored one_bit(4, 4, ElementType::I1, Order::ROWS);
  const auto rejected = [](auto... arguments) {
    CHECK_THROWS(std::invalid_argument, matmul(arguments...));
  };
  const Matrix none;
  rejected(4, 4, 4, f.matrix(), i.matrix(), none, f.out());
  rejected(4, 4, 4, f.matrix(), f.matrix(), i.matrix(), f.out());
  rejected(4, 4, 4, i.matrix(), i.matrix(), none, f.out());
  rejected(4, 4, 4, i.matrix(), i.matrix(), none, one_bit.out());
  rejected(-1, 4, 4, f.matrix(), f.matrix(), none, f.out());
  rejected(4, 4, 4, none, f.matrix(), none, f.out());
  rejected(4, 4, 4, f.matrix(), f.matrix(), none, MatrixOut{nullptr, ElementType::F32, 4, 1});
  rejected(4, 4, 4, Matrix{f.bytes.data(), ElementType::F32, -4, 1}, f.matrix(), none, f.out());
  rejected(4, 4, 4, f.matrix(), f.matrix(), none,
           MatrixOut{f.bytes.data(), ElementType::F32, 0, 1});
  rejected(4, 4, 4, f.matrix(), f.matrix(), none,
           MatrixOut{f.bytes.data(), ElementType::F32, 3, 1});
  rejected(4, 4, 4, f.matrix(), f.matrix(), none,
           MatrixOut{f.bytes.data(), ElementType::F32, 1, 0});
}

}  // namespace
}  // namespace spyre::emulator::engine
