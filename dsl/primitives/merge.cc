// Joins neighbouring loop nests into one.
//   for i in 4 { B[i] };  for i in 4 { C[i] = B[i] }     merge([i, i_1])
//   ->   for i in 4 { B[i];  C[i] = B[i] }
// The loops listed are at the same depth of nests that directly follow each other, in this order;
// with them the loops around them are merged, level by level. Applies if the loops are plain, each
// the only statement of the one around it, with equal extents, and if what one nest writes and
// another one uses belongs to the same iteration of both (source: Merge of TensorIR, which leaves
// that check to the user). The result is the innermost merged loop; the old loops' handles end.
#include <algorithm>

#include "dsl/analysis/block_info.h"
#include "dsl/schedule/move.h"
#include "dsl/schedule/primitive.h"

using namespace tw;

PRIMITIVE(merge, LoopId(Loops siblings))

namespace {

struct Nest {
  Path path;                   // to the listed loop
  List<const For*> loops;      // from below the common statement to the listed loop
  const Stmt* body = nullptr;  // with the merged loops' variables
};

// How many statements all paths begin with.
int common_length(const List<Nest>& nests) {
  int length = 0;
  auto agrees = [&](const Nest& nest) {
    return length < nest.path.size() && nest.path[length] == nests[0].path[length];
  };
  while (length < nests[0].path.size() && std::all_of(nests.begin(), nests.end(), agrees)) ++length;
  return length;
}

Reject about(Reject why, const For* a, const For* b) {
  return std::move(why).about_loop(a->id.value).about_loop(b->id.value);
}

Status take_loops(Nest& nest, int from) {
  const For* listed = static_cast<const For*>(nest.path.back());
  for (int i = from; i < nest.path.size(); ++i) {
    const For* loop = as<For>(nest.path[i]);
    if (!loop)
      return reject("expected loop `{a}` to be the only statement of the loop around it", listed->var->name)
          .about_loop(listed->id.value);
    TW_TRY_STATUS(is_plain(loop));
    nest.loops.push_back(loop);
  }
  return ok();
}

Status are_alike(const Nest& a, const Nest& b) {
  const For *first = a.loops.back(), *second = b.loops.back();
  if (a.loops.size() != b.loops.size())
    return about(reject("loops `{a}` and `{b}` are at different depths, {0} and {1}", first->var->name,
                        second->var->name, static_cast<i64>(a.loops.size()), static_cast<i64>(b.loops.size())),
                 first, second);
  for (std::size_t i = 0; i < a.loops.size(); ++i) {
    const For *x = a.loops[i], *y = b.loops[i];
    if (x->extent != y->extent)
      return about(reject("loop `{a}` has extent {0}, but loop `{b}` has extent {1}", x->var->name, y->var->name,
                          x->extent, y->extent),
                   x, y);
  }
  return ok();
}

Status follow_each_other(const Seq* seq, const List<Nest>& nests) {
  auto at = std::find(seq->stmts.begin(), seq->stmts.end(), nests[0].loops[0]);
  for (std::size_t i = 0; i + 1 < nests.size(); ++i) {
    if (++at != seq->stmts.end() && *at == nests[i + 1].loops[0]) continue;
    const For *a = nests[i].loops[0], *b = nests[i + 1].loops[0];
    return about(
        reject("expected the nest of loop `{b}` to follow directly on that of loop `{a}`", a->var->name, b->var->name),
        a, b);
  }
  return ok();
}

// What `user` touches of the buffer in an iteration of the merged loops was all written by `writer`
// in this iteration, and by no other one.
Status keeps_to_iterations(State& state, const Nest& writes, const Block* writer, const Nest& uses, const Block* user,
                           const Buffer* buffer, const VarRanges& ranges) {
  TW_TRY(Path path, state.path_to(writer->id));
  int first = path.index_of(writes.loops[0]), last = path.index_of(writes.loops.back());
  TW_TRY_STATUS(is_finished_in(path, first, writer));
  TW_TRY_STATUS(loops_do_not_repeat(state.arena(), path, first, last, false));
  std::optional<Region> written = region_of(state.arena(), writes.body, buffer, AccessKind::Write, ranges, writer);
  for (AccessKind kind : {AccessKind::Read, AccessKind::Write}) {
    std::optional<Region> used = region_of(state.arena(), uses.body, buffer, kind, ranges, user);
    if (!used || (written->exact && contains(*written, *used, ranges))) continue;
    return reject("block `{a}` uses elements of `{b}` that another iteration may write", user->name, buffer->name)
        .about_block(user->id.value)
        .about_block(writer->id.value);
  }
  return ok();
}

Status may_be_merged(State& state, const Nest& first, const Nest& second, const VarRanges& ranges) {
  for (const Block* a : blocks_in(first.body)) {
    for (const Block* b : blocks_in(second.body)) {
      for (const Buffer* buffer : buffers_written(a)) {
        bool shared = reads_buffer(b, buffer) || writes_buffer(b, buffer);
        if (shared) TW_TRY_STATUS(keeps_to_iterations(state, first, a, second, b, buffer, ranges));
      }
      for (const Buffer* buffer : buffers_written(b)) {
        if (reads_buffer(a, buffer)) TW_TRY_STATUS(keeps_to_iterations(state, second, b, first, a, buffer, ranges));
      }
    }
  }
  return ok();
}

// The nests, found and checked for their form.
Result<List<Nest>> nests_of(const State& state, Loops ids, int& common) {
  List<Nest> nests;
  for (LoopId id : ids) {
    TW_TRY(Path path, state.path_to(id));
    nests.push_back({path, {}, nullptr});
  }
  common = common_length(nests);
  const For* first = static_cast<const For*>(nests[0].path.back());
  for (Nest& nest : nests) {
    const For* loop = static_cast<const For*>(nest.path.back());
    if (common == nest.path.size() || !as<Seq>(nests[0].path[common - 1]))
      return about(reject("loops `{a}` and `{b}` are not in nests beside each other", first->var->name,
                          loop == first ? static_cast<const For*>(nests[1].path.back())->var->name : loop->var->name),
                   first, loop);
    TW_TRY_STATUS(take_loops(nest, common));
    TW_TRY_STATUS(are_alike(nests[0], nest));
  }
  TW_TRY_STATUS(follow_each_other(static_cast<const Seq*>(nests[0].path[common - 1]), nests));
  return nests;
}

Str merged_name(const State& state, Str a, Str b) { return a == b ? a : state.name(state.name(a, "_"), b); }

}  // namespace

static Result<LoopId> apply(State& state, Loops ids) {
  if (ids.size() < 2) return reject("expected at least two loops, found {0}", static_cast<i64>(ids.size()));
  int common = 0;
  TW_TRY(List<Nest> nests, nests_of(state, ids, common));
  Build build = state.build();
  VarRanges ranges;
  for (int i = 0; i < common; ++i) {
    if (const For* loop = as<For>(nests[0].path[i])) ranges.set_extent(loop->var, loop->extent);
  }
  List<const Var*> vars;
  for (std::size_t i = 0; i < nests[0].loops.size(); ++i) {
    vars.push_back(state.fresh_var(merged_name(state, nests[0].loops[i]->var->name, nests.back().loops[i]->var->name)));
    ranges.set_extent(vars.back(), nests[0].loops[i]->extent);
  }
  List<const Stmt*> bodies;
  for (Nest& nest : nests) {
    Substitution merged;
    for (std::size_t i = 0; i < vars.size(); ++i) merged.set(nest.loops[i]->var, vars[i]);
    nest.body = rebind(state.arena(), nest.loops.back()->body, merged, ranges);
    bodies.push_back(nest.body);
  }
  for (std::size_t i = 0; i < nests.size(); ++i) {
    for (std::size_t j = i + 1; j < nests.size(); ++j) TW_TRY_STATUS(may_be_merged(state, nests[i], nests[j], ranges));
  }

  const Stmt* nest = build.seq(bodies);
  LoopId innermost = {};
  for (std::size_t i = vars.size(); i-- > 0;) {
    LoopId id = state.fresh_loop();
    if (i + 1 == vars.size()) innermost = id;
    nest = build.loop(id, vars[i], nests[0].loops[i]->extent, nest);
  }
  Program before = state.program();
  BlockId first_block = blocks_in(nest).front()->id;
  for (std::size_t i = 1; i < nests.size(); ++i) state.replace(nests[i].loops[0], nullptr);
  state.replace(nests[0].loops[0], nest);
  TW_TRY_STATUS(concurrent_loops_stay_legal(state, first_block, before));
  return innermost;
}

REGISTER(merge, "Joins neighbouring loop nests into one, level by level.")
