// The cheapest way to part points into two sides: a maximum flow from one side to the other (Ford and Fulkerson, 1956)
// fills the edges that are cut.
#pragma once
#include <limits>
#include <vector>

#include "dsl/base/arena.h"

namespace tw::graph {

class MinimumCut {
 public:
  using Point = u32;
  static constexpr Point kFirst = 0, kSecond = 1;  // each is always on the side of that name
  // The cost of an edge that must not be cut. All other edges together have to cost less.
  static constexpr i64 kNever = std::numeric_limits<i64>::max() / 4;

  Point add_point() { return points_++; }
  // An edge costs so much, >= 0, if `from` is on the first side and `to` on the second one.
  void add_edge(Point from, Point to, i64 cost);
  // Which points are on the second side; of several cheapest ways the one with the fewest points there. Takes a pass
  // over all edges for each path that is filled; there are hardly more of these than points.
  std::vector<bool> second_side() const;

 private:
  struct Edge {
    Point from, to;
    i64 cost;
  };

  Point points_ = 2;
  std::vector<Edge> edges_;
};

}  // namespace tw::graph
