// Index maps that tile and permute: each result is a parameter, a part of it (p // c, p % c, nested), or 0. Used by
// transform_layout. Maps that also fuse: each result is such parts as digits of one number. Used by
// transform_block_layout.
#pragma once
#include "dsl/analysis/affine.h"

namespace tw {

struct TiledMap {
  List<i64> shape;               // of the results
  List<const Expr*> results;     // over the parameters
  List<const Var*> coordinates;  // one per result, for the inverse
  List<const Expr*> inverse;     // one per parameter, over the coordinates
  List<bool> padded;             // per parameter: the new shape has coordinates beyond its extent
  bool pads() const;
};

// Nothing if the map is not of that form or two elements would go to one place. `coordinates` are fresh variables, one
// per result.
std::optional<TiledMap> tiled_map(Arena& arena, Array<const Var*> params, Array<const Expr*> results,
                                  Array<i64> extents, const List<const Var*>& coordinates);

// Each result is a sum of parts of parameters times what the parts behind count to, e.g. (i, j) -> (i * 8 + j % 8, j // 8).
struct FusedMap {
  List<i64> shape;            // of the results
  List<const Expr*> inverse;  // one per parameter, over the coordinates
};
// Nothing if the map is not of that form, drops a parameter, or is not one to one between the domains.
std::optional<FusedMap> fused_map(Arena& arena, Array<const Var*> params, Array<const Expr*> results, Array<i64> extents,
                                  const List<const Var*>& coordinates);

}  // namespace tw
