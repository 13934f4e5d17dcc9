// The dependence test against isl, which knows nothing of it: may the iterations of a loop run at the same time?
// Conservative answers are right; "yes" where isl finds two iterations that touch the same element is not. Skipped
// where isl was not there when this was built.
#include <gtest/gtest.h>

#include "dsl/analysis/block_info.h"
#include "dsl/analysis/dependence.h"
#include "dsl/base/text.h"
#include "dsl/ir/print.h"
#include "dsl/schedule/schedule.h"
#include "support/parsed.h"
#include "support/placed_blocks.h"
#include "support/random_schedule.h"
#include "support/support.h"

#if TW_HAS_ISL
#include <isl/ctx.h>
#include <isl/options.h>
#include <isl/union_map.h>
#endif

namespace tw {
namespace {

#if TW_HAS_ISL

// ---- expressions and accesses as isl writes them

std::string isl_text(const Expr* e) {
  if (const IntImm* imm = as<IntImm>(e)) return std::to_string(imm->value);
  if (const Var* var = as<Var>(e)) return cat("v", var->id);
  const Binary* binary = as<Binary>(e);
  TW_CHECK(binary, "an index that these programs do not have");
  std::string a = isl_text(binary->a), b = isl_text(binary->b);
  switch (binary->op) {
    case BinaryOp::FloorDiv:
      return cat("floor((", a, ")/", b, ")");
    case BinaryOp::FloorMod:
      return cat("((", a, ") mod ", b, ")");
    case BinaryOp::And:
      return cat(a, " and ", b);
    case BinaryOp::Add:
    case BinaryOp::Sub:
    case BinaryOp::Mul:
      return cat("(", a, " ", name_of(binary->op), " ", b, ")");
    default:
      return cat(a, " ", name_of(binary->op), " ", b);
  }
}

std::string names_of(const std::vector<const For*>& loops, std::size_t count) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < count; ++i) names.push_back(isl_text(loops[i]->var));
  return join(names, ", ");
}

// `{ [loops down to the one asked about] -> buffer[indices] : exists inner loops : ... }` for all accesses of a kind.
std::string accesses_text(Arena& arena, const std::vector<test::PlacedBlock>& blocks, std::size_t depth,
                          AccessKind kind, const Buffer* buffer) {
  std::vector<std::string> maps;
  for (const test::PlacedBlock& placed : blocks) {
    Substitution bindings;
    for (std::size_t i = 0; i < placed.block->iters.size(); ++i)
      bindings.set(placed.block->iters[i].var, placed.block->bindings[i]);
    std::vector<std::string> conditions, inner;
    for (const For* loop : placed.loops) conditions.push_back(cat("0 <= ", isl_text(loop->var), " < ", loop->extent));
    for (std::size_t i = depth; i < placed.loops.size(); ++i) inner.push_back(isl_text(placed.loops[i]->var));
    if (placed.block->predicate) conditions.push_back(isl_text(placed.block->predicate));
    for (const Access& access : accesses_of(placed.block)) {
      if (access.kind != kind || access.buffer != buffer) continue;
      std::vector<std::string> indices;
      for (const Expr* index : access.indices) indices.push_back(isl_text(substitute(arena, index, bindings)));
      // An equation for each index: indices may name inner loops.
      std::vector<std::string> places, equations;
      for (std::size_t d = 0; d < indices.size(); ++d) {
        places.push_back(cat("e", d));
        equations.push_back(cat("e", d, " = ", indices[d]));
      }
      std::string all = cat(join(equations, " and "), " and ", join(conditions, " and "));
      std::string where = inner.empty() ? all : cat("exists (", join(inner, ", "), " : ", all, ")");
      maps.push_back(
          cat("[", names_of(placed.loops, depth), "] -> b", buffer->id.value, "[", join(places, ", "), "] : ", where));
    }
  }
  return cat("{ ", join(maps, "; "), " }");
}

// ---- the question, asked of isl

class Isl {
 public:
  Isl() : context_(isl_ctx_alloc()) { isl_options_set_on_error(context_, ISL_ON_ERROR_ABORT); }
  ~Isl() { isl_ctx_free(context_); }

  // Do two iterations of the innermost of `loops`, in one iteration of the others, touch the same element, one of them
  // writing?
  bool conflict(const std::string& writes, const std::string& reads, const std::vector<const For*>& loops) {
    std::string first = names_of(loops, loops.size()), second = first;
    for (std::size_t at = 0; (at = second.find('v', at)) != std::string::npos; at += 2) second.replace(at, 1, "w");
    std::vector<std::string> same;
    for (const For* loop : loops) {
      std::string name = isl_text(loop->var);
      same.push_back(cat(name, loop == loops.back() ? " != w" : " = w", name.substr(1)));
    }
    isl_union_map* apart = read(cat("{ [", first, "] -> [", second, "] : ", join(same, " and "), " }"));
    isl_union_map* written = read(writes);
    isl_union_map* touched = isl_union_map_union(read(reads), isl_union_map_copy(written));
    isl_union_map* meet =
        isl_union_map_intersect(isl_union_map_apply_range(written, isl_union_map_reverse(touched)), apart);
    bool found = !isl_union_map_is_empty(meet);
    isl_union_map_free(meet);
    return found;
  }
  // Does each iteration read only what it writes itself?
  bool reads_own(const std::string& writes, const std::string& reads) {
    isl_union_map* foreign = isl_union_map_subtract(read(reads), read(writes));
    bool none = isl_union_map_is_empty(foreign);
    isl_union_map_free(foreign);
    return none;
  }

 private:
  isl_union_map* read(const std::string& text) { return isl_union_map_read_from_str(context_, text.c_str()); }
  isl_ctx* context_;
};

bool is_used_outside(const Program& program, const Buffer* buffer, const For* loop) {
  if (is_param(program, buffer)) return true;
  auto touches = [&](const Block* block) { return writes_buffer(block, buffer) || reads_buffer(block, buffer); };
  std::vector<const Block*> below;
  for (const Block* block : blocks_in(loop)) below.push_back(block);
  for (const Block* block : blocks_in(program.body)) {
    if (touches(block) && std::find(below.begin(), below.end(), block) == below.end()) return true;
  }
  return false;
}

struct Tally {
  int asked = 0, independent = 0, accepted = 0;
};

bool is_independent(Isl& isl, Arena& arena, const Program& program, const std::vector<const For*>& loops) {
  std::vector<const For*> around(loops.begin(), loops.end() - 1);
  std::vector<test::PlacedBlock> blocks;
  test::place_blocks(loops.back(), around, blocks);
  for (const test::PlacedBlock& placed : blocks) {
    for (std::size_t i = 0; i < placed.block->iters.size(); ++i) {
      if (placed.block->iters[i].kind == IterKind::R && uses(placed.block->bindings[i], loops.back()->var))
        return false;
    }
  }
  std::vector<const Buffer*> buffers(program.locals.begin(), program.locals.end());
  for (const Param& param : program.params) buffers.push_back(param.buffer);
  for (const Buffer* buffer : buffers) {
    std::string writes = accesses_text(arena, blocks, loops.size(), AccessKind::Write, buffer);
    std::string reads = accesses_text(arena, blocks, loops.size(), AccessKind::Read, buffer);
    if (writes == "{  }") continue;
    bool shared = is_used_outside(program, buffer, loops.back());
    if (shared && isl.conflict(writes, reads, loops)) return false;
    if (!shared && !isl.reads_own(writes, reads)) return false;
  }
  return true;
}

// Asks both about every loop of a program.
void compare(Isl& isl, const Program& program, Tally& tally) {
  Arena arena;
  std::vector<const For*> loops;
  auto visit = [&](auto& self, const Stmt* stmt) -> void {
    if (const Seq* seq = as<Seq>(stmt)) {
      for (const Stmt* child : seq->stmts) self(self, child);
    }
    const For* loop = as<For>(stmt);
    if (!loop) return;
    VarRanges around;
    for (const For* outer : loops) around.set_extent(outer->var, outer->extent);
    loops.push_back(loop);
    bool accepted = static_cast<bool>(iterations_may_overlap(arena, program, loop, around));
    bool independent = is_independent(isl, arena, program, loops);
    ASSERT_FALSE(accepted && !independent) << "loop " << loop->var->name << "\n" << print(program);
    ++tally.asked;
    tally.independent += independent;
    tally.accepted += accepted;
    self(self, loop->body);
    loops.pop_back();
  };
  visit(visit, program.body);
}

// ---- programs

// A sum of some of a, b with random factors, sometimes divided.
std::string random_index(Rng& rng, i64& largest, i64 a_max, i64 b_max) {
  constexpr i64 factors[] = {0, 1, 1, 1, 2, 3, 4, 7, 16, 64};
  i64 a = factors[rng.below(10)], b = factors[rng.below(10)], c = rng.below(3);
  std::string sum = cat("a * ", a, " + b * ", b, " + ", c);
  largest = a * a_max + b * b_max + c;
  i64 n = 2 + rng.below(7);
  switch (rng.below(8)) {
    case 0:
      largest = largest / n;
      return cat("(", sum, ") // ", n);
    case 1:
      largest = n - 1;
      return cat("(", sum, ") % ", n);
    default:
      return sum;
  }
}

// Two blocks in two loops: the second reads what the first writes, or something near it.
std::string random_pair(Rng& rng) {
  constexpr i64 extents[] = {2, 3, 8, 16, 61, 300};
  i64 n = extents[rng.below(6)], m = extents[rng.below(6)], w = 0, r = 0, o = 0;
  std::string write = random_index(rng, w, n - 1, m - 1),
              read = rng.below(2) ? write : random_index(rng, r, n - 1, m - 1);
  std::string out = random_index(rng, o, n - 1, m - 1);
  bool is_local = rng.below(2);
  std::string iters = cat("(a: S ", n, " = i, b: S ", m, " = j)");
  i64 size = std::max(w, r) + 1;
  std::string t = cat("T: ", is_local ? "" : "output ", "f32[", size, "]");
  return cat("program p(X: input f32[1], Y: output f32[", o + 1, "]", is_local ? "" : ", " + t, ") {\n",
             is_local ? cat("  local ", t, "\n") : "", "  for i in ", n, " {\n    for j in ", m, " {\n      block A",
             iters, " {\n        T[", write, "] = X[0]\n      }\n      block B", iters, " {\n        Y[", out, "] = T[",
             read, "]\n      }\n    }\n  }\n}\n");
}

TEST(DependenceOracle, PairsOfAccesses) {
  Isl isl;
  Tally tally;
  for (u64 seed = 0; seed < 1500 && !testing::Test::HasFailure(); ++seed) {
    Rng rng(29, seed);
    compare(isl, test::parsed(random_pair(rng)).program, tally);
  }
  std::printf("%d loops: isl finds %d independent, %d of these were accepted\n", tally.asked, tally.independent,
              tally.accepted);
  RecordProperty("asked", tally.asked);
  RecordProperty("independent", tally.independent);
  RecordProperty("accepted", tally.accepted);
  EXPECT_GT(tally.independent, tally.asked / 10);
  EXPECT_GT(tally.accepted, tally.independent / 2) << "the test has become too careful to be of use";
}

// The same programs after loops were cut, joined and reordered: predicates, digits of fused loops.
TEST(DependenceOracle, ScheduledPrograms) {
  Isl isl;
  Tally tally;
  for (u64 seed = 0; seed < 400 && !testing::Test::HasFailure(); ++seed) {
    Rng rng(31, seed);
    OwnedProgram base = test::parsed(random_pair(rng));
    Schedule schedule(base.program, seed);
    test::Acceptance ignored;
    for (const char* name : {"fuse", "split", "reorder", "split"}) {
      if (rng.below(2)) test::apply_random(schedule, *find_kind(name), rng, ignored);
    }
    compare(isl, schedule.program(), tally);
  }
  std::printf("%d loops: isl finds %d independent, %d of these were accepted\n", tally.asked, tally.independent,
              tally.accepted);
  EXPECT_GT(tally.accepted, tally.independent / 4);
}

#else

TEST(DependenceOracle, NeedsIsl) {
  GTEST_SKIP() << "built without isl (libisl-dev): the dependence test is compared with running programs only";
}

#endif

}  // namespace
}  // namespace tw
