// Which inputs an output may be written over: by lowered programs that are written down, and by the code of kernels as
// the search draws them, which gives the same with one buffer for both.
#include "backends/overwrites.h"

#include <gtest/gtest.h>

#include <cstring>

#include "dsl/intrinsics/intrinsic.h"
#include "dsl/text/workload.h"
#include "runtime/measure/aligned_bytes.h"
#include "runtime/measure/object_loader.h"
#include "support/lowered_kit.h"
#include "tests/unit/lowered_draws.h"
#include "tests/unit/overwriting_workloads.h"

namespace tw {
namespace {

using Pairs = std::vector<Overwrite>;

// Programs that make y, the second argument, of x, the first one.
class Overwrites : public testing::Test, protected LoweredKit {
 protected:
  Pairs found(const Stmt* body) { return overwrites_of(program(body)); }
  const Stmt* set(const Expr* to, const Expr* from) { return store(y_, to, load(x_, from)); }
  const Stmt* set(const Expr* at) { return set(at, at); }
  const Expr* at(i64 number) { return build.integer(number); }
  // The statement for the first lanes only.
  const Stmt* in_first(i64 active, int lanes, const Stmt* body) {
    return build.if_then(build.lt(ramp(at(0), lanes), wide(at(active), lanes)), body);
  }

  const Buffer *x_ = argument(DType::F32, 64), *y_ = output(DType::F32, 64);
  const Var *i_ = var(), *j_ = var();
  const Pairs legal_{{1, 0}}, none_;
};

TEST_F(Overwrites, EachElementIsReadWhereItIsWritten) {
  EXPECT_EQ(found(loop(i_, 64, set(i_))), legal_);
  EXPECT_EQ(found(loop(i_, 64, set(i_), LoopKind::Parallel)), legal_);
  const Expr *first = ramp(build.mul(i_, 32), 16), *second = ramp(build.add(build.mul(i_, 32), 16), 16);
  EXPECT_EQ(found(loop(i_, 2, build.seq({set(first), set(second)}))), legal_);
}

TEST_F(Overwrites, OtherElementsAreRead) {
  EXPECT_EQ(found(loop(i_, 64, set(i_, build.sub(at(63), i_)))), none_) << "in another order";
  EXPECT_EQ(found(loop(i_, 64, set(i_, at(3)))), none_) << "one for all";
  const Expr *row = build.add(build.mul(i_, 8), j_), *column = build.add(build.mul(j_, 8), i_);
  EXPECT_EQ(found(loop(i_, 8, loop(j_, 8, set(row, column)))), none_) << "transposed";
  const Expr* next = build.floor_mod(build.add(i_, 1), at(64));
  EXPECT_EQ(found(loop(i_, 64, store(y_, i_, build.add(load(x_, i_), load(x_, next))))), none_) << "a neighbour, too";
  const Stmt* turned = set(ramp(build.mul(i_, 16), 16), ramp(build.add(build.mul(i_, 16), 15), 16, -1));
  EXPECT_EQ(found(loop(i_, 4, turned)), none_) << "lanes in another order";
}

TEST_F(Overwrites, ElementsAreWrittenTwice) {
  EXPECT_EQ(found(loop(j_, 2, loop(i_, 64, set(i_)))), none_);
  const Stmt* vectors = loop(i_, 3, set(ramp(build.mul(i_, 16), 16)));
  EXPECT_EQ(found(build.seq({vectors, set(ramp(at(48), 16))})), legal_);
  EXPECT_EQ(found(build.seq({vectors, set(ramp(at(44), 16)), set(ramp(at(60), 4))})), none_) << "44 to 47";
  EXPECT_EQ(found(loop(i_, 60, set(i_))), none_) << "who knows which elements are written";
}

TEST_F(Overwrites, SomebodyElseReadsOrWrites) {
  const Stmt* all = loop(i_, 64, set(i_));
  const Buffer* copy = buffer(DType::F32, 64);
  const Stmt* copied = loop(i_, 64, store(copy, i_, load(x_, i_)));
  EXPECT_EQ(found(build.alloc(copy, build.seq({copied, loop(j_, 64, store(y_, j_, load(copy, j_)))}))), none_);
  EXPECT_EQ(found(loop(i_, 64, store(y_, i_, build.add(load(x_, i_), load(y_, i_))))), none_) << "y is added to";
  const Expr* is_negative = build.lt(load(x_, i_), build.number(0, DType::F32));
  const Stmt* noted = build.if_then(is_negative, store(copy, at(0), build.number(1, DType::F32)));
  EXPECT_EQ(found(build.alloc(copy, loop(i_, 64, build.seq({set(i_), noted})))), none_) << "a condition reads x";
  const Buffer* z = output(DType::F32, 64);
  EXPECT_EQ(found(build.seq({all, loop(j_, 64, store(z, j_, load(x_, j_)))})), none_) << "z is made of x";
  Array<const Expr*> here = arena().list<const Expr*>({i_});
  Array<StoreTarget> targets = arena().list<StoreTarget>({{y_, here}, {z, here}});
  const Stmt* both = build.store(targets, arena().list<const Expr*>({load(x_, i_), load(x_, i_)}));
  EXPECT_EQ(found(loop(i_, 64, both)), (Pairs{{1, 0}, {2, 0}})) << "at once";
}

TEST_F(Overwrites, ConditionsAreCounted) {
  const Expr* place = build.add(build.mul(i_, 11), j_);
  auto tail = [&](i64 end) { return loop(i_, 6, loop(j_, 11, build.if_then(build.lt(place, end), set(place)))); };
  EXPECT_EQ(found(tail(64)), legal_);
  EXPECT_EQ(found(tail(65)), none_);
  EXPECT_EQ(found(loop(i_, 64, build.if_then(build.lt(i_, 20), set(i_), set(i_)))), legal_) << "both ways";
  const Stmt* vectors = loop(i_, 3, set(ramp(build.mul(i_, 16), 16)));
  auto masked = [&](i64 active) {
    const Stmt* last = in_first(active, 16, set(ramp(at(48), 16)));
    return build.seq({vectors, last, set(ramp(at(59), 4)), set(at(63))});
  };
  EXPECT_EQ(found(masked(11)), legal_) << "48 + 11 + 4 + 1";
  EXPECT_EQ(found(masked(12)), none_) << "element 59 is written twice";
  const Buffer* flags = argument(DType::Bool, 64);
  EXPECT_EQ(found(loop(i_, 64, build.if_then(load(flags, i_), set(i_), set(i_)))), none_) << "a condition on data";
}

TEST_F(Overwrites, InstructionsMayReadAndWriteInAnotherOrder) {
  For* nest = arena().make<For>(*loop(i_, 64, set(i_)));
  nest->annotations = arena().list<Annotation>({{kIntrinsicMark, Literal::of(Str("add"))}});
  EXPECT_EQ(found(nest), none_);
}

// y[i] = x[i] for 64 elements of y.
Pairs pairs_of(DType type, i64 elements, bool is_constant = false) {
  LoweredKit kit;
  const Buffer *x = kit.argument(type, elements), *y = kit.output(DType::F32, 64);
  const Var* i = kit.var();
  const Expr* value = kit.build.cast(DType::F32, kit.load(x, i));
  LoweredProgram program = kit.program(kit.loop(i, 64, kit.store(y, i, value)));
  std::vector<LoweredArgument> described(program.run_arguments.begin(), program.run_arguments.end());
  described[0].is_constant = is_constant;
  program.run_arguments = kit.arena().copy(described);
  return overwrites_of(program);
}

TEST(OverwrittenArguments, AreInputsOfAsManyBytes) {
  EXPECT_EQ(pairs_of(DType::F32, 64), (Pairs{{1, 0}}));
  EXPECT_EQ(pairs_of(DType::I32, 64), (Pairs{{1, 0}}));
  EXPECT_EQ(pairs_of(DType::F64, 64), Pairs());
  EXPECT_EQ(pairs_of(DType::F32, 65), Pairs());
  EXPECT_EQ(pairs_of(DType::F32, 64, true), Pairs()) << "a constant is for the next run, too";
}

// LLVM takes it from this word that two buffers do not overlap.
TEST(OverwrittenCode, OnlyBuffersThatNeverOverlapAreSaidTo) {
  auto count = [](bool is_reversed) {
    LoweredKit kit;
    const Buffer *x = kit.argument(DType::F32, 64), *b = kit.argument(DType::F32, 1), *y = kit.output(DType::F32, 64);
    const Var* i = kit.var();
    const Expr* from = is_reversed ? kit.build.sub(kit.build.integer(63), i) : i;
    const Expr* product = kit.build.mul(kit.load(x, from), kit.load(b, kit.build.integer(0)));
    Result<LlvmCompiler> compiler = LlvmCompiler::create({});
    EXPECT_TRUE(compiler);
    std::string ir = *compiler->emit(kit.program(kit.loop(i, 64, kit.store(y, i, product))), "f", Emit::Ir);
    int found = 0;
    for (std::size_t at = 0; (at = ir.find("noalias", at)) != std::string::npos; ++at) ++found;
    return found;
  };
  EXPECT_EQ(count(false), 1) << "b";
  EXPECT_EQ(count(true), 3);
}

// ---- kernels as they are drawn

// The iterations of a parallel loop, the last one first.
void run_backwards(void*, int64_t count, tw_task task, void* context) {
  while (count-- > 0) task(context, count, 0);
}

// What the kernel computes of random inputs, with the output in the input's place if there is a pair.
std::string output_of(const Kernel& kernel, const Overwrite* pair) {
  std::string error;
  LoadedObject object = load_object(kernel.code, error);
  EXPECT_EQ(error, "");
  std::vector<AlignedBytes> memory;
  std::vector<void*> buffers;
  std::size_t output = 0;
  for (const KernelArgument& argument : kernel.manifest.run) {
    memory.emplace_back(argument.bytes);
    buffers.push_back(memory.back().get());
    if (argument.role == ArgumentRole::Output) output = buffers.size() - 1;
    Rng rng(9, buffers.size());
    std::vector<float> values(static_cast<std::size_t>(argument.bytes) / sizeof(float));
    for (float& value : values) value = static_cast<float>(rng.uniform() - 0.5);
    std::memcpy(buffers.back(), values.data(), static_cast<std::size_t>(argument.bytes));
  }
  if (pair) buffers[pair->output] = buffers[pair->input];
  AlignedBytes scratch(kernel.manifest.scratch_bytes(1));
  EXPECT_EQ(object.run(kernel.manifest.symbol)(buffers.data(), scratch.get(), pair ? run_backwards : nullptr, nullptr),
            0);
  return {static_cast<const char*>(buffers[output]), static_cast<std::size_t>(kernel.manifest.run[output].bytes)};
}

struct DrawnPairs {
  int kernels = 0, with_pairs = 0;
  std::set<std::string> inputs;  // that may be overwritten
};

// Of draws for a workload with these extents; what they compute in place must be the same.
DrawnPairs drawn_pairs(const std::string& name, i64 rows, i64 columns) {
  Source source{"workloads.tw", test::kOverwritingWorkloads};
  Diagnostics diagnostics(source);
  WorkloadModule module = parse_workloads(source, diagnostics);
  std::optional<OwnedProgram> program = instantiate(module, name, {{"M", rows}, {"N", columns}}, {}, diagnostics);
  EXPECT_TRUE(program) << diagnostics.render();
  DrawnPairs out;
  for (int bits : {256, 512}) {
    Target target = test::target_of(bits, 2);
    Result<LlvmCompiler> compiler = LlvmCompiler::create(codegen_target(target));
    EXPECT_TRUE(compiler);
    test::DrawCounts counts;
    test::draw_lowered(*program, target, 12, counts, [&](const Program&, const LoweredProgram& lowered) {
      Result<Kernel> kernel = compiler->compile(lowered, "kernel");
      ASSERT_TRUE(kernel) << to_string(kernel.rejected());
      const std::vector<Overwrite>& pairs = kernel->manifest.overwrites;
      ++out.kernels;
      out.with_pairs += !pairs.empty();
      if (pairs.empty()) return;
      std::string apart = output_of(*kernel, nullptr);
      for (const Overwrite& pair : pairs) {
        out.inputs.insert(kernel->manifest.run[pair.input].name);
        EXPECT_TRUE(output_of(*kernel, &pair) == apart) << name << " " << rows << " x " << columns;
      }
    });
  }
  EXPECT_GT(out.kernels, 0);
  return out;
}

TEST(DrawnOverwrites, MapsAreComputedInPlace) {
  for (auto [rows, columns] : {std::pair<i64, i64>{24, 64}, {7, 45}, {33, 19}}) {
    DrawnPairs found = drawn_pairs("map", rows, columns);
    EXPECT_EQ(found.inputs, (std::set<std::string>{"A", "B"}));
    EXPECT_GT(2 * found.with_pairs, found.kernels);
  }
}

TEST(DrawnOverwrites, WhatIsAddedToAProductIsOverwrittenAndItsOperandIsNot) {
  for (auto [rows, columns] : {std::pair<i64, i64>{24, 64}, {14, 40}}) {
    DrawnPairs found = drawn_pairs("residual", rows, columns);
    EXPECT_EQ(found.inputs, std::set<std::string>{"R"});
  }
}

TEST(DrawnOverwrites, TransposesAndWindowsAreNot) {
  EXPECT_EQ(drawn_pairs("turned", 32, 32).with_pairs, 0);
  EXPECT_EQ(drawn_pairs("turned", 17, 24).with_pairs, 0);
  EXPECT_EQ(drawn_pairs("blurred", 24, 32).with_pairs, 0);
}

}  // namespace
}  // namespace tw
