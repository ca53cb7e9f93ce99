#include "emulator/engine/scalar_ops.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>

#include "emulator/engine/lanes.h"
#include "emulator/engine/vector_kernels.h"

namespace spyre::emulator::engine {

namespace {

// --- Integer division

// The operands of a division as integers of their width, extended to 64 bits.
template <int kBits>
struct Numbers {
  using Lane = std::conditional_t<kBits == 64, int64_t, int32_t>;

  static int64_t as_signed(Lane lane) { return kBits == 1 ? -int64_t{lane & 1} : int64_t{lane}; }
  static uint64_t as_unsigned(Lane lane) {
    return static_cast<uint64_t>(lane) & (~uint64_t{0} >> (64 - kBits));
  }
  static Lane wrapped(uint64_t number) {
    if constexpr (kBits == 1) return static_cast<Lane>(number & 1);
    return static_cast<Lane>(static_cast<int64_t>(number << (64 - kBits)) >> (64 - kBits));
  }
};

constexpr uint64_t wrapped_negative(int64_t number) { return 0 - static_cast<uint64_t>(number); }

// Rounded towards zero; the remainder has the sign of the dividend. Division by -1 is a separate
// case because the smallest integer has no positive counterpart.
uint64_t signed_quotient(int64_t a, int64_t b) {
  if (b == 0) return 0;
  return b == -1 ? wrapped_negative(a) : static_cast<uint64_t>(a / b);
}
int64_t signed_remainder(int64_t a, int64_t b) {
  if (b == 0) return a;
  return b == -1 ? 0 : a % b;
}

struct DivideUnsigned {
  static uint64_t apply(uint64_t a, uint64_t b) { return b == 0 ? 0 : a / b; }
};
struct DivideUnsignedUp {
  static uint64_t apply(uint64_t a, uint64_t b) {
    return b == 0 ? 0 : a / b + (a % b != 0 ? 1 : 0);
  }
};
struct RemainderUnsigned {
  static uint64_t apply(uint64_t a, uint64_t b) { return b == 0 ? a : a % b; }
};
struct DivideSigned {
  static uint64_t apply(int64_t a, int64_t b) { return signed_quotient(a, b); }
};
struct DivideSignedDown {
  static uint64_t apply(int64_t a, int64_t b) {
    const bool lower = b != 0 && signed_remainder(a, b) != 0 && (a < 0) != (b < 0);
    return signed_quotient(a, b) - (lower ? 1 : 0);
  }
};
struct DivideSignedUp {
  static uint64_t apply(int64_t a, int64_t b) {
    const bool higher = b != 0 && signed_remainder(a, b) != 0 && (a < 0) == (b < 0);
    return signed_quotient(a, b) + (higher ? 1 : 0);
  }
};
struct RemainderSigned {
  static uint64_t apply(int64_t a, int64_t b) {
    return static_cast<uint64_t>(signed_remainder(a, b));
  }
};

template <typename Division, int kBits>
void divide(const void* const* inputs, void* output, int64_t n) {
  using N = Numbers<kBits>;
  using Lane = typename N::Lane;
  const auto* first = static_cast<const Lane*>(inputs[0]);
  const auto* second = static_cast<const Lane*>(inputs[1]);
  auto* result = static_cast<Lane*>(output);
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (std::is_same_v<decltype(&Division::apply), uint64_t (*)(int64_t, int64_t)>) {
      result[i] = N::wrapped(Division::apply(N::as_signed(first[i]), N::as_signed(second[i])));
    } else {
      result[i] = N::wrapped(Division::apply(N::as_unsigned(first[i]), N::as_unsigned(second[i])));
    }
  }
}

template <typename Division>
VectorFunction for_width(ElementType type) {
  switch (type) {
    case ElementType::I1:
      return divide<Division, 1>;
    case ElementType::I8:
      return divide<Division, 8>;
    case ElementType::I16:
      return divide<Division, 16>;
    case ElementType::I32:
      return divide<Division, 32>;
    case ElementType::I64:
      return divide<Division, 64>;
    default:
      return nullptr;
  }
}

// --- Float remainder

// The magnitude of a finite number is significand * 2^(exponent - 150).
struct Magnitude {
  uint64_t significand;
  int exponent;
};

Magnitude magnitude_of(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x) & 0x7FFFFFFF;
  const uint32_t fraction = bits & 0x7FFFFF;
  if (bits < (1u << 23)) return {fraction, 1};
  return {fraction | 1u << 23, static_cast<int>(bits >> 23)};
}

float float_of(Magnitude magnitude) {
  if (magnitude.significand == 0) return 0;
  const int shift = std::min(std::countl_zero(magnitude.significand) - 40, magnitude.exponent - 1);
  const uint64_t significand = magnitude.significand << shift;
  const bool normal = significand >> 23 != 0;
  const auto exponent = static_cast<uint32_t>(normal ? magnitude.exponent - shift : 0);
  return std::bit_cast<float>(exponent << 23 | (static_cast<uint32_t>(significand) & 0x7FFFFF));
}

// The definition of fmod, by long division: exact.
float remainder(float a, float b) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float size_a = std::abs(a);
  const float size_b = std::abs(b);
  if (!(size_a < kInfinity) || size_b == 0 || b != b) {
    return std::numeric_limits<float>::quiet_NaN();
  }
  if (size_a < size_b) return a;
  Magnitude partial = magnitude_of(a);
  const Magnitude divisor = magnitude_of(b);
  while (partial.exponent > divisor.exponent) {
    // A 24-bit significand can be shifted by 40 bits.
    const int shift = std::min(partial.exponent - divisor.exponent, 40);
    partial = {(partial.significand << shift) % divisor.significand, partial.exponent - shift};
  }
  partial.significand %= divisor.significand;
  return std::copysign(float_of(partial), a);
}

template <ElementType kResult>
void remainder_lanes(const void* const* inputs, void* output, int64_t n) {
  const auto* first = static_cast<const float*>(inputs[0]);
  const auto* second = static_cast<const float*>(inputs[1]);
  auto* result = static_cast<float*>(output);
  for (int64_t i = 0; i < n; ++i) result[i] = remainder(first[i], second[i]);
  round_lanes(kResult)(result, n);
}

// --- Bit casts

template <ElementType kOperand, ElementType kResult>
void bitcast_lanes(const void* const* inputs, void* output, int64_t n) {
  constexpr int64_t kRun = 1024;
  constexpr int64_t kLaneBytes = lane_bytes(kOperand);
  static_assert(kLaneBytes == lane_bytes(kResult));
  const StoreLanes store = store_lanes(kOperand);
  const LoadLanes load = load_lanes(kResult);
  const auto* source = static_cast<const std::byte*>(inputs[0]);
  auto* result = static_cast<std::byte*>(output);
  std::byte codes[kRun * bytes_of(kOperand)];
  for (int64_t first = 0; first < n; first += kRun) {
    const int64_t run = std::min(kRun, n - first);
    store(source + first * kLaneBytes, codes, 1, run);
    load(codes, 1, result + first * kLaneBytes, run);
  }
}

template <ElementType kOperand, ElementType... kResults>
VectorFunction bitcast_to(ElementType result) {
  VectorFunction function = nullptr;
  ((result == kResults ? function = bitcast_lanes<kOperand, kResults> : function), ...);
  return function;
}

// --- Far angles

// The fractional binary digits of 2/pi.
constexpr uint64_t kTwoOverPi[] = {0xA2F9836E4E441529, 0xFC2757D1F534DDC0, 0xDB6295993C439041,
                                   0xFE5163ABDEBBC561, 0xB7246E3A424DD2E0};

using Wide = unsigned __int128;

// Returns 128 of these digits from `first` on.
Wide digits_of_two_over_pi(int first) {
  const uint64_t* word = kTwoOverPi + first / 64;
  const int shift = first % 64;
  const Wide digits = Wide{word[0]} << 64 | word[1];
  return shift == 0 ? digits : digits << shift | word[2] >> (64 - shift);
}

}  // namespace

VectorFunction integer_division(VectorOp op, ElementType type) {
  switch (op) {
    case VectorOp::DIVUI:
      return for_width<DivideUnsigned>(type);
    case VectorOp::DIVSI:
      return for_width<DivideSigned>(type);
    case VectorOp::FLOORDIVSI:
      return for_width<DivideSignedDown>(type);
    case VectorOp::CEILDIVSI:
      return for_width<DivideSignedUp>(type);
    case VectorOp::CEILDIVUI:
      return for_width<DivideUnsignedUp>(type);
    case VectorOp::REMUI:
      return for_width<RemainderUnsigned>(type);
    case VectorOp::REMSI:
      return for_width<RemainderSigned>(type);
    default:
      return nullptr;
  }
}

VectorFunction float_remainder(ElementType result) {
  switch (result) {
    case ElementType::F16:
      return remainder_lanes<ElementType::F16>;
    case ElementType::BF16:
      return remainder_lanes<ElementType::BF16>;
    case ElementType::F32:
      return remainder_lanes<ElementType::F32>;
    case ElementType::F8E4M3:
      return remainder_lanes<ElementType::F8E4M3>;
    case ElementType::F8E5M2:
      return remainder_lanes<ElementType::F8E5M2>;
    default:
      return nullptr;
  }
}

VectorFunction bitcast(ElementType operand, ElementType result) {
  using enum ElementType;
  switch (operand) {
    case F16:
      return bitcast_to<F16, F16, BF16, I16>(result);
    case BF16:
      return bitcast_to<BF16, F16, BF16, I16>(result);
    case I16:
      return bitcast_to<I16, F16, BF16, I16>(result);
    case F32:
      return bitcast_to<F32, F32, I32>(result);
    case I32:
      return bitcast_to<I32, F32, I32>(result);
    case F8E4M3:
      return bitcast_to<F8E4M3, F8E4M3, F8E5M2, I8>(result);
    case F8E5M2:
      return bitcast_to<F8E5M2, F8E4M3, F8E5M2, I8>(result);
    case I8:
      return bitcast_to<I8, F8E4M3, F8E5M2, I8>(result);
    case I1:
      return bitcast_to<I1, I1>(result);
    case I64:
      return bitcast_to<I64, I64>(result);
  }
  return nullptr;
}

FarAngle reduce_far_angle(float angle) {
  if (!(std::abs(angle) < std::numeric_limits<float>::infinity())) {
    return {0, std::numeric_limits<double>::quiet_NaN()};
  }
  const Magnitude magnitude = magnitude_of(angle);
  // angle = significand * 2^power. Digits of 2/pi whose product with it is a multiple of 4
  // quarter turns are dropped: the product has 2 integer and 126 fraction bits.
  const int power = magnitude.exponent - 150;
  const Wide turns = magnitude.significand * digits_of_two_over_pi(power - 2);
  const Wide quarters = (turns + (Wide{1} << 125)) >> 126;
  const auto remainder = static_cast<double>(static_cast<__int128>(turns - (quarters << 126)));
  const double radians = remainder * 0x1p-126 * 0x1.921fb54442d18p0;
  const auto quarter_turns = static_cast<int64_t>(quarters);
  return angle < 0 ? FarAngle{-quarter_turns, -radians} : FarAngle{quarter_turns, radians};
}

}  // namespace spyre::emulator::engine
