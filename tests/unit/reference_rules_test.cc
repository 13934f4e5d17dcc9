// The set `reference-cpu`: the sketches that the reference has for the operators of its own
// benchmark, and what its postprocessors do.
#include <gtest/gtest.h>

#include <regex>

#include "dsl/base/text.h"
#include "dsl/ir/print.h"
#include "dsl/text/workload.h"
#include "sampler/space/candidate.h"
#include "support/parsed.h"
#include "tests/unit/byte_products.h"

namespace tw {
namespace {

// The reference's benchmark at its first shapes (case 0 of each operator), and how many sketches
// its tests for CPUs list.
struct Row {
  const char* op;
  WorkloadArguments arguments;
  std::size_t sketches;
};
const std::vector<Row>& benchmark() {
  static const std::vector<Row> rows = {
      {"conv1d",
       {{"N", i64{1}},
        {"L", i64{256}},
        {"CI", i64{64}},
        {"CO", i64{128}},
        {"K", i64{3}},
        {"stride", i64{2}},
        {"padding", i64{1}}},
       3},
      {"conv2d",
       {{"N", i64{1}},
        {"H", i64{224}},
        {"W", i64{224}},
        {"CI", i64{3}},
        {"CO", i64{64}},
        {"K", i64{7}},
        {"stride", i64{2}},
        {"padding", i64{3}}},
       3},
      {"conv3d",
       {{"N", i64{1}},
        {"D", i64{16}},
        {"H", i64{224}},
        {"W", i64{224}},
        {"CI", i64{3}},
        {"CO", i64{64}},
        {"K", i64{7}},
        {"stride", i64{2}},
        {"padding", i64{3}}},
       3},
      {"batch_matmul", {{"B", i64{1}}, {"M", i64{128}}, {"N", i64{128}}, {"K", i64{128}}}, 3},
      {"depthwise_conv2d",
       {{"N", i64{1}}, {"H", i64{112}}, {"W", i64{112}}, {"C", i64{32}}, {"K", i64{3}}, {"padding", i64{1}}},
       3},
      {"conv2d_transposed",
       {{"N", i64{1}},
        {"H", i64{4}},
        {"W", i64{4}},
        {"CI", i64{512}},
        {"CO", i64{256}},
        {"K", i64{4}},
        {"stride", i64{2}},
        {"padding", i64{1}}},
       3},
      {"capsule_conv2d",
       {{"N", i64{1}},
        {"H", i64{16}},
        {"W", i64{16}},
        {"CI", i64{32}},
        {"CO", i64{32}},
        {"K", i64{3}},
        {"stride", i64{2}},
        {"padding", i64{1}}},
       3},
      {"norm", {{"B", i64{1}}, {"M", i64{256}}, {"N", i64{256}}}, 3},
      {"softmax", {{"M", i64{256}}, {"N", i64{256}}}, 9},
      {"conv2d_bn_relu",
       {{"N", i64{1}},
        {"H", i64{224}},
        {"W", i64{224}},
        {"CI", i64{3}},
        {"CO", i64{64}},
        {"K", i64{7}},
        {"stride", i64{2}},
        {"padding", i64{3}}},
       3},
      {"transpose_batch_matmul", {{"B", i64{1}}, {"S", i64{128}}, {"H", i64{12}}, {"D", i64{64}}}, 3}};
  return rows;
}

OwnedProgram made(const std::string& op, const WorkloadArguments& arguments,
                  const std::vector<std::string>& epilogues = {}) {
  Diagnostics diagnostics(*operator_library().source);
  std::optional<OwnedProgram> program = instantiate(operator_library(), op, arguments, epilogues, diagnostics);
  EXPECT_TRUE(program) << diagnostics.render();
  return std::move(*program);
}

TEST(ReferenceRules, GiveAsManySketchesAsTheReference) {
  rules::Library library = rules::Library::built_in();
  for (const Row& row : benchmark()) {
    OwnedProgram program = made(row.op, row.arguments);
    std::string errors;
    Space space = build_space(program.program, *library.find_set("reference-cpu"), library, {.threads = 32}, errors);
    EXPECT_EQ(errors, "") << row.op;
    EXPECT_EQ(space.sketches.size(), row.sketches) << row.op << "\n" << space.sketches[0].trace.print();
    for (const Sketch& sketch : space.sketches) {
      std::string text = sketch.trace.print();
      EXPECT_NE(text.find("sample_categorical([0, 16, 64, 512])"), std::string::npos) << row.op << "\n" << text;
    }
  }
}

// On GPUs the reference tiles in one way; each reduction that is not tiled may be shared by the work-items of a group
// or not. Its tests list as many sketches for a GPU without asynchronous copies.
TEST(ReferenceRules, GiveAsManySketchesForGpus) {
  rules::Library library = rules::Library::built_in();
  rules::TargetFacts facts{.vector_bits = 128, .group_threads = 1024, .shared_bytes = 48 << 10, .sm = 75},
      ampere = facts;
  ampere.sm = 80;
  for (const Row& row : benchmark()) {
    OwnedProgram program = made(row.op, row.arguments);
    std::string errors;
    Space space = build_space(program.program, *library.find_set("reference-cuda"), library, facts, errors);
    EXPECT_EQ(errors, "") << row.op;
    std::size_t wanted = row.op == std::string("norm") ? 2 : row.op == std::string("softmax") ? 4 : 1;
    std::string rejects;
    for (const rules::ForkReject& reject : space.rejects) rejects += cat(reject.rule, ": ", reject.reason, "\n");
    EXPECT_EQ(space.sketches.size(), wanted) << row.op << "\n" << rejects << space.sketches[0].trace.print();
    Space ahead = build_space(program.program, *library.find_set("reference-cuda"), library, ampere, errors);
    EXPECT_EQ(ahead.sketches.size(), wanted == 1 ? 3 : wanted) << row.op << ": copies 4 or 5 stages ahead, or none";
    for (const Sketch& sketch : space.sketches) {
      std::string text = sketch.trace.print();
      EXPECT_NE(text.find("\"blockIdx.x\""), std::string::npos) << row.op << "\n" << text;
      EXPECT_NE(text.find("\"threadIdx.x\""), std::string::npos) << row.op << "\n" << text;
    }
  }
}

// Products of halves are tiled for matrix instructions and in no other way; what does not fit these is tiled as ever.
TEST(ReferenceRules, TensorCoresTakeProductsOfHalves) {
  rules::Library library = rules::Library::built_in();
  rules::TargetFacts facts{.vector_bits = 128, .group_threads = 1024, .shared_bytes = 48 << 10, .sm = 80};
  for (auto [type, k, is_mma] : {std::tuple{DType::F16, i64{64}, true},
                                 {DType::BF16, i64{64}, true},
                                 {DType::F16, i64{60}, false},
                                 {DType::F32, i64{64}, false}}) {
    OwnedProgram program = made("matmul", {{"M", i64{64}}, {"N", i64{64}}, {"K", k}, {"T", type}});
    std::string errors;
    Space space = build_space(program.program, *library.find_set("reference-cuda-tensorcore"), library, facts, errors);
    EXPECT_EQ(errors, "");
    EXPECT_EQ(space.sketches.size(), is_mma ? 1u : 3u) << k;
    for (const Sketch& sketch : space.sketches)
      EXPECT_EQ(sketch.trace.print().find("\"warp_mma\"") != std::string::npos, is_mma) << sketch.trace.print();
  }
}

// What draw `n` of a sketch gives, postprocessed; its trace.
struct Built {
  std::string program, trace;
};
Built build(const OwnedProgram& program, std::size_t sketch, int threads, u64 seed = 7) {
  static const rules::Library library = rules::Library::built_in();
  Source source{"target", "cpu -mcpu=znver3 -threads=" + std::to_string(threads)};
  Diagnostics diagnostics(source);
  Target machine = *parse_target(source.text, 0, diagnostics);
  std::string errors;
  CandidateSpace space =
      make_candidate_space(program.program, *library.find_set("reference-cpu"), library, machine, errors);
  EXPECT_EQ(errors, "");
  CandidateBuilder builder(space);
  Candidate candidate;
  Rng rng(seed);
  EXPECT_TRUE(builder.draw(static_cast<int>(sketch), candidate, rng));
  Result<Program> built = builder.build(candidate, &rng);
  EXPECT_TRUE(built) << to_string(built.rejected());
  Result<Trace> trace = full_trace(space, candidate);
  EXPECT_TRUE(trace) << to_string(trace.rejected());
  return {print(*built), trace->print()};
}

TEST(ReferenceRules, PostprocessingFusesOuterLoopsForThreadsAndInnerOnesForVectors) {
  Built built = build(made("matmul", {{"M", i64{64}}, {"N", i64{64}}, {"K", i64{64}}}), 0, 4);
  EXPECT_NE(built.trace.find("enter_postproc()"), std::string::npos) << built.trace;
  std::string behind = built.trace.substr(built.trace.find("enter_postproc()"));
  EXPECT_NE(behind.find("parallel("), std::string::npos) << built.trace;
  EXPECT_NE(behind.find("decompose_reduction("), std::string::npos) << built.trace;
  EXPECT_EQ(built.program.find("unroll_steps"), std::string::npos) << built.program;
  EXPECT_NE(built.program.find("parallel for"), std::string::npos) << built.program;
}

// Also of a convolution, which has more loops than a product and whose weights are copied into another layout: without
// vectors, all that is compared with this set would look ten times as good as it is.
TEST(ReferenceRules, SumsOfConvolutionsAreVectorsOfChannels) {
  OwnedProgram program = made("conv2d", {{"N", i64{1}},
                                         {"H", i64{28}},
                                         {"W", i64{28}},
                                         {"CI", i64{32}},
                                         {"CO", i64{64}},
                                         {"K", i64{3}},
                                         {"padding", i64{1}}});
  const std::regex channels(R"(sample_perfect_tile\(co, 4, max_innermost = 64\) @ \[\d+, \d+, \d+, (\d+)\])");
  int vectors = 0;
  for (std::size_t sketch = 0; sketch < 3; ++sketch) {
    for (u64 seed = 0; seed < 16; ++seed) {
      Built built = build(program, sketch, 1, seed);
      std::smatch found;
      ASSERT_TRUE(std::regex_search(built.trace, found, channels)) << built.trace;
      if (found[1] == "1") continue;
      ++vectors;
      EXPECT_NE(built.trace.find("vectorize(co_3)"), std::string::npos) << built.trace;
    }
  }
  EXPECT_GE(vectors, 16);
}

TEST(ReferenceRules, AnElementwiseProgramIsOneFusedLoopOfVectors) {
  OwnedProgram program = test::parsed(
      "program p(X: input f32[8, 16], Y: output f32[8, 16]) {\n  for i in 8 {\n    for j "
      "in 16 {\n      block Y(i: S 8 = i, j: S 16 = j) {\n"
      "        Y[i, j] = X[i, j] * 2.0\n      }\n    }\n  }\n}\n");
  EXPECT_EQ(build(program, 0, 2).trace,
            "  enter_postproc()\n  b_Y = get_block(\"Y\")\n  i, j = get_loops(b_Y)\n  i_j = "
            "fuse([i, j])\n"
            "  top, inner = split(i_j, [_, 16])\n  parallel(top)\n  vectorize(inner)\n");
}

// Bytes times bytes: as many sketches as without, each of them with the instruction; floats are
// tiled as ever.
TEST(ReferenceRules, DotProductsOfBytesBecomeInstructions) {
  rules::Library library = rules::Library::built_in();
  Source source{"mine.tw", test::kBytes};
  Diagnostics diagnostics(source);
  WorkloadModule module = parse_workloads(source, diagnostics);
  struct Row {
    const char* set;
    DType a, b;
    i64 n;
    const char* intrinsic;  // "": the plain tiles
  };
  const Row rows[] = {{"reference-cpu-vnni", DType::U8, DType::I8, 64, "dot_u8i8x16_avx512vnni"},
                      {"reference-cpu-vnni", DType::U8, DType::I8, 60, ""},
                      {"reference-cpu-vnni", DType::I8, DType::I8, 64, ""},
                      {"reference-cpu", DType::U8, DType::I8, 64, ""},
                      {"reference-arm-dotprod", DType::I8, DType::I8, 64, "dot_i8i8x4_neon"},
                      {"reference-arm-dotprod", DType::U8, DType::U8, 64, "dot_u8u8x4_neon"}};
  for (const Row& row : rows) {
    SCOPED_TRACE(cat(row.set, " ", row.intrinsic));
    auto program = instantiate(
        module, "bytes", {{"M", i64{64}}, {"N", row.n}, {"K", i64{64}}, {"A", row.a}, {"B", row.b}}, {}, diagnostics);
    ASSERT_TRUE(program) << diagnostics.render();
    std::string errors;
    Space space = build_space(program->program, *library.find_set(row.set), library, {}, errors);
    EXPECT_EQ(errors, "");
    EXPECT_EQ(space.sketches.size(), 3u);
    for (const Sketch& sketch : space.sketches) {
      std::string text = sketch.trace.print();
      std::string wanted = cat(", \"", row.intrinsic, "\")\n");
      bool is_plain = std::string_view(row.intrinsic).empty(), has_it = text.find("tensorize(") != std::string::npos;
      EXPECT_EQ(has_it, !is_plain) << text;
      EXPECT_TRUE(is_plain || text.find(wanted) != std::string::npos) << text;
    }
  }
}

TEST(ReferenceRules, WeightsAreStoredInTheOrderOfTheLoops) {
  Built built = build(made("dense", {{"M", i64{64}}, {"N", i64{64}}, {"K", i64{64}}}), 0, 1);
  EXPECT_NE(built.trace.find("transform_layout("), std::string::npos) << built.trace;
  EXPECT_NE(built.program.find("prepack"), std::string::npos) << built.program;
  // Run-time operands stay where they are.
  Built both = build(made("matmul", {{"M", i64{64}}, {"N", i64{64}}, {"K", i64{64}}}), 0, 1);
  EXPECT_EQ(both.trace.find("transform_layout("), std::string::npos) << both.trace;
}

}  // namespace
}  // namespace tw
