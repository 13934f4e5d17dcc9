// Graphs: the operators as text, graphs that are built of them, and what the interpreter makes of these.
#include "graph/graph.h"

#include <gtest/gtest.h>

#include "dsl/base/embedded_text.h"
#include "dsl/base/text.h"

namespace tw::graph {
namespace {

TEST(GraphOperators, HaveNoErrors) {
  std::optional<std::string_view> text = embedded_text("graph/operators.tw");
  ASSERT_TRUE(text);
  Source source{"graph/operators.tw", std::string(*text)};
  Diagnostics diagnostics(source);
  parse_workloads(source, diagnostics);
  EXPECT_EQ(diagnostics.render(), "");
}

}  // namespace
}  // namespace tw::graph
