// Graphs written down in a test: operators with one result, which must take their operands.
#pragma once
#include <gtest/gtest.h>

#include "graph/graph.h"

namespace tw::test {

class GraphKit {
 public:
  using Ints = std::vector<i64>;

  graph::ValueId input(const Ints& shape, DType dtype = DType::F32) { return builder.input("x", {dtype, shape}); }
  graph::ValueId add(const std::string& op, WorkloadArguments arguments, const std::vector<graph::ValueId>& inputs) {
    std::string error;
    auto made = builder.add(op, std::move(arguments), inputs, op, error);
    EXPECT_TRUE(made) << op << ": " << error;
    return made ? (*made)[0] : inputs[0];
  }
  // A window of 3 by 3 that keeps the image's size.
  graph::ValueId conv(graph::ValueId x, graph::ValueId weights) {
    return add("conv",
               {{"strides", Ints{1, 1}},
                {"before", Ints{1, 1}},
                {"after", Ints{1, 1}},
                {"dilations", Ints{1, 1}},
                {"groups", i64{1}}},
               {x, weights});
  }
  graph::ValueId spread(graph::ValueId value, const Ints& shape) { return add("broadcast", {{"R", shape}}, {value}); }
  graph::Graph finish(graph::ValueId output) {
    builder.output(output, "y");
    return builder.finish();
  }

  graph::GraphBuilder builder{"g"};
};

}  // namespace tw::test
