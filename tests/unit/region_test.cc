// Regions, iter maps and index maps, each claim compared with an enumeration of all iterations or all elements.
#include "dsl/analysis/region.h"

#include <gtest/gtest.h>

#include <set>

#include "dsl/analysis/block_info.h"
#include "dsl/analysis/index_map.h"
#include "dsl/analysis/iter_map.h"
#include "dsl/base/text.h"
#include "dsl/ir/print.h"
#include "dsl/ir/walk.h"
#include "support/placed_blocks.h"
#include "support/random_program.h"
#include "support/random_schedule.h"
#include "tests/unit/index_expressions.h"

namespace tw {
namespace {

using Element = std::vector<i64>;

// Visits every iteration of nested loops, given as variables with their extents.
void for_all(const std::vector<const For*>& loops, std::vector<i64>& values, const std::function<void()>& visit,
             std::size_t from = 0) {
  if (from == loops.size()) return visit();
  for (i64 i = 0; i < loops[from]->extent; ++i) {
    values[loops[from]->var->id] = i;
    for_all(loops, values, visit, from + 1);
  }
}

// The elements that one iteration of the first `fixed` loops touches, and those that any iteration does.
struct Touched {
  std::map<Element, std::set<Element>> by_iteration;
  std::set<Element> all;
};

Touched touched(const test::PlacedBlock& placed, const Buffer* buffer, AccessKind kind, std::size_t fixed,
                std::size_t vars) {
  Touched out;
  std::vector<i64> values(vars);
  for_all(placed.loops, values, [&] {
    Element iteration;
    for (std::size_t i = 0; i < fixed; ++i) iteration.push_back(values[placed.loops[i]->var->id]);
    std::set<Element>& here = out.by_iteration[iteration];
    if (placed.block->predicate && !value_of(placed.block->predicate, values)) return;
    for (std::size_t i = 0; i < placed.block->iters.size(); ++i) {
      values[placed.block->iters[i].var->id] = value_of(placed.block->bindings[i], values);
    }
    for (const Access& access : accesses_of(placed.block)) {
      if (access.buffer != buffer || access.kind != kind) continue;
      Element element;
      for (const Expr* index : access.indices) element.push_back(value_of(index, values));
      here.insert(element);
      out.all.insert(element);
    }
  });
  return out;
}

bool is_in(const Element& element, const List<Range>& box, const std::vector<i64>& values) {
  for (std::size_t d = 0; d < box.size(); ++d) {
    i64 low = value_of(box[d].min, values);
    if (element[d] < low || element[d] >= low + box[d].extent) return false;
  }
  return true;
}

bool is_within(const Element& element, const Buffer* buffer) {
  for (std::size_t d = 0; d < element.size(); ++d) {
    if (element[d] < 0 || element[d] >= buffer->shape[d]) return false;
  }
  return true;
}

// Below the loop at `depth`, or below all of the nest for depth 0.
void check_region(Arena& arena, const Program& program, const test::PlacedBlock& placed, std::size_t depth,
                  const Access& access, int& exact) {
  VarRanges around;
  for (std::size_t i = 0; i < depth; ++i) around.set_extent(placed.loops[i]->var, placed.loops[i]->extent);
  const Stmt* subtree = depth == 0 ? program.body : placed.loops[depth - 1]->body;
  std::optional<Region> region = region_of(arena, subtree, access.buffer, access.kind, around, placed.block);
  ASSERT_TRUE(region);
  Touched all = touched(placed, access.buffer, access.kind, depth, program.next_var + 1);
  exact += region->exact;
  for (const auto& [iteration, elements] : all.by_iteration) {
    std::vector<i64> values(program.next_var + 1);
    for (std::size_t i = 0; i < depth; ++i) values[placed.loops[i]->var->id] = iteration[i];
    for (const Element& element : elements) {
      // Guards inside of blocks read less than the box, which is cut to the buffer.
      if (is_within(element, access.buffer)) {
        ASSERT_TRUE(is_in(element, region->dims, values))
            << print(program) << access.buffer->name << " depth " << depth << " from " << print(region->dims[0].min)
            << " extent " << region->dims[0].extent;
      }
    }
    if (!region->exact || elements.empty()) continue;
    for (const Element& element : all.all) {
      if (is_in(element, region->dims, values)) {
        ASSERT_TRUE(elements.count(element)) << print(program) << access.buffer->name << " depth " << depth << " from "
                                             << print(region->dims[0].min) << " extent " << region->dims[0].extent;
      }
    }
  }
}

TEST(Region, CoversWhatIsTouchedAndExactBoxesNothingElse) {
  int checked = 0, exact = 0;
  for (u64 seed = 0; seed < 400; ++seed) {
    Rng rng(seed);
    std::string use;
    OwnedProgram base = test::random_program(rng, use);
    Schedule schedule(base.program, seed);
    test::Acceptance ignored;
    for (const char* name : {"split", "fuse", "split", "compute_at", "reorder", "split", "fuse", "transform_layout"}) {
      if (rng.below(3) > 0) test::apply_random(schedule, *find_kind(name), rng, ignored);
    }
    std::vector<const For*> around;
    std::vector<test::PlacedBlock> blocks;
    test::place_blocks(schedule.program().body, around, blocks);
    Arena arena;
    for (const test::PlacedBlock& placed : blocks) {
      for (const Access& access : accesses_of(placed.block)) {
        std::size_t depth = static_cast<std::size_t>(rng.below(static_cast<i64>(placed.loops.size()) + 1));
        check_region(arena, schedule.program(), placed, depth, access, exact);
        ++checked;
      }
    }
  }
  EXPECT_GT(checked, 1000);
  EXPECT_GT(exact, checked / 3);
}

// Bindings as splits and fusions make them, over a, b, c, f of a SmallWorld.
const Expr* random_binding(SmallWorld& world, Rng& rng) {
  const Build& build = world.build;
  const Expr* sum = build.integer(0);
  for (const Var* var : world.vars) {
    if (rng.below(2)) sum = build.add(sum, build.mul(var, 1 + rng.below(8)));
  }
  switch (rng.below(4)) {
    case 0:
      return build.floor_div(sum, build.integer(1 + rng.below(6)));
    case 1:
      return build.floor_mod(sum, build.integer(1 + rng.below(6)));
    default:
      return sum;
  }
}

TEST(IterMap, WhatIsDeterminedHasOnePreimage) {
  Rng rng(5);
  int determined = 0;
  for (int round = 0; round < 3000; ++round) {
    SmallWorld world({{0, rng.below(4)}, {0, rng.below(4)}, {0, rng.below(5)}});
    List<const Expr*> exprs{random_binding(world, rng), random_binding(world, rng), random_binding(world, rng)};
    const Expr* predicate = rng.below(2) ? world.build.lt(random_binding(world, rng), rng.below(12)) : nullptr;
    List<const Var*> fixed(world.vars.begin(), world.vars.begin() + rng.below(2));
    const Var* wanted = world.vars[static_cast<std::size_t>(1 + rng.below(2))];
    if (!are_determined({wanted}, exprs, predicate, world.ranges, fixed)) continue;
    ++determined;
    std::map<Element, i64> preimage;
    world.for_all([&](const std::vector<i64>& values) {
      if (predicate && !value_of(predicate, values)) return;
      Element key;
      for (const Expr* expr : exprs) key.push_back(value_of(expr, values));
      for (const Var* var : fixed) key.push_back(values[var->id]);
      auto [at, added] = preimage.emplace(key, values[wanted->id]);
      ASSERT_EQ(at->second, values[wanted->id])
          << print(exprs[0]) << ", " << print(exprs[1]) << ", " << print(exprs[2]);
    });
  }
  EXPECT_GT(determined, 300);
}

TEST(IterMap, SplitsAndFusionsAreUnderstood) {
  SmallWorld world({{0, 2}, {0, 3}, {0, 7}});
  const Build& b = world.build;
  const Var *x = world.vars[0], *y = world.vars[1], *f = world.vars[2];
  EXPECT_TRUE(are_determined({x, y}, {b.add(b.mul(x, 4), y)}, nullptr, world.ranges));
  EXPECT_FALSE(are_determined({x}, {b.add(b.mul(x, 3), y)}, nullptr, world.ranges));
  // A tail of a tail: y runs to 3, but only its values below 3 count.
  EXPECT_TRUE(are_determined({x, y}, {b.add(b.mul(x, 3), y)}, b.lt(y, 3), world.ranges));
  EXPECT_TRUE(are_determined({f}, {b.floor_div(f, b.integer(3)), b.floor_mod(f, b.integer(3))}, nullptr, world.ranges));
  EXPECT_FALSE(are_determined({f}, {b.floor_div(f, b.integer(3))}, nullptr, world.ranges));
  const Expr* again = b.add(b.mul(x, 4), y);  // split after fuse
  EXPECT_TRUE(are_determined({x, y}, {b.floor_div(again, b.integer(5)), b.floor_mod(again, b.integer(5))}, nullptr,
                             world.ranges));
  EXPECT_TRUE(are_determined({y}, {b.add(b.mul(x, 3), y)}, nullptr, world.ranges, {x}));
  // (4 x + y) // 8 as the simplifier writes it is a digit of 4 x + y, beside its last one.
  EXPECT_TRUE(
      are_determined({x, y}, {b.floor_mod(again, b.integer(8)), b.floor_div(x, b.integer(2))}, nullptr, world.ranges));
  EXPECT_FALSE(
      are_determined({x, y}, {b.floor_mod(again, b.integer(4)), b.floor_div(x, b.integer(2))}, nullptr, world.ranges));
  // While x stays, the last digit says y.
  EXPECT_TRUE(are_determined({y}, {b.floor_mod(again, b.integer(8))}, nullptr, world.ranges, {x}));
  EXPECT_FALSE(are_determined({y}, {b.floor_mod(again, b.integer(2))}, nullptr, world.ranges, {x}));
}

// Where a map of two parameters sends the elements, each to a place of its own inside of the shape, from which the
// inverse, over variables numbered from 10 on, leads back.
std::set<Element> places_of(SmallWorld& world, const std::vector<const Expr*>& results, const List<i64>& shape,
                            const List<const Expr*>& inverse) {
  std::set<Element> places;
  world.for_all([&](const std::vector<i64>& values) {
    Element place;
    std::vector<i64> at(20);
    for (std::size_t r = 0; r < results.size(); ++r) {
      place.push_back(value_of(results[r], values));
      at[10 + r] = place[r];
      ASSERT_LT(place[r], shape[r]);
    }
    ASSERT_TRUE(places.insert(place).second);
    for (std::size_t p = 0; p < 2; ++p) ASSERT_EQ(value_of(inverse[p], at), values[p]);
  });
  return places;
}

// Every map that permutes parameters, some of them tiled.
TEST(IndexMap, TilesAreInvertedAndKeepElementsApart) {
  Rng rng(9);
  int accepted = 0;
  for (int round = 0; round < 500; ++round) {
    SmallWorld world({{0, rng.below(5)}, {0, rng.below(12)}});
    const Build& b = world.build;
    std::vector<const Expr*> results{world.vars[0]};
    const Expr *outer = b.integer(1 + rng.below(6)), *inner = b.integer(1 + rng.below(4));
    const Expr* high = b.floor_div(world.vars[1], outer);
    results.push_back(high);
    if (rng.below(2)) results.push_back(b.floor_mod(world.vars[1], outer));
    if (rng.below(2)) results.push_back(b.floor_mod(high, inner));
    std::swap(results[0], results[static_cast<std::size_t>(rng.below(static_cast<i64>(results.size())))]);
    List<const Var*> coordinates;
    for (std::size_t i = 0; i < results.size(); ++i) coordinates.push_back(b.var(static_cast<u32>(10 + i), "q"));
    std::vector<i64> extents{world.intervals[0].max + 1, world.intervals[1].max + 1};
    std::optional<TiledMap> map = tiled_map(world.arena, world.vars, results, extents, coordinates);
    if (!map) continue;
    ++accepted;
    std::set<Element> places = places_of(world, results, map->shape, map->inverse);
    i64 size = 1;
    for (i64 extent : map->shape) size *= extent;
    EXPECT_EQ(map->pads(), size > static_cast<i64>(places.size()));
  }
  EXPECT_GT(accepted, 100);
}

TEST(IndexMap, FusedRotatedAndReshapedHaveTheirInverse) {
  Rng rng(10);
  int accepted = 0, rotated = 0;
  for (int round = 0; round < 3000; ++round) {
    i64 n = 1 + rng.below(6), m = 1 + rng.below(8);
    SmallWorld world({{0, n - 1}, {0, m - 1}});
    const Build& b = world.build;
    const Expr *i = world.vars[0], *j = world.vars[1], *flat = b.add(b.mul(i, m), j);
    i64 c = 1 + rng.below(8), d = 1 + rng.below(4);
    auto piece = [&](const Expr* of, i64 by) {
      return rng.below(2) ? b.floor_div(of, b.integer(by)) : b.floor_mod(of, b.integer(by));
    };
    const std::vector<const Expr*> pool = {i,
                                           j,
                                           flat,
                                           piece(flat, c),
                                           b.floor_div(flat, b.integer(c)),
                                           b.floor_mod(flat, b.integer(c)),
                                           piece(j, d),
                                           b.floor_mod(b.add(i, j), b.integer(m)),
                                           b.floor_mod(b.sub(j, b.mul(i, d)), b.integer(m)),
                                           b.add(b.mul(piece(j, d), n), i),
                                           b.floor_mod(b.add(piece(j, d), i), b.integer(d))};
    std::vector<const Expr*> results;
    for (i64 count = 1 + rng.below(3); count > 0; --count)
      results.push_back(pool[static_cast<std::size_t>(rng.below(static_cast<i64>(pool.size())))]);
    List<const Var*> coordinates;
    for (std::size_t r = 0; r < results.size(); ++r) coordinates.push_back(b.var(static_cast<u32>(10 + r), "q"));
    std::vector<i64> extents{n, m};
    std::optional<FusedMap> map = fused_map(world.arena, world.vars, results, extents, coordinates);
    if (!map) continue;
    ++accepted;
    places_of(world, results, map->shape, map->inverse);
    rotated += std::any_of(results.begin(), results.end(),
                           [&](const Expr* e) { return e == pool[7] || e == pool[8] || e == pool[10]; });
    i64 size = 1;
    for (i64 extent : map->shape) size *= extent;
    EXPECT_EQ(size, n * m);
  }
  EXPECT_GT(accepted, 300);
  EXPECT_GT(rotated, 30);
}

// Trying says the same as counting places.
TEST(IndexMap, TriedMapsAreThoseThatFillTheirShape) {
  Rng rng(11);
  int accepted = 0;
  for (int round = 0; round < 1000; ++round) {
    i64 n = 1 + rng.below(5), m = 1 + rng.below(6);
    SmallWorld world({{0, n - 1}, {0, m - 1}});
    const Build& b = world.build;
    const Expr *i = world.vars[0], *j = world.vars[1];
    const Expr* sum = b.add(b.mul(i, 1 + rng.below(4)), b.mul(j, 1 + rng.below(4)));
    const Expr* wide = b.floor_mod(b.mul(sum, 1 + rng.below(7)), b.integer(1 + rng.below(n * m + 1)));
    std::vector<const Expr*> results{wide};
    if (rng.below(2)) results = {rng.below(2) ? i : j, b.floor_mod(sum, b.integer(1 + rng.below(7)))};
    std::vector<i64> extents{n, m};
    Result<List<i64>> shape = tried_shape(world.arena, "B", world.vars, results, extents);
    std::set<Element> places;
    Element largest(results.size(), 0);
    world.for_all([&](const std::vector<i64>& values) {
      Element place;
      for (std::size_t r = 0; r < results.size(); ++r) {
        place.push_back(value_of(results[r], values));
        largest[r] = std::max(largest[r], place[r]);
      }
      places.insert(place);
    });
    i64 size = 1;
    for (i64 index : largest) size *= index + 1;
    bool fills = size == n * m && static_cast<i64>(places.size()) == n * m;
    EXPECT_EQ(static_cast<bool>(shape), fills);
    accepted += fills;
    for (std::size_t r = 0; fills && r < results.size(); ++r) EXPECT_EQ((*shape)[r], largest[r] + 1);
  }
  EXPECT_GT(accepted, 100);
}

}  // namespace
}  // namespace tw
