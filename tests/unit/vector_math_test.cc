// The errors that backends/vector_math.h states, over 2^24 floats spread evenly over all bit patterns, and special
// values.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <limits>

#include "backends/backend.h"
#include "backends/target.h"
#include "runtime/measure/object_loader.h"
#include "tests/support/aligned.h"
#include "tests/support/lowered_kit.h"

namespace tw {
namespace {

constexpr i64 kChunk = 1 << 14;
constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

// What is computed of x, in so many lanes.
using Formula = std::function<const Expr*(LoweredKit& kit, const Expr* x, int lanes)>;

// y[i] = function(x[i]) for kChunk elements.
class Compiled {
 public:
  Compiled(const Formula& formula, int lanes) {
    std::string error;
    loaded_ = load_object(compile(formula, lanes)->code, error);
    EXPECT_EQ(error, "");
  }
  Compiled(Function function, int lanes)
      : Compiled([&](LoweredKit& kit, const Expr* x, int) { return kit.call(function, {x}); }, lanes) {}
  void operator()(Aligned<float>& x, Aligned<float>& y) const {
    void* buffers[] = {x.data(), y.data()};
    loaded_.run("f")(buffers, nullptr, nullptr, nullptr);
  }
  float operator()(float value) const {
    Aligned<float> x(kChunk), y(kChunk);
    x[0] = value;
    (*this)(x, y);
    return y[0];
  }

 private:
  static Result<Kernel> compile(const Formula& formula, int lanes) {
    LoweredKit kit;
    const Buffer *x = kit.argument(DType::F32, kChunk), *y = kit.output(DType::F32, kChunk);
    const Var* i = kit.var();
    const Expr* at = kit.ramp(kit.build.mul(i, lanes), lanes);
    const Stmt* body = kit.loop(i, kChunk / lanes, kit.store(y, at, formula(kit, kit.load(x, at), lanes)));
    auto compiler = LlvmCompiler::create({.vector_bits = host_target().vector_bits});
    compiler->set_verify(true);
    return compiler->compile(kit.program(body), "f");
  }
  LoadedObject loaded_;
};

struct Case {
  Function function;
  double (*exact)(double);
  double ulps;  // as stated in vector_math.h
};

double exact_sigmoid(double x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }

const Case kCases[] = {
    {Function::Exp, [](double x) { return std::exp(x); }, 1},
    {Function::Log, [](double x) { return std::log(x); }, 1},
    {Function::Tanh, [](double x) { return std::tanh(x); }, 1.5},
    {Function::Erf, [](double x) { return std::erf(x); }, 1.25},
    {Function::Sigmoid, exact_sigmoid, host_target().vector_bits >= 512 ? 3 : 2.5},
};

// In units in the last place of a float of the size of `exact`; 0 if both are NaN or the same infinity.
double error_in_ulps(float got, double exact) {
  float nearest = static_cast<float>(exact);
  if (std::isnan(exact) || std::isinf(nearest)) {
    bool is_same = std::isnan(exact) ? std::isnan(got) : got == nearest;
    // The largest finite number is one unit below infinity.
    return is_same ? 0 : std::abs(got) == std::numeric_limits<float>::max() ? 1 : kInf;
  }
  if (!std::isfinite(got)) return std::isinf(got) && std::abs(nearest) == std::numeric_limits<float>::max() ? 1 : kInf;
  int exponent = exact == 0 ? -126 : std::max(std::ilogb(exact), -126);
  return std::abs(got - exact) / std::ldexp(1.0, exponent - 23);
}

// Calls `check` with x and y for 2^24 floats spread evenly over all bit patterns.
void for_all_floats(const Compiled& compiled, const std::function<void(float x, float y)>& check) {
  Aligned<float> x(kChunk), y(kChunk);
  constexpr u64 kStep = 251;  // odd: every low bit pattern occurs
  for (u64 bits = 0; bits < (u64{1} << 32); bits += kStep * kChunk) {
    for (i64 i = 0; i < kChunk; ++i) x[i] = std::bit_cast<float>(static_cast<u32>(bits + kStep * static_cast<u64>(i)));
    compiled(x, y);
    for (i64 i = 0; i < kChunk; ++i) check(x[i], y[i]);
  }
}

class VectorMath : public testing::TestWithParam<Case> {};

TEST_P(VectorMath, ErrorIsAsStated) {
  int lanes = host_target().vector_bits / 32;
  double worst = 0;
  float worst_at = 0;
  for_all_floats(Compiled(GetParam().function, lanes), [&](float x, float y) {
    double error = error_in_ulps(y, GetParam().exact(x));
    if (error > worst) worst = error, worst_at = x;
  });
  EXPECT_LE(worst, GetParam().ulps) << "at " << worst_at;
  RecordProperty("ulps", std::to_string(worst));
}

TEST_P(VectorMath, ScalarAndVectorCodeAgree) {
  Compiled scalar(GetParam().function, 1);
  Aligned<float> x(kChunk), y(kChunk), z(kChunk);
  for (i64 i = 0; i < kChunk; ++i) x[i] = static_cast<float>(i - kChunk / 2) * 0.015f;
  scalar(x, y);
  for (int lanes : {8, 16, 32}) {
    Compiled(GetParam().function, lanes)(x, z);
    for (i64 i = 0; i < kChunk; ++i) {
      ASSERT_TRUE(y[i] == z[i] || (std::isnan(y[i]) && std::isnan(z[i])))
          << name_of(GetParam().function) << " at " << x[i] << ", " << lanes << " lanes";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, VectorMath, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(name_of(info.param.function)); });

// x * sigmoid(x): the quotient is 0 where exp(-x) is infinite.
TEST(VectorMathPairs, TimesSigmoid) {
  auto swish = [](LoweredKit& kit, const Expr* x, int) { return kit.build.mul(x, kit.call(Function::Sigmoid, {x})); };
  double worst = 0;
  for_all_floats(Compiled(swish, host_target().vector_bits / 32), [&](float x, float y) {
    EXPECT_TRUE(y == 0 || !(x < -89 && x > -kInf)) << x;
    if (x > -87 && x < kInf) worst = std::max(worst, error_in_ulps(y, x * exact_sigmoid(x)));
    EXPECT_TRUE(std::isnan(y) || !std::isnan(x));
  });
  EXPECT_LE(worst, 3);
  RecordProperty("ulps", std::to_string(worst));
  for (int lanes : {1, 8, 16}) EXPECT_EQ(Compiled(swish, lanes)(kInf), kInf);
}

Formula one_plus(Function function) {
  return [function](LoweredKit& kit, const Expr* x, int lanes) {
    return kit.build.add(kit.wide(kit.build.number(1, DType::F32), lanes), kit.call(function, {x}));
  };
}

TEST(VectorMathPairs, OnePlusTanh) {
  double worst = 0;
  for_all_floats(Compiled(one_plus(Function::Tanh), host_target().vector_bits / 32), [&](float x, float y) {
    EXPECT_TRUE(y == 0 || !(x < -45)) << x;
    EXPECT_EQ(std::isnan(y), std::isnan(x)) << x;
    if (x > -43) worst = std::max(worst, error_in_ulps(y, 2 * exact_sigmoid(2 * double{x})));
  });
  EXPECT_LE(worst, 3);
  RecordProperty("ulps", std::to_string(worst));
}

// 1 + erf(x): small results are those of erfc, where erf rounds to -1.
TEST(VectorMathPairs, OnePlusErf) {
  Formula sum = one_plus(Function::Erf);
  double worst = 0;
  for_all_floats(Compiled(sum, host_target().vector_bits / 32), [&](float x, float y) {
    EXPECT_EQ(std::isnan(y), std::isnan(x)) << x;
    if (!std::isnan(x)) worst = std::max(worst, std::abs(y - (1 + std::erf(double{x}))));
  });
  EXPECT_LE(worst, 2e-7);
  RecordProperty("error", std::to_string(worst * 1e7));
  EXPECT_NEAR(Compiled(sum, 16)(-4.5f) / std::erfc(4.5), 1, 0.5) << "erf(-4.5) is -1";
  EXPECT_EQ(Compiled(sum, 16)(-20.0f), 0);
}

struct Special {
  Function function;
  float argument, result;
};

const Special kSpecials[] = {
    {Function::Exp, -kInf, 0},       {Function::Exp, kInf, kInf},   {Function::Exp, 0, 1},
    {Function::Exp, kNan, kNan},     {Function::Log, 0, -kInf},     {Function::Log, kInf, kInf},
    {Function::Log, 1, 0},           {Function::Log, kNan, kNan},   {Function::Log, -1, kNan},
    {Function::Log, -kInf, kNan},    {Function::Tanh, kInf, 1},     {Function::Tanh, -kInf, -1},
    {Function::Tanh, 0, 0},          {Function::Tanh, kNan, kNan},  {Function::Erf, kInf, 1},
    {Function::Erf, -kInf, -1},      {Function::Erf, 0, 0},         {Function::Erf, kNan, kNan},
    {Function::Sigmoid, kInf, 1},    {Function::Sigmoid, -kInf, 0}, {Function::Sigmoid, 0, 0.5},
    {Function::Sigmoid, kNan, kNan},
};

TEST(VectorMathSpecial, Values) {
  for (const Special& special : kSpecials) {
    float got = Compiled(special.function, 8)(special.argument);
    EXPECT_TRUE(got == special.result || (std::isnan(got) && std::isnan(special.result)))
        << name_of(special.function) << "(" << special.argument << ") = " << got;
  }
}

}  // namespace
}  // namespace tw
