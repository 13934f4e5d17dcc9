#include "dsl/analysis/precision.h"

#include <algorithm>
#include <cmath>

#include "dsl/analysis/block_info.h"
#include "dsl/analysis/reducer.h"
#include "dsl/analysis/region.h"
#include "dsl/ir/walk.h"

namespace tw {
namespace {

// How often the block adds to an element that it writes.
double additions(const Block* block) {
  double count = 1;
  for (const IterVar& iter : block->iters) count *= iter.kind == IterKind::R ? static_cast<double>(iter.extent) : 1.0;
  List<Access> writes;
  for (const Access& access : accesses_of(block)) {
    if (access.kind == AccessKind::Write) writes.push_back(access);
  }
  for (const For* loop : loops_inside(block)) {
    auto moves = [&](const Access& access) {
      return std::any_of(access.indices.begin(), access.indices.end(),
                         [&](const Expr* index) { return uses(index, loop->var); });
    };
    if (std::none_of(writes.begin(), writes.end(), moves)) count *= static_cast<double>(loop->extent);
  }
  return count;
}

// Does the block put elements of the buffer together, or copy them, as they are?
bool hands_on(const Block* block, const Buffer* buffer) {
  auto is_element = [&](const Expr* value) {
    const Load* load = as<Load>(value);
    return load && load->buffer == buffer;
  };
  if (std::optional<Reducer> reducer = reducer_of(block))
    return std::any_of(reducer->terms.begin(), reducer->terms.end(), is_element);
  const Store* store = as<Store>(block->body);
  return store && std::any_of(store->values.begin(), store->values.end(), is_element);
}

// The most additions on the way from a result of the block to one that is used as it is.
double additions_behind(const Program& program, const Block* block, List<const Block*> passed) {
  double most = 1;
  passed.push_back(block);
  for (const Block* next : blocks_in(program.body)) {
    if (std::find(passed.begin(), passed.end(), next) != passed.end()) continue;
    List<const Buffer*> results = buffers_written(block);
    bool goes_on =
        std::any_of(results.begin(), results.end(), [&](const Buffer* buffer) { return hands_on(next, buffer); });
    if (goes_on) most = std::max(most, additions(next) * additions_behind(program, next, passed));
  }
  return most;
}

}  // namespace

i64 precision_of(const Program& program, const Block* block) {
  double error = std::min(program.tolerance.absolute, program.tolerance.relative);
  if (error <= 0) return kFullPrecision;
  double products = additions(block) * additions_behind(program, block, {});
  return std::clamp(static_cast<i64>(std::floor(std::log2(products) / 2 - std::log2(error))), i64{0}, kFullPrecision);
}

}  // namespace tw
