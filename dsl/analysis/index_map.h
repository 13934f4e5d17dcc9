// Index maps that tile and permute: each result is a parameter, a part of it (p // c, p % c, nested), or 0. Maps that
// also fuse and rotate: each result is such parts as digits of one number. Of both the inverse is known. Any others are
// tried, element by element.
#pragma once
#include "dsl/analysis/affine.h"
#include "dsl/base/result.h"

namespace tw {

struct TiledMap {
  List<i64> shape;               // of the results
  List<const Expr*> results;     // over the parameters
  List<const Var*> coordinates;  // one per result, for the inverse
  List<const Expr*> inverse;     // one per parameter, over the coordinates; empty if it is not known
  List<bool> padded;             // per parameter: the new shape has coordinates beyond its extent
  bool pads() const;
};

// Nothing if the map is not of that form or two elements would go to one place. `coordinates` are fresh variables, one
// per result.
std::optional<TiledMap> tiled_map(Arena& arena, Array<const Var*> params, Array<const Expr*> results,
                                  Array<i64> extents, const List<const Var*>& coordinates);

// Each result is a sum of terms times what the terms behind count to, e.g. (i, j) -> (i * 8 + j % 8, j // 8). A term is
// a part of a parameter or of such a sum, (i * 8 + j) // 16, or what is left of a sum of parts where all but one follow
// from other terms: (i, j) -> (i, (i + j) % 8).
struct FusedMap {
  List<i64> shape;            // of the results
  List<const Expr*> inverse;  // one per parameter, over the coordinates
};
// Nothing if the map is not of that form, or is not one to one between the domains.
std::optional<FusedMap> fused_map(Arena& arena, Array<const Var*> params, Array<const Expr*> results,
                                  Array<i64> extents, const List<const Var*>& coordinates);

// The most elements of which each is tried, in some hundredths of a second.
inline constexpr i64 kMostTried = i64{1} << 20;
// The shape that any other map gives the elements of `buffer` (for the message), each of which is tried. Rejects more
// than kMostTried elements, and maps that send two elements to one place, leave places empty, or have no index for an
// element.
Result<List<i64>> tried_shape(Arena& arena, Str buffer, Array<const Var*> params, Array<const Expr*> results,
                              Array<i64> extents);

}  // namespace tw
