// Peers through the real processes: results against naive loops, refusals, ends of the process, and
// that nothing runs between requests. A library that is not installed here skips its cases, with
// the reason.
#include "runtime/peers/peer.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <thread>

#include "dsl/base/rng.h"
#include "dsl/base/text.h"

namespace tw {
namespace {

using Floats = std::vector<float>;

// Small integers: sums are exact, so results must agree to the bit.
Floats integers(i64 count, u64 seed) {
  Floats values(count);
  for (i64 i = 0; i < count; ++i) {
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    values[i] = static_cast<float>(static_cast<i64>(seed >> 60) - 8);
  }
  return values;
}

#define START_OR_SKIP(peer, library, options)                                               \
  auto started_##peer = Peer::start(library, options);                                      \
  if (started_##peer.status == PeerStatus::Missing) GTEST_SKIP() << started_##peer.message; \
  ASSERT_TRUE(started_##peer) << started_##peer.message;                                    \
  Peer& peer = *started_##peer.value

Floats naive_matmul(const Floats& a, const Floats& b, i64 m, i64 n, i64 k) {
  Floats c(m * n);
  for (i64 i = 0; i < m; ++i) {
    for (i64 p = 0; p < k; ++p) {
      for (i64 j = 0; j < n; ++j) c[i * n + j] += a[i * k + p] * b[p * n + j];
    }
  }
  return c;
}

struct Conv {
  i64 h, w, ci, co, k, stride, padding, dilation, groups;
  i64 out(i64 in) const { return (in + 2 * padding - dilation * (k - 1) - 1) / stride + 1; }
};

// X[h, w, ci], W[k, k, ci / groups, co] -> [oh, ow, co].
Floats naive_conv2d(const Floats& x, const Floats& weights, const Conv& c) {
  const i64 oh = c.out(c.h), ow = c.out(c.w), per_group = c.ci / c.groups;
  Floats y(oh * ow * c.co);
  const auto one = [&](i64 i, i64 j, i64 o) {
    float sum = 0;
    for (i64 tap = 0; tap < c.k * c.k * per_group; ++tap) {
      const i64 u = tap / per_group / c.k, v = tap / per_group % c.k, p = tap % per_group;
      const i64 row = i * c.stride - c.padding + u * c.dilation, column = j * c.stride - c.padding + v * c.dilation;
      if (row < 0 || row >= c.h || column < 0 || column >= c.w) continue;
      const i64 channel = o / (c.co / c.groups) * per_group + p;
      sum += x[(row * c.w + column) * c.ci + channel] * weights[tap * c.co + o];
    }
    return sum;
  };
  for (i64 at = 0; at < static_cast<i64>(y.size()); ++at) y[at] = one(at / c.co / ow, at / c.co % ow, at % c.co);
  return y;
}

// GoogleTest takes no hyphens.
std::string name_for_tests(std::string library) {
  std::replace(library.begin(), library.end(), '-', '_');
  return library;
}

class EveryLibrary : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Peer, EveryLibrary,
                         testing::Values("openblas", "blis", "onednn", "libtorch", "mkl-wheel", "openblas-wheel",
                                         "onednn-wheel", "torch-wheel"),
                         [](const auto& info) { return name_for_tests(info.param); });

TEST_P(EveryLibrary, MatmulEqualsTheNaiveProduct) {
  START_OR_SKIP(peer, GetParam(), PeerOptions{.threads = 2});
  const i64 m = 37, n = 45, k = 29;
  const Floats a = integers(m * k, 1), b = integers(k * n, 2);
  for (const char* op : {"matmul", "dense"}) {
    const auto kernel = peer.prepare({op, {{"M", m}, {"N", n}, {"K", k}}, {}, {a, b}});
    ASSERT_TRUE(kernel) << kernel.message;
    EXPECT_EQ(kernel.value.flops, 2.0 * m * n * k);
    const auto result = peer.output();
    ASSERT_TRUE(result) << result.message;
    EXPECT_EQ(result.value, naive_matmul(a, b, m, n, k)) << op << ", " << kernel.value.detail;
  }
}

TEST_P(EveryLibrary, EpilogueIsComputed) {
  START_OR_SKIP(peer, GetParam(), PeerOptions{});
  const i64 m = 12, n = 20, k = 16;
  const Floats a = integers(m * k, 3), b = integers(k * n, 4), bias = integers(n, 5), residual = integers(m * n, 6);
  const auto kernel =
      peer.prepare({"dense", {{"M", m}, {"N", n}, {"K", k}}, {"bias", "add", "relu"}, {a, b, bias, residual}});
  if (kernel.message.find("needs NumPy") != std::string::npos) GTEST_SKIP() << kernel.message;
  ASSERT_TRUE(kernel) << kernel.message;
  Floats expected = naive_matmul(a, b, m, n, k);
  for (i64 i = 0; i < m * n; ++i) expected[i] = std::max(0.0F, expected[i] + bias[i % n] + residual[i]);
  EXPECT_EQ(peer.output().value, expected);
}

TEST_P(EveryLibrary, AttentionScoresReadTransposedOperands) {
  START_OR_SKIP(peer, GetParam(), PeerOptions{});
  const i64 batch = 2, seq = 9, heads = 3, dim = 8;
  const Floats q = integers(batch * seq * heads * dim, 7), keys = integers(batch * seq * heads * dim, 8);
  const auto kernel =
      peer.prepare({"transpose_batch_matmul", {{"B", batch}, {"S", seq}, {"H", heads}, {"D", dim}}, {}, {q, keys}});
  ASSERT_TRUE(kernel) << kernel.message;
  Floats expected(batch * heads * seq * seq);
  for (i64 at = 0; at < static_cast<i64>(expected.size()); ++at) {
    const i64 j = at % seq, i = at / seq % seq, h = at / seq / seq % heads, b = at / seq / seq / heads;
    for (i64 d = 0; d < dim; ++d) {
      expected[at] += q[((b * seq + i) * heads + h) * dim + d] * keys[((b * seq + j) * heads + h) * dim + d];
    }
  }
  EXPECT_EQ(peer.output().value, expected);
}

class ConvLibrary : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Peer, ConvLibrary, testing::Values("onednn", "libtorch", "onednn-wheel", "torch-wheel"),
                         [](const auto& info) { return name_for_tests(info.param); });

TEST_P(ConvLibrary, ConvolutionsEqualTheNaiveOnes) {
  START_OR_SKIP(peer, GetParam(), PeerOptions{});
  const Conv cases[] = {{9, 11, 16, 32, 3, 1, 1, 1, 1},
                        {10, 10, 3, 8, 5, 2, 2, 1, 1},
                        {12, 9, 8, 16, 3, 1, 2, 2, 1},
                        {9, 9, 16, 32, 3, 1, 1, 1, 4},
                        {8, 8, 24, 24, 3, 2, 1, 1, 24}};
  for (const Conv& c : cases) {
    const Floats x = integers(c.h * c.w * c.ci, 9), weights = integers(c.k * c.k * c.ci / c.groups * c.co, 10);
    const auto kernel = peer.prepare({"conv2d",
                                      {{"N", 1},
                                       {"H", c.h},
                                       {"W", c.w},
                                       {"CI", c.ci},
                                       {"CO", c.co},
                                       {"K", c.k},
                                       {"stride", c.stride},
                                       {"padding", c.padding},
                                       {"dilation", c.dilation},
                                       {"groups", c.groups}},
                                      {},
                                      {x, weights}});
    ASSERT_TRUE(kernel) << kernel.message;
    EXPECT_EQ(peer.output().value, naive_conv2d(x, weights, c)) << kernel.value.detail << ", CI " << c.ci;
  }
}

TEST_P(ConvLibrary, ConvolutionWithEpilogue) {
  START_OR_SKIP(peer, GetParam(), PeerOptions{});
  const Conv c{7, 7, 16, 16, 3, 1, 1, 1, 1};
  const Floats x = integers(7 * 7 * 16, 1), weights = integers(9 * 16 * 16, 2), bias = integers(16, 3),
               residual = integers(7 * 7 * 16, 4);
  const auto kernel = peer.prepare({"conv2d",
                                    {{"H", 7}, {"W", 7}, {"CI", 16}, {"CO", 16}, {"K", 3}, {"padding", 1}},
                                    {"bias", "relu", "add"},
                                    {x, weights, bias, residual}});
  ASSERT_TRUE(kernel) << kernel.message;
  Floats expected = naive_conv2d(x, weights, c);
  for (std::size_t i = 0; i < expected.size(); ++i)
    expected[i] = std::max(0.0F, expected[i] + bias[i % 16]) + residual[i];
  EXPECT_EQ(peer.output().value, expected) << kernel.value.detail;
}

// Out[o] gets x[i] * w[k] where o = i * stride - padding + k.
TEST_P(ConvLibrary, TransposedConvolution) {
  START_OR_SKIP(peer, GetParam(), PeerOptions{});
  const i64 in = 5, ci = 8, co = 16, k = 4, stride = 2, padding = 1, out = (in - 1) * stride - 2 * padding + k;
  const Floats x = integers(in * in * ci, 1), weights = integers(k * k * ci * co, 2);
  const auto kernel =
      peer.prepare({"conv2d_transposed",
                    {{"H", in}, {"W", in}, {"CI", ci}, {"CO", co}, {"K", k}, {"stride", stride}, {"padding", padding}},
                    {},
                    {x, weights}});
  ASSERT_TRUE(kernel) << kernel.message;
  Floats expected(out * out * co);
  for (i64 at = 0; at < in * in * k * k; ++at) {
    const i64 v = at % k, u = at / k % k, j = at / k / k % in, i = at / k / k / in;
    const i64 row = i * stride - padding + u, column = j * stride - padding + v;
    if (row < 0 || row >= out || column < 0 || column >= out) continue;
    for (i64 p = 0; p < ci; ++p) {
      for (i64 o = 0; o < co; ++o) {
        expected[(row * out + column) * co + o] += x[(i * in + j) * ci + p] * weights[((u * k + v) * ci + p) * co + o];
      }
    }
  }
  EXPECT_EQ(peer.output().value, expected) << kernel.value.detail;
}

TEST_P(ConvLibrary, OneAndThreeAxes) {
  START_OR_SKIP(peer, GetParam(), PeerOptions{});
  const i64 extent = 6, ci = 8, co = 16, k = 3, out = extent;
  const Floats line = integers(extent * ci, 1), line_weights = integers(k * ci * co, 2);
  const Floats cube = integers(extent * extent * extent * ci, 3), cube_weights = integers(k * k * k * ci * co, 4);
  const auto kernel1 = peer.prepare(
      {"conv1d", {{"L", extent}, {"CI", ci}, {"CO", co}, {"K", k}, {"padding", 1}}, {}, {line, line_weights}});
  ASSERT_TRUE(kernel1) << kernel1.message;
  Floats expected(out * co);
  for (i64 at = 0; at < out * k * ci * co; ++at) {
    const i64 o = at % co, p = at / co % ci, u = at / co / ci % k, i = at / co / ci / k, from = i - 1 + u;
    if (from >= 0 && from < extent) expected[i * co + o] += line[from * ci + p] * line_weights[(u * ci + p) * co + o];
  }
  EXPECT_EQ(peer.output().value, expected);

  const auto kernel3 =
      peer.prepare({"conv3d",
                    {{"D", extent}, {"H", extent}, {"W", extent}, {"CI", ci}, {"CO", co}, {"K", k}, {"padding", 1}},
                    {},
                    {cube, cube_weights}});
  ASSERT_TRUE(kernel3) << kernel3.message;
  expected.assign(out * out * out * co, 0);
  for (i64 at = 0; at < out * out * out * k * k * k; ++at) {
    const i64 tap = at % (k * k * k), place = at / (k * k * k);
    const i64 z = place / out / out - 1 + tap / k / k, y = place / out % out - 1 + tap / k % k,
              x = place % out - 1 + tap % k;
    if (std::min({z, y, x}) < 0 || std::max({z, y, x}) >= extent) continue;
    for (i64 p = 0; p < ci; ++p) {
      for (i64 o = 0; o < co; ++o) {
        expected[place * co + o] +=
            cube[((z * extent + y) * extent + x) * ci + p] * cube_weights[(tap * ci + p) * co + o];
      }
    }
  }
  EXPECT_EQ(peer.output().value, expected);
}

TEST_P(ConvLibrary, RowOperators) {
  START_OR_SKIP(peer, GetParam(), PeerOptions{});
  const i64 rows = 6, columns = 40;
  const Floats x = integers(rows * columns, 11), scale = integers(columns, 12), shift = integers(columns, 13);
  const auto check = [&](const char* op, const PeerProblem& problem, const std::function<double(i64, i64)>& expected) {
    const auto kernel = peer.prepare(problem);
    ASSERT_TRUE(kernel) << op << ": " << kernel.message;
    const Floats result = peer.output().value;
    const i64 width = static_cast<i64>(result.size()) / rows;
    for (i64 i = 0; i < static_cast<i64>(result.size()); ++i) {
      ASSERT_NEAR(result[i], expected(i / width, i % width), 1e-4) << op << " at " << i;
    }
  };
  const auto sum = [&](i64 row, const std::function<double(double)>& f) {
    double total = 0;
    for (i64 j = 0; j < columns; ++j) total += f(x[row * columns + j]);
    return total;
  };
  const std::vector<std::pair<std::string, i64>> args = {{"M", rows}, {"N", columns}};
  check("softmax", {"softmax", args, {}, {x}},
        [&](i64 i, i64 j) { return std::exp(x[i * columns + j]) / sum(i, [](double v) { return std::exp(v); }); });
  check("layernorm", {"layernorm", args, {}, {x, scale, shift}}, [&](i64 i, i64 j) {
    const double mean = sum(i, [](double v) { return v; }) / columns;
    const double variance = sum(i, [&](double v) { return (v - mean) * (v - mean); }) / columns;
    return (x[i * columns + j] - mean) / std::sqrt(variance + 1e-5) * scale[j] + shift[j];
  });
  if (GetParam() == "torch-wheel") {
    check("rmsnorm", {"rmsnorm", args, {}, {x, scale}}, [&](i64 i, i64 j) {
      return x[i * columns + j] / std::sqrt(sum(i, [](double v) { return v * v; }) / columns + 1e-6) * scale[j];
    });
  }
  check("norm", {"norm", {{"B", rows}, {"M", columns / 4}, {"N", 4}}, {}, {x}},
        [&](i64 i, i64) { return std::sqrt(sum(i, [](double v) { return v * v; })); });
}

TEST(Peer, FmaProbeGivesAPlausiblePeak) {
  START_OR_SKIP(peer, "fma", PeerOptions{});
  const auto kernel = peer.prepare({"fma", {}, {}, {}});
  if (kernel.status == PeerStatus::Unsupported) GTEST_SKIP() << kernel.message;
  ASSERT_TRUE(kernel) << kernel.message;
  double best = 0;
  for (int i = 0; i < 5; ++i) {
    const auto time = peer.sample(10);
    ASSERT_TRUE(time) << time.message;
    best = std::max(best, 10 * kernel.value.flops / time.value);
  }
  // One core: more than a slow one with half its time, less than two 512-bit units at 6 GHz.
  EXPECT_GT(best, 5.0) << kernel.value.detail;
  EXPECT_LT(best, 400.0) << kernel.value.detail;
}

TEST(Peer, NarrowVectorsOnRequest) {
  START_OR_SKIP(peer, "fma", (PeerOptions{.vector_bits = 256}));
  const auto kernel = peer.prepare({"fma", {}, {}, {}});
  if (kernel.status == PeerStatus::Unsupported) GTEST_SKIP() << kernel.message;
  EXPECT_EQ(kernel.value.detail, "AVX2, 12 accumulators");
}

TEST(Peer, UnsupportedOperatorsAreNamed) {
  START_OR_SKIP(peer, "openblas", PeerOptions{});
  const Floats data = integers(64, 1);
  const auto conv = peer.prepare({"conv2d", {{"H", 2}, {"W", 2}, {"CI", 4}, {"CO", 4}, {"K", 1}}, {}, {data, data}});
  EXPECT_EQ(conv.status, PeerStatus::Unsupported);
  EXPECT_EQ(conv.message, "a BLAS has no conv2d");
  const auto gelu = peer.prepare({"dense", {{"M", 2}, {"N", 2}, {"K", 2}}, {"gelu"}, {data, data}});
  EXPECT_EQ(gelu.status, PeerStatus::Unsupported);
  EXPECT_EQ(gelu.message, "a BLAS has no gelu");
  const auto odd = peer.prepare({"capsule", {}, {}, {data}});
  EXPECT_EQ(odd.status, PeerStatus::Unsupported);
  EXPECT_EQ(odd.message, "operator capsule is not compared with libraries");
  const auto less = peer.prepare({"matmul", {{"M", 2}, {"N", 2}}, {}, {data, data}});
  EXPECT_EQ(less.message, "matmul needs the argument K");
  const auto after = peer.sample(1);
  EXPECT_EQ(after.status, PeerStatus::Failed);
  EXPECT_EQ(after.message, "nothing is prepared");
}

TEST(Peer, UnknownAndMissingLibrariesSayWhatToDo) {
  const auto unknown = Peer::start("openbals", {});
  EXPECT_EQ(unknown.status, PeerStatus::Missing);
  EXPECT_EQ(unknown.message,
            "unknown library openbals: did you mean openblas?; known: openblas, blis, onednn, "
            "libtorch, mkl-wheel, openblas-wheel, onednn-wheel, torch-wheel, fma");
  const auto missing = Peer::start("onednn", {.folder = "/"});
  EXPECT_EQ(missing.status, PeerStatus::Missing);
  EXPECT_EQ(missing.message, "no peer for onednn was built; install the package libdnnl-dev and build again");
}

TEST(Peer, AKilledPeerIsReported) {
  START_OR_SKIP(peer, "fma", PeerOptions{});
  ASSERT_EQ(kill(peer.pid(), SIGKILL), 0);
  const auto answer = peer.prepare({"fma", {}, {}, {}});
  EXPECT_EQ(answer.status, PeerStatus::Died);
  EXPECT_NE(answer.message.find("(killed by signal 9, Killed)"), std::string::npos) << answer.message;
  EXPECT_EQ(peer.sample(1).status, PeerStatus::Died);
}

TEST(Peer, AnEndlessSampleTimesOut) {
  START_OR_SKIP(peer, "fma", (PeerOptions{.sample_timeout = std::chrono::milliseconds(200)}));
  const auto kernel = peer.prepare({"fma", {}, {}, {}});
  if (kernel.status == PeerStatus::Unsupported) GTEST_SKIP() << kernel.message;
  const int pid = peer.pid();
  const auto answer = peer.sample(i64{1} << 40);
  EXPECT_EQ(answer.status, PeerStatus::TimedOut);
  EXPECT_EQ(answer.message, "the fma peer gave no answer within 200 ms");
  EXPECT_EQ(kill(pid, 0), -1) << "the process still runs";
}

// Clock ticks that a process has used, with its threads, from /proc/PID/stat; and its state.
std::pair<char, i64> state_and_ticks(int pid) {
  std::ifstream file(cat("/proc/", pid, "/stat"));
  std::string text;
  std::getline(file, text);
  std::istringstream rest(text.substr(text.rfind(')') + 2));
  std::string state, skipped;
  i64 user = 0, system = 0;
  rest >> state;
  for (int i = 0; i < 10; ++i) rest >> skipped;
  rest >> user >> system;
  return {state.empty() ? '?' : state[0], user + system};
}

TEST_P(EveryLibrary, IdlePeersAreStoppedAndBurnNothing) {
  START_OR_SKIP(peer, GetParam(), PeerOptions{.threads = 2});
  const i64 n = 96;
  const Floats a = integers(n * n, 1);
  ASSERT_TRUE(peer.prepare({"matmul", {{"M", n}, {"N", n}, {"K", n}}, {}, {a, a}}));
  ASSERT_TRUE(peer.sample(100));
  const auto before = state_and_ticks(peer.pid());
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const auto after = state_and_ticks(peer.pid());
  EXPECT_EQ(before.first, 'T');
  EXPECT_EQ(after, before);
  EXPECT_TRUE(peer.sample(100));
}

}  // namespace
}  // namespace tw
