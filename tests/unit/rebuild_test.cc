// Traces that become kernels again, also those of another target.
#include "sampler/tasks/rebuild.h"

#include <gtest/gtest.h>

#include "sampler/search/trial.h"
#include "support/parsed.h"
#include "tests/unit/search_kit.h"

namespace tw {
namespace {

// 8 rows, 32 steps of the sum and 128 columns are unrolled.
constexpr const char* kMuchCode = R"(b = get_block("Y")
i, j, k = get_loops(b)
i0, i1 = split(i, [_, 8])
j0, j1, jv = split(j, [_, 8, 16])
k0, k1 = split(k, [_, 32])
reorder([i0, j0, k0, k1, i1, j1, jv])
unroll(k1)
unroll(i1)
unroll(j1)
vectorize(jv)
)";

TEST(Rebuild, CodeThatASearchWouldNotMakeIsMadeOfAGivenTrace) {
  TuneTask task = task_of("dense", {{"M", i64{32}}, {"N", i64{128}}, {"K", i64{64}}});
  for (const char* text : {"cpu -vector-bits=512 -vector-registers=32", "opencl -device=0 -group-threads=1024"}) {
    const Trace trace = test::parsed_schedule(kMuchCode);
    std::string error;
    std::optional<Rebuilt> rebuilt = rebuild(task.program, trace, test::parsed_target(text), error);
    ASSERT_TRUE(rebuilt) << text << ": " << error;
    Arena arena;
    Status searched = can_be_lowered(arena, rebuilt->scheduled, test::parsed_target(text));
    ASSERT_FALSE(searched) << text;
    EXPECT_NE(to_string(searched.rejected()).find("unrolled code"), std::string::npos);
  }
}

}  // namespace
}  // namespace tw
