// Loop nests: what primitives share when they check, rebind and build loops. Knows handles and fresh names (State),
// nothing of any one primitive.
#pragma once
#include "dsl/analysis/region.h"
#include "dsl/schedule/state.h"

namespace tw {

// The loops around the last node of a path (itself not included) as ranges of their variables.
VarRanges ranges_around(const Path& path);

// The most iterations that an instruction gives one loop, as in the text of a program.
inline constexpr i64 kMaxIterations = i64{1} << 40;

// Serial and without annotations: a loop that may still be cut, joined or moved.
Status is_plain(const For* loop);
Status is_serial(const For* loop);

// Workers are not started from the lanes of a vector: of two loops, the outer one is not vectorized if the inner one is
// parallel or bound.
Status may_contain(const For* outer, const For* inner);
// The same for a loop with all loops below it, and with all loops around the last node of a path.
Status may_contain_all_below(const For* outer);
Status may_be_inside(const Path& path);

// Replaces loop variables in the bindings and predicates of all blocks below, and simplifies what changed. `ranges`
// must hold the variables around; the loops below are added on the way.
const Stmt* rebind(Arena& arena, const Stmt* body, const Substitution& map, VarRanges ranges);
// Every block below also needs `index < extent`, unless its predicate says so already. `ranges` as in rebind.
const Stmt* with_limit(Arena& arena, const Stmt* body, const Expr* index, i64 extent, VarRanges ranges);

// A copy of a part of a block in which the loops have handles and variables of their own.
const Stmt* with_fresh_loops(State& state, const Stmt* part);

// The conjuncts of a predicate (none for null), and back.
List<const Expr*> conjuncts_of(const Expr* predicate);
const Expr* conjunction(Build build, const List<const Expr*>& conjuncts);

// What the predicates of all these blocks say about variables of `around` alone: iterations of the loops around in
// which none of them runs. Null = nothing.
const Expr* common_condition(Build build, const List<const Block*>& blocks, const VarRanges& around);

// The block inside fresh loops, in the order of its iters: iter k runs over ranges[k]. Its predicate becomes
// `condition` (null = true) and what is needed to stay in the domains of the iters. Ranges of one value get no loop
// unless keep_units. Loops are named after the iters.
const Stmt* nest_over(State& state, const Block* block, const List<Range>& ranges, bool keep_units, VarRanges around,
                      const Expr* condition);

// The values of `iter` for which `index` lies in `range`; nothing if the index is not iter + c or (iter // c) + d.
std::optional<Range> solve(Arena& arena, const Expr* index, const Var* iter, const Range& range);
// The same for c * iter + what loops inside the block add, whose ranges these are.
std::optional<Range> solve(Arena& arena, const Expr* index, const Var* iter, const Range& range,
                           const VarRanges& inside);
// The ranges of a block's iters that cover `region` of a buffer which the block accesses with `indices`. An iter whose
// position in the region is not understood runs over its domain. With ranges of loops inside the block, points that
// touch the region in a part only count too.
List<Range> iter_ranges(Arena& arena, const Block* block, Array<const Expr*> indices, const Region& region,
                        const VarRanges& inside = {});

// `added` is put before (after) `anchor`, which stands somewhere in the program.
void insert_before(State& state, const Stmt* anchor, const Stmt* added);
void insert_after(State& state, const Stmt* anchor, const Stmt* added);

// Does the loop's variable occur in the binding of an iter of this kind?
bool feeds(const For* loop, const Block* block, IterKind kind);
// Does it occur in bindings of R iters, and of these only?
Status check_feeds_only_reduction(const For* loop, const Block* block);

// A second nest over the spatial points of a block: for a block that initialises, loads or stores what the first one
// computes.
struct MirroredNest {
  const Block* block;  // the S iters, fresh, bound to the fresh loops; predicate without what only concerns R iters;
                       // body to be replaced
  Substitution iters;  // the first block's S iters -> the fresh ones, its R iters -> 0
  Substitution loops;  // the first nest's loop variables -> the fresh ones; loops that feed no S iter -> 0
  List<const For*> fresh;     // outermost first, serial, bodies to be replaced
  List<const For*> mirrored;  // the loops of the first nest that these copy

  const Stmt* around(Build build, const Stmt* body) const;  // body inside the fresh loops
};
// Copies the loops of path[from...] that feed S iters of the block at the end of the path. Loops further out are
// shared.
MirroredNest mirror_loops(State& state, const Block* block, const Path& path, int from);

// The highest statement on the path (a loop or the block itself) below which only the last node of the path is
// computed.
const Stmt* top_of_own_nest(const Path& path);

// The loops of a block that nobody has scheduled: one plain loop per iter, over its whole domain (none for an iter
// bound to 0), no predicate, nothing else below. Outermost first.
struct FirstNest {
  const Stmt* top;
  List<const For*> loops;
};
Result<FirstNest> first_nest(const State& state, const Block* block);

}  // namespace tw
