// How many elements an access of a flat program (flat_program.h) touches while some of the loops around it run.
// `part(p)` says of the loop at position p which part of it runs, from 0 (it stands still) to 1.
#pragma once
#include <algorithm>
#include <cmath>

#include "costmodel/flat_program.h"

namespace tw {

inline constexpr u32 kMostDims = 32;

// Does the loop at position p move the access?
inline bool moves(const FlatProgram& program, const FlatAccess& access, u32 p) {
  const FlatDim* dims = program.dims_of(access);
  return std::any_of(dims, dims + access.rank, [&](const FlatDim& dim) { return program.term_of(dim, p).span > 0; });
}

// The box around what is touched: its extent in each of the access's dimensions, into `extents` (kMostDims at most).
template <class Part>
void box_of(const FlatProgram& program, const FlatAccess& access, Part part, double* extents) {
  const FlatDim* dims = program.dims_of(access);
  for (u32 d = 0; d < access.rank; ++d) {
    double span = 0;
    for (const LinearIndex::Term& term : program.terms_of(dims[d]))
      span += term.span * part(static_cast<u32>(term.loop));
    extents[d] = std::clamp(std::floor(span + 1.001), 1.0, std::max(1.0, dims[d].extent));
  }
}

// Elements in that box; less where they lie apart in it, as the vectors of a row that work-items take in turn.
template <class Part>
double elements_in(const FlatProgram& program, const FlatStore& store, const FlatAccess& access, Part part) {
  double extents[kMostDims], box = 1, points = 1;
  box_of(program, access, part, extents);
  for (u32 d = 0; d < access.rank; ++d) box *= extents[d];
  for (u32 p = 0; p < store.depth; ++p) {
    if (moves(program, access, p))
      points *= std::max(1.0, part(p) * static_cast<double>(program.loop_of(store, p).extent));
  }
  return std::min(box, points);
}

}  // namespace tw
