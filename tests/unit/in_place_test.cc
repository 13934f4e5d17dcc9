// Values that are parts of others or written over them: where they lie, which kernels that saves, and that wrong places
// are noticed.
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "backends/kernel_abi.h"
#include "dsl/base/rng.h"
#include "dsl/base/text.h"
#include "graph/passes/passes.h"
#include "support/graph_kit.h"
#include "support/random_graph.h"
#include "tests/unit/plan_walk.h"

namespace tw {
namespace {

using graph::composed;
using graph::Graph;
using graph::Part;
using graph::ValueId;
using test::compiled;
using Ints = std::vector<i64>;

// The places of its elements in the memory.
Ints places_of(const Part& part, i64 elements) {
  Ints places;
  i64 row = elements / part.rows;
  for (i64 e = 0; e < elements; ++e) places.push_back(part.offset + e / row * part.pitch + e % row);
  return places;
}

TEST(Parts, APartOfAPartLiesWhereItsElementsLie) {
  Rng rng(3);
  int found = 0, refused = 0;
  for (int i = 0; i < 4000; ++i) {
    auto part_of = [&](i64 elements) {  // with so many elements
      Part part{.offset = rng.below(4) * 6, .rows = 1 + rng.below(4)};
      while (elements % part.rows != 0) --part.rows;
      if (part.rows > 1) part.pitch = elements / part.rows + rng.below(3) * 6;
      return part;
    };
    i64 elements = 12 * (1 + rng.below(3));
    Part inner = part_of(elements);
    i64 reach = places_of(inner, elements).back() + 1, outer_elements = (reach + 11) / 12 * 12;
    Part outer = part_of(outer_elements);
    std::optional<Part> made = composed(outer, outer_elements, inner, elements);
    Ints expected;
    Ints of_outer = places_of(outer, outer_elements);
    for (i64 place : places_of(inner, elements)) expected.push_back(of_outer[static_cast<std::size_t>(place)]);
    if (made) {
      EXPECT_EQ(places_of(*made, elements), expected);
    }
    EXPECT_TRUE(made || outer.rows > 1);
    ++(made ? found : refused);
  }
  EXPECT_GT(found, 1000);
  EXPECT_GT(refused, 100);
}

class InPlace : public testing::Test, protected test::GraphKit {
 protected:
  ValueId random(const Ints& shape) {
    HostArray array = HostArray::zeros(DType::F32, shape);
    for (i64 i = 0; i < array.elements(); ++i) array.set(i, 0.4 * rng_.uniform() - 0.2);
    return builder.constant("c", std::move(array));
  }
  // A product, so that something makes it.
  ValueId layer(ValueId x, i64 columns) {
    Ints shape = builder.type(x).shape;
    return add("matmul", {}, {x, random({shape.back(), columns})});
  }
  // By two products, so that what makes x is a kernel of its own.
  void read_twice(ValueId x) { output(layer(x, 4)), output(layer(x, 6)); }
  ValueId concat(ValueId a, ValueId b, i64 axis) { return add("concat", {{"axis", axis}}, {a, b}); }
  ValueId slice(ValueId x, const Ints& start, const Ints& shape) {
    return add("slice", {{"start", start}, {"step", Ints(start.size(), 1)}, {"R", shape}}, {x});
  }
  void output(ValueId value) { builder.output(value, cat("y", outputs_++)); }

  // The names of the kernels; what they give is right, and so is the plan.
  std::vector<std::string> kernels() {
    graph_ = builder.finish();
    inputs_ = random_inputs(graph_, 5);
    std::string error;
    expected_ = *graph::evaluate(graph_, inputs_, error);
    plan_ = compiled(graph_);
    test::expect_sound(plan_, graph_);
    EXPECT_TRUE(is_right(plan_));
    std::vector<std::string> names;
    for (const graph::Group& group : model_tasks(graph_, plan_.tasks.front().target).fused.groups)
      names.push_back(group.name);
    return names;
  }
  bool is_right(const ExportPlan& plan) const { return test::are_same(expected_, test::outputs_of(plan, inputs_)); }

  Graph graph_;
  ExportPlan plan_;
  std::vector<HostArray> inputs_, expected_;

 private:
  Rng rng_{7};
  int outputs_ = 0;
};

using Names = std::vector<std::string>;

TEST_F(InPlace, ColumnsAreWrittenSideBySide) {
  ValueId x = input({6, 16});
  ValueId all = concat(layer(x, 32), layer(x, 16), 1);
  output(layer(all, 8));
  output(add("relu", {}, {all}));
  EXPECT_EQ(kernels(), (Names{"matmul", "matmul", "matmul", "relu"}));
  EXPECT_EQ(plan_.model->memory_bytes, 6 * 48 * 4);
  EXPECT_EQ(plan_.model->least_memory_bytes, plan_.model->memory_bytes);
}

TEST_F(InPlace, RowsAreWrittenBelowEachOther) {
  ValueId x = input({6, 16});
  ValueId a = layer(x, 16), b = layer(x, 16);
  ValueId all = concat(a, b, 0);
  output(add("add", {}, {a, b}));  // read from there
  output(layer(all, 8));
  EXPECT_EQ(kernels(), (Names{"matmul", "matmul", "add", "matmul"}));
  EXPECT_EQ(plan_.tasks.size(), 3u) << "rows that follow each other are no other kernel";
}

// What cannot be made in its place is copied, and nothing else.
TEST_F(InPlace, AnInputAConstantAndAValueThatIsThereTwiceAreCopied) {
  ValueId x = input({4, 16});
  ValueId a = layer(x, 32), b = layer(x, 16);
  ValueId all = concat(concat(concat(concat(a, x, 1), random({4, 16}), 1), b, 1), a, 1);
  output(layer(all, 8));
  output(layer(all, 4));
  EXPECT_EQ(kernels(), (Names{"matmul", "matmul", "copy", "copy", "copy", "matmul", "matmul"}));
}

TEST_F(InPlace, AnOutputIsNoPartOfAnother) {
  ValueId x = input({4, 16});
  ValueId a = layer(x, 32), b = layer(x, 16);
  ValueId all = concat(a, b, 1);
  output(a);
  output(all);  // written there at once
  EXPECT_EQ(kernels(), (Names{"matmul", "matmul", "copy"}));
  EXPECT_EQ(plan_.model->memory_bytes, 0);
  EXPECT_TRUE(plan_.model->copies.empty());
}

TEST_F(InPlace, OneReaderTakesInWhatWouldBeCopied) {
  ValueId x = input({4, 16});
  output(add("relu", {}, {concat(x, layer(x, 16), 1)}));
  EXPECT_EQ(kernels(), (Names{"matmul", "concat_relu"}));
}

// A network that joins all that it has made before, again and again.
TEST_F(InPlace, ChainsWithTheSameBeginningAreOneMemory) {
  ValueId x = input({8, 16});
  std::vector<ValueId> parts{layer(x, 32)};
  for (int i = 0; i < 4; ++i) {
    ValueId all = parts[0];
    for (std::size_t p = 1; p < parts.size(); ++p) all = concat(all, parts[p], 1);
    parts.push_back(layer(all, 16));
  }
  ValueId all = parts[0];
  for (std::size_t p = 1; p < parts.size(); ++p) all = concat(all, parts[p], 1);
  output(layer(all, 16));
  EXPECT_EQ(kernels(), Names(6, "matmul"));
  EXPECT_EQ(plan_.model->memory_bytes, 8 * (32 + 4 * 16) * 4);
}

TEST_F(InPlace, SlicesWithSeveralReadersAreRead) {
  ValueId x = input({6, 16});
  ValueId y = layer(x, 64), left = slice(y, {0, 0}, {6, 32}), right = slice(y, {0, 32}, {6, 32});
  output(layer(left, 8));
  output(layer(right, 8));
  output(add("add", {}, {left, right}));
  EXPECT_EQ(kernels(), (Names{"matmul", "matmul", "matmul", "add"}));
}

// Slices of an input, of columns that begin at no aligned address, and with gaps.
TEST_F(InPlace, SlicesThatKernelsCannotReadAreCopied) {
  ValueId x = input({6, 48}), y = layer(x, 64);
  auto read_twice = [&](ValueId part) { output(layer(part, 8)), output(add("relu", {}, {part})); };
  read_twice(slice(x, {0, 16}, {6, 32}));
  read_twice(slice(y, {0, 5}, {6, 32}));
  read_twice(add("slice", {{"start", Ints{0, 0}}, {"step", Ints{1, 2}}, {"R", Ints{6, 32}}}, {y}));
  Names names = kernels();
  EXPECT_EQ(std::ranges::count(names, "slice"), 2);
}

TEST_F(InPlace, ASliceThatIsAnOutputIsAKernel) {
  ValueId x = input({6, 16}), y = layer(x, 64), part = slice(y, {0, 0}, {6, 32});
  output(part);
  output(layer(part, 8));
  output(layer(part, 4));
  output(layer(y, 4));
  EXPECT_EQ(kernels(), (Names{"matmul", "slice", "matmul", "matmul", "matmul"}));
}

// Parts of parts, of other shapes: heads of an attention are a reshape of columns.
TEST_F(InPlace, ViewsOfPartsKeepTheRows) {
  ValueId x = input({6, 16});
  ValueId y = layer(x, 96), part = slice(y, {0, 32}, {6, 64});
  ValueId heads = add("reshape", {{"R", Ints{6, 4, 16}}}, {part});
  output(add("reduce_max", {{"axes", Ints{2}}}, {heads}));
  output(add("relu", {}, {heads}));
  output(layer(part, 8));
  output(layer(slice(y, {0, 0}, {6, 16}), 8));
  EXPECT_EQ(kernels(), (Names{"matmul", "reduce_max", "relu", "matmul", "slice_matmul"}));
}

TEST_F(InPlace, DevicesHaveABufferForEachValue) {
  ValueId x = input({6, 16});
  ValueId all = concat(layer(x, 32), layer(x, 16), 1);
  output(layer(all, 8));
  output(add("relu", {}, {all}));
  Graph graph = builder.finish();
  for (const Part& part : graph::fuse(graph).parts) EXPECT_EQ(part.offset + part.rows - 1, 0);
  EXPECT_EQ(graph::fuse(graph).groups.size(), 5u);
}

constexpr i64 kValue = 8 * 64 * 4;  // bytes of what is between the kernels below

TEST_F(InPlace, AResultIsWrittenOverAnOperandThatNobodyReadsAgain) {
  ValueId h = layer(input({8, 16}), 64);
  output(layer(h, 8));
  read_twice(add("relu", {}, {h}));
  EXPECT_EQ(kernels(), (Names{"matmul", "matmul", "relu", "matmul", "matmul"}));
  EXPECT_EQ(plan_.model->memory_bytes, kValue);
  EXPECT_EQ(plan_.model->least_memory_bytes, kValue);
  ExportPlan of_two = compiled(graph_, 2);
  EXPECT_EQ(of_two.model->memory_bytes, kValue);
  EXPECT_TRUE(test::are_same(expected_, test::outputs_of(of_two, inputs_, 2)));
}

TEST_F(InPlace, AnotherNameOfAnOperandEndsWithIt) {
  ValueId h = layer(input({8, 16}), 64);
  output(layer(h, 8));
  ValueId view = add("reshape", {{"R", Ints{16, 32}}}, {h});
  read_twice(add("relu", {}, {view}));
  EXPECT_EQ(kernels(), (Names{"matmul", "matmul", "relu", "matmul", "matmul"}));
  EXPECT_EQ(plan_.model->memory_bytes, kValue);
}

TEST_F(InPlace, WhatIsAddedToAProductIsOverwritten) {
  ValueId h = layer(input({8, 16}), 64), u = layer(h, 64);
  output(layer(add("add", {}, {layer(u, 64), h}), 4));
  EXPECT_EQ(kernels(), (Names{"matmul", "matmul", "matmul_add", "matmul"}));
  EXPECT_EQ(plan_.model->memory_bytes, 2 * kValue);
  EXPECT_EQ(plan_.model->least_memory_bytes, 2 * kValue);
}

TEST_F(InPlace, AnOperandThatIsReadAgainStays) {
  ValueId h = layer(input({8, 16}), 64);
  read_twice(add("relu", {}, {h}));
  output(layer(h, 8));
  EXPECT_EQ(kernels(), (Names{"matmul", "relu", "matmul", "matmul", "matmul"}));
  EXPECT_EQ(plan_.model->memory_bytes, 2 * kValue);
  EXPECT_EQ(plan_.model->least_memory_bytes, 2 * kValue);
}

TEST_F(InPlace, AnOperandThatIsReadInAnotherOrderStays) {
  ValueId h = layer(input({32, 16}), 32);
  output(layer(h, 8));
  ValueId turned = add("transpose", {{"order", Ints{1, 0}}}, {h});
  output(layer(turned, 8));
  output(layer(turned, 4));
  EXPECT_EQ(kernels(), (Names{"matmul", "matmul", "transpose", "matmul", "matmul"}));
  EXPECT_EQ(plan_.model->memory_bytes, 2 * 32 * 32 * 4);
}

// Its first row is added to each of its rows.
TEST_F(InPlace, AnOperandOfWhichAPartIsAnotherOperandStays) {
  ValueId h = layer(input({8, 16}), 64), row = slice(h, {0, 0}, {1, 64});
  output(layer(row, 8));
  read_twice(add("add", {}, {h, spread(row, {8, 64})}));
  EXPECT_EQ(kernels(), (Names{"matmul", "matmul", "add", "matmul", "matmul"}));
  EXPECT_EQ(plan_.model->memory_bytes, 2 * kValue);
}

// Rows 0 to 3 of one memory are read where rows 2 to 5 of another one are written.
TEST_F(InPlace, PartsOfMemoriesAreNotWrittenOverEachOther) {
  ValueId top = slice(layer(input({8, 16}), 64), {0, 0}, {4, 64});
  output(layer(top, 8));
  ValueId middle = add("relu", {}, {top}), above = layer(input({2, 16}), 64), below = layer(input({2, 16}), 64);
  ValueId all = concat(concat(above, middle, 0), below, 0);
  output(layer(all, 8));
  output(layer(all, 4));
  EXPECT_EQ(kernels(), (Names{"matmul", "matmul", "relu", "matmul", "matmul", "matmul", "matmul"}));
  EXPECT_EQ(plan_.model->memory_bytes, 2 * kValue);
}

TEST_F(InPlace, InputsAndOutputsAreNotOverwritten) {
  ValueId x = input({8, 64}), h = layer(x, 64);
  output(h);
  read_twice(add("relu", {}, {h}));
  read_twice(add("relu", {}, {x}));
  EXPECT_EQ(kernels(), (Names{"matmul", "relu", "matmul", "matmul", "relu", "matmul", "matmul"}));
  EXPECT_EQ(plan_.model->memory_bytes, kValue);
}

// Wrong places, as a planner might give them.
class WrongPlaces : public InPlace {
 protected:
  void SetUp() override {
    ValueId x = input({6, 16});
    ValueId a = layer(x, 32), b = layer(x, 16), all = concat(a, b, 1);
    output(layer(all, 8));
    output(add("relu", {}, {all}));
    kernels();
  }
  // By results, and by following the plan.
  void expect_noticed(const ExportPlan& plan, const std::string& what) {
    EXPECT_FALSE(is_right(plan)) << what;
    testing::TestPartResultArray failures;
    {
      testing::ScopedFakeTestPartResultReporter reporter(
          testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &failures);
      test::expect_sound(plan, graph_);
    }
    EXPECT_GT(failures.size(), 0) << what;
  }
  // The last buffer of a step is what it writes.
  static ModelPlace& written(ExportPlan& plan, std::size_t step) { return plan.model->steps[step].buffers.back(); }
};

TEST_F(WrongPlaces, AreNoticed) {
  ExportPlan plan = plan_;
  plan.model->memory_bytes += 64;
  written(plan, 1).at += 64;
  expect_noticed(plan, "a part that is off by a cache line");
  plan = plan_;
  written(plan, 1).at = written(plan, 0).at;
  expect_noticed(plan, "parts that overlap");
  plan = plan_;
  written(plan, 1).at -= 64;
  expect_noticed(plan, "a part whose first columns are another's");
  plan = plan_;
  plan.model->steps[1].task = plan.model->steps[0].task;
  plan.model->steps[1].buffers[1] = plan.model->steps[0].buffers[1];
  expect_noticed(plan, "an operand that is written twice");
  plan = plan_;
  std::swap(plan.model->steps[1], plan.model->steps[2]);
  expect_noticed(plan, "a reader that runs before all parts are there");
  plan = plan_;
  written(plan, 2) = written(plan, 0);
  expect_noticed(plan, "an output in the place of what is read later");
}

}  // namespace
}  // namespace tw
