#include "graph/passes/minimum_cut.h"

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/edmonds_karp_max_flow.hpp>

namespace tw::graph {
namespace {

using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
using Network = boost::adjacency_list<
    boost::vecS, boost::vecS, boost::directedS,
    boost::property<boost::vertex_color_t, boost::default_color_type,
                    boost::property<boost::vertex_predecessor_t, Traits::edge_descriptor>>,
    boost::property<boost::edge_capacity_t, i64,
                    boost::property<boost::edge_residual_capacity_t, i64,
                                    boost::property<boost::edge_reverse_t, Traits::edge_descriptor>>>>;

}  // namespace

void MinimumCut::add_edge(Point from, Point to, i64 cost) {
  if (from != to && cost > 0) edges_.push_back({from, to, cost});
}

std::vector<bool> MinimumCut::second_side() const {
  Network network(points_);
  auto capacity = boost::get(boost::edge_capacity, network);
  auto left = boost::get(boost::edge_residual_capacity, network);
  auto reverse = boost::get(boost::edge_reverse, network);
  for (const Edge& edge : edges_) {
    auto there = boost::add_edge(edge.from, edge.to, network).first,
         back = boost::add_edge(edge.to, edge.from, network).first;
    capacity[there] = edge.cost, capacity[back] = 0;
    reverse[there] = back, reverse[back] = there;
  }
  boost::edmonds_karp_max_flow(network, kFirst, kSecond);
  // The points from which something could still flow to the second side.
  std::vector<bool> is_second(points_, false);
  is_second[kSecond] = true;
  std::vector<Point> queue{kSecond};
  for (std::size_t next = 0; next < queue.size(); ++next) {
    for (auto edge : boost::make_iterator_range(boost::out_edges(queue[next], network))) {
      const auto from = static_cast<Point>(boost::target(edge, network));
      if (left[reverse[edge]] == 0 || is_second[from]) continue;
      is_second[from] = true;
      queue.push_back(from);
    }
  }
  return is_second;
}

}  // namespace tw::graph
