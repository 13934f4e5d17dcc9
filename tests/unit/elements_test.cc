// The random data that kernels are compared and timed on: its distribution, and that it is the same everywhere.
#include "runtime/measure/elements.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <vector>

namespace tw {
namespace {

constexpr i64 kCount = 400000;

template <class T>
std::vector<T> draw(DType type, u64 seed = 1, const char* name = "A", int set = 0, i64 count = kCount) {
  std::vector<T> out(static_cast<std::size_t>(count));
  fill_input(seed, name, set, type, count, reinterpret_cast<char*>(out.data()));
  return out;
}

// Of numbers beyond `deviations` standard deviations.
double share_beyond(const std::vector<float>& values, double deviations) {
  double limit = deviations / std::sqrt(3.0), count = 0;
  for (float value : values) count += std::fabs(value) > limit;
  return count / static_cast<double>(values.size());
}

TEST(FillInput, FloatsAreNormalWithVarianceOneThird) {
  std::vector<float> values = draw<float>(DType::F32);
  double sum = 0, squares = 0, cubes = 0;
  for (float value : values) sum += value, squares += value * value, cubes += value * value * value;
  // Five standard deviations of these means.
  EXPECT_NEAR(sum / kCount, 0, 5 * std::sqrt(1.0 / 3 / kCount));
  EXPECT_NEAR(squares / kCount, 1.0 / 3, 5 * std::sqrt(2.0 / 9 / kCount));
  EXPECT_NEAR(cubes / kCount, 0, 5 * std::sqrt(15.0 / 27 / kCount));
  // Of a normal distribution, and near the end as far as a sum of sixteen has them.
  for (double deviations : {0.25, 0.5, 1.0, 1.5, 2.0, 2.5}) {
    double share = std::erfc(deviations / std::sqrt(2.0));
    EXPECT_NEAR(share_beyond(values, deviations), share, 0.005) << deviations;
  }
  EXPECT_NEAR(share_beyond(values, 3), 0.0024, 0.0005);  // 0.0027
  EXPECT_GT(share_beyond(values, 4), 0);
  EXPECT_EQ(share_beyond(values, 4 * std::sqrt(3.0)), 0);
}

TEST(FillInput, AllBitsOfFloatsAreRandom) {
  std::set<float> different;
  std::vector<float> values = draw<float>(DType::F32);
  int ones[24] = {};
  for (float value : values) {
    u32 bits;
    std::memcpy(&bits, &value, sizeof bits);
    for (int bit = 0; bit < 23; ++bit) ones[bit] += bits >> bit & 1;
    ones[23] += bits >> 31;
    different.insert(value);
    ASSERT_NE(value, 0);
  }
  for (int bit : {0, 1, 2, 5, 10, 15, 23}) EXPECT_NEAR(ones[bit], kCount / 2, kCount / 100) << "bit " << bit;
  EXPECT_GT(different.size(), kCount * 0.95);
}

// These numbers belong to stored seeds: other ones on another machine, or tomorrow, are an error.
TEST(FillInput, DependsOnSeedNameAndSetAlone) {
  std::vector<double> values = draw<double>(DType::F64, 7, "A", 0, 3);
  EXPECT_EQ(values, (std::vector<double>{0x1.a62a77cb878d0p-2, -0x1.9077903bf7660p-4, 0x1.69a88a583e940p-3}));
  EXPECT_EQ(draw<float>(DType::F32), draw<float>(DType::F32));
  for (const std::vector<float>& other :
       {draw<float>(DType::F32, 2), draw<float>(DType::F32, 1, "B"), draw<float>(DType::F32, 1, "A", 1)}) {
    std::vector<float> first = draw<float>(DType::F32);
    double product = 0;
    for (std::size_t i = 0; i < first.size(); ++i) product += first[i] * other[i];
    EXPECT_NEAR(product / kCount, 0, 5.0 / 3 / std::sqrt(double{kCount}));  // independent
  }
}

// Narrow floats are the wide ones, cut: none overflows, and few bits are lost only near 0.
TEST(FillInput, NarrowFloatsAreTheWideOnesTruncated) {
  std::vector<double> wide = draw<double>(DType::F64);
  struct Row {
    DType type;
    Tolerance tolerance;
  };
  for (const Row& row :
       {Row{DType::F32, {0, 0x1p-24}}, Row{DType::F16, {0x1p-24, 0x1p-10}}, Row{DType::BF16, {0, 0x1p-7}}}) {
    std::vector<char> narrow(static_cast<std::size_t>(kCount * bytes_of(row.type)));
    fill_input(1, "A", 0, row.type, kCount, narrow.data());
    Elements actual{narrow.data(), row.type, kCount},
        expected{reinterpret_cast<const char*>(wide.data()), DType::F64, kCount};
    Comparison found = compare(actual, expected, row.tolerance);
    EXPECT_EQ(found.wrong, 0) << bytes_of(row.type) << " bytes: " << found.actual << " instead of " << found.expected;
  }
}

// A float whose error may be anything is only asked to be finite, which every integer is.
TEST(CompareElements, AnIntegerOfWhichNothingIsKnownHasToBeTheSame) {
  const double variances[] = {std::numeric_limits<double>::infinity(), std::nan("")}, two[] = {1, 2}, other[] = {1, 7};
  const std::int32_t whole[] = {1, 2}, changed[] = {1, 7};
  auto wrong = [&](DType type, const void* actual, const void* expected) {
    return compare({static_cast<const char*>(actual), type, 2}, {static_cast<const char*>(expected), type, 2}, {},
                   variances)
        .wrong;
  };
  EXPECT_EQ(wrong(DType::F64, other, two), 0);
  EXPECT_EQ(wrong(DType::I32, changed, whole), 1);
  EXPECT_EQ(wrong(DType::I32, whole, whole), 0);
}

// Data is drawn in pieces, between which it may be stopped.
TEST(FillInput, LongDataBeginsAsShortDataDoes) {
  constexpr i64 kLong = 600'000, kShort = 1000;
  std::vector<float> all(kLong), beginning(kShort);
  EXPECT_TRUE(fill_input(1, "A", 0, DType::F32, kLong, reinterpret_cast<char*>(all.data())));
  EXPECT_TRUE(fill_input(1, "A", 0, DType::F32, kShort, reinterpret_cast<char*>(beginning.data())));
  EXPECT_TRUE(std::equal(beginning.begin(), beginning.end(), all.begin()));
  EXPECT_NE(all.back(), 0);
  int asked = 0;
  EXPECT_FALSE(
      fill_input(1, "A", 0, DType::F32, kLong, reinterpret_cast<char*>(all.data()), {}, [&] { return ++asked == 2; }));
}

template <class T>
void check_indices(DType type, IndexRange range, i64 most) {
  std::vector<T> values(1000);
  fill_input(1, "A", 0, type, std::ssize(values), reinterpret_cast<char*>(values.data()), range);
  std::set<T> found(values.begin(), values.end());
  EXPECT_GE(i64{*found.begin()}, range.lowest);
  EXPECT_LT(i64{*found.rbegin()}, range.below);
  EXPECT_EQ(std::ssize(found), std::min(range.below - range.lowest, most)) << "all of them occur";
}

TEST(FillInput, IndicesAreAllInTheirRange) {
  for (IndexRange range : {IndexRange{-3, 3}, {0, 2}, {0, 1}, {-1, 5}, {-100, 100}}) {
    check_indices<i64>(DType::I64, range, 16);
    check_indices<std::int32_t>(DType::I32, range, 16);
    check_indices<std::int8_t>(DType::I8, range, 16);
    if (range.lowest == 0) check_indices<u8>(DType::U8, range, 8);
  }
}

TEST(Elements, WhatWasNotComputed) {
  std::vector<float> values(5000, 1.5F);
  Elements all{reinterpret_cast<const char*>(values.data()), DType::F32, 5000};
  EXPECT_EQ(find_filled(all, 0xff), -1);
  EXPECT_EQ(find_not_a_number(all), -1);
  std::memset(&values[4321], 0xa5, sizeof(float));
  reinterpret_cast<char*>(&values[17])[1] = static_cast<char>(0xa5);  // a part of one is not enough
  EXPECT_EQ(find_filled(all, 0xa5), 4321);
  values[2000] = std::nanf("");
  EXPECT_EQ(find_not_a_number(all), 2000);
  const std::vector<i64> positions{4999, 0, 2000};
  std::string picked = gather(all, positions);
  ASSERT_EQ(picked.size(), 3 * sizeof(float));
  float first = 0, last = 0;
  std::memcpy(&first, picked.data(), sizeof first), std::memcpy(&last, picked.data() + 8, sizeof last);
  EXPECT_EQ(first, 1.5F);
  EXPECT_TRUE(std::isnan(last));
  EXPECT_EQ(find_not_a_number({reinterpret_cast<const char*>(values.data()), DType::I32, 5000}), -1);
}

// Every half is the number that its bits say, and of each type those that are no numbers are found.
TEST(Elements, EveryHalf) {
  for (DType type : {DType::F16, DType::BF16}) {
    int fraction_bits = type == DType::F16 ? 10 : 7, bias = type == DType::F16 ? 15 : 127;
    for (u32 pattern = 0; pattern < 1u << 16; ++pattern) {
      auto bits = static_cast<std::uint16_t>(pattern);
      u32 exponent = (pattern & 0x7fff) >> fraction_bits, fraction = pattern & ((1u << fraction_bits) - 1);
      bool is_last = exponent == (1u << (15 - fraction_bits)) - 1;
      double value = std::ldexp(exponent == 0 ? fraction : fraction + (1u << fraction_bits),
                                static_cast<int>(std::max(exponent, 1u)) - bias - fraction_bits);
      if (is_last) value = fraction != 0 ? std::nan("") : std::numeric_limits<double>::infinity();
      if (pattern & 0x8000) value = -value;
      Elements half{reinterpret_cast<const char*>(&bits), type, 1},
          wide{reinterpret_cast<const char*>(&value), DType::F64, 1};
      ASSERT_TRUE(compare(half, wide, {}, nullptr).is_right()) << pattern << " is " << value;
      ASSERT_EQ(find_not_a_number(half), is_last && fraction != 0 ? 0 : -1) << pattern;
    }
  }
}

TEST(Elements, NoNumbersOfWideTypes) {
  std::vector<double> values(3000, -std::numeric_limits<double>::infinity());
  Elements all{reinterpret_cast<const char*>(values.data()), DType::F64, 3000};
  EXPECT_EQ(find_not_a_number(all), -1);
  values[2999] = -std::nan("");
  EXPECT_EQ(find_not_a_number(all), 2999);
}

TEST(FillInput, IntegersAreUniformAndSmall) {
  std::vector<int> counts(16);
  for (std::int8_t value : draw<std::int8_t>(DType::I8)) ++counts.at(static_cast<std::size_t>(value + 8));
  for (int count : counts) EXPECT_NEAR(count, kCount / 16, kCount / 100);
  std::vector<int> unsigned_counts(8), truths(2);
  for (u8 value : draw<u8>(DType::U8)) ++unsigned_counts.at(value);
  for (int count : unsigned_counts) EXPECT_NEAR(count, kCount / 8, kCount / 100);
  for (u8 value : draw<u8>(DType::Bool)) ++truths.at(value);
  for (int count : truths) EXPECT_NEAR(count, kCount / 2, kCount / 100);
}

}  // namespace
}  // namespace tw
