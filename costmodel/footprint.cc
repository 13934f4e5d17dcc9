#include "costmodel/footprint.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "dsl/base/check.h"

namespace tw {

const std::vector<Use>& Footprints::of(const FlatProgram& program, const FlatStore& store) {
  uses_.clear();
  for (u32 a = store.first_access; a < store.first_access + store.accesses; ++a) {
    const FlatAccess& access = program.accesses[a];
    TW_CHECK(access.rank <= kMaxRank, "buffer of too high rank");
    if (uses_.empty() || uses_.back().buffer != access.buffer) {
      Use& first = uses_.emplace_back();
      first.buffer = access.buffer, first.rank = access.rank, first.first_access = a;
    }
    Use& use = uses_.back();
    ++use.accesses;
    (access.is_write ? use.is_write : use.is_read) = true;
    use.is_irregular |= access.is_irregular;
  }
  std::size_t levels = store.depth + 1, per_use = 3 * levels + kMaxRank;
  numbers_.resize(uses_.size() * per_use);
  moved_.assign(uses_.size() * levels, 0);
  for (std::size_t i = 0; i < uses_.size(); ++i) {
    Use& use = uses_[i];
    double *elements = numbers_.data() + i * per_use, *run = elements + levels, *stride = run + levels,
           *extents = stride + levels;
    u8* moved = moved_.data() + i * levels;
    find_steps(program, store.depth, use);
    measure_boxes(program, store.depth, use, elements, run, extents);
    measure_strides(program, store.depth, use, moved, stride);
    use.elements = elements, use.run = run, use.stride = stride, use.extents = extents, use.moved = moved;
  }
  return uses_;
}

// In each list the last access comes first, and of an access its last dimension.
void Footprints::find_steps(const FlatProgram& program, u32 depth, const Use& use) {
  steps_.clear();
  steps_of_loop_.assign(depth, -1);
  for (u32 a = 0; a < use.accesses; ++a) {
    const FlatDim* dims = program.dims_of(program.accesses[use.first_access + a]);
    for (u32 i = 0; i < use.rank; ++i) {
      for (const LinearIndex::Term& term : program.terms_of(dims[i])) {
        int& first = steps_of_loop_[static_cast<std::size_t>(term.loop)];
        steps_.push_back({a, i, term.coefficient, term.span, first});
        first = static_cast<int>(steps_.size()) - 1;
      }
    }
  }
}

// Inner loops run first, and boxes grow with each.
void Footprints::measure_boxes(const FlatProgram& program, u32 depth, const Use& use, double* elements, double* run,
                               double* extents) {
  const FlatDim* dims = program.dims_of(program.accesses[use.first_access]);
  boxes_.resize(use.accesses);
  for (u32 a = 0; a < use.accesses; ++a) {
    const FlatDim* own = program.dims_of(program.accesses[use.first_access + a]);
    for (u32 i = 0; i < use.rank; ++i) boxes_[a].low[i] = boxes_[a].high[i] = own[i].constant;
  }
  for (u32 i = 0; i < use.rank; ++i) extents[i] = extent(dims[i], i);
  for (u32 level = depth + 1; level-- > 0;) {
    bool grows = level == depth;
    for (int at = grows ? -1 : steps_of_loop_[level]; at >= 0; at = steps_[static_cast<std::size_t>(at)].next) {
      const Step& step = steps_[static_cast<std::size_t>(at)];
      if (step.span == 0) continue;
      Box& box = boxes_[step.access];
      step.coefficient < 0 ? box.low[step.dimension] -= step.span : box.high[step.dimension] += step.span;
      double& now = extents[step.dimension];
      double before = std::exchange(now, extent(dims[step.dimension], step.dimension));
      grows |= now != before;
    }
    if (!grows) {
      elements[level] = elements[level + 1], run[level] = run[level + 1];
      continue;
    }
    double all = 1, side_by_side = 1;
    bool is_dense = true;
    for (u32 i = use.rank; i-- > 0;) {
      all *= extents[i];
      if (is_dense) side_by_side = all;
      is_dense &= extents[i] == dims[i].extent;
    }
    elements[level] = all, run[level] = side_by_side;
  }
}

// The extent of a dimension of the box around all accesses of the use.
double Footprints::extent(const FlatDim& dim, u32 dimension) const {
  double low = boxes_[0].low[dimension], high = boxes_[0].high[dimension];
  for (std::size_t a = 1; a < boxes_.size(); ++a) {
    low = std::min(low, boxes_[a].low[dimension]);
    high = std::max(high, boxes_[a].high[dimension]);
  }
  auto whole = static_cast<double>(static_cast<i64>(high - low + 1.5));
  return std::clamp(whole, 1.0, std::max(1.0, dim.extent));
}

// The stride of a loop in an access is that of the last dimension which it moves; the smallest of all accesses counts.
void Footprints::measure_strides(const FlatProgram& program, u32 depth, const Use& use, u8* moved,
                                 double* stride) const {
  const FlatDim* dims = program.dims_of(program.accesses[use.first_access]);
  double inside[kMaxRank], elements = 1;
  for (u32 i = use.rank; i-- > 0; elements *= dims[i].extent) inside[i] = elements;
  for (u32 p = 0; p < depth; ++p) {
    stride[p] = 0;
    u32 seen = use.accesses;  // the access whose last dimension is known
    for (int at = steps_of_loop_[p]; at >= 0; at = steps_[static_cast<std::size_t>(at)].next) {
      const Step& step = steps_[static_cast<std::size_t>(at)];
      if (step.coefficient == 0 || step.access == seen) continue;
      seen = step.access;
      moved[p] = 1;
      double length = std::fabs(static_cast<double>(step.coefficient)) * inside[step.dimension];
      stride[p] = stride[p] == 0 ? length : std::min(stride[p], length);
    }
  }
}

}  // namespace tw
