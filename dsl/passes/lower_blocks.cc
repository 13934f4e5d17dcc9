#include "dsl/passes/lower_blocks.h"

#include <algorithm>

#include "dsl/analysis/simplify.h"
#include "dsl/intrinsics/intrinsic.h"
#include "dsl/ir/walk.h"
#include "dsl/passes/conditions.h"

namespace tw {
namespace {

bool reads_memory(const Expr* e) {
  bool found = false;
  for_each<Load>(e, [&](const Load*) { found = true; });
  return found;
}

// If(a) { If(b) { s } } as ([a, b], s). Conditions on data stay where they are: statements may change it.
const Stmt* strip_guards(const Stmt* s, Conjunction& guards) {
  const If* branch = as<If>(s);
  if (!branch || branch->otherwise || reads_memory(branch->condition)) return s;
  split_conjunction(branch->condition, guards);
  return strip_guards(branch->then, guards);
}

bool has(const Conjunction& parts, const Expr* wanted) {
  return std::any_of(parts.begin(), parts.end(), [&](const Expr* part) { return same_expr(part, wanted); });
}

class BlockLowering {
 public:
  BlockLowering(Arena& arena, Program& program) : arena_(arena), build_{arena}, program_(program) {}

  const Stmt* stmt(const Stmt* s) {
    switch (s->kind) {
      case Kind::Block:
        return block(static_cast<const Block*>(s));
      case Kind::For:
        return loop(static_cast<const For*>(s));
      case Kind::Seq:
        return sequence(static_cast<const Seq*>(s));
      default:
        return with_children(arena_, s, map());
    }
  }

 private:
  ChildMap map() {
    return {this, [](void* self, const Expr* e) { return static_cast<BlockLowering*>(self)->expr(e); },
            [](void* self, const Stmt* s) { return static_cast<BlockLowering*>(self)->stmt(s); }};
  }
  const Expr* expr(const Expr* e) {
    const Expr* plain = rewrite_exprs(arena_, e, [](const Expr* part) {
      const Call* claim = as_within(part);
      return claim ? claim->arguments[0] : part;
    });
    return simplify(arena_, substitute(arena_, plain, iters_), ranges_);
  }

  const Stmt* loop(const For* loop) {
    if (const Stmt* decomposed = run_init_first(loop)) return stmt(decomposed);
    std::size_t known = ranges_.size();
    ranges_.set_extent(loop->var, loop->extent);
    const Stmt* body = stmt(loop->body);
    ranges_.shrink(known);
    if (!body) return nullptr;
    // Guards that do not need the loop's variable move out of it.
    Conjunction guards, inside, outside;
    const Stmt* unguarded = strip_guards(body, guards);
    for (const Expr* guard : guards) (uses(guard, loop->var) ? inside : outside).push_back(guard);
    if (!outside.empty()) body = build_.if_then(join_conjunction(arena_, inside), unguarded);
    return build_.if_then(join_conjunction(arena_, outside), build_.with_body(loop, body));
  }

  // Guards that all statements share move out of the sequence.
  const Stmt* sequence(const Seq* seq) {
    const Stmt* lowered = with_children(arena_, seq, map());
    const Seq* out = as<Seq>(lowered);
    if (!out) return lowered;
    std::vector<Conjunction> guards(out->stmts.size());
    std::vector<const Stmt*> bare;
    for (std::size_t i = 0; i < guards.size(); ++i) bare.push_back(strip_guards(out->stmts[i], guards[i]));
    Conjunction shared;
    for (const Expr* guard : guards[0]) {
      if (std::all_of(guards.begin() + 1, guards.end(), [&](const Conjunction& c) { return has(c, guard); }))
        shared.push_back(guard);
    }
    if (shared.empty()) return out;
    for (std::size_t i = 0; i < bare.size(); ++i) {
      std::erase_if(guards[i], [&](const Expr* guard) { return has(shared, guard); });
      bare[i] = build_.if_then(join_conjunction(arena_, guards[i]), bare[i]);
    }
    return build_.if_then(join_conjunction(arena_, shared), build_.seq(bare));
  }

  const Stmt* block(const Block* block) {
    std::vector<const Expr*> values;
    for (const Expr* binding : block->bindings) values.push_back(expr(binding));
    Conjunction at_first;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (block->iters[i].kind != IterKind::R || !block->init) continue;
      split_conjunction(expr(build_.binary(BinaryOp::Eq, block->bindings[i], build_.integer(0))), at_first);
    }
    const Expr* predicate = block->predicate ? expr(block->predicate) : nullptr;
    std::size_t before = iters_.entries.size();
    for (std::size_t i = 0; i < values.size(); ++i) iters_.set(block->iters[i].var, values[i]);
    const Stmt* init = block->init ? build_.if_then(join_conjunction(arena_, at_first), stmt(block->init)) : nullptr;
    const Stmt* body = with_mark(block, stmt(block->body));
    iters_.entries.resize(before);
    return build_.if_then(predicate, build_.seq({init, body}));
  }

  // A tensorized block leaves its mark on the outermost loop of its body, or on a loop of one iteration where there is
  // none left and check_intrinsics will find no match.
  const Stmt* with_mark(const Block* block, const Stmt* body) {
    const Annotation* mark = find_annotation(block->annotations, kIntrinsicMark);
    if (!mark || !body) return body;
    const For* nest = as<For>(body);
    if (!nest) nest = build_.loop({program_.next_loop++}, build_.var(program_.next_var++, "once"), 1, body);
    For* marked = arena_.make<For>(*nest);
    marked->annotations = with_annotation(arena_, nest->annotations, *mark);
    return marked;
  }

  // For a reduction loop that is directly around its block, alone or with other loops in between:
  //   for k { for j { block { init; body } } }   ->   for j { block { init } }; for k { for j { block { body } } }
  // Null where that does not apply.
  const Stmt* run_init_first(const For* outermost) {
    std::vector<const For*> chain;
    for (const For* loop = outermost; loop; loop = as<For>(loop->body)) chain.push_back(loop);
    const Block* block = as<Block>(chain.back()->body);
    if (!block || !block->init || !is_bound(block, IterKind::R, outermost->var)) return nullptr;
    Substitution first;
    std::vector<const For*> kept;
    for (const For* loop : chain) {
      bool spatial = is_bound(block, IterKind::S, loop->var), reduction = is_bound(block, IterKind::R, loop->var);
      if (spatial && reduction) return nullptr;
      if (spatial)
        kept.push_back(loop);
      else
        first.set(loop->var, build_.integer(0));
    }
    if (!starts_at_zero(block, first)) return nullptr;
    const Stmt* init = init_block(block, first);
    for (std::size_t i = kept.size(); i-- > 0;) init = build_.with_body(kept[i], init);
    const Stmt* update = build_.with_body(block, nullptr, block->body);
    for (std::size_t i = chain.size(); i-- > 0;) update = build_.with_body(chain[i], update);
    return build_.seq({init, update});
  }

  // A part of a loop that was cut may begin in the middle of a reduction.
  bool starts_at_zero(const Block* block, const Substitution& first) {
    for (std::size_t i = 0; i < block->iters.size(); ++i) {
      if (block->iters[i].kind != IterKind::R) continue;
      std::optional<i64> start = constant_of(substitute(arena_, block->bindings[i], first));
      if (start && *start != 0) return false;
    }
    return true;
  }

  static bool is_bound(const Block* block, IterKind kind, const Var* var) {
    for (std::size_t i = 0; i < block->iters.size(); ++i) {
      if (block->iters[i].kind == kind && uses(block->bindings[i], var)) return true;
    }
    return false;
  }

  // The init as a block of its own, with the reduction loops at `first`; those further out must be at 0 too.
  const Block* init_block(const Block* block, const Substitution& first) {
    std::vector<const Expr*> bindings;
    const Expr* predicate = block->predicate ? substitute(arena_, block->predicate, first) : nullptr;
    for (std::size_t i = 0; i < block->iters.size(); ++i) {
      bindings.push_back(substitute(arena_, block->bindings[i], first));
      if (block->iters[i].kind != IterKind::R || constant_of(bindings[i])) continue;
      predicate = build_.both(predicate, build_.binary(BinaryOp::Eq, bindings[i], build_.integer(0)));
    }
    Block* init = arena_.make<Block>(
        *build_.with_bindings(build_.with_body(block, nullptr, block->init), arena_.copy(bindings), predicate));
    init->annotations = without_annotation(arena_, init->annotations, kIntrinsicMark);
    return init;
  }

  Arena& arena_;
  Build build_;
  Program& program_;  // for fresh ids
  Substitution iters_;
  VarRanges ranges_;
};

}  // namespace

Program lower_blocks(Arena& arena, Program program) {
  if (program.body) program.body = BlockLowering(arena, program).stmt(program.body);
  return program;
}

}  // namespace tw
