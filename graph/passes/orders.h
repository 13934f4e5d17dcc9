// Orders of dimensions, as the operator `transpose` has them: dimension d of the result is dimension order[d] of the
// operand.
#pragma once
#include "graph/graph.h"

namespace tw::graph {

// A list with an entry for each dimension, as it is behind a transposition.
std::vector<i64> in_order(const std::vector<i64>& values, const std::vector<i64>& order);
// The order that undoes it.
std::vector<i64> inverse(const std::vector<i64>& order);

// The elements in that order.
HostArray transposed(const HostArray& array, const std::vector<i64>& order);
// The elements of a value of the new graph with another shape, and then in another order. Those of a constant are moved
// here, however many they are: as nodes they would be moved in every run.
ValueId transposed(GraphCopy& copy, ValueId value, const std::vector<i64>& shape, const std::vector<i64>& order,
                   const std::string& name);

}  // namespace tw::graph
