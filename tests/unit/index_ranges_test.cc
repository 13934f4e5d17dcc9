// Which values parameters may have that are indices.
#include "dsl/analysis/index_ranges.h"

#include <gtest/gtest.h>

#include "support/parsed.h"

namespace tw {
namespace {

std::map<std::string, IndexRange> ranges_of(const std::string& parameters, const std::string& body) {
  OwnedProgram parsed = test::parsed("program p(" + parameters + ") {\n" + body + "\n}\n");
  std::map<std::string, IndexRange> named;
  for (const auto& [buffer, range] : index_ranges(parsed.program)) named[std::string(buffer->name)] = range;
  return named;
}

TEST(IndexRanges, OfAParameterThatIsAnIndex) {
  auto found = ranges_of("I: input i32[4], X: input f32[3, 5], N: input i64[4], Y: output f32[4]",
                         "for i in 4 { block Y(i: S 4 = i) { Y[i] = X[i64(I[i]), 2] } }");
  ASSERT_EQ(found.size(), 1u) << "N is no index";
  EXPECT_EQ(found["I"], (IndexRange{0, 3}));
}

TEST(IndexRanges, NegativeOnesWhereTheIndexIsTested) {
  auto found = ranges_of("I: input i64[4], X: input f32[3], Y: output f32[4]",
                         "for i in 4 { block Y(i: S 4 = i) { Y[i] = X[if I[i] < 0 then I[i] + 3 else I[i]] } }");
  EXPECT_EQ(found["I"], (IndexRange{-3, 3}));
}

TEST(IndexRanges, TheSmallestOfSeveralTables) {
  auto found = ranges_of("I: input i64[4], X: input f32[9], Z: input f32[2], Y: output f32[4]",
                         "for i in 4 { block Y(i: S 4 = i) { Y[i] = X[I[i]] + Z[I[i]] } }");
  EXPECT_EQ(found["I"], (IndexRange{0, 2}));
}

TEST(IndexRanges, ByWayOfOtherBuffersAndWhereItWrites) {
  auto found = ranges_of("I: input i32[4], X: input f32[4], Y: output f32[6]",
                         "local J: i64[4]\n"
                         "for i in 4 { block J(i: S 4 = i) { J[i] = i64(I[i]) } }\n"
                         "for i in 4 { block Y(i: S 4 = i) { Y[J[i]] = X[i] } }");
  ASSERT_EQ(found.size(), 1u) << "J is no parameter";
  EXPECT_EQ(found["I"], (IndexRange{0, 6}));
}

}  // namespace
}  // namespace tw
