#include "dsl/passes/combining.h"

#include <algorithm>

#include "dsl/analysis/reducer.h"
#include "dsl/ir/walk.h"
#include "dsl/passes/share_storage.h"
#include "dsl/passes/thread_axes.h"

namespace tw {
namespace {

bool is_power_of_two(i64 n) { return n > 0 && (n & (n - 1)) == 0; }

}  // namespace

Combining combining_along(const For* loop, const LaunchExtents& extents, bool has_shuffles) {
  const Store* update = static_cast<const Store*>(loop->body);
  i64 items = extents.threads_of_group(), lanes = std::min(kWarp, items);
  bool has_halves = std::any_of(update->targets.begin(), update->targets.end(), [](const StoreTarget& target) {
    return is_float(target.buffer->dtype) && bytes_of(target.buffer->dtype) == 2;
  });
  bool has_warps = has_shuffles && !has_halves && axis_of(loop)->dimension == 0 && is_power_of_two(loop->extent) &&
                   items % lanes == 0 && is_power_of_two(lanes);
  if (!has_warps) return {false, items};
  return {true, loop->extent > kWarp ? items / kWarp : 0};
}

i64 combining_bytes(const Stmt* kernel, const LaunchExtents& extents, bool has_shuffles) {
  i64 total = 0;
  for_each<For>(kernel, [&](const For* loop) {
    const Store* update = as<Store>(loop->body);
    if (!update || !combines_work_items(loop)) return;
    i64 elements = combining_along(loop, extents, has_shuffles).elements;
    for (const StoreTarget& target : update->targets)
      total += aligned_shared(elements * bytes_of(target.buffer->dtype));
  });
  return total;
}

}  // namespace tw
