#include "costmodel/loop_contexts.h"

#include <algorithm>

namespace tw {
namespace {

// The part of a store's use of a buffer that belongs to the loops from chain position p on.
void join(BufferTouch& touch, const Use& use, double executions, u32 p, double stride) {
  touch.buffer = use.buffer;
  touch.is_read |= use.is_read;
  touch.is_write |= use.is_write;
  touch.accesses += executions * use.accesses;
  touch.elements = std::max(touch.elements, use.elements[p]);
  if (stride > 0) touch.stride = touch.stride > 0 ? std::min(touch.stride, stride) : stride;
}

}  // namespace

const FlatProgram& LoopContexts::read(const Program& program) {
  const FlatProgram& flat = reader_.read(program);
  flat_ = &flat;
  buffers_ = flat.buffers.size();
  contexts_.assign(flat.loops.size(), {});
  touches_.assign(flat.loops.size() * buffers_, {});
  stores_.clear();
  for (std::size_t loop = 0; loop < flat.loops.size(); ++loop) {
    int parent = flat.loops[loop].parent;
    if (parent >= 0)
      contexts_[loop].top_down = contexts_[parent].top_down * static_cast<double>(flat.loops[parent].extent);
  }
  for (const FlatStore& store : flat.stores) {
    if (store.is_constant) continue;
    stores_.push_back(&store);
    add(flat, store);
  }
  return flat;
}

void LoopContexts::add(const FlatProgram& flat, const FlatStore& store) {
  const std::vector<Use>& uses = footprints_.of(flat, store);
  double executions = 1;
  for (u32 p = store.depth; p-- > 0;) {
    u32 loop = flat.chain[store.first_loop + p];
    executions *= static_cast<double>(flat.loops[loop].extent);
    contexts_[loop].bottom_up += executions;
    contexts_[loop].reduces = contexts_[loop].reduces || store.reduces[p];
    for (const Use& use : uses) join(touches_[loop * buffers_ + use.buffer], use, executions, p, use.stride[p]);
  }
}

std::span<const BufferTouch> LoopContexts::touches_of(const FlatStore& store) {
  of_store_.clear();
  for (const Use& use : footprints_.of(*flat_, store)) {
    BufferTouch& touch = of_store_.emplace_back();
    join(touch, use, 1, store.depth, store.depth > 0 ? use.stride[store.depth - 1] : 0);
  }
  return of_store_;
}

}  // namespace tw
