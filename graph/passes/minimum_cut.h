// The cheapest way to part points into two sides (Ford and Fulkerson, 1956; breadth first, Edmonds and Karp, 1972).
#pragma once
#include <limits>
#include <vector>

#include "dsl/base/arena.h"

namespace tw::graph {

class MinimumCut {
 public:
  using Point = u32;
  static constexpr Point kFirst = 0, kSecond = 1;  // each is always on the side of that name
  // Of an edge that must not be cut. All others together have to cost less.
  static constexpr i64 kNever = std::numeric_limits<i64>::max() / 4;

  Point add_point();
  // An edge costs so much, >= 0, if `from` is on the first side and `to` on the second one.
  void add_edge(Point from, Point to, i64 cost);
  // Which points are on the second side; of several cheapest ways the one with the fewest points there. Takes a pass
  // over all edges for each path that is filled; there are hardly more of these than points. Call it once.
  std::vector<bool> second_side();

 private:
  struct Edge {
    Point to;
    i64 left;  // what can still flow
  };
  bool fill_a_path();

  std::vector<Edge> edges_;  // each followed by its reverse
  std::vector<std::vector<u32>> edges_of_ = std::vector<std::vector<u32>>(2);
};

}  // namespace tw::graph
