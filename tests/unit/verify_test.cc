// Every rule of legal IR: a program that breaks it, and the whole message.
#include "dsl/analysis/verify.h"

#include <gtest/gtest.h>

#include "dsl/base/text.h"
#include "dsl/ir/build.h"
#include "dsl/text/workload.h"
#include "support/parsed.h"

namespace tw {
namespace {

std::string problems_of(const Program& program) {
  std::vector<std::string> lines;
  for (const Illegal& problem : verify(program)) lines.push_back(cat(problem.rule, ": ", problem.message));
  return join(lines, "\n");
}
std::string problems_of(const std::string& text) { return problems_of(test::parsed(text).program); }

TEST(Verify, AllOperatorsAreLegal) {
  for (const char* text :
       {"dense(M = 3, N = 4, K = 5, T = f16)",
        "conv2d(N = 1, H = 5, W = 5, CI = 4, CO = 4, K = 3, padding = 1, groups = 2)",
        "conv2d_transposed(N = 1, H = 3, W = 3, CI = 2, CO = 2, K = 3, stride = 2)", "softmax(M = 3, N = 4)",
        "layernorm(M = 3, N = 4)", "max_pool2d(N = 1, H = 4, W = 4, C = 2, K = 2, T = i8)"}) {
    Source source{"use", text};
    Diagnostics of_use(source), diagnostics(*operator_library().source);
    std::optional<WorkloadUse> use = parse_use(source, of_use);
    ASSERT_TRUE(use);
    std::optional<OwnedProgram> program =
        instantiate(operator_library(), use->workload, use->arguments, {"bias", "gelu"}, diagnostics);
    ASSERT_TRUE(program) << diagnostics.render();
    EXPECT_EQ(problems_of(program->program), "");
  }
}

TEST(Verify, RulesAboutBlocks) {
  EXPECT_EQ(problems_of("program p(Y: output f32[4]) { for i in 5 { block Y(i: S 4 = i) { Y[i] = 1.0 } } }"),
            "bindings_stay_in_the_domain: iter `i` of extent 4 is bound to [0, 4]");
  EXPECT_EQ(
      problems_of("program p(Y: output f32[4]) { for i in 5 { block Y(i: S 4 = i) where i < 4 { Y[i] = 1.0 } } }"), "");
  EXPECT_EQ(
      problems_of(
          "program p(Y: output f32[4]) { for i in 4 { block Y(i: S 4 = i) { init { Y[i] = 0.0 }\n Y[i] = 1.0 } } }"),
      "only_reductions_have_an_init: block `Y` has an init and no reduction iter");
  EXPECT_EQ(problems_of("program p(Y: output f32[4]) { for i in 4 { block Y(i: S 4 = i) { Y[i] = 1.0 } }\n for i in 4 "
                        "{ block Y(i: S 4 = i) { Y[i] = 1.0 } } }"),
            "block_names_are_unique: there is another block `Y`");
  EXPECT_EQ(problems_of("program p(Y: output f32[]) { vectorize for k in 4 { block Y(k: R 4 = k) { init { Y[] = 0.0 "
                        "}\n Y[] = Y[] + 1.0 } } }"),
            "reductions_do_not_run_concurrently: the reduction `k` runs over the vectorize loop `k`");
  EXPECT_EQ(problems_of("program p(X: input f32[4], Y: output f32[4]) { block A() { X[0] = 1.0 } }"),
            "inputs_are_not_written: `X` is input and written\noutputs_are_written: output `Y` is never written");
  EXPECT_EQ(problems_of("program p(Y: output f32[4], Z: output f32[4]) { Z[1] = 1.0\n for i in 4 { block Y(i: S 4 = i) "
                        "{ Y[i] = 1.0 } } }"),
            "stores_are_in_blocks: `Z` is written outside of all blocks");
  EXPECT_EQ(problems_of("program p(Y: output f32[4]) { block A() { Y[0], Y[1] = 1.0, 2.0 } }"),
            "targets_differ: one statement writes `Y` twice");
}

TEST(Verify, RulesAboutDeclarations) {
  EXPECT_EQ(problems_of("program p(Y: output f32[1] in shared) { block A() { Y[0] = 1.0 } }"),
            "parameters_are_global: parameter `Y` is in shared memory");
}

// What the parser would not let through is built by hand.
class Broken : public ::testing::Test {
 protected:
  Broken() {
    program_.params = arena_.list<Param>({{y_, Role::Output}});
    program_.next_loop = program_.next_block = program_.next_buffer = program_.next_var = 100;
  }
  Array<const Expr*> at(const Expr* e) { return arena_.list<const Expr*>({e}); }
  const Stmt* block(u32 id, const Stmt* body, std::vector<const Expr*> bindings = {}, std::vector<IterVar> iters = {}) {
    return arena_.make<Block>(Stmt{{Kind::Block}}, BlockId{id}, arena_.text(cat("B", id)), arena_.copy(iters),
                              arena_.copy(bindings), nullptr, nullptr, body, Array<Annotation>{});
  }
  const Stmt* store(const Expr* index, const Expr* value) { return build_.store(y_, at(index), value); }
  std::string problems(const Stmt* body) {
    program_.body = body;
    return problems_of(program_);
  }
  Arena arena_;
  Build build_{arena_};
  Program program_;
  const Buffer* y_ =
      arena_.make<Buffer>(BufferId{1}, Str("Y"), DType::F32, arena_.list<i64>({4}), Scope::Global, Str{});
  const Var* i_ = build_.var(1, "i");
  const Expr *zero_ = build_.integer(0), *one_ = build_.number(1, DType::F32);
};

TEST_F(Broken, Scopes) {
  EXPECT_EQ(problems(block(1, store(i_, one_))),
            "variables_are_in_scope: variable `i` is used outside of its loop or block");
  // The loops around a block are not visible inside it.
  EXPECT_EQ(problems(build_.loop({1}, i_, 4, block(1, store(i_, one_)))),
            "variables_are_in_scope: variable `i` is used outside of its loop or block");
  EXPECT_EQ(problems(build_.loop({1}, i_, 4, build_.loop({2}, i_, 4, block(1, store(zero_, one_))))),
            "variables_are_bound_once: variable `i` is bound twice");
  const Buffer* other =
      arena_.make<Buffer>(BufferId{2}, Str("T"), DType::F32, arena_.list<i64>({4}), Scope::Global, Str{});
  EXPECT_EQ(problems(block(1, store(zero_, build_.load(other, at(zero_))))),
            "buffers_are_declared: buffer `T` is not declared");
  program_.locals = arena_.list<const Buffer*>({y_});
  EXPECT_EQ(problems(block(1, store(zero_, one_))),
            "buffers_are_declared_once: buffer `Y` or its id is declared twice");
}

TEST_F(Broken, Ids) {
  EXPECT_EQ(problems(build_.loop({100}, i_, 4, block(1, store(zero_, one_)))),
            "ids_are_unique: loop `i` has the id 100, outside of [1, 100)");
  EXPECT_EQ(problems(build_.loop({7}, i_, 4, build_.loop({7}, build_.var(2, "j"), 4, block(1, store(zero_, one_))))),
            "ids_are_unique: loop `j` has the id 7 of another one");
  EXPECT_EQ(
      problems(build_.seq({block(1, store(zero_, one_)), block(1, store(zero_, one_))})),
      "ids_are_unique: block `B1` has the id 1 of another one\nblock_names_are_unique: there is another block `B1`");
}

TEST_F(Broken, Loops) {
  EXPECT_EQ(problems(build_.loop({1}, i_, 0, block(1, store(zero_, one_)))),
            "extents_are_positive: loop `i` has extent 0");
  EXPECT_EQ(problems(build_.loop({1}, i_, 4, block(1, store(zero_, one_)), LoopKind::Bind)),
            "only_bound_loops_have_threads: loop `i` is bind to no thread");
  EXPECT_EQ(problems(block(1, store(zero_, one_), {zero_})),
            "every_iter_has_a_binding: block `B1` has 0 iters and 1 bindings");
}

TEST_F(Broken, Types) {
  EXPECT_EQ(problems(block(1, build_.store(y_, {}, one_))), "indices_have_rank: `Y` has 1 dimensions, found 0 indices");
  EXPECT_EQ(problems(block(1, store(one_, one_))), "indices_are_i64: the index `1.0` is f32");
  EXPECT_EQ(problems(block(1, store(zero_, zero_))),
            "values_have_the_type_of_the_buffer: `Y` is f32, the value stored is i64");
  const Expr* mixed = arena_.make<Binary>(Expr{{Kind::Binary}, {DType::F32, 1}}, BinaryOp::Add, one_, zero_);
  EXPECT_EQ(problems(block(1, store(zero_, mixed))), "operands_agree: `+` joins f32 and i64 to f32");
  const Expr* remainder = arena_.make<Binary>(Expr{{Kind::Binary}, {DType::F32, 1}}, BinaryOp::FloorMod, one_, one_);
  EXPECT_EQ(problems(block(1, store(zero_, remainder))), "operators_fit_types: `%` is applied to f32");
  const Expr* choice = arena_.make<Select>(Expr{{Kind::Select}, {DType::F32, 1}}, zero_, one_, one_);
  EXPECT_EQ(problems(block(1, store(zero_, choice))), "conditions_are_bool: the condition `0` is i64");
  const Expr* power = arena_.make<Call>(Expr{{Kind::Call}, {DType::F32, 1}}, Function::Pow, at(one_));
  EXPECT_EQ(problems(block(1, store(zero_, power))), "operands_agree: `pow` has arguments of a wrong number or type");
  const Expr* ramp = arena_.make<Ramp>(Expr{{Kind::Ramp}, {DType::I64, 4}}, zero_, one_);
  EXPECT_EQ(problems(block(1, store(ramp, one_))), "vectors_have_lanes: `ramp(0, 1.0, 4)` is no vector of scalars");
}

TEST(Verify, RendersMarks) {
  OwnedProgram program = test::parsed(
      "program p(Y: output f32[4], Z: output f32[4]) { for i in 5 { block Y(i: S 4 = i) { Y[i] = 1.0 } } }");
  EXPECT_EQ(render(program.program, verify(program.program)),
            "  program p(Y: output f32[4], Z: output f32[4]) {\n"
            "    for i in 5 {\n"
            ">     block Y(i: S 4 = i) {    # bindings_stay_in_the_domain: iter `i` of extent 4 is bound to [0, 4]\n"
            "        Y[i] = 1.0\n"
            "      }\n"
            "    }\n"
            "  }\n"
            "outputs_are_written: output `Z` is never written\n");
}

}  // namespace
}  // namespace tw
