// The interpreter against plain loops, its rounding, and everything that it must notice.
#include "backends/interpreter.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "backends/interpreter_scalar.h"
#include "dsl/base/rng.h"
#include "dsl/base/text.h"
#include "dsl/ir/print.h"
#include "dsl/text/workload.h"
#include "support/parsed.h"

namespace tw {
namespace {

using test::parsed;

OwnedProgram operation(const std::string& use_text, const std::vector<std::string>& epilogues = {}) {
  Source source{"use", use_text};
  Diagnostics of_use(source);
  std::optional<WorkloadUse> use = parse_use(source, of_use);
  EXPECT_TRUE(use) << of_use.render();
  Diagnostics diagnostics(*operator_library().source);
  std::optional<OwnedProgram> program =
      instantiate(operator_library(), use->workload, use->arguments, epilogues, diagnostics);
  EXPECT_TRUE(program) << diagnostics.render();
  return program ? *program : OwnedProgram{std::make_shared<Arena>(), {}};
}

// Small integers, so that sums are exact in every type; `scale` makes fractions of them.
std::vector<HostArray> arrays_for(const Program& program, double scale = 1, u64 seed = 1) {
  std::vector<HostArray> arrays;
  Rng rng(seed);
  for (const Param& param : program.params) {
    arrays.push_back(HostArray::like(param.buffer));
    if (param.role == Role::Output) continue;
    for (i64 i = 0; i < arrays.back().elements(); ++i)
      arrays.back().set(i, scale * static_cast<double>(rng.below(9) - 4));
  }
  return arrays;
}

// Runs with every point of every block counted.
std::vector<HostArray> run(const Program& program, double scale = 1) {
  std::vector<HostArray> arrays = arrays_for(program, scale);
  EXPECT_EQ(interpret(program, arrays, {.exact_coverage = true}), "") << print(program);
  return arrays;
}

std::string error_of(const std::string& text, const InterpretOptions& options = {}) {
  OwnedProgram program = parsed(text);
  std::vector<HostArray> arrays = arrays_for(program.program);
  return interpret(program.program, arrays, options);
}

TEST(Operators, Matmul) {
  constexpr i64 M = 5, N = 7, K = 3;
  std::vector<HostArray> a = run(operation("matmul(M = 5, N = 7, K = 3)").program);
  for (i64 i = 0; i < M; ++i) {
    for (i64 j = 0; j < N; ++j) {
      double sum = 0;
      for (i64 k = 0; k < K; ++k) sum += a[0].get(i * K + k) * a[1].get(k * N + j);
      EXPECT_EQ(a[2].get(i * N + j), sum);
    }
  }
}

struct Conv {
  i64 N, H, W, CI, CO, K, stride, padding, dilation, groups;
  i64 rows(i64 extent) const { return (extent + 2 * padding - dilation * (K - 1) - 1) / stride + 1; }
};

void expect_conv2d(const Conv& c) {
  SCOPED_TRACE(cat("stride ", c.stride, " padding ", c.padding, " dilation ", c.dilation, " groups ", c.groups));
  std::vector<HostArray> a =
      run(operation(cat("conv2d(N = ", c.N, ", H = ", c.H, ", W = ", c.W, ", CI = ", c.CI, ", CO = ", c.CO,
                        ", K = ", c.K, ", stride = ", c.stride, ", padding = ", c.padding, ", dilation = ", c.dilation,
                        ", groups = ", c.groups, ")"))
              .program);
  i64 OH = c.rows(c.H), OW = c.rows(c.W), GI = c.CI / c.groups, GO = c.CO / c.groups, at = 0;
  ASSERT_EQ(a[2].shape, (std::vector<i64>{c.N, OH, OW, c.CO}));
  for (i64 n = 0; n < c.N; ++n) {
    for (i64 y = 0; y < OH; ++y)
      for (i64 x = 0; x < OW; ++x)
        for (i64 co = 0; co < c.CO; ++co) {
          double sum = 0;
          for (i64 ky = 0; ky < c.K; ++ky)
            for (i64 kx = 0; kx < c.K; ++kx)
              for (i64 ci = 0; ci < GI; ++ci) {
                i64 iy = y * c.stride + ky * c.dilation - c.padding, ix = x * c.stride + kx * c.dilation - c.padding;
                if (iy < 0 || iy >= c.H || ix < 0 || ix >= c.W) continue;
                sum += a[0].get(((n * c.H + iy) * c.W + ix) * c.CI + co / GO * GI + ci) *
                       a[1].get(((ky * c.K + kx) * GI + ci) * c.CO + co);
              }
          EXPECT_EQ(a[2].get(at++), sum);
        }
  }
}

TEST(Operators, Conv2d) {
  expect_conv2d({2, 5, 6, 3, 4, 3, 1, 0, 1, 1});
  expect_conv2d({1, 5, 7, 3, 2, 3, 2, 1, 1, 1});
  expect_conv2d({1, 7, 6, 2, 3, 3, 1, 2, 2, 1});
  expect_conv2d({1, 5, 4, 4, 6, 3, 2, 1, 1, 2});
  expect_conv2d({1, 3, 3, 3, 3, 1, 1, 0, 1, 3});
}

TEST(Operators, Conv2dTransposedScattersEveryInput) {
  constexpr i64 H = 3, W = 2, CI = 2, CO = 3, K = 4, stride = 2, padding = 1;
  std::vector<HostArray> a =
      run(operation("conv2d_transposed(N = 1, H = 3, W = 2, CI = 2, CO = 3, K = 4, stride = 2, padding = 1)").program);
  i64 OH = (H - 1) * stride - 2 * padding + K, OW = (W - 1) * stride - 2 * padding + K;
  std::vector<double> want(static_cast<std::size_t>(OH * OW * CO));
  for (i64 y = 0; y < H; ++y)
    for (i64 x = 0; x < W; ++x)
      for (i64 ky = 0; ky < K; ++ky)
        for (i64 kx = 0; kx < K; ++kx) {
          i64 oy = y * stride + ky - padding, ox = x * stride + kx - padding;
          if (oy < 0 || oy >= OH || ox < 0 || ox >= OW) continue;
          for (i64 ci = 0; ci < CI; ++ci)
            for (i64 co = 0; co < CO; ++co) {
              want[static_cast<std::size_t>((oy * OW + ox) * CO + co)] +=
                  a[0].get((y * W + x) * CI + ci) * a[1].get(((ky * K + kx) * CI + ci) * CO + co);
            }
        }
  ASSERT_EQ(a[2].elements(), static_cast<i64>(want.size()));
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_EQ(a[2].get(static_cast<i64>(i)), want[i]) << i;
}

TEST(Operators, DepthwiseConv2d) {
  constexpr i64 H = 4, W = 5, C = 3, K = 3;
  std::vector<HostArray> a = run(operation("depthwise_conv2d(N = 1, H = 4, W = 5, C = 3, K = 3, padding = 1)").program);
  for (i64 y = 0; y < H; ++y)
    for (i64 x = 0; x < W; ++x)
      for (i64 c = 0; c < C; ++c) {
        double sum = 0;
        for (i64 ky = 0; ky < K; ++ky)
          for (i64 kx = 0; kx < K; ++kx) {
            i64 iy = y + ky - 1, ix = x + kx - 1;
            if (iy >= 0 && iy < H && ix >= 0 && ix < W)
              sum += a[0].get((iy * W + ix) * C + c) * a[1].get((ky * K + kx) * C + c);
          }
        EXPECT_EQ(a[2].get((y * W + x) * C + c), sum);
      }
}

TEST(Operators, BatchMatmulAndAttentionScores) {
  std::vector<HostArray> a = run(operation("batch_matmul(B = 2, M = 3, N = 5, K = 4)").program);
  for (i64 b = 0; b < 2; ++b)
    for (i64 i = 0; i < 3; ++i)
      for (i64 j = 0; j < 5; ++j) {
        double sum = 0;
        for (i64 k = 0; k < 4; ++k) sum += a[0].get((b * 3 + i) * 4 + k) * a[1].get((b * 4 + k) * 5 + j);
        EXPECT_EQ(a[2].get((b * 3 + i) * 5 + j), sum);
      }
  std::vector<HostArray> t = run(operation("transpose_batch_matmul(B = 2, S = 3, H = 2, D = 5)").program);
  for (i64 b = 0; b < 2; ++b)
    for (i64 h = 0; h < 2; ++h)
      for (i64 i = 0; i < 3; ++i)
        for (i64 j = 0; j < 3; ++j) {
          double sum = 0;
          for (i64 k = 0; k < 5; ++k)
            sum += t[0].get(((b * 3 + i) * 2 + h) * 5 + k) * t[1].get(((b * 3 + j) * 2 + h) * 5 + k);
          EXPECT_EQ(t[2].get(((b * 2 + h) * 3 + i) * 3 + j), sum);
        }
}

TEST(Operators, Pooling) {
  constexpr i64 H = 5, W = 4;
  for (bool is_max : {true, false}) {
    std::vector<HostArray> a = run(
        operation(cat(is_max ? "max" : "avg", "_pool2d(N = 1, H = 5, W = 4, C = 1, K = 3, stride = 2, padding = 1)"))
            .program);
    for (i64 y = 0; y < 3; ++y)
      for (i64 x = 0; x < 2; ++x) {
        double best = -1e9, sum = 0;
        for (i64 iy = std::max<i64>(0, 2 * y - 1); iy < std::min(H, 2 * y + 2); ++iy) {
          for (i64 ix = std::max<i64>(0, 2 * x - 1); ix < std::min(W, 2 * x + 2); ++ix) {
            best = std::max(best, a[0].get(iy * W + ix));
            sum += a[0].get(iy * W + ix);
          }
        }
        EXPECT_EQ(a[1].get(y * 2 + x), is_max ? best : static_cast<float>(sum / 9));
      }
  }
}

TEST(Operators, SoftmaxIsStable) {
  constexpr i64 M = 3, N = 7;
  OwnedProgram program = operation("softmax(M = 3, N = 7)");
  std::vector<HostArray> a = arrays_for(program.program, 100);  // exp(400) would overflow
  ASSERT_EQ(interpret(program.program, a), "");
  for (i64 i = 0; i < M; ++i) {
    double top = -1e9, sum = 0;
    for (i64 j = 0; j < N; ++j) top = std::max(top, a[0].get(i * N + j));
    for (i64 j = 0; j < N; ++j) sum += std::exp(a[0].get(i * N + j) - top);
    for (i64 j = 0; j < N; ++j) EXPECT_NEAR(a[1].get(i * N + j), std::exp(a[0].get(i * N + j) - top) / sum, 1e-7);
  }
}

TEST(Operators, Norms) {
  constexpr i64 M = 3, N = 5;
  std::vector<HostArray> a = run(operation("layernorm(M = 3, N = 5)").program, 0.25);
  std::vector<HostArray> r = run(operation("rmsnorm(M = 3, N = 5)").program, 0.25);
  for (i64 i = 0; i < M; ++i) {
    double mean = 0, variance = 0, square = 0;
    for (i64 j = 0; j < N; ++j) mean += a[0].get(i * N + j) / N;
    for (i64 j = 0; j < N; ++j) variance += std::pow(a[0].get(i * N + j) - mean, 2) / N;
    for (i64 j = 0; j < N; ++j) square += std::pow(r[0].get(i * N + j), 2) / N;
    for (i64 j = 0; j < N; ++j) {
      EXPECT_NEAR(a[3].get(i * N + j),
                  (a[0].get(i * N + j) - mean) / std::sqrt(variance + 1e-5) * a[1].get(j) + a[2].get(j), 1e-5);
      EXPECT_NEAR(r[2].get(i * N + j), r[0].get(i * N + j) / std::sqrt(square + 1e-6) * r[1].get(j), 1e-5);
    }
  }
  std::vector<HostArray> n = run(operation("norm(B = 2, M = 3, N = 4)").program);
  for (i64 b = 0; b < 2; ++b) {
    double sum = 0;
    for (i64 i = 0; i < 12; ++i) sum += std::pow(n[0].get(b * 12 + i), 2);
    EXPECT_FLOAT_EQ(static_cast<float>(n[1].get(b)), static_cast<float>(std::sqrt(sum)));
  }
}

TEST(Operators, TheOthersRunAtOddSizesInEveryType) {
  for (const char* use :
       {"dense(M = 3, N = 5, K = 7",
        "conv1d(N = 2, L = 7, CI = 3, CO = 2, K = 3, stride = 2, padding = 1, dilation = 2",
        "conv3d(N = 1, D = 3, H = 4, W = 3, CI = 2, CO = 3, K = 3, padding = 1, stride = 2",
        "capsule_conv2d(N = 1, H = 3, W = 3, CI = 2, CO = 3, K = 3, padding = 1, capsule = 2",
        "conv2d_bn_relu(N = 1, H = 4, W = 5, CI = 3, CO = 2, K = 3, padding = 1", "softmax(M = 3, N = 5",
        "norm(B = 1, M = 3, N = 5", "layernorm(M = 3, N = 5", "rmsnorm(M = 3, N = 5",
        "max_pool2d(N = 1, H = 5, W = 5, C = 3, K = 3, padding = 1",
        "avg_pool2d(N = 1, H = 5, W = 5, C = 3, K = 3, padding = 1", "batch_matmul(B = 2, M = 3, N = 1, K = 5",
        "depthwise_conv2d(N = 1, H = 5, W = 5, C = 3, K = 3, dilation = 2, stride = 2"}) {
    for (const char* type : {"f64", "f32", "f16", "bf16", "i32", "i8", "u8"}) {
      SCOPED_TRACE(cat(use, ", T = ", type, ")"));
      bool only_floats =
          std::string(use).find("max(M") != std::string::npos || std::string(use).find("norm(") != std::string::npos;
      if (only_floats && is_int(*parse_dtype(type))) continue;
      OwnedProgram program = operation(cat(use, ", T = ", type, ")"));
      std::vector<HostArray> a = run(program.program);
      ASSERT_FALSE(a.empty());
      bool any = false;
      for (i64 i = 0; i < a.back().elements(); ++i) any = any || a.back().get(i) != 0;
      EXPECT_TRUE(any) << print(program.program);
    }
  }
}

// Narrow operands with small integers are exact, so every type must give the same sums.
TEST(Operators, TypesAgreeWhereSumsAreExact) {
  for (const char* type : {"f64", "f16", "bf16", "i32", "i64", "i8"}) {
    SCOPED_TRACE(type);
    std::vector<HostArray> want = run(operation("dense(M = 3, N = 4, K = 5)").program);
    std::vector<HostArray> got = run(operation(cat("dense(M = 3, N = 4, K = 5, T = ", type, ")")).program);
    for (i64 i = 0; i < 12; ++i) EXPECT_EQ(got[2].get(i), want[2].get(i));
  }
}

TEST(Operators, EpiloguesComputeWhatTheySay) {
  OwnedProgram program = operation("dense(M = 3, N = 5, K = 2)", {"bias", "bn", "add", "relu"});
  std::vector<HostArray> a = run(program.program);  // X W Bias Scale Shift Residual relu
  ASSERT_EQ(a.size(), 7u);
  for (i64 i = 0; i < 3; ++i)
    for (i64 j = 0; j < 5; ++j) {
      double y = 0;
      for (i64 k = 0; k < 2; ++k) y += a[0].get(i * 2 + k) * a[1].get(k * 5 + j);
      y = (y + a[2].get(j)) * a[3].get(j) + a[4].get(j) + a[5].get(i * 5 + j);
      EXPECT_EQ(a[6].get(i * 5 + j), std::max(y, 0.0));
    }
  for (auto [name, f] : std::initializer_list<std::pair<const char*, double (*)(double)>>{
           {"gelu", [](double x) { return 0.5 * x * (1 + std::erf(x * 0.7071067811865476)); }},
           {"silu", [](double x) { return x / (1 + std::exp(-x)); }},
           {"sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }},
           {"tanh", [](double x) { return std::tanh(x); }}}) {
    std::vector<HostArray> b = run(operation("matmul(M = 2, N = 3, K = 1)", {name}).program, 0.5);
    for (i64 i = 0; i < 2; ++i)
      for (i64 j = 0; j < 3; ++j) EXPECT_NEAR(b[2].get(i * 3 + j), f(b[0].get(i) * b[1].get(j)), 1e-6) << name;
  }
}

TEST(Operators, EpiloguesOfNarrowTypesRoundOnce) {
  OwnedProgram program = operation("dense(M = 1, N = 1, K = 1, T = f16)", {"bias"});
  std::vector<HostArray> a = arrays_for(program.program);
  a[0].set(0, 683);
  a[1].set(0, 3);
  a[2].set(0, -2048);
  ASSERT_EQ(interpret(program.program, a), "");
  EXPECT_EQ(a[3].get(0), 1);  // the product 2049 is no f16
}

OwnedProgram from_workload(const std::string& text) {
  Source source{"w", text};
  Diagnostics diagnostics(source);
  WorkloadModule module = parse_workloads(source, diagnostics);
  std::optional<OwnedProgram> made = instantiate(module, "w", {}, {}, diagnostics);
  EXPECT_TRUE(made) << diagnostics.render();
  return made ? *made : OwnedProgram{std::make_shared<Arena>(), {}};
}

TEST(Workloads, ArgmaxTakesTheFirstOfEqualValues) {
  OwnedProgram program = from_workload(
      "workload w() { input X: f32[4, 3, 2]; output At: i32, Best[i: 4] = argmax(j: 3, k: 2) X[i, j, k] }");
  std::vector<HostArray> a = arrays_for(program.program);
  for (i64 i = 12; i < 18; ++i) a[0].set(i, 2);
  for (i64 i = 18; i < 24; ++i) a[0].set(i, -INFINITY);
  ASSERT_EQ(interpret(program.program, a, {.exact_coverage = true}), "");
  for (i64 i = 0; i < 4; ++i) {
    i64 best = 0;
    for (i64 j = 1; j < 6; ++j)
      if (a[0].get(i * 6 + j) > a[0].get(i * 6 + best)) best = j;
    EXPECT_EQ(a[1].get(i), static_cast<double>(best));
    EXPECT_EQ(a[2].get(i), a[0].get(i * 6 + best));
  }
  EXPECT_EQ(a[1].dtype, DType::I32);
}

TEST(Workloads, ReductionsAccumulateWhereTheyAreTold) {
  OwnedProgram program = from_workload(R"(workload w() {
    input X: f32[3], I: u8[300]
    output A[] = sum(k: 3) X[k]
    output B[] = sum(k: 3) in f64 X[k]
    output C: f32[] = sum(k: 3) in f64 X[k]
    output D[] = sum(k: 300) I[k]
    output E[] = prod(k: 3) X[k]
    output F: u8[] = min(k: 300) I[k]
  })");
  std::vector<HostArray> a = arrays_for(program.program);
  a[0].set(0, 1e8), a[0].set(1, 1), a[0].set(2, -1e8);
  for (i64 i = 0; i < 300; ++i) a[1].set(i, 200);
  ASSERT_EQ(interpret(program.program, a, {.exact_coverage = true}), "");
  EXPECT_EQ(a[2].get(0), 0);  // 1 is lost in f32
  EXPECT_EQ(a[3].get(0), 1);
  EXPECT_EQ(a[3].dtype, DType::F64);
  EXPECT_EQ(a[4].get(0), 1);
  EXPECT_EQ(a[5].get(0), 60000);  // not modulo 256
  EXPECT_EQ(a[5].dtype, DType::I32);
  EXPECT_EQ(a[6].get(0), -1e16f);
  EXPECT_EQ(a[7].get(0), 200);
}

TEST(Workloads, OnlyTheChosenSideIsEvaluated) {
  OwnedProgram program =
      from_workload("workload w() { input X: f32[3]; output Y[i: 5] = if i >= 1 and i < 4 then X[i - 1] else 7 }");
  std::vector<HostArray> a = run(program.program);
  EXPECT_EQ(a[1].get(0), 7);
  EXPECT_EQ(a[1].get(1), a[0].get(0));
  EXPECT_EQ(a[1].get(4), 7);
}

TEST(Workloads, FunctionsAndConversions) {
  OwnedProgram program = from_workload(R"(workload w() {
    input X: f64[1]
    output A[] = round(X[0]) + floor(X[0]) * 10 + ceil(X[0]) * 100
    output B: i32[] = i32(X[0] * 10)
    output C: u8[] = u8(X[0] * 1000)
    output D[] = u8(i32(X[0] * 1000))
    output E[] = pow(X[0], 2) + abs(-X[0]) + min(X[0], 1) + max(X[0], 1)
    output F[] = bool(X[0])
    output G[] = i32(X[0]) // -2 + i32(X[0]) % -2 * 10
    output H[] = rsqrt(X[0]) * sqrt(X[0]) + log(exp(X[0]))
  })");
  std::vector<HostArray> a = arrays_for(program.program);
  a[0].set(0, 2.5);
  ASSERT_EQ(interpret(program.program, a), "");
  EXPECT_EQ(a[1].get(0), 2 + 20 + 300);  // ties to even
  EXPECT_EQ(a[2].get(0), 25);
  EXPECT_EQ(a[3].get(0), 255);         // saturates
  EXPECT_EQ(a[4].get(0), 2500 % 256);  // wraps
  EXPECT_EQ(a[5].get(0), 6.25 + 2.5 + 1 + 2.5);
  EXPECT_EQ(a[6].get(0), 1);
  EXPECT_EQ(a[7].get(0), -1);
  EXPECT_NEAR(a[8].get(0), 3.5, 1e-12);
}

TEST(Rounding, HalfAndBfloatAreExact) {
  u8 bytes[2];
  for (u32 bits = 0; bits < 0x10000; ++bits) {
    for (DType type : {DType::F16, DType::BF16}) {
      std::uint16_t stored = static_cast<std::uint16_t>(bits), back;
      std::memcpy(bytes, &stored, 2);
      double value = read_element(type, bytes).f;
      if (std::isnan(value)) continue;
      EXPECT_EQ(round_to(type, value), value);
      write_element(type, {0, value}, bytes);
      std::memcpy(&back, bytes, 2);
      EXPECT_EQ(back, stored);
    }
  }
  EXPECT_EQ(round_to(DType::F16, 2049), 2048);
  EXPECT_EQ(round_to(DType::F16, 2051), 2052);
  EXPECT_EQ(round_to(DType::F16, 65519.99), 65504);
  EXPECT_EQ(round_to(DType::F16, 65520), INFINITY);
  EXPECT_EQ(round_to(DType::F16, 0x1p-25), 0);
  EXPECT_EQ(round_to(DType::F16, 0x1.8p-25), 0x1p-24);
  EXPECT_EQ(round_to(DType::BF16, 257), 256);
  EXPECT_EQ(round_to(DType::BF16, 259), 260);
  EXPECT_EQ(round_to(DType::F32, 16777217), 16777216);
}

// ---- what it must notice

TEST(Errors, Races) {
  // With the init inside, what is noticed first depends on the order.
  for (u64 seed = 0; seed < 8; ++seed) {
    std::string error = error_of(R"(program p(X: input f32[4], Y: output f32[]) {
      parallel for k in 4 { block Y(k: R 4 = k) { init { Y[] = 0.0 }
        Y[] = Y[] + X[k] } } })",
                                 {.seed = seed});
    EXPECT_TRUE(error == "block `Y`: reads `Y` at [], which was never written" ||
                error == "block `Y`: reads `Y` at [], which another iteration of a concurrent loop writes")
        << error;
  }
  EXPECT_EQ(error_of(R"(program p(X: input f32[4], Y: output f32[]) {
    block I() { Y[] = 0.0 }
    vectorize for k in 4 {
      block Y(k: R 4 = k) { Y[] = Y[] + X[k] } } })"),
            "block `Y`: reads `Y` at [], which another iteration of a concurrent loop writes");
  EXPECT_EQ(error_of(R"(program p(X: input f32[4], Y: output f32[4]) {
    parallel for i in 8 {
      block Y(i: S 8 = i) { Y[i // 2] = X[i // 2] } } })")
                .substr(0, 23),
            "block `Y`: writes `Y` a");
  // A write after a read of another iteration, in whatever order they come.
  for (u64 seed = 0; seed < 8; ++seed) {
    std::string error = error_of(R"(program p(X: input f32[5], Y: output f32[5]) {
      for i in 5 { block A(i: S 5 = i) { Y[i] = X[i] } }
      parallel for i in 4 {
        block B(i: S 4 = i) { Y[i] = Y[i + 1] } } })",
                                 {.seed = seed});
    EXPECT_NE(error.find("another iteration of a concurrent loop"), std::string::npos) << error;
  }
  // One loop after the other is no race, nor is a loop inside each iteration.
  EXPECT_EQ(error_of(R"(program p(X: input f32[4], Y: output f32[4]) {
    local T: f32[4]
    parallel for i in 4 { block A(i: S 4 = i) { T[i] = X[i] } }
    parallel for i in 4 { block B(i: S 4 = i) { Y[i] = T[3 - i] } } })"),
            "");
  EXPECT_EQ(error_of(R"(program p(X: input f32[4], Y: output f32[4]) {
    parallel for i in 2 { bind threadIdx.x for j in 2 {
      block B(i: S 4 = i * 2 + j) { Y[i] = X[i] } } } })"),
            "");
}

TEST(Errors, LocalsOfOneIterationArePrivate) {
  // Every iteration uses the same elements of T: private, because T is used in this loop only.
  const char* text = R"(program p(X: input f32[4, 2], Y: output f32[4]) {
    local T: f32[2]
    parallel for i in 4 {
      for j in 2 { block T(i: S 4 = i, j: S 2 = j) { T[j] = X[i, j] } }
      block Y(i: S 4 = i) { Y[i] = T[0] + T[1] } } })";
  EXPECT_EQ(error_of(text), "");
  // An iteration must not find what another one left there.
  EXPECT_EQ(error_of(R"(program p(X: input f32[4, 2], Y: output f32[4]) {
    local T: f32[2]
    parallel for i in 4 {
      block T(i: S 4 = i) where i < 1 { T[0] = X[i, 0] }
      block Y(i: S 4 = i) { Y[i] = T[0] } } })"),
            "block `Y`: reads `T` at [0], which was never written");
}

TEST(Errors, Memory) {
  EXPECT_EQ(
      error_of("program p(X: input f32[4], Y: output f32[5]) { for i in 5 { block Y(i: S 5 = i) { Y[i] = X[i] } } }"),
      "block `Y`: index 0 of `X` is 4, outside of [0, 4)");
  EXPECT_EQ(
      error_of(
          "program p(X: input f32[4], Y: output f32[4]) { for i in 4 { block Y(i: S 4 = i) { Y[i] = X[i - 1] } } }"),
      "block `Y`: index 0 of `X` is -1, outside of [0, 4)");
  EXPECT_EQ(error_of("program p(Y: output f32[4]) { for i in 4 { block Y(i: S 4 = i) { Y[i] = Y[i] + 1.0 } } }"),
            "block `Y`: reads `Y` at [0], which was never written");
  EXPECT_EQ(
      error_of("program p(X: input f32[4], Y: output f32[4]) { for i in 3 { block Y(i: S 4 = i) { Y[i] = X[i] } } }"),
      "output `Y` was never written at position 3");
  EXPECT_EQ(
      error_of("program p(X: input f32[4], Y: output f32[4]) { for i in 4 { block Y(i: S 4 = i) { X[i] = 1.0 } } }"),
      "block `Y`: writes `X`, which is no output");
  EXPECT_EQ(error_of("program p(Y: output f32[4]) { Y[broadcast(0, 4)] = broadcast(1.0, 4) }"),
            "writes `Y` at [0] twice in one statement");
}

TEST(Errors, Blocks) {
  EXPECT_EQ(error_of("program p(Y: output f32[4]) { for i in 5 { block Y(i: S 4 = i) { Y[i] = 1.0 } } }"),
            "block `Y`: iter `i` is 4, outside of [0, 4)");
  EXPECT_EQ(error_of("program p(Y: output f32[4]) { for i in 5 { block Y(i: S 4 = i) where i < 4 { Y[i] = 1.0 } } }",
                     {.exact_coverage = true}),
            "");
  EXPECT_EQ(error_of("program p(Y: output f32[4]) { for i in 5 { block Y(i: S 4 = min(i, 3)) { Y[i] = 1.0 } } }",
                     {.exact_coverage = true}),
            "block `Y`: the point i = 3 ran 2 times");
  EXPECT_EQ(error_of("program p(Y: output f32[4]) { for i in 4 { block Y(i: S 4 = i, k: R 2 = 1) { init { Y[i] = 0.0 "
                     "}\n Y[i] = 1.0 } } }",
                     {.exact_coverage = true}),
            "block `Y`: the point i = 0, k = 0 ran never");
  EXPECT_EQ(error_of("program p(Y: output i64[4]) { for i in 4 { block Y(i: S 4 = i) { Y[i] = 8 // (i - 2) } } }"),
            "block `Y`: division by zero");
  EXPECT_EQ(
      error_of("program p(Y: output i64[4]) { for i in 4 { block Y(i: S 4 = i) { Y[i] = i } } }", {.max_steps = 5}),
      "block `Y`: gave up after 5 steps");
}

TEST(Programs, VectorsAndTuples) {
  OwnedProgram program = parsed(R"(program p(X: input f32[8], Y: output f32[8], Z: output f32[2]) {
    Y[ramp(0, 1, 4)] = X[ramp(7, -1, 4)] + broadcast(X[0], 4)
    Y[ramp(4, 1, 4)] = if X[ramp(0, 2, 4)] > broadcast(0.0, 4) then X[ramp(0, 2, 4)] else broadcast(0.0, 4)
    Z[0], Z[1] = X[1], X[0]
    alloc T: f32[2] in register {
      T[0], T[1] = Z[0], Z[1]
      Z[0], Z[1] = T[1], Z[0]
    }
  })");
  std::vector<HostArray> a = arrays_for(program.program);
  ASSERT_EQ(interpret(program.program, a), "");
  for (i64 i = 0; i < 4; ++i) {
    EXPECT_EQ(a[1].get(i), a[0].get(7 - i) + a[0].get(0));
    EXPECT_EQ(a[1].get(4 + i), std::max(a[0].get(2 * i), 0.0));
  }
  EXPECT_EQ(a[2].get(0), a[0].get(0));
  EXPECT_EQ(a[2].get(1), a[0].get(1));
}

TEST(Lowered, ScratchIsWorkerPrivateAndMayBeShared) {
  Arena arena;
  Build build{arena};
  auto buffer = [&](u32 id, const char* name, i64 extent) {
    return arena.make<Buffer>(BufferId{id}, Str(name), DType::F32, arena.list<i64>({extent}), Scope::Global, Str{});
  };
  const Buffer *x = buffer(1, "x", 4), *y = buffer(2, "y", 4), *t = buffer(3, "t", 1), *s = buffer(4, "s", 4);
  const Var *i = build.var(1, "i"), *j = build.var(2, "j");
  auto at = [&](const Expr* e) { return arena.list<const Expr*>({e}); };
  const Stmt* first = build.loop({1}, i, 4,
                                 build.seq({build.store(t, at(build.integer(0)), build.load(x, at(i))),
                                            build.store(s, at(i), build.load(t, at(build.integer(0))))}),
                                 LoopKind::Parallel);
  const Stmt* second = build.loop({2}, j, 4, build.store(y, at(j), build.load(s, at(j))));
  LoweredProgram program;
  program.run.arguments = arena.list<Placement>({{x, Place::Argument, 0}, {y, Place::Argument, 1}});
  program.run.scratch = arena.list<Placement>({{t, Place::WorkerScratch, 8}, {s, Place::SharedScratch, 0}});
  program.run.body = build.seq({first, second});
  program.run_arguments = arena.list<LoweredArgument>(
      {{"x", false, false, false, DType::F32, x->shape}, {"y", true, false, false, DType::F32, y->shape}});
  program.scratch_shared_bytes = 16;
  program.scratch_worker_bytes = 12;
  auto arrays = [&] {
    std::vector<HostArray> a = {HostArray::like(x), HostArray::like(y)};
    for (i64 k = 0; k < 4; ++k) a[0].set(k, static_cast<double>(k) + 1);
    return a;
  };
  std::vector<HostArray> a = arrays();
  EXPECT_EQ(interpret(program, EntryPoint::Run, a), "");
  EXPECT_EQ(a[1].get(3), 4);
  // In memory that workers share, the same t is a race.
  program.run.scratch = arena.list<Placement>({{t, Place::SharedScratch, 16}, {s, Place::SharedScratch, 0}});
  program.scratch_shared_bytes = 20;
  a = arrays();
  EXPECT_NE(interpret(program, EntryPoint::Run, a).find("another iteration of a concurrent loop"), std::string::npos);
  // Two buffers in one place destroy each other, and here that is a race.
  program.run.scratch = arena.list<Placement>({{t, Place::WorkerScratch, 12}, {s, Place::SharedScratch, 0}});
  EXPECT_EQ(interpret(program, EntryPoint::Run, a), "`t` lies outside of the scratch memory");
}

}  // namespace
}  // namespace tw
