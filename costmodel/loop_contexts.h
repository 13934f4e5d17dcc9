// Loop contexts: for each loop of a program what surrounds it, what is inside and how it touches buffers; the context
// features of AutoTVM (NeurIPS 2018, section 3.1 and its appendix). The common base of loop_rows.cc and
// relation_row.cc.
#pragma once
#include <vector>

#include "costmodel/flat_program.h"
#include "costmodel/footprint.h"

namespace tw {

// A buffer as one loop touches it, all stores below together. Numbers are those of one run of the whole loop.
struct BufferTouch {
  u32 buffer = 0;
  bool is_read = false, is_write = false;
  double accesses = 0;  // 0: the loop does not touch it
  double elements = 0;  // different ones, of the store that touches the most
  double stride = 0;    // elements that one step goes on, the least of those that move; 0: it stays
  double reuse() const { return accesses / (elements > 1 ? elements : 1); }
};

struct LoopContext {
  double top_down = 1;   // product of the extents of the loops around
  double bottom_up = 0;  // executions of stores while the loop runs once through
  bool reduces = false;  // it moves a reduction iter of a store below
};

// Reuses its memory between calls: one per thread.
class LoopContexts {
 public:
  explicit LoopContexts(const FeatureTarget& target) : target_(target) {}
  // Stores of literals and those of `prepack` blocks do not count, as in features.h. The result is valid until the
  // next call.
  const FlatProgram& read(const Program& program);

  // By number of the loop.
  const LoopContext& of(u32 loop) const { return contexts_[loop]; }
  // One entry for each buffer of the program.
  std::span<const BufferTouch> touches_of(u32 loop) const {
    return {touches_.data() + static_cast<std::size_t>(loop) * buffers_, buffers_};
  }
  // The stores that count, in program order.
  const std::vector<const FlatStore*>& stores() const { return stores_; }
  // What one execution of a store touches, one entry for each of its buffers. Valid until the next call.
  std::span<const BufferTouch> touches_of(const FlatStore& store);
  const FeatureTarget& target() const { return target_; }

 private:
  void add(const FlatProgram& flat, const FlatStore& store);

  FeatureTarget target_;
  FlatReader reader_;
  Footprints footprints_;
  const FlatProgram* flat_ = nullptr;
  std::size_t buffers_ = 0;
  std::vector<LoopContext> contexts_;
  std::vector<BufferTouch> touches_;  // loop x buffer
  std::vector<BufferTouch> of_store_;
  std::vector<const FlatStore*> stores_;
};

}  // namespace tw
