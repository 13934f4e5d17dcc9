// The reference's sets for machines that this one is not: Hexagon, RISC-V, ARM, microcontrollers. Their sketches, what
// their draws compute (in the interpreter), what they compile to, and what their postprocessors reject.
#include <gtest/gtest.h>

#include "backends/meaning.h"
#include "dsl/base/text.h"
#include "sampler/search/check_rule.h"
#include "sampler/search/trial.h"
#include "sampler/space/candidate.h"
#include "support/parsed.h"
#include "tests/unit/operator_kit.h"

namespace tw {
namespace {

constexpr const char* kHexagon = "cpu -triple=hexagon-unknown-elf -mcpu=hexagonv68 -threads=4";
constexpr const char* kRiscV = "cpu -triple=riscv64-linux-gnu -mattr=+m,+a,+f,+d,+v -threads=2 -vector-bits=128";
constexpr const char* kArm = "cpu -triple=aarch64-linux-gnu -mcpu=cortex-a72 -threads=2";

// The reference's operators at their first shapes, where tiles of vectors matter: the last axis of the output.
const std::vector<std::pair<const char*, WorkloadArguments>>& operators() {
  static const std::vector<std::pair<const char*, WorkloadArguments>> rows = {
      {"conv1d",
       {{"N", i64{1}},
        {"L", i64{256}},
        {"CI", i64{64}},
        {"CO", i64{128}},
        {"K", i64{3}},
        {"stride", i64{2}},
        {"padding", i64{1}}}},
      {"conv2d",
       {{"N", i64{1}},
        {"H", i64{224}},
        {"W", i64{224}},
        {"CI", i64{3}},
        {"CO", i64{64}},
        {"K", i64{7}},
        {"stride", i64{2}},
        {"padding", i64{3}}}},
      {"batch_matmul", {{"B", i64{1}}, {"M", i64{128}}, {"N", i64{128}}, {"K", i64{128}}}},
      {"depthwise_conv2d",
       {{"N", i64{1}}, {"H", i64{112}}, {"W", i64{112}}, {"C", i64{32}}, {"K", i64{3}}, {"padding", i64{1}}}},
      {"conv2d_transposed",
       {{"N", i64{1}},
        {"H", i64{4}},
        {"W", i64{4}},
        {"CI", i64{512}},
        {"CO", i64{256}},
        {"K", i64{4}},
        {"stride", i64{2}},
        {"padding", i64{1}}}},
      {"capsule_conv2d",
       {{"N", i64{1}},
        {"H", i64{16}},
        {"W", i64{16}},
        {"CI", i64{32}},
        {"CO", i64{32}},
        {"K", i64{3}},
        {"stride", i64{2}},
        {"padding", i64{1}}}},
      {"norm", {{"B", i64{1}}, {"M", i64{256}}, {"N", i64{256}}}},
      {"softmax", {{"M", i64{256}}, {"N", i64{256}}}},
      {"conv2d_bn_relu",
       {{"N", i64{1}},
        {"H", i64{224}},
        {"W", i64{224}},
        {"CI", i64{3}},
        {"CO", i64{64}},
        {"K", i64{7}},
        {"stride", i64{2}},
        {"padding", i64{3}}}},
      {"transpose_batch_matmul", {{"B", i64{1}}, {"S", i64{128}}, {"H", i64{12}}, {"D", i64{64}}}}};
  return rows;
}

struct Set {
  const char* name;
  const char* target;
  std::size_t tiled, norm, softmax;  // sketches: of what has reuse, and of the others
};
// By the reference's algorithm. MultiLevelTiling takes blocks with reuse, and a write cache at two levels or none makes
// three sketches of each (`may`, [1, 2]): of a consumer that is one already its two places or where it is, else one
// that is made, in two places, or none. The rules of the other kinds: AddRFactor leaves three of a reduction without
// reuse (none, or cut in one of two ways), so norm has 3 and softmax, with two of these, 9; Hexagon and
// microcontrollers have no AddRFactor, so one sketch is left.
const Set kSets[] = {{"reference-hexagon", kHexagon, 3, 1, 1},
                     {"reference-c", kRiscV, 3, 1, 1},
                     {"reference-rvv", kRiscV, 3, 3, 9},
                     {"reference-arm", kArm, 3, 3, 9}};

class ReferenceTargets : public testing::TestWithParam<Set> {};

TEST_P(ReferenceTargets, GiveAsManySketchesAsTheReference) {
  rules::Library library = rules::Library::built_in();
  for (const auto& [op, arguments] : operators()) {
    OwnedProgram program = workload(op, arguments);
    std::string errors, rejects;
    Space space = build_space(program.program, *library.find_set(GetParam().name), library,
                              facts_of(test::parsed_target(GetParam().target)), errors);
    EXPECT_EQ(errors, "") << op;
    for (const rules::ForkReject& reject : space.rejects) rejects += cat(reject.rule, ": ", reject.reason, "\n");
    std::size_t wanted = op == std::string("norm")      ? GetParam().norm
                         : op == std::string("softmax") ? GetParam().softmax
                                                        : GetParam().tiled;
    EXPECT_EQ(space.sketches.size(), wanted) << op << "\n" << rejects;
    for (const Sketch& sketch : space.sketches) {
      bool draws_steps = sketch.trace.print().find("unroll_steps") != std::string::npos;
      EXPECT_EQ(draws_steps, GetParam().name != std::string("reference-c")) << op << "\n" << sketch.trace.print();
    }
  }
}

// One draw, scheduled and lowered, compared with what the operator computes. False if a step rejects it.
bool judge(const CandidateSpace& space, const Judge& judge, const Target& target, CandidateBuilder& builder, int n) {
  Candidate candidate;
  Rng rng(17, static_cast<u64>(n));
  EXPECT_TRUE(builder.draw(n % static_cast<int>(space.space.sketches.size()), candidate, rng));
  Result<Program> program = builder.build(candidate, &rng);
  if (!program) return false;
  EXPECT_EQ(judge.difference(*program), "") << full_trace(space, candidate)->print();
  Arena arena;
  Result<LoweredProgram> lowered = lower(arena, *program, lowering_options(target));
  if (!lowered) return false;  // too much unrolled code
  EXPECT_EQ(judge.difference(*lowered), "") << full_trace(space, candidate)->print();
  return true;
}

TEST_P(ReferenceTargets, EveryDrawComputesWhatTheWorkloadSays) {
  rules::Library library = rules::Library::built_in();
  Target target = test::parsed_target(GetParam().target);
  // Rows of 40 floats are more than a vector of 1,024 bits, and no multiple of one.
  const std::pair<const char*, WorkloadArguments> small[] = {
      {"dense", {{"M", i64{4}}, {"N", i64{40}}, {"K", i64{7}}}},
      {"batch_matmul", {{"B", i64{2}}, {"M", i64{4}}, {"N", i64{16}}, {"K", i64{6}}}},
      {"conv2d", {{"N", i64{1}}, {"H", i64{3}}, {"W", i64{4}}, {"CI", i64{2}}, {"CO", i64{40}}, {"K", i64{2}}}},
      {"conv2d_bn_relu",
       {{"N", i64{1}},
        {"H", i64{4}},
        {"W", i64{4}},
        {"CI", i64{2}},
        {"CO", i64{12}},
        {"K", i64{3}},
        {"padding", i64{1}}}},
      {"softmax", {{"M", i64{6}}, {"N", i64{40}}}}};
  int rejected = 0;
  for (const auto& [op, arguments] : small) {
    SCOPED_TRACE(op);
    OwnedProgram program = workload(op, arguments);
    std::string errors;
    CandidateSpace space =
        make_candidate_space(program.program, *library.find_set(GetParam().name), library, target, errors);
    ASSERT_EQ(errors, "");
    Judge expected(program.program, 1, tolerance_for_small_integers(program.program));
    CandidateBuilder builder(space);
    for (int n = 0, good = 0; good < 40 && rejected < 40 && !HasFailure(); ++n)
      (judge(space, expected, target, builder, n) ? good : rejected) += 1;
  }
  EXPECT_LT(rejected, 40) << "beside 200 that are right";
}

INSTANTIATE_TEST_SUITE_P(Sets, ReferenceTargets, testing::ValuesIn(kSets), [](const auto& info) {
  std::string name = info.param.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(ReferenceTargets, HexagonCodeUsesItsVectors) {
  rules::Library library = rules::Library::built_in();
  Target target = test::parsed_target(kHexagon);
  OwnedProgram program = workload("matmul", {{"M", i64{8}}, {"N", i64{64}}, {"K", i64{16}}, {"T", DType::I32}});
  std::string errors;
  CandidateSpace space =
      make_candidate_space(program.program, *library.find_set("reference-hexagon"), library, target, errors);
  CandidateBuilder builder(space);
  Candidate candidate;
  Rng rng(3);
  ASSERT_TRUE(builder.draw(0, candidate, rng));
  Result<Program> built = builder.build(candidate, &rng);
  ASSERT_TRUE(built) << to_string(built.rejected());
  Arena arena;
  Result<LoweredProgram> lowered = lower(arena, *built, lowering_options(target));
  ASSERT_TRUE(lowered) << to_string(lowered.rejected());
  Result<LlvmCompiler> compiler = LlvmCompiler::create(codegen_target(target));
  ASSERT_TRUE(compiler) << to_string(compiler.rejected());
  Result<std::string> assembly = compiler->emit(*lowered, "matmul", Emit::Assembly);
  ASSERT_TRUE(assembly) << to_string(assembly.rejected());
  EXPECT_NE(assembly->find("vmem"), std::string::npos) << *assembly;
}

// ---- memory in scope global.vtcm, and copies ahead

constexpr const char* kModule = R"(
rule in_vtcm(b: block)
  doc "both operands go through the machine's own memory, whole or in pieces of the sum"
  param depth = 0, is_parallel = false
  when is_reduction(b)
{
  i, j, k = loops(b)
  if is_parallel { parallel(i) }
  if depth > 0 { k, k1 = split(k, [_, depth]); reorder([k, j, k1]) }
  for x in range(n_reads(b)) {
    q = cache_read(b, x, "global.vtcm")
    if depth > 0 { compute_at(q, k) }
  }
}

rule ahead(b: block)
  doc "an operand is copied two iterations ahead: along its rows, or across them"
  param across = false, pad = 0
  when is_reduction(b)
{
  i, j, k = loops(b)
  if across { o, k = split(k, [_, 4]); reorder([o, i, j, k]) } else { o, i = split(i, [_, 4]) }
  q = cache_read(b, 0, "global.vtcm"); compute_at(q, o); annotate(o, "stages", 2)
  if pad > 0 { storage_align(q, 0, -2, 16, pad) }
}

rules whole { in_vtcm; verify_vtcm_limit }
rules unchecked { in_vtcm }
rules pieces { in_vtcm(depth = 4); verify_vtcm_limit }
rules each_thread { in_vtcm(depth = 4, is_parallel = true); verify_vtcm_limit }
rules rows { ahead; disallow_async_strided_mem_copy }
rules columns { ahead(across = true); disallow_async_strided_mem_copy }
rules columns_unchecked { ahead(across = true) }
rules padded { ahead(pad = 8); disallow_async_strided_mem_copy }
)";

// What the only draw of a set is rejected with; "" if it is accepted, and right in the interpreter.
std::string verdict(const char* set, const std::string& target_text) {
  static const rules::Library library = [] {
    rules::Library made = rules::Library::built_in();
    auto source = std::make_shared<Source>(Source{"vtcm.tw", kModule});
    Diagnostics diagnostics(*source);
    auto module = rules::parse_module(source, diagnostics);
    EXPECT_TRUE(module && made.add(module, diagnostics)) << diagnostics.render();
    return made;
  }();
  Target target = test::parsed_target(target_text);
  OwnedProgram program = workload("matmul", {{"M", i64{16}}, {"N", i64{16}}, {"K", i64{16}}});
  std::string errors;
  CandidateSpace space = make_candidate_space(program.program, *library.find_set(set), library, target, errors);
  EXPECT_EQ(errors, "");
  EXPECT_EQ(space.space.sketches.size(), 1u);
  CandidateBuilder builder(space);
  Candidate candidate;
  Rng rng(1);
  EXPECT_TRUE(builder.draw(0, candidate, rng));
  Result<Program> built = builder.build(candidate, &rng);
  if (!built) return built.rejected().instruction + std::string(": ") + to_string(built.rejected());
  Arena arena;
  Result<LoweredProgram> lowered = lower(arena, *built, lowering_options(target));
  if (!lowered) return "lowering: " + to_string(lowered.rejected());
  return Judge(program.program).difference(*lowered);
}

std::string hexagon_with(i64 vtcm_bytes) { return cat(kHexagon, " -vtcm-bytes=", vtcm_bytes); }

TEST(ReferenceTargets, VtcmHoldsWhatItHasRoomFor) {
  // Each buffer takes a multiple of 64 bytes.
  i64 whole = 2 * 16 * 16 * 4, pieces = 64 + 4 * 16 * 4;
  EXPECT_EQ(verdict("whole", hexagon_with(whole)), "");
  EXPECT_EQ(verdict("whole", hexagon_with(whole - 1)), ": postprocessor `verify_vtcm_limit` refuses the program");
  EXPECT_EQ(verdict("unchecked", hexagon_with(whole - 1)),
            "lowering: buffers in scope global.vtcm need 2048 bytes at once, but there are 2047");
  EXPECT_EQ(verdict("pieces", hexagon_with(pieces)), "");
  EXPECT_NE(verdict("pieces", hexagon_with(pieces - 1)), "");
  // Each of the four threads has its own.
  EXPECT_EQ(verdict("each_thread", hexagon_with(4 * pieces)), "");
  EXPECT_NE(verdict("each_thread", hexagon_with(4 * pieces - 1)), "");
  EXPECT_EQ(verdict("whole", "cpu -mcpu=znver3 -threads=1"),
            "lowering: buffer `A_global_vtcm` is in scope global.vtcm, which this backend does not have");
}

TEST(ReferenceTargets, CopiesAheadLieInOnePiece) {
  EXPECT_EQ(verdict("rows", kHexagon), "");
  EXPECT_EQ(verdict("columns_unchecked", kHexagon), "");
  EXPECT_NE(verdict("columns", kHexagon), "") << "strided where it comes from";
  EXPECT_NE(verdict("padded", kHexagon), "") << "strided where it goes";
}

}  // namespace
}  // namespace tw
