// What two programs have in common: the structural hash, and the normalized one that names a candidate.
#include "dsl/ir/compare.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/parsed.h"

namespace tw {
namespace {

class Hashes : public testing::Test {
 protected:
  Program parse(const std::string& body) {
    parsed_.push_back(test::parsed("program p(X: input f32[8, 6], Y: output f32[8, 6]) {\n" + body + "\n}\n"));
    return parsed_.back().program;
  }
  // Different programs that are one candidate.
  void expect_one_candidate(const std::string& a, const std::string& b) {
    Program x = parse(a), y = parse(b);
    EXPECT_FALSE(structurally_equal(x, y));
    EXPECT_NE(structural_hash(x), structural_hash(y));
    EXPECT_EQ(normalized_hash(x), normalized_hash(y)) << a << b;
  }
  void expect_two_candidates(const std::string& a, const std::string& b) {
    EXPECT_NE(normalized_hash(parse(a)), normalized_hash(parse(b))) << a << b;
  }
  static std::string nest(const std::string& loops, const std::string& i, const std::string& j) {
    return loops + " block b(x: S 8 = " + i + ", y: S 6 = " + j + ") { Y[x, y] = X[x, y] } " +
           std::string(std::count(loops.begin(), loops.end(), '{'), '}');
  }

  std::vector<OwnedProgram> parsed_;
};

TEST_F(Hashes, UnitLoopsAreLeftOut) {
  expect_one_candidate(nest("for i in 8 { for u in 1 { for j in 6 {", "i + u", "j"),
                       nest("for u in 1 { for i in 8 { for j in 6 {", "u + i", "j"));
  expect_one_candidate(nest("for i in 8 { for j in 6 { unroll for u in 1 {", "i", "j * 1 + u"),
                       nest("for i in 8 { for j in 6 {", "i", "j"));
}

TEST_F(Hashes, AffineIndicesAreReadInNormalForm) {
  expect_one_candidate(nest("for a in 2 { for b in 4 { for j in 6 {", "a * 4 + b", "j"),
                       nest("for a in 2 { for b in 4 { for j in 6 {", "b + a * 4", "j"));
  expect_one_candidate(nest("for i in 8 { for u in 1 { for j in 6 {", "(i + u) % 8", "j"),
                       nest("for i in 8 { for j in 6 {", "i % 8", "j"));
}

TEST_F(Hashes, WhatCompilesToOtherCodeIsAnother) {
  expect_two_candidates(nest("for i in 8 { for j in 6 {", "i", "j"), nest("for j in 6 { for i in 8 {", "i", "j"));
  expect_two_candidates(nest("for i in 8 { for j in 6 {", "i", "j"),
                        nest("for i in 8 { vectorize for j in 6 {", "i", "j"));
  expect_two_candidates(nest("for a in 2 { for b in 4 { for j in 6 {", "a * 4 + b", "j"),
                        nest("for a in 2 { for b in 4 { for j in 6 {", "a + b * 2", "j"));
  expect_two_candidates(nest("for a in 2 { for b in 4 { for j in 6 {", "a * 4 + b", "j"),
                        nest("for a in 4 { for b in 2 { for j in 6 {", "a * 2 + b", "j"));
}

}  // namespace
}  // namespace tw
