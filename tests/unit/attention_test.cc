// Attention as one task: which products and stages of rows become one kernel, that it computes what the graph says, and
// that the scores are nowhere as a whole.
#include <gtest/gtest.h>

#include <algorithm>

#include "backends/kernel_abi.h"
#include "dsl/base/text.h"
#include "graph/node_form.h"
#include "graph/passes/passes.h"
#include "runtime/export/model_library.h"
#include "sampler/models/check_model.h"
#include "sampler/models/compile_model.h"
#include "sampler/search/check_rule.h"
#include "support/graph_kit.h"
#include "support/random_graph.h"
#include "support/run_program.h"
#include "support/support.h"

namespace tw {
namespace {

using graph::FusedGraph;
using graph::Graph;
using graph::ValueId;
using Ints = std::vector<i64>;

enum class Mask : u8 { None, Added, Causal, Chosen };

struct Shape {
  i64 heads, rows, keys, width, value_width;
  Mask mask = Mask::Added;
  std::string text() const {
    return cat(heads, " heads, ", rows, " rows, ", keys, " keys, ", width, " and ", value_width, " wide, mask ",
               static_cast<int>(mask));
  }
};

// softmax(Q K' / 8 + mask) V as exporters write it: heads are parts of rows, and keys are transposed.
class Attention : public test::GraphKit {
 public:
  explicit Attention(const Shape& shape) : s(shape) {}

  ValueId heads(i64 rows, i64 width, Ints order) {
    return add("transpose", {{"order", order}}, {input({1, rows, s.heads, width})});
  }
  ValueId number(double value) {
    HostArray array = HostArray::zeros(DType::F32, {});
    array.set(0, value);
    return spread(builder.constant("n", std::move(array)), scores());
  }
  Ints scores() const { return {1, s.heads, s.rows, s.keys}; }

  ValueId masked(ValueId x) {
    if (s.mask == Mask::Added) return add("add", {}, {x, spread(input({1, 1, 1, s.keys}), scores())});
    if (s.mask == Mask::Causal) return add("causal", {{"offset", s.keys - s.rows}}, {x});
    if (s.mask == Mask::None) return x;
    HostArray seen = HostArray::zeros(DType::Bool, {1, 1, s.rows, s.keys});
    for (i64 i = 0; i < seen.elements(); ++i) seen.set(i, i % s.keys <= i / s.keys);
    return add("where", {}, {spread(builder.constant("seen", std::move(seen)), scores()), x, number(-1e9)});
  }
  ValueId weights() {
    ValueId product = add("matmul", {}, {heads(s.rows, s.width, {0, 2, 1, 3}), heads(s.keys, s.width, {0, 2, 3, 1})});
    ValueId x = masked(add("divide", {}, {product, number(8)}));
    return s.mask == Mask::Causal ? add("masked_softmax", {}, {x}) : add("softmax", {{"axis", i64{3}}}, {x});
  }
  ValueId values() { return heads(s.keys, s.value_width, {0, 2, 1, 3}); }
  Graph graph() {
    ValueId w = weights();
    return finish(add("matmul", {}, {w, values()}));
  }

  Shape s;
};

std::size_t groups_of(const Graph& graph, i64 bytes = graph::kSharedRowBytes) {
  return graph::fuse(graph, graph::InPlace::No, bytes).groups.size();
}
Target target_with(int threads) {
  Target target = host_target();
  target.threads = threads;
  return target;
}

constexpr Shape kSmall{2, 40, 48, 16, 16};

TEST(Attention, IsOneKernelOnProcessors) {
  for (Mask mask : {Mask::None, Mask::Added, Mask::Causal, Mask::Chosen}) {
    Shape shape = kSmall;
    shape.mask = mask;
    Graph graph = Attention(shape).graph();
    EXPECT_EQ(groups_of(graph), 1u) << shape.text();
    Target device = host_target();
    device.kind = TargetKind::OpenCl;
    EXPECT_EQ(model_tasks(graph, target_with(1)).tasks.size(), 1u);
    EXPECT_GE(model_tasks(graph, device).tasks.size(), 3u);
  }
}

TEST(Attention, RowsThatDoNotFitStayInMemory) {
  Graph graph = Attention(kSmall).graph();
  EXPECT_EQ(groups_of(graph, kSmall.keys * 4), 1u);
  EXPECT_EQ(groups_of(graph, kSmall.keys * 4 - 1), 3u);
  EXPECT_EQ(groups_of(Attention({1, 16, 4096, 8, 8}).graph()), 1u);
  EXPECT_EQ(groups_of(Attention({1, 16, 4097, 8, 8}).graph()), 3u);
}

TEST(Attention, WeightsThatSomebodyElseReadsStayInMemory) {
  Attention a(kSmall);
  ValueId w = a.weights();
  a.builder.output(w, "weights");
  EXPECT_EQ(groups_of(a.finish(a.add("matmul", {}, {w, a.values()}))), 3u);
}

// Constants are packed for a whole product, and other reductions than those of rows need all rows.
TEST(Attention, OtherProductsInARowStayApart) {
  Attention a(kSmall);
  ValueId w = a.weights();
  HostArray values = HostArray::zeros(DType::F32, {1, kSmall.heads, kSmall.keys, kSmall.value_width});
  EXPECT_EQ(groups_of(a.finish(a.add("matmul", {}, {w, a.builder.constant("v", std::move(values))}))), 3u);

  Attention b(kSmall);
  ValueId product = b.add("matmul", {}, {b.input({1, 2, 40, 16}), b.input({1, 2, 16, 48})});
  ValueId columns = b.add("softmax", {{"axis", i64{2}}}, {product});
  EXPECT_EQ(groups_of(b.finish(b.add("matmul", {}, {columns, b.values()}))), 3u);

  Attention c(kSmall);  // rows of the weights are what is summed up
  ValueId turned = c.add("transpose", {{"order", Ints{0, 1, 3, 2}}}, {c.weights()});
  EXPECT_GE(groups_of(c.finish(c.add("matmul", {}, {turned, c.heads(40, 16, {0, 2, 1, 3})}))), 3u);
}

// A chain of two attentions is two kernels: the values in between are rows of the second one's keys.
TEST(Attention, TheSecondOfTwoIsAnotherKernel) {
  Attention a(kSmall);
  ValueId first = a.add("matmul", {}, {a.weights(), a.values()});
  ValueId w = a.add("softmax", {{"axis", i64{3}}}, {a.add("matmul", {}, {first, a.heads(48, 16, {0, 2, 3, 1})})});
  EXPECT_EQ(groups_of(a.finish(a.add("matmul", {}, {w, a.values()}))), 2u);
}

// What follows an attention is no third product of the same kernel.
TEST(Attention, ThereAreTwoProductsAndNoMore) {
  Attention a(kSmall);
  ValueId first = a.add("matmul", {}, {a.weights(), a.values()});
  ValueId w = a.add("softmax", {{"axis", i64{3}}}, {first});
  EXPECT_EQ(groups_of(a.finish(a.add("matmul", {}, {w, a.input({1, 2, 16, 16})}))), 3u);
}

TEST(Attention, FormsSayWhoReadsItsOwnRow) {
  Attention a(kSmall);
  a.add("matmul", {}, {a.input({1, 2, 16, 16}), a.input({1, 2, 16, 16})});
  Graph graph = a.graph();
  for (const graph::Node& node : graph.nodes) {
    std::vector<bool> rows = form_of(graph, node).same_row;
    if (node.op == "matmul") {
      EXPECT_EQ(rows, (std::vector<bool>{true, false}));
    } else if (node.op == "softmax" || node.op == "divide") {
      EXPECT_TRUE(std::ranges::all_of(rows, std::identity()));
    } else if (node.op == "transpose") {
      EXPECT_FALSE(rows[0]);
    }
  }
}

std::vector<HostArray> run(const ExportPlan& plan, const std::vector<HostArray>& inputs, int threads) {
  test::TemporaryDirectory folder;
  ExportResult written = write_export(plan, folder.path());
  EXPECT_EQ(written.error + written.note, "");
  std::string error;
  std::optional<ModelLibrary> library = open_model(folder.path(), error);
  EXPECT_TRUE(library) << error;
  return library ? run_model(*library, inputs, threads).outputs : std::vector<HostArray>{};
}

void expect_right(const Shape& shape, int threads, u64 seed) {
  Graph graph = Attention(shape).graph();
  std::vector<HostArray> inputs = test::random_arrays(graph, Rng(seed, 1));
  std::string error;
  auto expected = graph::evaluate(graph, inputs, error);
  ASSERT_TRUE(expected) << error;
  Target target = target_with(threads);
  auto plan = compile_model(graph, model_tasks(graph, target), {.library = "net", .target = target}, error);
  ASSERT_TRUE(plan) << error;
  std::vector<HostArray> found = run(*plan, inputs, threads);
  ASSERT_EQ(found.size(), 1u);
  ModelDifference off = difference((*expected)[0], found[0]);
  EXPECT_FALSE(off.largest > 1e-5 && off.is_wrong(1e-3)) << shape.text() << ", TW_SEED=" << seed;
}

Shape random_shape(Rng rng) {
  auto up_to = [&](i64 most) { return 1 + static_cast<i64>(rng.below(most)); };
  return {up_to(3), up_to(30), up_to(40), up_to(20), up_to(20), static_cast<Mask>(rng.below(4))};
}

TEST(Attention, RandomShapesGiveWhatTheInterpreterGives) {
  test::Seeds seeds = test::seeds_from_environment(3);
  for (i64 seed = seeds.first; seed < seeds.end && !HasFailure(); ++seed)
    expect_right(random_shape(Rng(static_cast<u64>(seed))), 1 + static_cast<int>(seed % 2), static_cast<u64>(seed));
  for (Shape shape : {Shape{1, 30, 1, 16, 16}, Shape{2, 20, 33, 1, 1}, Shape{1, 9, 17, 5, 48}})
    expect_right(shape, 1, 1);
}

// The draws that the zero-trial kernel is not: others decide tiles of other sizes.
TEST(Attention, NoDrawComputesSomethingElse) {
  rules::Library library = rules::Library::built_in();
  test::Seeds seeds = test::seeds_from_environment(3);
  for (i64 seed = seeds.first; seed < seeds.end && !HasFailure(); ++seed) {
    Shape shape = random_shape(Rng(static_cast<u64>(seed), 2));
    Graph graph = Attention(shape).graph();
    FusedGraph fused = graph::fuse(graph);
    std::vector<TrialProgram> programs;
    for (const graph::Group& group : fused.groups) programs.push_back({group.name, program_of(graph, group)});
    RuleCheck check = check_rule(*library.find_set("cpu"), library, programs,
                                 target_with(1 + static_cast<int>(seed % 2)), 8, static_cast<u64>(seed));
    EXPECT_EQ(check.errors, "") << shape.text();
    EXPECT_EQ(check.different, 0) << shape.text() << ", TW_SEED=" << seed;
    EXPECT_GT(check.draws, check.rejected) << shape.text() << ", TW_SEED=" << seed;
  }
}

// Of the scores there is a tile of rows for each worker.
TEST(Attention, ScoresAreNowhereAsAWhole) {
  for (int threads : {1, 2}) {
    Shape shape{4, 256, 128, 32, 32};
    Graph graph = Attention(shape).graph();
    Target target = target_with(threads);
    std::string error;
    auto plan = compile_model(graph, model_tasks(graph, target), {.library = "net", .target = target}, error);
    ASSERT_TRUE(plan) << error;
    ASSERT_EQ(plan->tasks.size(), 1u);
    i64 scores = shape.heads * shape.rows * shape.keys * 4;
    EXPECT_LT(plan->tasks[0].kernel.manifest.scratch_bytes(threads), scores / 2);
  }
}

}  // namespace
}  // namespace tw
