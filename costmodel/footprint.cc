#include "costmodel/footprint.h"

#include <algorithm>
#include <cmath>

#include "dsl/base/check.h"

namespace tw {
const std::vector<Use>& Footprints::of(const FlatProgram& program, const FlatStore& store) {
  uses_.clear();
  for (u32 a = store.first_access; a < store.first_access + store.accesses; ++a) {
    const FlatAccess& access = program.accesses[a];
    TW_CHECK(access.rank <= kMaxRank, "buffer of too high rank");
    if (uses_.empty() || uses_.back().buffer != access.buffer) {
      uses_.push_back({access.buffer, access.rank, a});
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
    measure_boxes(program, store.depth, use, elements, run, extents);
    measure_strides(program, store.depth, use, moved, stride);
    use.elements = elements, use.run = run, use.stride = stride, use.extents = extents, use.moved = moved;
  }
  return uses_;
}

void Footprints::measure_boxes(const FlatProgram& program, u32 depth, const Use& use, double* elements, double* run,
                               double* extents) {
  const FlatAccess* accesses = program.accesses.data() + use.first_access;
  const FlatDim* dims = program.dims_of(*accesses);
  boxes_.resize(use.accesses);
  for (u32 a = 0; a < use.accesses; ++a) {
    for (u32 i = 0; i < use.rank; ++i) boxes_[a].low[i] = boxes_[a].high[i] = program.dims_of(accesses[a])[i].constant;
  }
  for (u32 i = 0; i < use.rank; ++i) extents[i] = extent(program, use, i);
  for (u32 level = depth + 1; level-- > 0;) {
    bool grows = level == depth;
    for (u32 i = 0; level < depth && i < use.rank; ++i) {
      if (!grow(program, use, i, level)) continue;
      grows = true;
      extents[i] = extent(program, use, i);
    }
    if (!grows) {
      elements[level] = elements[level + 1], run[level] = run[level + 1];
      continue;
    }
    elements[level] = run[level] = 1;
    bool is_dense = true;
    for (u32 i = use.rank; i-- > 0;) {
      elements[level] *= extents[i];
      if (is_dense) run[level] *= extents[i];
      is_dense &= extents[i] == dims[i].extent;
    }
  }
}

// Lets a loop run: the boxes grow along a dimension. Do they?
bool Footprints::grow(const FlatProgram& program, const Use& use, u32 dimension, u32 loop) {
  bool grows = false;
  for (u32 a = 0; a < use.accesses; ++a) {
    const FlatDim& dim = program.dims_of(program.accesses[use.first_access + a])[dimension];
    double span = dim.span[loop];
    if (span == 0) continue;
    grows = true;
    if (dim.coefficient[loop] < 0)
      boxes_[a].low[dimension] -= span;
    else
      boxes_[a].high[dimension] += span;
  }
  return grows;
}

// The extent of a dimension of the box around all accesses of the use.
double Footprints::extent(const FlatProgram& program, const Use& use, u32 dimension) const {
  double low = boxes_[0].low[dimension], high = boxes_[0].high[dimension];
  for (u32 a = 1; a < use.accesses; ++a) {
    low = std::min(low, boxes_[a].low[dimension]);
    high = std::max(high, boxes_[a].high[dimension]);
  }
  double shape = program.dims_of(program.accesses[use.first_access])[dimension].extent;
  auto whole = static_cast<double>(static_cast<i64>(high - low + 1.5));
  return std::clamp(whole, 1.0, std::max(1.0, shape));
}

void Footprints::measure_strides(const FlatProgram& program, u32 depth, const Use& use, u8* moved, double* stride) {
  for (u32 p = 0; p < depth; ++p) {
    stride[p] = 0;
    for (u32 a = use.first_access; a < use.first_access + use.accesses; ++a) {
      const FlatDim* dims = program.dims_of(program.accesses[a]);
      double inside = 1;
      for (u32 i = use.rank; i-- > 0; inside *= dims[i].extent) {
        double step = std::fabs(dims[i].coefficient[p]) * inside;
        if (step == 0) continue;
        moved[p] = 1;
        stride[p] = stride[p] == 0 ? step : std::min(stride[p], step);
        break;
      }
    }
  }
}

}  // namespace tw
