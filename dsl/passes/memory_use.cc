#include "dsl/passes/memory_use.h"

#include <algorithm>
#include <limits>

#include "dsl/analysis/affine.h"
#include "dsl/ir/walk.h"
#include "dsl/passes/lower_blocks.h"
#include "dsl/passes/parallel_loops.h"
#include "dsl/passes/place_buffers.h"
#include "dsl/passes/skip_identity_terms.h"
#include "dsl/passes/split_entry_points.h"
#include "dsl/passes/stage_copies.h"

namespace tw {
namespace {

using Loops = std::vector<const For*>;

Result<PlacedProgram> placed(Arena& arena, const Program& program, LoweringOptions options) {
  options.vtcm_bytes = std::numeric_limits<i64>::max();
  TW_TRY(EntryPoints entries, split_entry_points(arena, program));
  Program flat = lower_blocks(arena, skip_identity_terms(arena, unbind_threads(arena, entries.run)));
  return place_buffers(arena, serialize_inner_parallel(arena, flat, /*allowed=*/true), options);
}

bool has_local_in(const Program& program, std::initializer_list<Scope> scopes) {
  return std::any_of(program.locals.begin(), program.locals.end(), [&](const Buffer* local) {
    return std::find(scopes.begin(), scopes.end(), local->scope) != scopes.end();
  });
}

// Do the loops step through consecutive elements, in whatever order they stand?
bool is_contiguous(const Buffer* buffer, Array<const Expr*> indices, const Loops& loops) {
  std::vector<i64> strides = strides_of(buffer);
  std::vector<std::pair<i64, i64>> steps;  // of a loop, and its extent
  for (const For* loop : loops) steps.emplace_back(0, loop->extent);
  for (std::size_t d = 0; d < indices.size(); ++d) {
    std::optional<LinearForm> form = linear_form(indices[d]);
    if (!form) return false;
    for (std::size_t l = 0; l < loops.size(); ++l) steps[l].first += form->coefficient(loops[l]->var) * strides[d];
  }
  std::sort(steps.begin(), steps.end());
  i64 covered = 1;
  for (auto [step, extent] : steps) {
    if (step != covered) return false;
    covered *= extent;
  }
  return true;
}

// A nest of which every store carries one element into a local buffer.
bool is_copy(const Program& program, const Stmt* nest) {
  bool is_plain = true;
  for_each<Store>(nest, [&](const Store* store) {
    for (std::size_t i = 0; i < store->targets.size(); ++i)
      is_plain &= as<Load>(store->values[i]) && !is_param(program, store->targets[i].buffer);
  });
  return is_plain;
}

bool is_contiguous_copy(const Stmt* s, Loops& loops) {
  if (const For* loop = as<For>(s)) {
    if (loop->extent > 1) loops.push_back(loop);
    return is_contiguous_copy(loop->body, loops);
  }
  if (const Alloc* alloc = as<Alloc>(s)) return is_contiguous_copy(alloc->body, loops);
  const Store* store = as<Store>(s);
  if (!store || store->targets.size() != 1) return false;
  const Load* load = as<Load>(store->values[0]);
  return is_contiguous(store->targets[0].buffer, store->targets[0].indices, loops) &&
         is_contiguous(load->buffer, load->indices, loops);
}

// Copies come first, then what reads them.
bool has_strided_copy(const Program& program, const For* staged) {
  const Stmt* body = staged->body;
  while (const Alloc* alloc = as<Alloc>(body)) body = alloc->body;
  const Seq* seq = as<Seq>(body);
  for (std::size_t i = 0; seq && i < seq->stmts.size() && is_copy(program, seq->stmts[i]); ++i) {
    Loops loops;
    if (!is_contiguous_copy(seq->stmts[i], loops)) return true;
  }
  return false;
}

bool is_staged(const For* loop) { return stages_of(loop) > 1; }

}  // namespace

Result<i64> vtcm_bytes_of(Arena& arena, const Program& program, int threads) {
  if (!has_local_in(program, {Scope::Vtcm})) return i64{0};
  TW_TRY(PlacedProgram lowered, placed(arena, program, {.threads = threads}));
  return lowered.vtcm_bytes;
}

Result<bool> copies_ahead_are_contiguous(Arena& arena, const Program& program) {
  bool any = false;
  for_each<For>(program.body, [&](const For* loop) { any |= is_staged(loop); });
  if (!any) return true;
  bool is_device = has_local_in(program, {Scope::Shared, Scope::Local});
  TW_TRY(PlacedProgram lowered, placed(arena, program, {.is_device = is_device}));
  bool found = false;
  for_each<For>(lowered.program.body,
                [&](const For* loop) { found |= is_staged(loop) && has_strided_copy(lowered.program, loop); });
  return !found;
}

}  // namespace tw
