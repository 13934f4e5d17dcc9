// What a file declares of its inputs and outputs.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "graph/onnx/proto.h"

namespace tw::graph::onnx {

// The shapes of inputs: those of the file, whose open dimensions have the extents that the caller says. A dimension
// with a name has one extent in all inputs.
class InputShapes {
 public:
  // `said`: by the names of inputs; both outlive this object.
  InputShapes(const proto::GraphProto& graph, const std::map<std::string, std::vector<i64>>& said);

  // Nothing, and why in `problem`.
  std::optional<std::vector<i64>> of(const proto::ValueInfoProto& input, std::string& problem) const;

 private:
  struct Bound {
    i64 extent;
    std::string input;  // for which it was said
  };

  std::optional<i64> extent(const proto::ValueInfoProto& input, int dimension, std::string& problem) const;
  std::string contradiction(const proto::ValueInfoProto& input, const std::vector<i64>& shape) const;

  const std::map<std::string, std::vector<i64>>& said_;
  std::map<std::string, Bound> bound_;  // by the name of the dimension
};

// "" if what is declared of an output may be of this type. Dimensions without a number, and scalars, may be anything;
// so may the number of rows if `has_any_rows`.
std::string contradiction_of_output(const proto::ValueInfoProto& declared, const OperandType& type, bool has_any_rows);

// Not too many elements for the library of a model?
bool is_possible(const std::vector<i64>& shape);

}  // namespace tw::graph::onnx
