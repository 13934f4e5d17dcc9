// What integers models are tried on: indices that are inside, every value of narrow types, masks of 0 and 1.
#include "graph/input_ranges.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "runtime/export/model_library.h"
#include "sampler/models/check_model.h"
#include "support/graph_kit.h"

namespace tw {
namespace {

using graph::Graph;
using graph::ValueId;
using Ints = std::vector<i64>;

class Builder : public test::GraphKit {
 public:
  ValueId cast(ValueId value, DType to) { return add("cast", {{"to", to}}, {value}); }
  ValueId table(i64 rows) { return builder.constant("table", HostArray::zeros(DType::F32, {rows, 4})); }
  ValueId rows(i64 count, ValueId index) { return add("gather", {{"axis", i64{0}}}, {table(count), index}); }
  ValueId number(double value, const Ints& shape) {
    HostArray array = HostArray::zeros(DType::F32, {});
    array.set(0, value);
    return spread(builder.constant("c", std::move(array)), shape);
  }
  // Of the first input.
  IndexRange range(ValueId output) { return graph::input_ranges(finish(output))[0]; }
};

TEST(InputRanges, IndicesLieInTheSmallestTableThatTheyLookUp) {
  Builder b;
  ValueId words = b.input({2, 3}, DType::I64);
  ValueId flat = b.add("reshape", {{"R", Ints{6}}}, {b.cast(words, DType::I32)});
  b.builder.output(b.rows(70, words), "all");
  EXPECT_EQ(b.range(b.rows(50, flat)), (IndexRange{0, 50}));
}

TEST(InputRanges, EveryOperatorWithIndices) {
  struct Case {
    const char* op;
    WorkloadArguments arguments;
    Ints index;
    i64 places;
    std::vector<Ints> others;  // in front of the index, and behind it
    std::size_t position;
    i64 lowest = 0;
  };
  const std::vector<Case> cases = {
      {"gather_elements", {{"axis", i64{1}}}, {2, 5}, 9, {{4, 9}}, 1},
      {"gather_nd", {{"batch", i64{1}}}, {4, 3, 2}, 7, {{4, 9, 7}}, 1},
      {"scatter_elements", {{"axis", i64{0}}}, {2, 5}, 6, {{6, 9}, {2, 5}}, 1},
      {"scatter_nd_add", {}, {3, 2}, 6, {{6, 9, 2}, {3, 2}}, 1},
      {"reverse_sequence", {{"time", i64{0}}, {"batch", i64{1}}}, {9}, 7, {{6, 9}}, 1},
      {"scatter_along", {{"axis", i64{1}}, {"circular", i64{0}}}, {2}, 5, {{2, 7}, {2, 3}}, 2},
      {"scatter_along", {{"axis", i64{1}}, {"circular", i64{1}}}, {2}, 7, {{2, 7}, {2, 3}}, 2},
      {"up_to_length", {{"causal", i64{0}}}, {2}, 10, {{2, 3, 4, 9}}, 1, 1},  // 0 hides all
      {"one_hot", {{"axis", i64{0}}, {"depth", i64{12}}}, {3}, 12, {{2}}, 0},
  };
  for (const Case& c : cases) {
    Builder b;
    ValueId index = b.input(c.index, DType::I64);
    std::vector<ValueId> operands;
    for (const Ints& shape : c.others) operands.push_back(b.builder.input("other", {DType::F32, shape}));
    operands.insert(operands.begin() + static_cast<std::ptrdiff_t>(c.position), index);
    EXPECT_EQ(b.range(b.add(c.op, c.arguments, operands)), (IndexRange{c.lowest, c.places})) << c.op;
  }
}

// A row whose places are compared with its length is neither hidden as a whole nor seen as a whole.
TEST(InputRanges, WhatIsComparedWithAConstantIsOnBothSides) {
  auto range = [](const char* op, bool is_first, std::vector<double> numbers, DType type) {
    Builder b;
    Ints shape{4, std::ssize(numbers)};
    HostArray constant = HostArray::zeros(type, {shape[1]});
    for (i64 i = 0; i < shape[1]; ++i) constant.set(i, numbers[static_cast<std::size_t>(i)]);
    ValueId n = b.cast(b.spread(b.input({4, 1}, DType::I64), shape), type);
    ValueId c = b.spread(b.builder.constant("c", std::move(constant)), shape);
    return b.range(b.add(op, {}, is_first ? std::vector{n, c} : std::vector{c, n}));
  };
  const std::vector<double> places{0, 1, 2, 3, 4, 5, 6, 7};
  EXPECT_EQ(range("less", false, places, DType::I32), (IndexRange{1, 8}));
  EXPECT_EQ(range("less_equal", true, places, DType::I32), (IndexRange{1, 8}));
  EXPECT_EQ(range("less", true, places, DType::I64), (IndexRange{0, 7}));
  EXPECT_EQ(range("less_equal", false, places, DType::I64), (IndexRange{0, 7}));
  EXPECT_EQ(range("less", false, {5}, DType::I32), (IndexRange{5, 7}));
  EXPECT_EQ(range("less", true, {0.5}, DType::F32), (IndexRange{0, 2}));
  EXPECT_EQ(range("less", false, {0.5}, DType::F32), (IndexRange{0, 2}));
  EXPECT_EQ(range("less", false, {std::numeric_limits<double>::infinity()}, DType::F32), (IndexRange{-8, 8}));
}

TEST(InputRanges, NumbersHaveBothSigns) {
  for (auto [type, range] : std::vector<std::pair<DType, IndexRange>>{
           {DType::I8, {-128, 128}}, {DType::U8, {0, 256}}, {DType::I32, {-100, 101}}, {DType::I64, {-100, 101}}}) {
    Builder b;
    ValueId x = b.input({8}, type);
    EXPECT_EQ(b.range(b.add("add", {}, {x, x})), range) << name_of(type);
  }
  Builder b;
  EXPECT_EQ(b.range(b.add("exponential", {}, {b.cast(b.input({8}, DType::I64), DType::F32)})), (IndexRange{-8, 8}));
}

// Else scores would be infinite, or the places outside.
TEST(InputRanges, MasksAndWhatPlacesAreComputedOfAreZeroOrOne) {
  const IndexRange kMask{0, 2};
  Builder hidden;  // (1 - mask) * -1e9
  ValueId mask = hidden.cast(hidden.input({2, 80}, DType::I64), DType::F32);
  ValueId left = hidden.add("subtract", {}, {hidden.number(1, {2, 80}), mask});
  EXPECT_EQ(hidden.range(hidden.add("multiply", {}, {left, hidden.number(-1e9, {2, 80})})), kMask);
  Builder small;  // a scale hides nothing
  ValueId x = small.cast(small.input({2, 80}, DType::I64), DType::F32);
  EXPECT_EQ(small.range(small.add("multiply", {}, {x, small.number(0.5, {2, 80})})), (IndexRange{-8, 8}));
  Builder counted;
  ValueId places = counted.add("cumulative_sum", {{"axis", i64{0}}, {"exclusive", i64{0}}, {"reverse", i64{0}}},
                               {counted.input({9}, DType::I64)});
  EXPECT_EQ(counted.range(counted.rows(50, places)), kMask);
  Builder asked;
  EXPECT_EQ(asked.range(asked.add("cast_to_bool", {}, {asked.input({9}, DType::I64)})), kMask);
}

// The place of the largest element is inside whatever the elements are.
TEST(InputRanges, PlacesThatAreSearchedForSayNothingOfTheElements) {
  Builder b;
  ValueId best = b.add("argmax", {{"axis", i64{1}}}, {b.input({3, 40}, DType::I32)});
  EXPECT_EQ(b.range(b.rows(50, best)), (IndexRange{-100, 101}));
}

TEST(RandomInputs, TakeAllOfTheRange) {
  Builder b;
  ValueId words = b.input({20, 20}, DType::I64), pixels = b.input({400}, DType::I8);
  b.builder.output(b.rows(50, words), "rows");
  b.builder.output(b.add("absolute", {}, {pixels}), "y");
  std::vector<HostArray> inputs = random_inputs(b.builder.finish(), 1);
  auto ends = [](const HostArray& array) {
    std::vector<double> all;
    for (i64 i = 0; i < array.elements(); ++i) all.push_back(array.get(i));
    auto [low, high] = std::ranges::minmax(all);
    std::ranges::sort(all);
    all.erase(std::ranges::unique(all).begin(), all.end());
    EXPECT_GT(all.size(), 40u);
    return std::pair(low, high);
  };
  EXPECT_EQ(ends(inputs[0]), std::pair(0., 49.));
  EXPECT_EQ(ends(inputs[1]), std::pair(-128., 127.));
  // Where nothing is known of it: what a mask and an index may be.
  HostArray unknown = random_inputs({{.name = "i", .dtype = DType::I64, .shape = {40}}}, 1)[0];
  for (i64 i = 0; i < unknown.elements(); ++i) EXPECT_TRUE(unknown.get(i) == 0 || unknown.get(i) == 1);
}

}  // namespace
}  // namespace tw
