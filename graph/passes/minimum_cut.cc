#include "graph/passes/minimum_cut.h"

#include <algorithm>

namespace tw::graph {

MinimumCut::Point MinimumCut::add_point() {
  edges_of_.emplace_back();
  return static_cast<Point>(edges_of_.size() - 1);
}

void MinimumCut::add_edge(Point from, Point to, i64 cost) {
  if (from == to || cost == 0) return;
  edges_of_[from].push_back(static_cast<u32>(edges_.size()));
  edges_.push_back({to, cost});
  edges_of_[to].push_back(static_cast<u32>(edges_.size()));
  edges_.push_back({from, 0});
}

bool MinimumCut::fill_a_path() {
  constexpr u32 kNone = std::numeric_limits<u32>::max();
  std::vector<u32> came_by(edges_of_.size(), kNone);
  std::vector<Point> queue{kFirst};
  for (std::size_t next = 0; next < queue.size() && came_by[kSecond] == kNone; ++next) {
    for (u32 e : edges_of_[queue[next]]) {
      const Point to = edges_[e].to;
      if (edges_[e].left == 0 || to == kFirst || came_by[to] != kNone) continue;
      came_by[to] = e;
      queue.push_back(to);
    }
  }
  if (came_by[kSecond] == kNone) return false;
  auto each_edge = [&](auto visit) {
    for (Point at = kSecond; at != kFirst; at = edges_[came_by[at] ^ 1].to) visit(came_by[at]);
  };
  i64 most = kNever;
  each_edge([&](u32 e) { most = std::min(most, edges_[e].left); });
  each_edge([&](u32 e) { edges_[e].left -= most, edges_[e ^ 1].left += most; });
  return true;
}

std::vector<bool> MinimumCut::second_side() {
  while (fill_a_path()) {
  }
  // Those from which something could still flow there.
  std::vector<bool> is_second(edges_of_.size(), false);
  is_second[kSecond] = true;
  std::vector<Point> queue{kSecond};
  for (std::size_t next = 0; next < queue.size(); ++next) {
    for (u32 e : edges_of_[queue[next]]) {
      const Point from = edges_[e].to;
      if (edges_[e ^ 1].left == 0 || is_second[from]) continue;
      is_second[from] = true;
      queue.push_back(from);
    }
  }
  return is_second;
}

}  // namespace tw::graph
