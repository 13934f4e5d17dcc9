// n factors of a loop's extent, outer to inner, whose product is exactly the extent, those from `partition_pos` on
// together a multiple of `innerpart_factor`: the inner part is made of whole fragments of a tensor instruction
// (MetaSchedule's semantics). If the extent is no multiple, the outermost factor is all of it, as in the reference,
// which writes -1.
#include <algorithm>

#include "dsl/schedule/primitive.h"
#include "sampler/draw/tiles.h"

using namespace tw;

PRIMITIVE(sample_partitioned_tile, Ints(LoopId loop, i64 n, i64 partition_pos, i64 innerpart_factor))

static bool is_legal(i64 extent, i64 position, i64 factor, int n, const i64* tile) {
  i64 outer = 1, inner = 1;
  for (int i = 0; i < n; ++i) {
    // Factors of the extent: no product of them overflows.
    if (tile[i] < 1 || extent % tile[i] != 0 || (extent / tile[i]) % (outer * inner) != 0) return false;
    (i < position ? outer : inner) *= tile[i];
  }
  if (outer * inner != extent) return false;
  return extent % factor == 0 ? inner % factor == 0 : tile[0] == extent;
}

// What an illegal decision becomes: one fragment inside, the rest outermost.
static void smallest_inner_part(i64 extent, i64 position, i64 factor, int n, i64* tile) {
  std::fill(tile, tile + n, 1);
  bool divides = extent % factor == 0;
  tile[0] = divides ? extent / factor : extent;
  if (divides) tile[position] *= factor;
}

static Result<Ints> apply(const State& state, LoopId id, i64 n, i64 partition_pos, i64 innerpart_factor, Draw draw) {
  TW_TRY(const For* loop, state.loop(id));
  if (n < 1 || n > Decision::kMax) return reject("expected 1 to {0} parts, found {1}", Decision::kMax, n);
  if (partition_pos < 0 || partition_pos >= n)
    return reject("expected the inner part to begin at one of {1} factors, found {0}", partition_pos, n);
  if (innerpart_factor < 1)
    return reject("the factor of the inner part is {0}, expected a positive one", innerpart_factor);
  Decision& decision = *draw.decision;
  int parts = static_cast<int>(n);
  i64 extent = loop->extent;
  if (decision.open()) {
    if (!draw.rng) return reject("has no decision");
    decision.count = static_cast<u8>(n);
    if (extent % innerpart_factor == 0) {
      draw_partitioned_tile(extent, parts, static_cast<int>(partition_pos), innerpart_factor, *draw.rng,
                            decision.values);
    } else {
      smallest_inner_part(extent, partition_pos, innerpart_factor, parts, decision.values);
    }
  }
  if (decision.count != n) return reject("decision has {0} factors, expected {1}", decision.count, n);
  if (!is_legal(extent, partition_pos, innerpart_factor, parts, decision.values)) {
    if (!draw.adapt) {
      return reject(
                 "the factors of the decision are none of loop `{a}` of extent {0} with an inner part of multiples of "
                 "{1}",
                 loop->var->name, extent, innerpart_factor)
          .about_loop(id.value);
    }
    smallest_inner_part(extent, partition_pos, innerpart_factor, parts, decision.values);
  }
  return Ints(state.arena().copy(decision.values, static_cast<std::size_t>(n)));
}

REGISTER(sample_partitioned_tile,
         "Draws n factors of a loop's extent, of which the inner ones are together a multiple of a factor.",
         .draws = Meaning::Draws::PartedDivisors)
