// Postprocessors run twice: on a bare program while candidates are searched, and recorded when a candidate is stored.
// Both give the same program.
#include <gtest/gtest.h>

#include "dsl/base/text.h"
#include "dsl/ir/compare.h"
#include "dsl/ir/print.h"
#include "sampler/space/candidate.h"
#include "support/drawn_kernels.h"
#include "tests/unit/operator_kit.h"

namespace tw {
namespace {

Target target_of_set(const std::string& set) {
  Target target = host_target();
  target.threads = 2;
  bool is_cuda = set.find("cuda") != std::string::npos, is_opencl = set.find("opencl") != std::string::npos;
  if (is_cuda || is_opencl) target = test::cuda_target();
  if (is_opencl) target.kind = TargetKind::OpenCl;
  return target;
}

struct Compared {
  int equal = 0, rejected = 0, postprocessed = 0;
};

// The program that the search sees of a draw, and the one that replaying its whole trace gives.
void compare_one_draw(const CandidateSpace& space, CandidateBuilder& builder, int sketch, u64 seed, Compared& counts) {
  Candidate candidate;
  Rng rng(seed, static_cast<u64>(sketch));
  ASSERT_TRUE(builder.draw(sketch, candidate, rng));
  Status decided = builder.decide(candidate, &rng);
  if (!decided) return;
  Result<Program> searched = builder.finish(candidate);
  std::string errors;
  Result<Trace> trace = full_trace(space, candidate, &errors);
  ASSERT_EQ(errors, "");
  ASSERT_EQ(static_cast<bool>(searched), static_cast<bool>(trace))
      << (searched ? "only the recorded one is rejected: " + to_string(trace.rejected())
                   : "only the searched one is rejected: " + to_string(searched.rejected()));
  if (!searched) {
    EXPECT_EQ(searched.rejected().reason, trace.rejected().reason);
    ++counts.rejected;
    return;
  }
  Arena arena;
  State replayed(arena, space.base);
  Status status = replay(*trace, replayed);
  ASSERT_TRUE(status) << to_string(status.rejected()) << "\n" << trace->print();
  EXPECT_TRUE(structurally_equal(*searched, replayed.program())) << print(*searched) << "\n"
                                                                 << print(replayed.program()) << "\n"
                                                                 << trace->print();
  EXPECT_EQ(normalized_hash(replayed.program()), candidate.program);
  counts.postprocessed += trace->instructions().size() > space.space.sketches[sketch].trace.instructions().size() + 1;
  ++counts.equal;
}

// Every set on the target that it is for, every operator of the library.
class Postprocessors : public testing::TestWithParam<std::string> {};

TEST_P(Postprocessors, TheSearchedProgramIsTheReplayedTrace) {
  const rules::Library library = rules::Library::built_in();
  Target target = target_of_set(GetParam());
  Compared counts;
  for (const Signature& signature : signatures(operator_library())) {
    SCOPED_TRACE(signature.name);
    OwnedProgram program = workload(signature.name, arguments_for(signature));
    std::string errors;
    CandidateSpace space =
        make_candidate_space(program.program, *library.find_set(GetParam()), library, target, errors);
    ASSERT_EQ(errors, "");
    CandidateBuilder builder(space);
    auto sketches = static_cast<int>(space.space.sketches.size());
    int step = std::max(1, sketches / 8);  // of many sketches, eight
    for (int sketch = 0; sketch < sketches && !HasFatalFailure(); sketch += step) {
      for (u64 seed = 1; seed <= 3; ++seed) compare_one_draw(space, builder, sketch, seed, counts);
    }
  }
  EXPECT_GT(counts.equal, 0);
  bool has_posts = std::any_of(library.find_set(GetParam())->begin(), library.find_set(GetParam())->end(),
                               [](const rules::RuleUse& use) { return use.rule->is_post; });
  EXPECT_EQ(counts.postprocessed > 0, has_posts);
}

INSTANTIATE_TEST_SUITE_P(Sets, Postprocessors, testing::ValuesIn(rules::Library::built_in().set_names()),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// The program of a small product behind a set in text, as the search sees it; the recorded one must be the same.
std::string postprocessed(const std::string& module_text) {
  OwnedProgram product = workload("matmul", {{"M", i64{6}}, {"N", i64{8}}, {"K", i64{4}}});
  auto source = std::make_shared<Source>(Source{"my.tw", module_text});
  Diagnostics diagnostics(*source);
  rules::Library library = rules::Library::built_in();
  std::shared_ptr<const rules::Module> module = rules::parse_module(source, diagnostics);
  if (!module || !library.add(module, diagnostics)) return diagnostics.render();
  std::string errors;
  CandidateSpace space = make_candidate_space(product.program, *library.find_set("s"), library, host_target(), errors);
  if (!errors.empty()) return errors;
  CandidateBuilder builder(space);
  Compared counts;
  compare_one_draw(space, builder, 0, 1, counts);
  Candidate candidate;
  Rng rng(1, 0);
  EXPECT_TRUE(builder.draw(0, candidate, rng));
  Result<Program> program = builder.build(candidate, &rng);
  return program ? print(*program) : to_string(program.rejected());
}

// The first instructions of the body succeed, the last one is rejected: nothing of them is left, nor of what the body
// assigned.
TEST(PostprocessorTry, TakesEveryInstructionOfItsBodyBack) {
  std::string untouched = postprocessed("post nothing(p: program) { }\nrules s { nothing }\n");
  EXPECT_EQ(postprocessed(R"(
post tries(p: program) {
  b = blocks()[0]
  i, j, k = loops(b)
  try { o, t = split(i, [_, 2]); parallel(o); i = t; vectorize(k) } else { }
  if extent(i) != 6 { unroll(j) }
}
rules s { tries }
)"),
            untouched);
}

TEST(PostprocessorTry, ElseRunsOnTheProgramFromBeforeTheBody) {
  EXPECT_EQ(
      postprocessed(R"(
post tries(p: program) {
  i, j, k = loops(blocks()[0])
  try { o, t = split(i, [_, 2]); vectorize(k) } else { unroll(i) }
}
rules s { tries }
)"),
      postprocessed("post unrolls(p: program) { i, j, k = loops(blocks()[0]); unroll(i) }\nrules s { unrolls }\n"));
}

TEST(PostprocessorTry, NestsInAnother) {
  EXPECT_EQ(
      postprocessed(R"(
post tries(p: program) {
  i, j, k = loops(blocks()[0])
  try {
    unroll(k)
    try { o, t = split(j, [_, 2]); vectorize(k) } else { parallel(i) }
    reorder([i, i])
  } else { vectorize(j) }
}
rules s { tries }
)"),
      postprocessed(
          "post vectorizes(p: program) { i, j, k = loops(blocks()[0]); vectorize(j) }\nrules s { vectorizes }\n"));
}

// The same law while the space is built: names that the body assigned have their old values in `else` and behind it.
TEST(RuleTry, NamesKeepTheValuesFromBeforeARejectedBody) {
  EXPECT_EQ(postprocessed(R"(
rule tries(b: block) {
  i, j, k = loops(b)
  n = 2
  try { n = 3; o, t = split(i, [_, 3]); i = t; vectorize(k) } else { }
  split(i, [_, n])
}
rules s { tries }
)"),
            postprocessed("rule cuts(b: block) { i, j, k = loops(b); split(i, [_, 2]) }\nrules s { cuts }\n"));
}

// A fork inside of a rejected body and one in `else` are told apart: every combination is a sketch, none is read from
// the other's list.
TEST(RuleTry, ForksOfARejectedBodyAndOfElseAreApart) {
  OwnedProgram product = workload("matmul", {{"M", i64{6}}, {"N", i64{8}}, {"K", i64{4}}});
  auto source = std::make_shared<Source>(Source{"my.tw", R"(
rule tries(b: block) {
  i, j, k = loops(b)
  try { either { vectorize(k) } or { unroll(k) } or { reorder([k, k]) } } else { either { unroll(i) } or { unroll(j) } }
}
rules s { tries }
)"});
  Diagnostics diagnostics(*source);
  rules::Library library = rules::Library::built_in();
  std::shared_ptr<const rules::Module> module = rules::parse_module(source, diagnostics);
  ASSERT_TRUE(module && library.add(module, diagnostics)) << diagnostics.render();
  std::string errors;
  Space space = build_space(product.program, *library.find_set("s"), library, {}, errors);
  EXPECT_EQ(errors, "");
  EXPECT_EQ(space.sketches.size(),
            3u);  // k unrolled; where k's change is rejected i or j, from two bodies the same two
}

}  // namespace
}  // namespace tw
