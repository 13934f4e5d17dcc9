// Layouts of values with three dimensions or more: row-major as they are imported, N, C, D1, D2, ..., or with the
// channels last, N, D1, D2, ..., C; and what they mean to a node.
#pragma once
#include <string>
#include <vector>

#include "graph/graph.h"

namespace tw::graph {

enum class Layout : u8 { RowMajor, ChannelsLast };

// What the layout of its operands means to a node.
enum class LayoutRole : u8 {
  Window,    // it can be computed in either: convolutions, pooling
  Follower,  // it computes the same in either; operands and result have one layout
  Reducer,   // it reads either, and its result is row-major
  Repeater,  // a broadcast: made of its row-major operand in the layout in which it is read
  RowMajor,  // it reads and makes row-major values
};
LayoutRole layout_role(const Graph& graph, const Node& node);
bool is_window(const Graph& graph, const Node& node);
// A transposed convolution that makes a window of each pixel, none of which overlap? It is a window, too.
bool has_windows_side_by_side(const Graph& graph, const Node& node);

// Orders of dimensions, as the operator `transpose` has them: to channels last, and back.
std::vector<i64> to_last(i64 rank);
std::vector<i64> from_last(i64 rank);
// Where dimension d of a row-major value stands with the channels last.
i64 last_place(i64 d, i64 rank);

// Which arguments of an operator name a dimension (`axis`), or have a number for each (`for_each`). The operator does
// the same in any order of dimensions.
struct PlaceArguments {
  std::vector<std::string> axis, for_each;
};
// Null for operators that do something else in another order, or that have no such arguments.
const PlaceArguments* place_arguments(const std::string& op);

}  // namespace tw::graph
