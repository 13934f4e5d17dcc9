// Features by hand: whole rows for small products, the published row of the reference for a scheduled one, and what
// must hold for any program: finite numbers, nothing that depends on names, ids or on what the extractor saw before.
#include "costmodel/features.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "dsl/ir/print.h"
#include "support/device_schedules.h"
#include "support/parsed.h"
#include "support/random_program.h"
#include "support/random_schedule.h"
#include "support/scheduled.h"

namespace tw {
namespace {

using Row = std::map<std::string, double>;  // by name of the column

std::vector<Row> rows_of(const Program& program, const FeatureTarget& target = {}) {
  std::vector<float> values;
  extract_features(program, target, values);
  std::vector<Row> rows;
  const std::vector<std::string>& names = feature_names();
  for (std::size_t at = 0; at < values.size(); ++at) {
    if (at % names.size() == 0) rows.emplace_back();
    rows.back()[names[at % names.size()]] = values[at];
  }
  return rows;
}

double slog(double value) { return std::log2(value + 1); }

// Every column whose name begins with the prefix, in order of the names: equal to what is listed, 0 where nothing is.
void expect_columns(const Row& row, const std::string& prefix, const Row& expected) {
  std::size_t met = 0;
  for (const auto& [name, value] : row) {
    if (!name.starts_with(prefix)) continue;
    auto found = expected.find(name.substr(prefix.size()));
    EXPECT_NEAR(value, found == expected.end() ? 0 : found->second, 1e-5 * std::max(1.0, value)) << name;
    met += found != expected.end();
  }
  EXPECT_EQ(met, expected.size()) << "a name that is no column, after " << prefix;
}

TEST(Features, EveryColumnHasANameOfItsOwn) {
  const std::vector<std::string>& names = feature_names();
  EXPECT_EQ(static_cast<int>(names.size()), feature_columns());
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
  EXPECT_EQ(names[kReferenceColumns - 1], "auto_unroll_max_step");
  for (const std::string& name : names) EXPECT_FALSE(name.empty());
}

TEST(Features, PlainProductByHand) {
  test::Scheduled plain("matmul(M = 16, N = 16, K = 16)", {}, "");
  std::vector<Row> rows = rows_of(plain.program());
  ASSERT_EQ(rows.size(), 1u);  // the init stores a literal
  const Row& row = rows[0];
  expect_columns(row, "float_", {{"add_sub", slog(4096)}, {"mul", slog(4096)}});
  expect_columns(row, "int_", {});
  for (const char* mark : {"vectorize.", "unroll.", "parallel."}) expect_columns(row, mark, {{"none", 1}});
  // B[k, j]: a line per iteration. It comes back with the next i, after 256 iterations that touch a row of C and A and
  // all of B.
  expect_columns(row, "B0.",
                 {{"read", 1},
                  {"bytes", slog(4096 * 4)},
                  {"unique_bytes", slog(1024)},
                  {"lines", slog(4096)},
                  {"unique_lines", slog(16)},
                  {"loop_reuse", 1},
                  {"reuse_iterations", slog(256)},
                  {"reuse_bytes", slog(288 * 4)},
                  {"reuse_count", slog(16)},
                  {"bytes_per_reuse", slog(1024)},
                  {"unique_bytes_per_reuse", slog(64)},
                  {"lines_per_reuse", slog(256)},
                  {"unique_lines_per_reuse", slog(1)},
                  {"stride", slog(16)}});
  // A[i, k]: a line per 16 iterations. It comes back with the next j, after a row of A, a column of B and one element
  // of C.
  expect_columns(row, "B1.",
                 {{"read", 1},
                  {"bytes", slog(4096 * 4)},
                  {"unique_bytes", slog(1024)},
                  {"lines", slog(256)},
                  {"unique_lines", slog(16)},
                  {"loop_reuse", 1},
                  {"reuse_iterations", slog(16)},
                  {"reuse_bytes", slog(33 * 4)},
                  {"reuse_count", slog(16)},
                  {"bytes_per_reuse", slog(1024)},
                  {"unique_bytes_per_reuse", slog(64)},
                  {"lines_per_reuse", slog(16)},
                  {"unique_lines_per_reuse", slog(1)},
                  {"stride", slog(1)}});
  // C[i, j] stays for the whole of k.
  expect_columns(row, "B2.",
                 {{"read_write", 1},
                  {"bytes", slog(4096 * 4)},
                  {"unique_bytes", slog(1024)},
                  {"lines", slog(16)},
                  {"unique_lines", slog(16)},
                  {"loop_reuse", 1},
                  {"reuse_iterations", slog(1)},
                  {"reuse_bytes", slog(12)},
                  {"reuse_count", slog(16)},
                  {"bytes_per_reuse", slog(1024)},
                  {"unique_bytes_per_reuse", slog(64)},
                  {"lines_per_reuse", slog(1)},
                  {"unique_lines_per_reuse", slog(1)}});
  expect_columns(row, "B3.", {});
  expect_columns(row, "B4.", {});
  // 32 operations on 132 bytes in k, 512 on 1152 in j and k, 8192 on 3072 in all; straight lines between.
  EXPECT_NEAR(row.at("intensity_0"), slog(512.0 / 1152 + (8192.0 / 3072 - 512.0 / 1152) * (819.2 - 512) / (8192 - 512)),
              1e-5);
  EXPECT_NEAR(row.at("intensity_9"), slog(8192.0 / 3072), 1e-5);
  expect_columns(row, "alloc_",
                 {{"bytes", slog(1024)}, {"elements_all", slog(256)}, {"outer", slog(1)}, {"inner", slog(4096)}});
  EXPECT_NEAR(row.at("outer_prod"), slog(4096), 1e-5);
  EXPECT_NEAR(row.at("loops"), slog(3), 1e-5);
  EXPECT_EQ(row.at("auto_unroll_max_step"), 0);
  // How it runs: one element at a time, each sum waits for the one before, all data in L1.
  EXPECT_NEAR(row.at("lanes"), slog(1), 1e-5);
  EXPECT_NEAR(row.at("lane_use"), 1.0 / 8, 1e-6);
  EXPECT_NEAR(row.at("trip_count"), slog(16), 1e-5);
  EXPECT_NEAR(row.at("fma_all"), slog(4096), 1e-5);
  EXPECT_NEAR(row.at("accumulators"), slog(1), 1e-5);
  expect_columns(row, "reads_", {{"contiguous", slog(1)}, {"stepping", slog(1)}});
  expect_columns(row, "traffic_", {});
}

TEST(Features, MarkedProductByHand) {
  test::Scheduled marked("matmul(M = 16, N = 16, K = 16)", {}, R"(b = get_block("C")
i, j, k = get_loops(b)
j0, jv = split(j, [_, 8])
k0, k1 = split(k, [_, 4])
reorder([i, j0, k0, k1, jv])
parallel(i)
unroll(k1)
vectorize(jv)
)");
  std::vector<Row> rows = rows_of(marked.program(), {.threads = 3});
  ASSERT_EQ(rows.size(), 1u);
  const Row& row = rows[0];
  expect_columns(row, "vectorize.", {{"num", 1}, {"prod", slog(8)}, {"len", slog(8)}, {"mixed", 1}});
  expect_columns(row, "unroll.", {{"num", 1}, {"prod", slog(4)}, {"len", slog(4)}, {"mixed", 1}});
  expect_columns(row, "parallel.", {{"num", 1}, {"prod", slog(16)}, {"len", slog(16)}, {"mixed", 1}});
  // j = j0 * 8 + jv in C and B, k = k0 * 4 + k1 in A and B.
  expect_columns(row, "int_", {{"add_sub", slog(4 * 4096)}, {"mul", slog(4 * 4096)}});
  EXPECT_NEAR(row.at("lanes"), slog(8), 1e-5);
  EXPECT_EQ(row.at("lane_use"), 1);
  EXPECT_NEAR(row.at("body_instances"), slog(4), 1e-5);
  EXPECT_NEAR(row.at("body_runs"), slog(16 * 2 * 4), 1e-5);
  EXPECT_NEAR(row.at("vector_loads"), slog(4 + 1), 1e-5);  // of B and, as it is no register buffer, of C
  EXPECT_NEAR(row.at("broadcast_loads"), slog(4), 1e-5);
  expect_columns(row, "reads_", {{"contiguous", slog(1)}, {"broadcast", slog(1)}});
  EXPECT_NEAR(row.at("chunks"), slog(16), 1e-5);
  EXPECT_NEAR(row.at("idle_threads"), 1 - 16.0 / 6 / 3, 1e-5);  // 6 of 16 rows for the busiest of 3 threads
  EXPECT_NEAR(row.at("parallel_starts"), slog(1), 1e-5);
}

TEST(Features, GridOfADevice) {
  test::Scheduled tiled("matmul(M = 16, N = 32, K = 16)", {},
                        cat(test::gpu_gemm_schedule({.ty = 2, .tx = 4, .rows = 2, .columns = 4, .depth = 4}),
                            "pipeline(k0, 3)\nfirst = get_block(\"A_shared\")\nmake_async(first)\n"));
  std::vector<Row> rows = rows_of(tiled.program());
  ASSERT_EQ(rows.size(), 4u);  // two copies, the sum, and the copy out
  for (const Row& row : rows) {
    EXPECT_EQ(row.at("is_gpu"), 1);
    EXPECT_NEAR(row.at("groups"), slog(4 * 2), 1e-5);
    EXPECT_NEAR(row.at("group_threads"), slog(2 * 4), 1e-5);
    EXPECT_NEAR(row.at("block_x"), slog(2), 1e-5);
    EXPECT_NEAR(row.at("block_y"), slog(4), 1e-5);
    EXPECT_NEAR(row.at("thread_x"), slog(4), 1e-5);
    EXPECT_NEAR(row.at("thread_y"), slog(2), 1e-5);
    EXPECT_NEAR(row.at("vthread"), slog(1), 1e-5);
  }
  for (int copy : {0, 1}) EXPECT_EQ(rows[copy].at("is_shared_copy"), 1);
  for (int store : {0, 1, 2, 3}) EXPECT_EQ(rows[store].at("is_async"), store == 0);
  const Row& sum = rows[2];
  EXPECT_EQ(sum.at("is_shared_copy"), 0);
  EXPECT_NEAR(sum.at("shared_reads"), slog(2), 1e-5);
  EXPECT_NEAR(sum.at("stages"), slog(2), 1e-5);
  EXPECT_NEAR(sum.at("points_each"), slog(16.0 * 32 * 16 / 64), 1e-5);
  EXPECT_EQ(rows[3].at("shared_reads"), 0);
}

TEST(Features, ThePrefetchMark) {
  auto prefetch = [](const std::string& mark) {
    test::Scheduled scheduled("matmul(M = 8, N = 8, K = 8)", {},
                              "b = get_block(\"C\")\ni, j, k = get_loops(b)\n" + mark);
    const Row row = rows_of(scheduled.program())[0];
    EXPECT_EQ(row.at("groups"), 0);
    EXPECT_EQ(row.at("is_gpu"), 0);
    return row.at("prefetch");
  };
  EXPECT_EQ(prefetch(""), 0);
  EXPECT_NEAR(prefetch("annotate(k, \"prefetch\", 8192)\n"), slog(8192), 1e-5);
}

// What the reference's own test publishes for this schedule (apache/tvm,
// test_meta_schedule_feature_extractor_per_store_feature.py).
TEST(Features, RowOfTheReference) {
  test::Scheduled scheduled("matmul(M = 512, N = 512, K = 512)", {}, R"(b = get_block("C")
i, j, k = get_loops(b)
i_o, i_i = split(i, [_, 16])
j_o, j_i = split(j, [_, 8])
reorder([i_o, j_o, k, j_i, i_i])
vectorize(j_i)
parallel(i_o)
parallel(j_o)
unroll(k)
)");
  std::vector<float> row;
  extract_features(scheduled.program(), {}, row);
  ASSERT_EQ(static_cast<int>(row.size()), feature_columns());
  const std::vector<double> published = {
      0,         27,        27,       0,          0,          0,          0,         0, 29, 29, 0,
      0,         0,         0,        0,          0,                                                // operations
      1,         3.169924,  3.169924, 0,          0,          0,          0,         0, 0,  0,  1,  // vectorize
      1,         9.002815,  9.002815, 0,          0,          0,          0,         0, 0,  0,  1,  // unroll
      1.58496,   11.0007,   6.022368, 0,          0,          0,          0,         0, 0,  0,  1,  // parallel
      0,         1,         1,        1,          1,          1,          1,         1,             // no GPU
      1,         0,         0,        29,         20,         27,         14,        1, 0,  0,  4.087463,
      7.0552826, 3.169925,  26,       17,         24,         11.0007038, 9.002815,  // A
      0,         0,         1,        29,         20,         27,         14,        1, 0,  0,  7.0112271,
      9.2502985, 9.0028152, 20,       11.0007038, 18,         5.0443940,  9.0028152,  // C
      1,         0,         0,        29,         20,         19,         14,        1, 0,  0,  1,
      3.7004397, 4.0874629, 25,       16,         15.0000438, 10.0014082, 0};  // B
  for (std::size_t at = 0; at < published.size(); ++at)
    EXPECT_NEAR(row[at], published[at], 1e-4) << feature_names()[at];
  const std::vector<double> curve = {3.812599, 4.464822, 4.912349, 5.253426, 5.529086,
                                     5.76043,  5.959752, 6.134849, 6.290977, 6.431846};
  for (std::size_t at = 0; at < curve.size(); ++at) EXPECT_NEAR(row[147 + at], curve[at], 1e-4) << at;
  const std::vector<double> rest = {20, 18, 1, 27, 27, 2.5849626, 0};
  for (std::size_t at = 0; at < rest.size(); ++at)
    EXPECT_NEAR(row[157 + at], rest[at], 1e-4) << feature_names()[157 + at];
}

TEST(Features, RegisterTile) {
  test::Scheduled tile("dense(M = 96, N = 96, K = 64)", {},
                       test::dense_schedule({.rows = 6, .columns = 16, .unroll = 4}));
  std::vector<Row> rows = rows_of(tile.program());
  ASSERT_EQ(rows.size(), 2u);  // the sum and the copy out; setting to 0 and packing ahead of the call have no row
  const Row& sum = rows[0];
  EXPECT_EQ(sum.at("in_registers"), 1);
  EXPECT_NEAR(sum.at("accumulators"), slog(6 * 2), 1e-5);
  EXPECT_NEAR(sum.at("operands"), slog(2 + 1), 1e-5);  // a row of the packed panel, one element of X
  EXPECT_EQ(sum.at("registers_over"), 0);
  EXPECT_NEAR(sum.at("vector_loads"), slog(4 * 2), 1e-5);
  EXPECT_NEAR(sum.at("broadcast_loads"), slog(4 * 6), 1e-5);
  EXPECT_NEAR(sum.at("reads_prepacked"), slog(1), 1e-5);
  EXPECT_EQ(sum.at("waste"), 0);
  // The tile exists once per i_0 and j_0.
  expect_columns(
      sum, "alloc_",
      {{"bytes", slog(96 * 4)}, {"elements_all", slog(96 * 96)}, {"outer", slog(16 * 6)}, {"inner", slog(96 * 64)}});
  EXPECT_NEAR(rows[1].at("reads_contiguous"), slog(1), 1e-5);
}

TEST(Features, SpillsAndTails) {
  test::Scheduled tile("dense(M = 100, N = 96, K = 64)", {}, test::dense_schedule({.rows = 14, .columns = 32}));
  Row sum = rows_of(tile.program())[0];
  EXPECT_NEAR(sum.at("registers_over"), slog(14 * 4 + 1 + 1 - 16), 1e-5);
  EXPECT_NEAR(sum.at("waste"), 1 - 100.0 / 112, 1e-5);
}

TEST(Features, IdsAndTheExtractorsPastDoNotCount) {
  FeatureExtractor used({});
  Rng rng(7);
  test::Acceptance acceptance;
  std::vector<const InstructionKind*> kinds = test::changing_kinds();
  std::vector<float> first, again, of_copy;
  int with_rows = 0;
  for (int i = 0; i < 1000; ++i) {
    std::string use;
    OwnedProgram base = test::random_program(rng, use);
    Schedule schedule(base.program, static_cast<u64>(i));
    for (i64 steps = rng.below(9); steps > 0; --steps) {
      test::apply_random(schedule, *kinds[static_cast<std::size_t>(rng.below(static_cast<i64>(kinds.size())))], rng,
                         acceptance);
    }
    extract_features(schedule.program(), {}, first);
    used.extract(schedule.program(), again);
    EXPECT_EQ(first, again) << use;
    for (std::size_t at = 0; at < first.size(); ++at) {
      ASSERT_TRUE(std::isfinite(first[at])) << feature_names()[at % feature_names().size()] << "\n"
                                            << print(schedule.program());
    }
    with_rows += !first.empty();
    extract_features(test::parsed(print(schedule.program())).program, {}, of_copy);
    EXPECT_EQ(first, of_copy) << print(schedule.program());
  }
  EXPECT_GT(with_rows, 900);
}

}  // namespace
}  // namespace tw
