// Databases for tests of reports: tasks with trials whose times and schedules are known.
#pragma once
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "backends/target.h"
#include "dsl/base/text.h"
#include "dsl/ir/compare.h"
#include "runtime/store/database.h"

namespace tw::test {

inline constexpr const char* kMachine = "Test CPU, L1 32 KiB, L2 1024 KiB, L3 0 KiB";
inline constexpr const char* kTarget = "cpu -mcpu=znver3 -threads=1";

// C[64, 64] = A[64, 32] x B[32, 64].
inline constexpr const char* kSmallMatmul =
    R"(program matmul(A: input f32[64, 32], B: input f32[32, 64], C: output f32[64, 64]) {
  for i in 64 {
    for j in 64 {
      for k in 32 {
        block C(i: S 64 = i, j: S 64 = j, k: R 32 = k) {
          init {
            C[i, j] = 0.0
          }
          C[i, j] = C[i, j] + A[i, k] * B[k, j]
        }
      }
    }
  }
}
)";

// A schedule whose decisions are the width of a tile and how far a sum is unrolled, by index.
inline std::string small_schedule(int tile, int unrolled) {
  return cat("  b_C = get_block(\"C\")\n  i, j, k = get_loops(b_C)\n  t0, t1 = sample_perfect_tile(j, 2) @ [",
             64 / tile, ", ", tile, "]\n  u = sample_categorical([1, 2, 4]) @ ", unrolled,
             "\n  j0, j1 = split(j, [t0, t1])\n  k0, k1 = split(k, [_, u])\n  unroll(k1)\n");
}

struct Trial {
  std::string status = "ok";
  double us = 0;
  std::string schedule, error;
};

// The database of a file, made if there is none.
inline Database open_for_records(const std::string& path) {
  auto database = Database::open(path, DatabaseMode::Write);
  TW_CHECK(bool(database), "the database of a test");
  return std::move(*database);
}

inline void add_trials(Database& database, const std::string& task, const std::vector<Trial>& trials,
                       const std::string& machine = kMachine, const std::string& workload = kSmallMatmul,
                       const std::string& target = kTarget) {
  std::string hash = to_hex(hash_bytes(workload));
  ASSERT_TRUE(database.add_workload(hash, workload));
  for (const Trial& trial : trials) {
    double seconds = trial.us * 1e-6;
    auto id = database.add_record({.workload = hash,
                                   .target = target,
                                   .status = trial.status,
                                   .seconds = seconds,
                                   .minimum = seconds,
                                   .first_quartile = seconds,
                                   .median = seconds,
                                   .third_quartile = seconds,
                                   .task = task,
                                   .program = to_hex(hash_bytes(cat(task, trial.schedule, trial.us))),
                                   .version = TW_VERSION,
                                   .host = machine,
                                   .error = trial.error,
                                   .trace = trial.schedule});
    ASSERT_TRUE(id) << id.error();
  }
}

}  // namespace tw::test
