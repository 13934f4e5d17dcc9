// Code generation against plain C++ loops. LLVM's verifier runs on every module.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <set>
#include <thread>

#include "backends/backend.h"
#include "backends/llvm/lane_use.h"
#include "runtime/measure/object_loader.h"
#include "tests/support/aligned.h"
#include "tests/support/lowered_conv.h"
#include "tests/support/lowered_gemm.h"
#include "tests/support/lowered_kit.h"

namespace tw {
namespace {

LlvmCompiler compiler_for(const CodegenTarget& target = {}) {
  Result<LlvmCompiler> made = LlvmCompiler::create(target);
  EXPECT_TRUE(made) << to_string(made.rejected());
  made->set_verify(true);
  return std::move(*made);
}

// Compiles, loads and calls `<symbol>_run`.
void run(const LoweredProgram& program, std::vector<void*> buffers, void* scratch = nullptr,
         tw_parallel_for hook = nullptr, void* pool = nullptr) {
  Result<Kernel> kernel = compiler_for().compile(program, "test");
  ASSERT_TRUE(kernel) << to_string(kernel.rejected());
  std::string error;
  LoadedObject loaded = load_object(kernel->code, error);
  ASSERT_EQ(error, "");
  EXPECT_EQ(loaded.run("test")(buffers.data(), scratch, hook, pool), 0);
}

// Two threads: even iterations are worker 0's, odd ones worker 1's.
struct TwoThreads {
  int calls = 0;
  static void parallel_for(void* pool, int64_t count, tw_task task, void* context) {
    static_cast<TwoThreads*>(pool)->calls++;
    auto work = [&](int64_t worker) {
      for (int64_t i = worker; i < count; i += 2) task(context, i, worker);
    };
    std::thread other(work, 1);
    work(0);
    other.join();
  }
};

// ---- matrix product

struct GemmCase {
  const char* name;
  GemmPlan plan;
};

class Gemm : public testing::TestWithParam<GemmCase> {};

TEST_P(Gemm, EqualsPlainLoop) {
  const GemmPlan& plan = GetParam().plan;
  i64 stride = plan.a_stride ? plan.a_stride : plan.k;
  Aligned<float> a(plan.m * stride), b(plan.k * plan.n), packed(plan.panels() * plan.k * plan.panel()),
      c(plan.m * plan.n);
  for (i64 i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i * 7 % 11 - 5);
  for (i64 i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i * 5 % 13 - 6);
  for (i64 k = 0; k < plan.k; ++k) {
    for (i64 n = 0; n < plan.n; ++n) {
      packed[(n / plan.panel() * plan.k + k) * plan.panel() + n % plan.panel()] = b[k * plan.n + n];
    }
  }
  Arena arena;
  LoweredProgram program = LoweredGemm(arena, plan).program();
  TwoThreads pool;
  run(program, {a.data(), packed.data(), c.data()}, nullptr, plan.is_parallel ? TwoThreads::parallel_for : nullptr,
      &pool);
  EXPECT_EQ(pool.calls > 0, plan.is_parallel);
  for (i64 m = 0; m < plan.m; ++m) {
    for (i64 n = 0; n < plan.n; ++n) {
      float sum = 0;
      for (i64 k = 0; k < plan.k; ++k) sum += a[m * stride + k] * b[k * plan.n + n];
      ASSERT_EQ(c[m * plan.n + n], sum) << m << ", " << n;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tiles, Gemm,
                         testing::Values(GemmCase{"even", {48, 64, 32, 6, 2, 16, 4}},
                                         GemmCase{"tails_everywhere", {47, 59, 37, 6, 2, 8, 4}},
                                         GemmCase{"rows_outside", {25, 40, 16, 5, 2, 8, 8, false}},
                                         GemmCase{"four_lanes", {13, 21, 9, 4, 3, 4, 2}},
                                         GemmCase{"wider_than_a_register", {12, 64, 10, 3, 1, 32, 1}},
                                         GemmCase{"padded_rows", {14, 32, 16, 4, 2, 8, 4, true, false, 19}},
                                         GemmCase{"parallel_panels", {30, 70, 20, 6, 1, 8, 4, true, true}},
                                         GemmCase{"parallel_rows", {33, 70, 20, 4, 1, 16, 4, false, true}}),
                         [](const auto& info) { return info.param.name; });

TEST(Gemm, ParallelProgramRunsSeriallyWithoutHook) {
  GemmPlan plan{12, 32, 8, 4, 1, 8, 4, true, true};
  Arena arena;
  Aligned<float> a(plan.m * plan.k), b(plan.panels() * plan.k * plan.panel()), c(plan.m * plan.n);
  for (float& x : a) x = 1;
  for (float& x : b) x = 2;
  run(LoweredGemm(arena, plan).program(), {a.data(), b.data(), c.data()});
  for (float x : c) ASSERT_EQ(x, 16);
}

// ---- convolution

TEST(Conv, EqualsPlainLoopWithAndWithoutHiddenAddresses) {
  for (bool hides : {false, true}) {
    ConvPlan plan{16, 7, 2, 4, 8, hides};
    i64 channels = plan.channels, size = plan.size, padded = size + 2, panel = plan.panel();
    Aligned<float> in(channels * padded * padded), weights(channels * channels * 9), out(channels * size * size);
    for (i64 i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i * 7 % 11 - 5);
    for (i64 i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(i * 5 % 13 - 6);
    Arena arena;
    run(LoweredConv(arena, plan).program(), {in.data(), weights.data(), out.data()});
    for (i64 co = 0; co < channels; ++co) {
      for (i64 at = 0; at < size * size; ++at) {
        i64 row = at / size, column = at % size;
        float sum = 0;
        for (i64 step = 0; step < channels * 9; ++step) {
          i64 ci = step / 9, kh = step % 9 / 3, kw = step % 3;
          sum += in[(ci * padded + row + kh) * padded + column + kw] *
                 weights[(co / panel * channels * 9 + step) * panel + co % panel];
        }
        ASSERT_EQ(out[(co / panel * size * size + at) * panel + co % panel], sum)
            << hides << ": " << co << ", " << row << ", " << column;
      }
    }
  }
}

// ---- what the code looks like

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t found = 0;
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += what.size()) ++found;
  return found;
}

// Cross-compiled, so that these tests see the same code on every machine.
CodegenTarget zen3() { return {"x86_64-pc-linux-gnu", "znver3", "", 256}; }
CodegenTarget zen5() { return {"x86_64-pc-linux-gnu", "znver5", "", 512}; }

TEST(GemmCode, AccumulatorsStayInRegisters) {
  for (auto [target, plan] :
       {std::pair(zen3(), GemmPlan{48, 64, 64, 6, 2, 8, 4}), std::pair(zen5(), GemmPlan{48, 64, 64, 6, 4, 16, 4}),
        std::pair(zen5(), GemmPlan{48, 64, 64, 12, 2, 16, 4})}) {
    Arena arena;
    LlvmCompiler compiler = compiler_for(target);
    std::string assembly = *compiler.emit(LoweredGemm(arena, plan).program(), "gemm", Emit::Assembly);
    EXPECT_EQ(count(assembly, "(%rsp"), 0u) << assembly;
    std::size_t fmas = static_cast<std::size_t>(plan.rows * plan.vectors * plan.unroll);
    EXPECT_EQ(count(assembly, "vfmadd"), fmas);  // all fused, none twice
    // One broadcast per element of A: never one per multiplication.
    EXPECT_EQ(count(assembly, "vbroadcastss"), static_cast<std::size_t>(plan.rows * plan.unroll));
  }
}

TEST(GemmCode, BuffersDoNotAlias) {
  // y[i] = x[i] * b[0]: the load of b[0] leaves the loop although the loop stores.
  LoweredKit kit;
  const Buffer *x = kit.argument(DType::F32, 64), *b = kit.argument(DType::F32, 1), *y = kit.output(DType::F32, 64);
  const Var* i = kit.var();
  const Expr* product = kit.build.mul(kit.load(x, i), kit.load(b, kit.build.integer(0)));
  LlvmCompiler compiler = compiler_for(zen3());
  std::string ir = *compiler.emit(kit.program(kit.loop(i, 64, kit.store(y, i, product))), "f", Emit::OptimizedIr);
  std::size_t loop = ir.find("loop:");
  ASSERT_NE(loop, std::string::npos);
  EXPECT_EQ(count(ir.substr(loop), "load float"), 1u) << ir;
  EXPECT_EQ(count(ir.substr(0, loop), "load float"), 1u) << ir;
}

TEST(GemmCode, HiddenAddressesAreLoadedAgain) {
  // Two copies of an unrolled window that read the same element, each in a loop of extent 1 that is marked.
  auto loads_with = [](bool hides) {
    LoweredKit kit;
    const Buffer *x = kit.argument(DType::F32, 64), *y = kit.output(DType::F32, 64);
    const Var* outer = kit.var();
    std::vector<const Stmt*> copies;
    for (int copy = 0; copy < 2; ++copy) {
      const Expr* sum = kit.build.add(kit.load(x, kit.build.add(outer, 5)), kit.load(y, outer));
      For* window = kit.arena().make<For>(*kit.loop(kit.var(), 1, kit.store(y, outer, sum)));
      if (hides) window->annotations = kit.arena().list<Annotation>({{"hide_address", Literal::of(1)}});
      copies.push_back(window);
    }
    LoweredProgram program = kit.program(kit.loop(outer, 32, kit.build.seq(copies)));
    Aligned<float> in(64), out(64);
    for (i64 i = 0; i < 64; ++i) in[i] = static_cast<float>(i), out[i] = 100;
    run(program, {in.data(), out.data()});
    for (i64 i = 0; i < 32; ++i) EXPECT_EQ(out[i], 100 + 2 * (i + 5));
    LlvmCompiler compiler = compiler_for(zen3());
    return count(*compiler.emit(program, "f", Emit::OptimizedIr), "load float");
  };
  EXPECT_LT(loads_with(false), loads_with(true));
}

// ---- operators on every type

template <class T>
T floor_div(T a, T b) {
  T q = static_cast<T>(a / b);
  return a % b != 0 && ((a % b < 0) != (b < 0)) ? static_cast<T>(q - 1) : q;
}

// z[i] = op(x[i], y[i]) with `lanes` at a time, z of type `result`.
template <class T, class R>
void check_binary(DType dtype, DType result, BinaryOp op, int lanes, const std::vector<T>& values, T (*second)(T),
                  const std::function<R(T, T)>& expected) {
  LoweredKit kit;
  i64 n = static_cast<i64>(values.size() * values.size()), padded = (n + lanes - 1) / lanes * lanes;
  const Buffer *x = kit.argument(dtype, padded), *y = kit.argument(dtype, padded), *z = kit.output(result, padded);
  const Var* i = kit.var();
  const Expr* at = kit.ramp(kit.build.mul(i, lanes), lanes);
  const Expr* value = kit.arena().make<Binary>(Expr{{Kind::Binary}, {result, static_cast<std::uint16_t>(lanes)}}, op,
                                               kit.load(x, at), kit.load(y, at));
  Aligned<T> a(padded), b(padded);
  Aligned<R> c(padded);
  for (T& item : b) item = second(values[0]);
  for (i64 k = 0; k < n; ++k) a[k] = values[k / values.size()], b[k] = second(values[k % values.size()]);
  run(kit.program(kit.loop(i, padded / lanes, kit.store(z, at, value))), {a.data(), b.data(), c.data()});
  for (i64 k = 0; k < n; ++k) {
    R want = expected(a[k], b[k]);
    ASSERT_TRUE(c[k] == want || (want != want && c[k] != c[k]))
        << name_of(dtype) << ": " << +a[k] << " " << name_of(op) << " " << +b[k] << " = " << +c[k] << ", not " << +want;
  }
}

template <class T>
T same(T x) {
  return x;
}
template <class T>
T not_zero(T x) {
  return x == 0 ? T{3} : x;
}

// Integers wrap around.
template <class T>
T product(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    T out;
    return __builtin_mul_overflow(a, b, &out), out;
  } else {
    return a * b;
  }
}

template <class T>
void check_operators(DType dtype, const std::vector<T>& values) {
  for (int lanes : {1, 8}) {
    auto check = [&](BinaryOp op, auto expected) {
      check_binary<T, T>(dtype, dtype, op, lanes, values, same<T>, expected);
    };
    auto compare = [&](BinaryOp op, auto expected) {
      check_binary<T, bool>(dtype, DType::Bool, op, lanes, values, same<T>, expected);
    };
    check(BinaryOp::Add, [](T a, T b) { return static_cast<T>(a + b); });
    check(BinaryOp::Sub, [](T a, T b) { return static_cast<T>(a - b); });
    check(BinaryOp::Mul, [](T a, T b) { return product(a, b); });
    check(BinaryOp::Min, [](T a, T b) { return a < b ? a : b; });
    check(BinaryOp::Max, [](T a, T b) { return a > b ? a : b; });
    compare(BinaryOp::Lt, [](T a, T b) { return a < b; });
    compare(BinaryOp::Le, [](T a, T b) { return a <= b; });
    compare(BinaryOp::Gt, [](T a, T b) { return a > b; });
    compare(BinaryOp::Ge, [](T a, T b) { return a >= b; });
    compare(BinaryOp::Eq, [](T a, T b) { return a == b; });
    compare(BinaryOp::Ne, [](T a, T b) { return a != b; });
    if constexpr (std::is_floating_point_v<T>) {
      check(BinaryOp::Div, [](T a, T b) { return a / b; });
    } else {
      auto divide = [&](BinaryOp op, auto expected) {
        check_binary<T, T>(dtype, dtype, op, lanes, values, not_zero<T>, expected);
      };
      divide(BinaryOp::FloorDiv, [](T a, T b) { return floor_div(a, b); });
      divide(BinaryOp::FloorMod, [](T a, T b) { return static_cast<T>(a - floor_div(a, b) * b); });
    }
  }
}

TEST(Operators, I8) { check_operators<std::int8_t>(DType::I8, {0, 1, -1, 7, -7, 100, -100, 127}); }
TEST(Operators, U8) { check_operators<std::uint8_t>(DType::U8, {0, 1, 2, 7, 100, 127, 128, 200, 255}); }
TEST(Operators, I32) { check_operators<std::int32_t>(DType::I32, {0, 1, -1, 7, -7, 12345, -54321, 30000}); }
TEST(Operators, I64) { check_operators<i64>(DType::I64, {0, 1, -1, 7, -7, i64{1} << 30, -(i64{1} << 29) - 5}); }
TEST(Operators, F32) {
  check_operators<float>(DType::F32, {0.f, 1.f, -1.5f, 3.25f, 1e-30f, -7e20f, INFINITY, -INFINITY, NAN});
}
TEST(Operators, F64) { check_operators<double>(DType::F64, {0., 1., -1.5, 3.25, 1e-200, -7e200, INFINITY, NAN}); }

TEST(Operators, DivisionByConstants) {
  for (i64 divisor : {1, 2, 3, 7, 8, 64, -1, -4, -5}) {
    for (int lanes : {1, 4}) {
      LoweredKit kit;
      const Buffer *x = kit.argument(DType::I64, 64), *q = kit.output(DType::I64, 64), *r = kit.output(DType::I64, 64);
      const Buffer *qi = kit.output(DType::I64, 64), *ri = kit.output(DType::I64, 64);
      const Var* i = kit.var();
      const Expr *at = kit.ramp(kit.build.mul(i, lanes), lanes), *d = kit.wide(kit.build.integer(divisor), lanes);
      const Stmt* body =
          kit.build.seq({kit.store(q, at, kit.build.floor_div(kit.load(x, at), d)),
                         kit.store(r, at, kit.build.floor_mod(kit.load(x, at), d)),
                         kit.store(qi, at, kit.build.floor_div(at, d)), kit.store(ri, at, kit.build.floor_mod(at, d))});
      Aligned<i64> a(64), b(64), c(64), e(64), f(64);
      for (i64 k = 0; k < 64; ++k) a[k] = k * 3 - 90;
      run(kit.program(kit.loop(i, 64 / lanes, body)), {a.data(), b.data(), c.data(), e.data(), f.data()});
      for (i64 k = 0; k < 64; ++k) {
        ASSERT_EQ(b[k], floor_div(a[k], divisor));
        ASSERT_EQ(c[k], a[k] - b[k] * divisor);
        ASSERT_EQ(e[k], floor_div(k, divisor));
        ASSERT_EQ(f[k], k - e[k] * divisor);
      }
    }
  }
}

// ---- vectors that leave out lanes

// The last elements of buffers that end where pages begin that may not be touched.
TEST(LaneMasks, NothingIsTouchedOutside) {
  const i64 page = sysconf(_SC_PAGESIZE);
  auto before_a_closed_page = [&](i64 floats) {
    void* pages =
        mmap(nullptr, static_cast<std::size_t>(2 * page), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char* closed = static_cast<char*>(pages) + page;
    EXPECT_EQ(mprotect(closed, static_cast<std::size_t>(page), PROT_NONE), 0);
    return reinterpret_cast<float*>(closed) - floats;
  };
  for (i64 active : {1, 3, 8, 13}) {
    LoweredKit kit;
    const Buffer *x = kit.argument(DType::F32, 16), *y = kit.output(DType::F32, 16);
    const Expr *first = kit.build.integer(16 - active), *at = kit.ramp(first, 16);
    const Expr* inside = kit.build.lt(at, kit.wide(kit.build.integer(16), 16));
    // The factor is no vector, but read under the mask as well.
    const Expr* scaled = kit.build.mul(kit.load(x, at), kit.wide(kit.load(x, first), 16));
    float *from = before_a_closed_page(16), *to = before_a_closed_page(16);
    for (i64 i = 0; i < 16; ++i) from[i] = static_cast<float>(i + 1);
    run(kit.program(kit.build.if_then(inside, kit.store(y, at, scaled), nullptr)), {from, to});
    for (i64 i = 0; i < 16; ++i) EXPECT_EQ(to[i], i < 16 - active ? 0 : from[i] * from[16 - active]) << active;
  }
}

// y[lane] = how many of four steps let the lane through: a register keeps what the steps before left in it.
TEST(LaneMasks, ARegisterKeepsTheLanesThatAStepLeavesOut) {
  LoweredKit kit;
  const Buffer *y = kit.output(DType::F32, 16), *sums = kit.buffer(DType::F32, 16, Scope::Register);
  const Var* step = kit.var();
  const Expr *at = kit.ramp(kit.build.integer(0), 16), *one = kit.wide(kit.build.number(1, DType::F32), 16);
  const Expr* inside = kit.build.lt(kit.ramp(step, 16), kit.wide(kit.build.integer(10), 16));
  const Stmt* add = kit.store(sums, at, kit.build.add(kit.load(sums, at), one));
  const Stmt* body =
      kit.build.seq({kit.store(sums, at, kit.wide(kit.build.number(0, DType::F32), 16)),
                     kit.loop(step, 4, kit.build.if_then(inside, add, nullptr)), kit.store(y, at, kit.load(sums, at))});
  Aligned<float> got(16);
  run(kit.program(kit.build.alloc(sums, body)), {got.data()});
  for (i64 lane = 0; lane < 16; ++lane) EXPECT_EQ(got[lane], std::clamp<float>(10 - static_cast<float>(lane), 0, 4));
}

// Which lanes take part is known only when the loop runs, and all of them lie in their buffers.
TEST(LaneMasks, StridedLanesUnderAConditionOfALoop) {
  for (Scope scope : {Scope::Global, Scope::Register}) {
    LoweredKit kit;
    const Buffer *x = kit.argument(DType::F32, 32), *y = kit.output(DType::F32, 32);
    const Buffer* sums = kit.buffer(DType::F32, 32, scope);
    const Var* step = kit.var();
    auto all = [&](const Buffer* to, const Expr* value) {
      return kit.store(to, kit.ramp(kit.build.integer(0), 32), value);
    };
    const Expr *at = kit.ramp(kit.build.integer(0), 16, 2), *zero = kit.wide(kit.build.number(0, DType::F32), 32);
    const Expr* inside = kit.build.lt(kit.ramp(step, 16), kit.wide(kit.build.integer(10), 16));
    const Stmt* add = kit.store(sums, at, kit.build.add(kit.load(sums, at), kit.load(x, at)));
    const Stmt* steps = kit.loop(step, 4, kit.build.if_then(inside, add, nullptr));
    const Stmt* body =
        kit.build.seq({all(sums, zero), steps, all(y, kit.load(sums, kit.ramp(kit.build.integer(0), 32)))});
    Aligned<float> from(32), to(32);
    for (std::size_t i = 0; i < 32; ++i) from[i] = static_cast<float>(i + 1);
    run(kit.program(kit.build.alloc(sums, body)), {from.data(), to.data()});
    for (i64 i = 0; i < 32; ++i) {
      float steps_of_lane = std::clamp<float>(10 - static_cast<float>(i / 2), 0, 4);
      EXPECT_EQ(to[i], i % 2 ? 0 : from[i] * steps_of_lane) << i;
    }
  }
}

TEST(LaneMasks, LanesAreKeptOnlyWhereTheyAreUsed) {
  LoweredKit kit;
  Build& b = kit.build;
  const Buffer *y = kit.output(DType::F32, 32), *sums = kit.buffer(DType::F32, 32, Scope::Register);
  const Var *outer = kit.var(), *inner = kit.var();
  auto at = [&](i64 first, int lanes) { return kit.ramp(b.integer(first), lanes); };
  auto set = [&](i64 first, int lanes) {
    return kit.store(sums, at(first, lanes), kit.wide(b.number(0, DType::F32), lanes));
  };
  auto use = [&](i64 first, int lanes) { return kit.store(y, at(first, lanes), kit.load(sums, at(first, lanes))); };
  auto in_first = [&](const Expr* base, i64 end, const Stmt* body) {
    return b.if_then(b.lt(kit.ramp(base, 16), kit.wide(b.integer(end), 16)), body, nullptr);
  };
  auto is_same = [&](std::initializer_list<const Stmt*> stmts) {
    return codegen::uses_same_lanes(*static_cast<const Alloc*>(b.alloc(sums, b.seq(stmts))));
  };
  const Expr *zero = b.integer(0), *row = b.mul(outer, b.integer(16));
  EXPECT_TRUE(is_same({set(0, 16), use(0, 16)}));
  EXPECT_TRUE(is_same({in_first(zero, 13, set(0, 16)), in_first(zero, 13, use(0, 16))}));
  EXPECT_TRUE(is_same({in_first(row, 19, set(0, 16)), kit.loop(inner, 4, in_first(row, 19, use(0, 16)))}));
  EXPECT_TRUE(is_same({set(0, 16), use(0, 16), in_first(zero, 13, set(16, 16)), in_first(zero, 13, use(16, 16))}));
  EXPECT_FALSE(is_same({set(0, 16), in_first(zero, 13, use(0, 16))}));
  EXPECT_FALSE(is_same({in_first(zero, 13, set(0, 16)), in_first(zero, 12, use(0, 16))}));
  EXPECT_FALSE(is_same({in_first(zero, 13, set(0, 16)), use(13, 2)})) << "a part of the same vector";
  EXPECT_FALSE(is_same({in_first(inner, 13, set(0, 16)), kit.loop(inner, 4, in_first(inner, 13, use(0, 16)))}))
      << "the loop changes which lanes they are";
}

TEST(Operators, Logic) {
  for (int lanes : {1, 16}) {
    LoweredKit kit;
    const Buffer *x = kit.argument(DType::Bool, 16), *y = kit.argument(DType::Bool, 16),
                 *z = kit.output(DType::Bool, 64);
    const Var* i = kit.var();
    const Expr* at = kit.ramp(kit.build.mul(i, lanes), lanes);
    auto put = [&](i64 offset, const Expr* value) {
      return kit.store(z, kit.build.add(at, kit.wide(kit.build.integer(offset), lanes)), value);
    };
    const Expr *a = kit.load(x, at), *b = kit.load(y, at);
    const Stmt* body =
        kit.build.seq({put(0, kit.build.binary(BinaryOp::And, a, b)), put(16, kit.build.binary(BinaryOp::Or, a, b)),
                       put(32, kit.build.unary(UnaryOp::Not, a))});
    Aligned<bool> p(16), q(16), r(64);
    for (i64 k = 0; k < 16; ++k) p[k] = k & 1, q[k] = k & 2;
    run(kit.program(kit.loop(i, 16 / lanes, body)), {p.data(), q.data(), r.data()});
    for (i64 k = 0; k < 16; ++k) {
      ASSERT_EQ(r[k], p[k] && q[k]);
      ASSERT_EQ(r[16 + k], p[k] || q[k]);
      ASSERT_EQ(r[32 + k], !p[k]);
    }
  }
}

// ---- conversions

// y[i] = cast(x[i])
template <class From, class To>
std::vector<To> converted(DType from, DType to, const std::vector<From>& values, int lanes) {
  LoweredKit kit;
  i64 n = static_cast<i64>(values.size()), padded = (n + lanes - 1) / lanes * lanes;
  const Buffer *x = kit.argument(from, padded), *y = kit.output(to, padded);
  const Var* i = kit.var();
  const Expr* at = kit.ramp(kit.build.mul(i, lanes), lanes);
  Aligned<From> a(padded);
  Aligned<To> b(padded);
  std::copy(values.begin(), values.end(), a.begin());
  run(kit.program(kit.loop(i, padded / lanes, kit.store(y, at, kit.build.cast(to, kit.load(x, at))))),
      {a.data(), b.data()});
  return std::vector<To>(b.begin(), b.begin() + n);
}

template <class From, class To>
void check_cast(DType from, DType to, const std::vector<From>& values) {
  for (int lanes : {1, 8}) {
    std::vector<To> got = converted<From, To>(from, to, values, lanes);
    for (std::size_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ(got[i], static_cast<To>(values[i])) << name_of(from) << " -> " << name_of(to) << " of " << +values[i];
    }
  }
}

TEST(Casts, BetweenNumbers) {
  std::vector<float> reals = {0.f, 1.9f, -1.9f, 100.5f, -100.5f};
  check_cast<float, std::int8_t>(DType::F32, DType::I8, reals);
  check_cast<float, std::int32_t>(DType::F32, DType::I32, reals);
  check_cast<float, i64>(DType::F32, DType::I64, reals);
  check_cast<float, double>(DType::F32, DType::F64, reals);
  check_cast<float, bool>(DType::F32, DType::Bool, reals);
  check_cast<float, std::uint8_t>(DType::F32, DType::U8, {0.f, 1.5f, 200.f, 255.f});
  check_cast<double, float>(DType::F64, DType::F32, {0., 0.1, -1e300, 3.5});
  check_cast<std::uint8_t, float>(DType::U8, DType::F32, {0, 1, 127, 128, 255});
  check_cast<std::uint8_t, std::int32_t>(DType::U8, DType::I32, {0, 1, 127, 128, 255});
  check_cast<std::int8_t, i64>(DType::I8, DType::I64, {0, 1, -1, 127, -128});
  check_cast<std::int8_t, double>(DType::I8, DType::F64, {0, 1, -1, 127, -128});
  check_cast<i64, std::int8_t>(DType::I64, DType::I8, {0, 1, -1, 127, 128, 300});
  check_cast<i64, float>(DType::I64, DType::F32, {0, 1, -1, i64{1} << 40});
  check_cast<std::int32_t, bool>(DType::I32, DType::Bool, {0, 1, -1, 256});
  check_cast<bool, float>(DType::Bool, DType::F32, {false, true});
  check_cast<bool, std::int32_t>(DType::Bool, DType::I32, {false, true});
}

float from_bits(u32 bits) { return std::bit_cast<float>(bits); }

float half_to_float(std::uint16_t bits) {
  int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  double magnitude = exponent == 31 ? (mantissa ? NAN : INFINITY)
                     : exponent     ? std::ldexp(1024 + mantissa, exponent - 25)
                                    : std::ldexp(mantissa, -24);
  return static_cast<float>(bits >> 15 ? -magnitude : magnitude);
}

TEST(Casts, EveryHalfAndBfloat) {
  std::vector<std::uint16_t> all(1 << 16);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  for (DType dtype : {DType::F16, DType::BF16}) {
    std::vector<float> wide = converted<std::uint16_t, float>(dtype, DType::F32, all, 16);
    std::vector<std::uint16_t> back = converted<float, std::uint16_t>(DType::F32, dtype, wide, 16);
    for (std::size_t i = 0; i < all.size(); ++i) {
      float want = dtype == DType::F16 ? half_to_float(all[i]) : from_bits(static_cast<u32>(i) << 16);
      ASSERT_TRUE(wide[i] == want || (std::isnan(want) && std::isnan(wide[i]))) << i;
      float again = dtype == DType::F16 ? half_to_float(back[i]) : from_bits(u32{back[i]} << 16);
      ASSERT_TRUE(std::isnan(want) ? std::isnan(again) : back[i] == all[i]) << i;
    }
  }
}

TEST(Casts, HalvesRoundToNearestEven) {
  // Half way between 1 and the next: to the even one; a little above: up.
  std::vector<float> values = {1 + 0x1p-11f, 1 + 0x1.8p-10f, 1 + 0x1.001p-11f, 65520.f, 0x1p-25f, 0x1.8p-24f};
  std::vector<std::uint16_t> want = {0x3c00, 0x3c02, 0x3c01, 0x7c00, 0x0000, 0x0002};
  EXPECT_EQ((converted<float, std::uint16_t>(DType::F32, DType::F16, values, 1)), want);
  std::vector<float> wide = {1 + 0x1p-8f, 1 + 0x1.8p-7f, 1 + 0x1.001p-8f, from_bits(0x7f7fffff)};
  std::vector<std::uint16_t> rounded = {0x3f80, 0x3f82, 0x3f81, 0x7f80};
  EXPECT_EQ((converted<float, std::uint16_t>(DType::F32, DType::BF16, wide, 4)), rounded);
}

TEST(Casts, HalfArithmeticRoundsAfterEachOperation) {
  for (DType dtype : {DType::F16, DType::BF16}) {
    LoweredKit kit;
    const Buffer *x = kit.argument(dtype, 8), *y = kit.output(dtype, 8);
    const Expr* at = kit.ramp(kit.build.integer(0), 8);
    const Expr* one = kit.wide(kit.build.number(1, dtype), 8);
    // (x + 1) - 1 loses the bits of x below the last place of 1.
    const Expr* value = kit.build.sub(kit.build.add(kit.load(x, at), one), one);
    Aligned<std::uint16_t> a(8), b(8);
    std::uint16_t tiny = dtype == DType::F16 ? 0x0c00 : 0x3900;  // 2^-12, about 1.2e-4
    for (auto& item : a) item = tiny;
    run(kit.program(kit.store(y, at, value)), {a.data(), b.data()});
    for (auto item : b) EXPECT_EQ(item, 0);
  }
}

// ---- functions

TEST(Functions, EveryFunctionOfEveryFloat) {
  auto exact = [](Function f, double x) {
    switch (f) {
      case Function::Exp:
        return std::exp(x);
      case Function::Log:
        return std::log(x);
      case Function::Sqrt:
        return std::sqrt(x);
      case Function::Rsqrt:
        return 1 / std::sqrt(x);
      case Function::Tanh:
        return std::tanh(x);
      case Function::Erf:
        return std::erf(x);
      case Function::Sigmoid:
        return 1 / (1 + std::exp(-x));
      case Function::Abs:
        return std::abs(x);
      case Function::Floor:
        return std::floor(x);
      case Function::Ceil:
        return std::ceil(x);
      case Function::Round:
        return std::nearbyint(x);
      case Function::Pow:
        return std::pow(std::abs(x), 1.5);
      case Function::ReduceAdd:
      case Function::ReduceMul:
      case Function::ReduceMin:
      case Function::ReduceMax:
      case Function::Within:
        break;
    }
    return 0.0;
  };
  for (DType dtype : {DType::F32, DType::F64, DType::F16, DType::BF16}) {
    for (int lanes : {1, 8}) {
      LoweredKit kit;
      const Buffer* x = kit.argument(DType::F64, 64);
      const Var* i = kit.var();
      const Expr* at = kit.ramp(kit.build.mul(i, lanes), lanes);
      const Expr* argument = kit.build.cast(dtype, kit.load(x, at));
      std::vector<const Stmt*> stores;
      std::vector<Aligned<double>> results;
      Aligned<double> in(64);
      std::vector<void*> buffers = {in.data()};
      results.reserve(12);
      for (int f = 0; f <= static_cast<int>(Function::Pow); ++f) {
        Function function = static_cast<Function>(f);
        const Buffer* y = kit.output(DType::F64, 64);
        const Expr* power = kit.wide(kit.build.number(1.5, dtype), lanes);
        const Expr* value = function == Function::Pow ? kit.call(function, {kit.call(Function::Abs, {argument}), power})
                                                      : kit.call(function, {argument});
        stores.push_back(kit.store(y, at, kit.build.cast(DType::F64, value)));
        results.emplace_back(64);
        buffers.push_back(results.back().data());
      }
      for (i64 k = 0; k < 64; ++k) in[k] = static_cast<double>(k - 8) / 8;  // exact in every type
      run(kit.program(kit.loop(i, 64 / lanes, kit.build.seq(stores))), buffers);
      double bound = dtype == DType::F64 ? 1e-15 : dtype == DType::F32 ? 4e-7 : dtype == DType::F16 ? 1e-3 : 8e-3;
      for (int f = 0; f <= static_cast<int>(Function::Pow); ++f) {
        for (i64 k = 0; k < 64; ++k) {
          double want = exact(static_cast<Function>(f), in[k]), got = results[f][k];
          ASSERT_TRUE(std::isnan(want) ? std::isnan(got)
                                       : got == want || std::abs(got - want) <= bound * std::abs(want))
              << name_of(dtype) << " " << name_of(static_cast<Function>(f)) << "(" << in[k] << ") = " << got << ", not "
              << want;
        }
      }
    }
  }
}

// ---- memory

TEST(Memory, StridedReversedUniformAndIndexedLanes) {
  LoweredKit kit;
  const Buffer *x = kit.argument(DType::F32, 64), *index = kit.argument(DType::I64, 8), *y = kit.output(DType::F32, 64);
  auto number = [&](i64 value) { return kit.build.integer(value); };
  auto put = [&](i64 row, const Expr* from) { return kit.store(y, kit.ramp(number(row * 8), 8), kit.load(x, from)); };
  const Stmt* body =
      kit.build.seq({put(0, kit.ramp(number(1), 8, 3)), put(1, kit.ramp(number(7), 8, -1)),
                     put(2, kit.wide(number(5), 8)), put(3, kit.load(index, kit.ramp(number(0), 8))),
                     kit.store(y, kit.ramp(number(33), 8, 2), kit.load(x, kit.ramp(number(8), 8))),
                     kit.store(y, kit.build.add(kit.load(index, kit.ramp(number(0), 8)), kit.wide(number(50), 8)),
                               kit.load(x, kit.ramp(number(0), 8)))});
  Aligned<float> a(64), b(64);
  Aligned<i64> at(8);
  for (i64 i = 0; i < 64; ++i) a[i] = static_cast<float>(i);
  for (i64 i = 0; i < 8; ++i) at[i] = i * i % 11;
  run(kit.program(body), {a.data(), at.data(), b.data()});
  for (i64 i = 0; i < 8; ++i) {
    EXPECT_EQ(b[i], 1 + 3 * i);
    EXPECT_EQ(b[8 + i], 7 - i);
    EXPECT_EQ(b[16 + i], 5);
    EXPECT_EQ(b[24 + i], at[i]);
    EXPECT_EQ(b[33 + 2 * i], 8 + i);
  }
  std::set<i64> seen;
  for (i64 i = 8; i-- > 0;) {  // the last lane wins where indices meet
    if (seen.insert(at[i]).second) {
      EXPECT_EQ(b[50 + at[i]], i);
    }
  }
}

// The end of an array is the end of mapped memory: reading one element too far is fatal.
class GuardedArray {
 public:
  explicit GuardedArray(i64 count) {
    page_ = static_cast<char*>(mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(page_ + kPage, kPage, PROT_NONE);
    data_ = reinterpret_cast<float*>(page_ + kPage) - count;
  }
  ~GuardedArray() { munmap(page_, 2 * kPage); }
  float* data() { return data_; }

 private:
  static constexpr i64 kPage = 4096;
  char* page_;
  float* data_;
};

TEST(Memory, SelectReadsOnlyTheChosenSide) {
  constexpr i64 kCount = 16;  // a multiple of 64 bytes, as the ABI wants
  for (int lanes : {1, 8}) {
    for (bool is_outer_uniform : {false, true}) {
      LoweredKit kit;
      const Buffer *x = kit.argument(DType::F32, kCount), *y = kit.output(DType::F32, 2048);
      const Var* i = kit.var();
      const Expr* at = kit.ramp(kit.build.mul(i, lanes), lanes);
      auto wide = [&](i64 v) { return kit.wide(kit.build.integer(v), lanes); };
      // x[i] where i < 13, x[2 * i] where 2 * i < 16, else -1; far beyond the end of x.
      const Expr* twice = kit.build.mul(at, wide(2));
      const Expr* other = kit.build.select(kit.build.lt(twice, wide(kCount)), kit.load(x, twice),
                                           kit.wide(kit.build.number(-1, DType::F32), lanes));
      const Expr* value = kit.build.select(kit.build.lt(at, wide(13)), kit.load(x, at), other);
      if (is_outer_uniform) {
        const Expr* near = kit.build.lt(i, 16 / lanes);
        value = kit.build.select(lanes > 1 ? kit.wide(near, lanes) : near, value,
                                 kit.wide(kit.build.number(-2, DType::F32), lanes));
      }
      GuardedArray a(kCount);
      Aligned<float> b(2048);
      for (i64 k = 0; k < kCount; ++k) a.data()[k] = static_cast<float>(k + 1);
      run(kit.program(kit.loop(i, 2048 / lanes, kit.store(y, at, value))), {a.data(), b.data()});
      for (i64 k = 0; k < 2048; ++k) {
        float want = k < 13 ? a.data()[k] : is_outer_uniform && k >= 16 ? -2.f : -1.f;
        ASSERT_EQ(b[k], want) << k;
      }
    }
  }
}

TEST(Memory, AndGuardsItsSecondOperand) {
  constexpr i64 kCount = 16;
  for (int lanes : {1, 8}) {
    LoweredKit kit;
    const Buffer *x = kit.argument(DType::F32, kCount), *y = kit.output(DType::Bool, 2048);
    const Var* i = kit.var();
    const Expr* at = kit.ramp(kit.build.mul(i, lanes), lanes);
    const Expr* inside = kit.build.lt(at, kit.wide(kit.build.integer(kCount), lanes));
    const Expr* positive =
        kit.build.binary(BinaryOp::Gt, kit.load(x, at), kit.wide(kit.build.number(5, DType::F32), lanes));
    GuardedArray a(kCount);
    Aligned<bool> b(2048);
    for (i64 k = 0; k < kCount; ++k) a.data()[k] = static_cast<float>(k);
    run(kit.program(kit.loop(i, 2048 / lanes, kit.store(y, at, kit.build.both(inside, positive)))),
        {a.data(), b.data()});
    for (i64 k = 0; k < 2048; ++k) ASSERT_EQ(b[k], k > 5 && k < kCount);
  }
}

TEST(Memory, BranchesOnScalarAndVectorConditions) {
  LoweredKit kit;
  const Buffer *x = kit.argument(DType::F32, 32), *y = kit.output(DType::F32, 32);
  const Buffer* sum = kit.buffer(DType::F32, 8, Scope::Register);
  const Var* i = kit.var();
  const Expr *at = kit.ramp(kit.build.mul(i, 8), 8), *acc = kit.ramp(kit.build.integer(0), 8);
  const Expr* is_even = kit.build.lt(kit.build.floor_mod(i, kit.build.integer(2)), 1);
  const Expr* in_range = kit.build.lt(at, kit.wide(kit.build.integer(19), 8));
  auto number = [&](double v) { return kit.wide(kit.build.number(v, DType::F32), 8); };
  // The accumulator takes x under a scalar and under a vector condition; then it is stored under the vector one.
  const Stmt* add = kit.store(sum, acc, kit.build.add(kit.load(sum, acc), kit.load(x, at)));
  const Stmt* negate = kit.store(sum, acc, number(-1));
  const Stmt* body =
      kit.build.alloc(sum, kit.build.seq({kit.store(sum, acc, number(0)), kit.build.if_then(is_even, add, negate),
                                          kit.build.if_then(in_range, add),
                                          kit.build.if_then(in_range, kit.store(y, at, kit.load(sum, acc)))}));
  Aligned<float> a(32), b(32);
  for (i64 k = 0; k < 32; ++k) a[k] = static_cast<float>(k), b[k] = 99;
  run(kit.program(kit.loop(i, 4, body)), {a.data(), b.data()});
  for (i64 k = 0; k < 32; ++k) {
    float first = k / 8 % 2 == 0 ? a[k] : -1;
    ASSERT_EQ(b[k], k < 19 ? first + a[k] : 99) << k;
  }
}

TEST(Memory, StoreComputesAllValuesFirst) {
  LoweredKit kit;
  const Buffer *x = kit.output(DType::F32, 8), *y = kit.output(DType::F32, 8);
  const Expr* at = kit.ramp(kit.build.integer(0), 8);
  Array<const Expr*> index = kit.arena().list<const Expr*>({at});
  const Stmt* swap = kit.build.store(kit.arena().list<StoreTarget>({{x, index}, {y, index}}),
                                     kit.arena().list<const Expr*>({kit.load(y, at), kit.load(x, at)}));
  Aligned<float> a(8), b(8);
  for (i64 k = 0; k < 8; ++k) a[k] = 1, b[k] = 2;
  run(kit.program(swap), {a.data(), b.data()});
  for (i64 k = 0; k < 8; ++k) {
    EXPECT_EQ(a[k], 2);
    EXPECT_EQ(b[k], 1);
  }
}

// ---- scratch, parallel loops

TEST(Scratch, WorkersHaveTheirOwnAndShareTheRest) {
  constexpr i64 kRows = 200;
  LoweredKit kit;
  const Buffer *x = kit.argument(DType::F32, kRows), *y = kit.output(DType::F32, kRows);
  const Buffer *own = kit.buffer(DType::F32, 64), *shared = kit.buffer(DType::F32, kRows),
               *table = kit.buffer(DType::F32, 8);
  const Var *i = kit.var(), *j = kit.var(), *k = kit.var(), *o = kit.var(), *first = kit.var();
  // own[j] = x[i] * table[0] for all j; shared[i] = sum of own + o; in a serial loop around, so that its variable is
  // passed on.
  const Expr* term = kit.build.mul(kit.load(x, i), kit.load(table, kit.build.integer(0)));
  const Stmt* fill = kit.loop(j, 64, kit.store(own, j, term));
  const Stmt* sum = kit.loop(k, 64, kit.store(shared, i, kit.build.add(kit.load(shared, i), kit.load(own, k))));
  const Expr* start = kit.build.cast(DType::F32, o);
  const Stmt* row = kit.build.seq(
      {kit.store(shared, i, start), fill, sum, kit.store(y, i, kit.build.add(kit.load(y, i), kit.load(shared, i)))});
  const Stmt* body = kit.build.seq({kit.loop(first, 8, kit.store(table, first, kit.build.number(2, DType::F32))),
                                    kit.loop(o, 3, kit.loop(i, kRows, row, LoopKind::Parallel))});
  LoweredProgram program = kit.program(
      body, {{shared, Place::SharedScratch, 0}, {table, Place::SharedScratch, 832}, {own, Place::WorkerScratch, 64}});
  program.parallel = true;
  program.scratch_shared_bytes = 896;
  program.scratch_worker_bytes = 320;
  Aligned<float> a(kRows), b(kRows), scratch((896 + 2 * 320) / 4);
  for (i64 r = 0; r < kRows; ++r) a[r] = static_cast<float>(r % 17);
  TwoThreads pool;
  run(program, {a.data(), b.data()}, scratch.data(), TwoThreads::parallel_for, &pool);
  EXPECT_EQ(pool.calls, 3);
  for (i64 r = 0; r < kRows; ++r) ASSERT_EQ(b[r], 3 * 64 * 2 * a[r] + 3) << r;
  for (i64 worker : {0, 1}) {  // each worker's part holds what its last row left
    i64 begin = (896 + worker * 320 + 64) / 4;
    for (i64 k = 0; k < 64; ++k) ASSERT_EQ(scratch[begin + k], 2 * a[kRows - 2 + worker]) << worker;
  }
}

TEST(Scratch, BuffersThatShareMemoryAreNotAssumedApart) {
  // p and q have the same place; q is filled from p element by element, which is only right if LLVM keeps the order.
  LoweredKit kit;
  const Buffer *x = kit.argument(DType::F32, 16), *y = kit.output(DType::F32, 16);
  const Buffer *p = kit.buffer(DType::F32, 16), *q = kit.buffer(DType::F32, 16);
  std::vector<const Stmt*> steps;
  for (i64 k = 0; k < 16; ++k) steps.push_back(kit.store(p, kit.build.integer(k), kit.load(x, kit.build.integer(k))));
  for (i64 k = 0; k < 15; ++k) {
    steps.push_back(kit.store(y, kit.build.integer(k), kit.load(p, kit.build.integer(k + 1))));
    steps.push_back(kit.store(q, kit.build.integer(k + 1), kit.build.number(7, DType::F32)));
    steps.push_back(kit.store(y, kit.build.integer(15), kit.load(p, kit.build.integer(k + 1))));
  }
  LoweredProgram program =
      kit.program(kit.build.seq(steps), {{p, Place::SharedScratch, 0}, {q, Place::SharedScratch, 0}});
  program.scratch_shared_bytes = 64;
  Aligned<float> a(16), b(16), scratch(16);
  for (i64 k = 0; k < 16; ++k) a[k] = static_cast<float>(k);
  run(program, {a.data(), b.data()}, scratch.data());
  for (i64 k = 0; k < 15; ++k) EXPECT_EQ(b[k], k + 1);
  EXPECT_EQ(b[15], 7);
}

// ---- the interface

TEST(Compiler, PrepackAndManifest) {
  LoweredKit kit;
  const Buffer *from = kit.argument(DType::F32, 32), *to = kit.output(DType::F32, 32);
  const Var* i = kit.var();
  const Stmt* twice = kit.loop(i, 32, kit.store(to, i, kit.build.add(kit.load(from, i), kit.load(from, i))));
  LoweredProgram program = kit.program(twice);
  const Stmt* reverse = kit.loop(i, 32, kit.store(to, i, kit.load(from, kit.build.sub(kit.build.integer(31), i))));
  program.prepack = {program.run.arguments, {}, reverse};
  program.prepack_arguments = kit.arena().list<LoweredArgument>(
      {{"W", false, false, true, DType::F32, from->shape}, {"W.packed", true, true, false, DType::F32, to->shape}});
  program.scratch_worker_bytes = 128;
  program.scratch_shared_bytes = 64;
  Result<Kernel> kernel = compiler_for().compile(program, "k");
  ASSERT_TRUE(kernel);
  const KernelManifest& manifest = kernel->manifest;
  EXPECT_EQ(manifest.symbol, "k");
  ASSERT_EQ(manifest.run.size(), 2u);
  ASSERT_EQ(manifest.prepack.size(), 2u);
  EXPECT_EQ(manifest.run[0].role, ArgumentRole::Input);
  EXPECT_EQ(manifest.run[1].role, ArgumentRole::Output);
  EXPECT_EQ(manifest.prepack[0].role, ArgumentRole::Constant);
  EXPECT_EQ(manifest.prepack[1].role, ArgumentRole::Packed);
  EXPECT_EQ(manifest.run[0].bytes, 128);
  EXPECT_EQ(manifest.scratch_bytes(2), 64 + 2 * 128);
  std::string error;
  LoadedObject loaded = load_object(kernel->code, error);
  ASSERT_EQ(error, "");
  Aligned<float> a(32), b(32);
  for (i64 k = 0; k < 32; ++k) a[k] = static_cast<float>(k);
  void* buffers[] = {a.data(), b.data()};
  EXPECT_EQ(loaded.prepack("k")(buffers), 0);
  for (i64 k = 0; k < 32; ++k) EXPECT_EQ(b[k], 31 - k);
  EXPECT_EQ(loaded.run("k")(buffers, nullptr, nullptr, nullptr), 0);
  for (i64 k = 0; k < 32; ++k) EXPECT_EQ(b[k], 2 * k);
}

TEST(Compiler, WritesObjectsForOtherMachines) {
  struct Machine {
    CodegenTarget target;
    int elf_machine;
  };
  for (const Machine& machine : {Machine{{"x86_64-pc-linux-gnu", "x86-64-v3", "", 256}, 62},
                                 Machine{{"aarch64-linux-gnu", "cortex-a72", "", 128}, 183},
                                 Machine{{"riscv64-linux-gnu", "generic-rv64", "+m,+a,+f,+d", 128}, 243},
                                 Machine{{"hexagon-unknown-elf", "hexagonv68", "", 1024}, 164}}) {
    Arena arena;
    LlvmCompiler compiler = compiler_for(machine.target);
    Result<Kernel> kernel = compiler.compile(LoweredGemm(arena, {12, 16, 8, 4, 2, 4, 2}).program(), "gemm");
    ASSERT_TRUE(kernel) << machine.target.triple;
    ASSERT_GT(kernel->code.size(), 64u);
    EXPECT_EQ(kernel->code.substr(0, 4), "\177ELF");
    EXPECT_EQ(static_cast<unsigned char>(kernel->code[18]), machine.elf_machine);
    EXPECT_NE(kernel->code.find("gemm_run"), std::string::npos);
    bool is_riscv = machine.elf_machine == 243;
    EXPECT_EQ(kernel->code[48] & (is_riscv ? 6 : 0),
              is_riscv ? 4 : 0);  // e_flags: floats are passed in double registers
  }
}

TEST(Compiler, UnknownMachinesAreRejectedWithText) {
  auto bad_cpu = LlvmCompiler::create({"x86_64-pc-linux-gnu", "znver99", "", 256});
  ASSERT_FALSE(bad_cpu);
  EXPECT_NE(to_string(bad_cpu.rejected()).find("znver99"), std::string::npos);
  auto bad_feature = LlvmCompiler::create({"x86_64-pc-linux-gnu", "znver3", "+avx2,+avx1024", 256});
  ASSERT_FALSE(bad_feature);
  EXPECT_NE(to_string(bad_feature.rejected()).find("avx1024"), std::string::npos);
  auto bad_triple = LlvmCompiler::create({"pdp11-unknown-unix", "", "", 16});
  ASSERT_FALSE(bad_triple);
  EXPECT_NE(to_string(bad_triple.rejected()).find("pdp11"), std::string::npos);
}

TEST(Compiler, WhatLlvmCannotCompileIsRejectedWithItsText) {
  // A call that returns in an SSE register, for a machine without them.
  LoweredKit kit;
  const Buffer *x = kit.argument(DType::F64, 1), *y = kit.output(DType::F64, 1);
  const Expr* zero = kit.build.integer(0);
  LoweredProgram program = kit.program(kit.store(y, zero, kit.call(Function::Exp, {kit.load(x, zero)})));
  LlvmCompiler compiler = compiler_for({"x86_64-pc-linux-gnu", "x86-64", "-sse,-sse2", 128});
  Result<Kernel> kernel = compiler.compile(program, "f");
  ASSERT_FALSE(kernel);
  EXPECT_NE(to_string(kernel.rejected()).find("SSE"), std::string::npos) << to_string(kernel.rejected());
  // The compiler goes on working.
  LoweredKit other;
  const Buffer *a = other.argument(DType::I32, 1), *b = other.output(DType::I32, 1);
  EXPECT_TRUE(compiler.compile(other.program(other.store(b, zero, other.load(a, zero))), "g"));
}

// LLVM leaves what it was about to make where it is.
extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() { return "leak:getSubtargetImpl\nleak:llvm::Twine::str\n"; }

TEST(Compiler, FatalErrorsOfLlvmAreRejectedWithTheirText) {
  // LLVM calls report_fatal_error for this, which would end the process.
  LlvmCompiler compiler = compiler_for({"x86_64-pc-linux-gnu", "x86-64", "-64bit", 128});
  for (int attempt = 0; attempt < 2; ++attempt) {
    Arena arena;
    Result<Kernel> kernel = compiler.compile(LoweredGemm(arena, {4, 8, 4, 2, 1, 4, 1}).program(), "f");
    ASSERT_FALSE(kernel);
    EXPECT_NE(to_string(kernel.rejected()).find("64-bit"), std::string::npos) << to_string(kernel.rejected());
  }
}

TEST(Compiler, HostDescriptionIsAccepted) {
  EXPECT_TRUE(LlvmCompiler::create({host_triple(), host_cpu_name(), host_features(), 256}));
}

TEST(Compiler, KnowsCpus) {
  EXPECT_TRUE(is_llvm_cpu("x86_64-pc-linux-gnu", "znver3"));
  EXPECT_FALSE(is_llvm_cpu("x86_64-pc-linux-gnu", "cortex-a72"));
  EXPECT_TRUE(is_llvm_cpu("aarch64-linux-gnu", "cortex-a72"));
  EXPECT_TRUE(is_llvm_cpu("", host_cpu_name()));
}

TEST(Compiler, TwoThreadsGetTheSameCode) {
  auto compile_all = [](std::vector<std::string>& codes) {
    LlvmCompiler compiler = compiler_for(zen3());
    for (int rows = 1; rows <= 6; ++rows) {
      Arena arena;
      codes.push_back(compiler.compile(LoweredGemm(arena, {12, 64, 16, rows, 2, 8, 4}).program(), "gemm")->code);
    }
  };
  std::vector<std::string> first, second;
  std::thread other([&] { compile_all(second); });
  compile_all(first);
  other.join();
  EXPECT_EQ(first, second);
}

TEST(Compiler, EmitsEveryKindOfText) {
  Arena arena;
  LlvmCompiler compiler = compiler_for(zen3());
  LoweredProgram program = LoweredGemm(arena, {12, 16, 8, 4, 2, 8, 2}).program();
  EXPECT_NE(compiler.emit(program, "gemm", Emit::Ir)->find("alloca"), std::string::npos);
  EXPECT_EQ(compiler.emit(program, "gemm", Emit::OptimizedIr)->find("alloca"), std::string::npos);
  EXPECT_NE(compiler.emit(program, "gemm", Emit::Assembly)->find("gemm_run:"), std::string::npos);
  EXPECT_EQ(*compiler.emit(program, "gemm", Emit::Object), compiler.compile(program, "gemm")->code);
}

}  // namespace
}  // namespace tw
