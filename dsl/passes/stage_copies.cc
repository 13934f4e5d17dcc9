#include "dsl/passes/stage_copies.h"

#include <algorithm>

#include "dsl/analysis/simplify.h"
#include "dsl/ir/walk.h"
#include "dsl/passes/outer_dimension.h"
#include "dsl/passes/thread_axes.h"
#include "dsl/passes/warp_mma.h"

namespace tw {
namespace {

using Buffers = std::vector<const Buffer*>;

bool contains(const Buffers& list, const Buffer* buffer) {
  return std::find(list.begin(), list.end(), buffer) != list.end();
}

Buffers loaded(const Stmt* s) {
  Buffers out;
  for_each<Load>(s, [&](const Load* load) { out.push_back(load->buffer); });
  return out;
}

Buffers stored(const Stmt* s) {
  Buffers out;
  for_each<Store>(s, [&](const Store* store) {
    for (const StoreTarget& target : store->targets) out.push_back(target.buffer);
  });
  return out;
}

bool meet(const Buffers& a, const Buffers& b) {
  return std::any_of(a.begin(), a.end(), [&](const Buffer* buffer) { return contains(b, buffer); });
}

// What is in the body of a loop.
struct Body {
  std::vector<const Alloc*> staged, others;
  std::vector<const Stmt*> copies, rest;
};

Reject cannot(const For* loop, const char* why) {
  return reject("the copies of loop `{a}` cannot be staged: {b}", loop->var->name, Str(why)).about_loop(loop->id.value);
}

Result<Body> body_of(const For* loop) {
  Body out;
  const Stmt* inner = loop->body;
  Buffers staged;
  while (const Alloc* alloc = as<Alloc>(inner)) {
    bool is_shared = alloc->buffer->scope == Scope::Shared;
    (is_shared ? out.staged : out.others).push_back(alloc);
    if (is_shared) staged.push_back(alloc->buffer);
    inner = alloc->body;
  }
  const Seq* seq = as<Seq>(inner);
  if (staged.empty() || !seq)
    return cannot(loop, "expected copies into shared buffers of its own, and what reads them");
  Buffers computed;
  for (const Stmt* s : seq->stmts) {
    bool is_copy = meet(stored(s), staged);
    if (is_copy && (!is_step(s) || !out.rest.empty())) return cannot(loop, "expected all copies first");
    (is_copy ? out.copies : out.rest).push_back(s);
    if (is_copy) continue;
    Buffers here = stored(s);
    computed.insert(computed.end(), here.begin(), here.end());
  }
  for (const Stmt* copy : out.copies) {
    Buffers from = loaded(copy), to = stored(copy);
    bool is_plain = std::all_of(to.begin(), to.end(), [&](const Buffer* buffer) { return contains(staged, buffer); });
    if (!is_plain || meet(from, computed) || meet(from, staged))
      return cannot(loop, "a copy depends on its iterations");
  }
  return out;
}

// What `software_pipeline_stage` says: stage 0 of each copy, and one more for what reads them.
Status is_pipeline(const For* loop) {
  const Annotation* mark = find_annotation(loop->annotations, kPipelineMark);
  if (!mark) return ok();
  Array<Literal> stages = mark->value.items;
  bool fits = stages.size() > 1;
  for (std::size_t i = 0; i < stages.size(); ++i)
    fits &=
        stages[i].is(Literal::Tag::Int) && (i + 1 == stages.size() ? stages[i].integer >= 0 : stages[i].integer == 0);
  return fits ? ok()
              : cannot(loop,
                       "expected `software_pipeline_stage` to be 0 for each copy, then the stage of what reads them");
}
Status is_pipeline_of(const For* loop, const Body& body) {
  const Annotation* mark = find_annotation(loop->annotations, kPipelineMark);
  if (!mark || mark->value.items.size() == body.copies.size() + 1) return ok();
  return cannot(loop, "`software_pipeline_stage` is of another number of copies");
}

// Accesses to the staged buffers, in one of the versions.
class Versions {
 public:
  Versions(Arena& arena, i64 count) : arena_(arena), build_{arena}, count_(count) {}

  const Buffer* add(const Buffer* buffer) {
    const Buffer* copy = with_outer_dimension(arena_, buffer, count_);
    versions_.emplace_back(buffer, copy);
    return copy;
  }

  const Stmt* in(const Stmt* s, const Expr* version) {
    const Stmt* loads = rewrite_exprs(arena_, s, [&](const Expr* e) -> const Expr* {
      const Load* load = as<Load>(e);
      const Buffer* to = load ? find(load->buffer) : nullptr;
      return to ? build_.load(to, indices(version, load->indices)) : e;
    });
    return rewrite_stmts(arena_, loads, [&](const Stmt* inner) -> const Stmt* {
      const Store* store = as<Store>(inner);
      if (!store) return inner;
      std::vector<StoreTarget> targets(store->targets.begin(), store->targets.end());
      for (StoreTarget& target : targets) {
        if (const Buffer* to = find(target.buffer)) target = {to, indices(version, target.indices)};
      }
      return build_.store(arena_.copy(targets), store->values);
    });
  }

 private:
  const Buffer* find(const Buffer* buffer) const {
    for (const auto& [from, to] : versions_) {
      if (from == buffer) return to;
    }
    return nullptr;
  }
  Array<const Expr*> indices(const Expr* version, Array<const Expr*> old) {
    std::vector<const Expr*> out{version};
    out.insert(out.end(), old.begin(), old.end());
    return arena_.copy(out);
  }

  Arena& arena_;
  Build build_;
  i64 count_;
  std::vector<std::pair<const Buffer*, const Buffer*>> versions_;
};

class Staging {
 public:
  explicit Staging(Arena& arena) : arena_(arena), build_{arena} {}

  Result<const Stmt*> stage(const For* loop, i64 stages) {
    For* plain = arena_.make<For>(*loop);
    TW_TRY_STATUS(is_pipeline(loop));
    plain->annotations =
        without_annotation(arena_, without_annotation(arena_, loop->annotations, kStagesMark), kPipelineMark);
    stages = std::min(stages, loop->extent);
    if (stages < 2) return plain;
    if (loop->loop_kind != LoopKind::Serial) return cannot(loop, "expected a serial loop");
    TW_TRY(Body body, body_of(loop));
    TW_TRY_STATUS(is_pipeline_of(loop, body));
    is_all_async_ = find_annotation(loop->annotations, kPipelineMark);
    async_copies_ =
        std::count_if(body.copies.begin(), body.copies.end(), [&](const Stmt* copy) { return is_async(copy); });
    Versions versions(arena_, stages);
    Buffers buffers;
    for (const Alloc* alloc : body.staged) buffers.push_back(versions.add(alloc->buffer));
    std::vector<const Stmt*> out, inside;
    for (i64 first = 0; first + 1 < stages; ++first) {
      for (const Stmt* copy : body.copies) {
        const Expr* at = build_.integer(first);
        out.push_back(copied(copy, loop, at, at, body, versions));
      }
    }
    const Expr* ahead = build_.add(loop->var, build_.integer(stages - 1));
    std::vector<const Stmt*> next;
    for (const Stmt* copy : body.copies)
      next.push_back(copied(copy, loop, ahead, build_.floor_mod(ahead, build_.integer(stages)), body, versions));
    for (const Stmt* s : body.rest)
      inside.push_back(versions.in(s, build_.floor_mod(loop->var, build_.integer(stages))));
    inside.insert(multiplies_meanwhile(body) ? inside.end() : inside.begin(),
                  build_.if_then(build_.lt(ahead, loop->extent), build_.seq(next)));
    const Stmt* all = build_.seq(inside);
    for (std::size_t i = body.others.size(); i-- > 0;) all = build_.alloc(body.others[i]->buffer, all);
    plain->annotations = with_annotation(arena_, plain->annotations, mark(kStagedMark, stages));
    plain->body = all;
    out.push_back(plain);
    const Stmt* result = build_.seq(out);
    for (std::size_t i = buffers.size(); i-- > 0;) result = build_.alloc(buffers[i], result);
    return result;
  }

 private:
  static Annotation mark(std::string_view key, i64 value) { return {Str(key), Literal::of(value)}; }

  // A copy as another iteration of the loop makes it.
  const Stmt* copied(const Stmt* copy, const For* loop, const Expr* iteration, const Expr* version, const Body& body,
                     Versions& versions) {
    Substitution at;
    at.set(loop->var, iteration);
    const Stmt* out = versions.in(simplify(arena_, substitute(arena_, copy, at)), version);
    return marked(out, static_cast<i64>(body.copies.size()), is_async(copy));
  }

  // Instructions of four warps go on while the next copies are begun.
  static bool multiplies_meanwhile(const Body& body) {
    bool found = false;
    for (const Stmt* s : body.rest)
      for_each<For>(
          s, [&](const For* loop) { found |= find_annotation(loop->annotations, kWarpgroupMmaMark) != nullptr; });
    return found;
  }

  const Stmt* marked(const Stmt* s, i64 copies, bool is_async) {
    if (const If* branch = as<If>(s)) return build_.if_then(branch->condition, marked(branch->then, copies, is_async));
    const For* loop = as<For>(s);
    if (!loop) return s;
    For* out = arena_.make<For>(*loop);
    out->annotations =
        with_annotation(arena_, without_annotation(arena_, loop->annotations, kAsyncMark), mark(kCopiesMark, copies));
    if (is_async) out->annotations = with_annotation(arena_, out->annotations, mark(kAsyncCopiesMark, async_copies_));
    return out;
  }

  bool is_async(const Stmt* copy) const {
    bool is_marked = is_all_async_;
    for_each<For>(copy,
                  [&](const For* loop) { is_marked |= find_annotation(loop->annotations, kAsyncMark) != nullptr; });
    return is_marked;
  }

  Arena& arena_;
  Build build_;
  // Of the loop at hand.
  bool is_all_async_ = false;
  i64 async_copies_ = 0;
};

}  // namespace

bool makes_staged_copies(const Stmt* s) {
  bool found = false;
  for_each<For>(s, [&](const For* loop) { found |= find_annotation(loop->annotations, kCopiesMark) != nullptr; });
  return found;
}

i64 stages_of(const For* loop) {
  if (const Annotation* mark = find_annotation(loop->annotations, kStagesMark)) return mark->value.integer;
  const Annotation* mark = find_annotation(loop->annotations, kPipelineMark);
  i64 last = mark && !mark->value.items.empty() ? mark->value.items[mark->value.items.size() - 1].integer : 0;
  return last + 1;
}

Result<Program> stage_copies(Arena& arena, Program program) {
  Status status = ok();
  Staging staging(arena);
  program.body = rewrite_stmts(arena, program.body, [&](const Stmt* s) -> const Stmt* {
    const For* loop = as<For>(s);
    bool is_marked =
        loop && (find_annotation(loop->annotations, kStagesMark) || find_annotation(loop->annotations, kPipelineMark));
    if (!is_marked || !status) return s;
    Result<const Stmt*> staged = staging.stage(loop, stages_of(loop));
    if (staged) return *staged;
    status = staged.rejected();
    return s;
  });
  TW_TRY_STATUS(status);
  return program;
}

}  // namespace tw
