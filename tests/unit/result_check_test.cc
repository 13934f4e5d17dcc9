// The check of results, as trials, `replay --check` and the emulator's gate have it: every operator of the library, in
// every float type, with small and large sums. What a program computes as it is written is right; planted faults are
// found.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <span>

#include "backends/backend.h"
#include "backends/interpreter.h"
#include "dsl/base/text.h"
#include "dsl/intrinsics/intrinsic.h"
#include "dsl/ir/print.h"
#include "dsl/ir/walk.h"
#include "dsl/passes/rounding_error.h"
#include "dsl/passes/widen.h"
#include "dsl/text/workload.h"
#include "runtime/measure/elements.h"
#include "runtime/measure/object_loader.h"
#include "sampler/search/emulation_gate.h"
#include "sampler/search/trial.h"
#include "sampler/space/candidate.h"
#include "support/drawn_kernels.h"
#include "support/opencl_device.h"
#include "support/parsed.h"
#include "support/planted_faults.h"
#include "support/scheduled.h"
#include "support/small_operators.h"
#include "support/support.h"
#include "tests/support/aligned.h"
#include "tests/unit/byte_products.h"
#include "tests/unit/transformer.h"

namespace tw {
namespace {

// Extents that make the sums of an operator 64 (small) or 4096 (large) terms long or so, with few other iterations.
struct Case {
  const char* workload;
  std::vector<std::pair<const char*, i64>> small, large;
  std::vector<std::string> epilogues = {};
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {"dense", {{"M", 12}, {"N", 20}, {"K", 64}}, {{"M", 12}, {"N", 20}, {"K", 4096}}},
      {"dense", {{"M", 12}, {"N", 20}, {"K", 64}}, {{"M", 12}, {"N", 20}, {"K", 4096}}, {"bias", "gelu"}},
      {"dense", {{"M", 12}, {"N", 20}, {"K", 64}}, {{"M", 12}, {"N", 20}, {"K", 4096}}, {"bias", "silu"}},
      {"matmul", {{"M", 12}, {"N", 20}, {"K", 64}}, {{"M", 12}, {"N", 20}, {"K", 4096}}},
      {"batch_matmul", {{"B", 3}, {"M", 8}, {"N", 10}, {"K", 64}}, {{"B", 3}, {"M", 8}, {"N", 10}, {"K", 4096}}},
      {"transpose_batch_matmul",
       {{"B", 2}, {"S", 8}, {"H", 3}, {"D", 64}},
       {{"B", 2}, {"S", 8}, {"H", 3}, {"D", 2048}}},
      {"conv1d",
       {{"N", 2}, {"L", 30}, {"CI", 16}, {"CO", 8}, {"K", 3}, {"padding", 1}},
       {{"N", 2}, {"L", 30}, {"CI", 1024}, {"CO", 8}, {"K", 3}, {"padding", 1}}},
      {"conv2d",
       {{"N", 2}, {"H", 8}, {"W", 8}, {"CI", 8}, {"CO", 8}, {"K", 3}, {"padding", 1}},
       {{"N", 2}, {"H", 8}, {"W", 8}, {"CI", 256}, {"CO", 8}, {"K", 3}, {"padding", 1}},
       {"bn", "add", "relu"}},
      {"conv3d",
       {{"N", 2}, {"D", 4}, {"H", 4}, {"W", 4}, {"CI", 4}, {"CO", 8}, {"K", 3}, {"padding", 1}},
       {{"N", 2}, {"D", 4}, {"H", 4}, {"W", 4}, {"CI", 96}, {"CO", 8}, {"K", 3}, {"padding", 1}}},
      {"depthwise_conv2d",
       {{"N", 2}, {"H", 10}, {"W", 10}, {"C", 8}, {"K", 3}, {"padding", 1}},
       {{"N", 2}, {"H", 40}, {"W", 40}, {"C", 4}, {"K", 31}}},
      {"conv2d_transposed",
       {{"N", 2}, {"H", 5}, {"W", 5}, {"CI", 8}, {"CO", 8}, {"K", 3}, {"padding", 1}},
       {{"N", 2}, {"H", 5}, {"W", 5}, {"CI", 256}, {"CO", 8}, {"K", 3}, {"padding", 1}}},
      {"avg_pool2d",
       {{"N", 2}, {"H", 10}, {"W", 10}, {"C", 8}, {"K", 3}, {"stride", 1}},
       {{"N", 2}, {"H", 40}, {"W", 40}, {"C", 4}, {"K", 31}, {"stride", 1}}},
      {"softmax", {{"M", 16}, {"N", 64}}, {{"M", 16}, {"N", 4096}}},
      {"layernorm", {{"M", 16}, {"N", 64}}, {{"M", 16}, {"N", 4096}}},
      {"rmsnorm", {{"M", 16}, {"N", 64}}, {{"M", 16}, {"N", 4096}}},
      {"norm", {{"B", 16}, {"M", 8}, {"N", 8}}, {{"B", 16}, {"M", 64}, {"N", 64}}},
  };
  return all;
}

OwnedProgram program_of(const Case& c, bool is_large, DType type, std::optional<DType> sums_in = std::nullopt) {
  WorkloadArguments arguments;
  for (auto [name, value] : is_large ? c.large : c.small) arguments.push_back({name, value});
  arguments.push_back({"T", type});
  if (sums_in) arguments.push_back({"acc", *sums_in});
  Diagnostics diagnostics(*operator_library().source);
  std::optional<OwnedProgram> made = instantiate(operator_library(), c.workload, arguments, c.epilogues, diagnostics);
  EXPECT_TRUE(made) << c.workload << diagnostics.render();
  return *made;
}

using Results = std::map<std::string, HostArray>;

void set_number(DType type, double value, char* data) {
  HostArray array = HostArray::zeros(type, {});
  array.set(0, value);
  std::copy(array.bytes.begin(), array.bytes.end(), data);
}

// `numbers`: operands that are not drawn, by name.
Results run(const Kernel& kernel, u64 seed, const std::map<std::string, double>& numbers = {}) {
  std::string error;
  LoadedObject loaded = load_object(kernel.code, error);
  EXPECT_EQ(error, "");
  std::map<std::string, Aligned<u8>> memory;
  auto pointers_to = [&](const std::vector<KernelArgument>& arguments) {
    std::vector<void*> pointers;
    for (const KernelArgument& argument : arguments) {
      auto [at, is_new] = memory.try_emplace(argument.name, static_cast<std::size_t>(argument.bytes));
      char* data = reinterpret_cast<char*>(at->second.data());
      bool is_drawn = argument.role == ArgumentRole::Input || argument.role == ArgumentRole::Constant;
      if (is_new && is_drawn)
        fill_input(seed, argument.name, 0, argument.dtype, argument.bytes / bytes_of(argument.dtype), data);
      if (auto at = numbers.find(argument.name); at != numbers.end()) set_number(argument.dtype, at->second, data);
      pointers.push_back(data);
    }
    return pointers;
  };
  if (!kernel.manifest.prepack.empty())
    loaded.prepack(kernel.manifest.symbol)(pointers_to(kernel.manifest.prepack).data());
  Aligned<u8> scratch(static_cast<std::size_t>(kernel.manifest.scratch_bytes(1)) + 1);
  EXPECT_EQ(
      loaded.run(kernel.manifest.symbol)(pointers_to(kernel.manifest.run).data(), scratch.data(), nullptr, nullptr), 0);
  Results out;
  for (const KernelArgument& argument : kernel.manifest.run) {
    if (argument.role != ArgumentRole::Output) continue;
    HostArray array = HostArray::zeros(argument.dtype, argument.shape);
    const u8* data = memory.at(argument.name).data();
    std::copy(data, data + array.bytes.size(), array.bytes.begin());
    out[argument.name] = array;
  }
  return out;
}

// With the loops that the marks of instructions stand for.
Program without_instructions(Arena& arena, const Program& program) {
  Program out = program;
  out.body = rewrite_stmts(arena, program.body, [&](const Stmt* stmt) -> const Stmt* {
    const Block* block = as<Block>(stmt);
    if (!block || block->annotations.empty()) return stmt;
    Block plain = *block;
    plain.annotations = without_annotation(arena, block->annotations, kIntrinsicMark);
    return arena.make<Block>(plain);
  });
  return out;
}

// A workload with its reference, as a task has it.
class Judged {
 public:
  // `numbers`: operands of one element that are not drawn.
  explicit Judged(const Program& program, const std::map<std::string, double>& numbers = {})
      : numbers_(numbers),
        tolerance_(tolerance_of(program)),
        compiler_(LlvmCompiler::create(codegen_target(host_target()))) {
    BuiltKernel reference = build_reference(program, host_target(), *compiler_);
    EXPECT_TRUE(reference.kernel) << reference.problem;
    expected_ = run(*reference.kernel, 1, numbers_);
  }
  // `is_by_loops`, if not null, allows for loops in place of instructions that this processor has not, and tells
  // whether there were any.
  Results results_of(const Program& program, bool* is_by_loops = nullptr) {
    BuiltKernel built = build_kernel(program, host_target(), *compiler_);
    if (is_by_loops) *is_by_loops = !built.kernel && built.problem.find("intrinsic `") != std::string::npos;
    if (is_by_loops && *is_by_loops)
      built = build_kernel(without_instructions(arena_, program), host_target(), *compiler_);
    EXPECT_TRUE(built.kernel) << built.problem;
    return run(*built.kernel, 1, numbers_);
  }
  Arena& arena() { return arena_; }
  bool accepts(const Results& results) const {
    return std::all_of(results.begin(), results.end(),
                       [&](const auto& result) { return compared(result.first, result.second).is_right(); });
  }
  Comparison compared(const std::string& name, const HostArray& actual) const {
    auto variances = expected_.find(name + std::string(kVarianceSuffix));
    return judged_result(actual, expected_.at(name), variances == expected_.end() ? nullptr : &variances->second,
                         tolerance_);
  }

 private:
  Arena arena_;
  std::map<std::string, double> numbers_;
  Tolerance tolerance_;
  Result<LlvmCompiler> compiler_;
  Results expected_;
};

i64 row_bytes(const HostArray& array) { return static_cast<i64>(array.bytes.size()) / array.shape[0]; }

void each_case(const std::function<void(const Case&, bool is_large, DType)>& visit) {
  for (const Case& c : cases()) {
    for (bool is_large : {false, true}) {
      for (DType type : {DType::F32, DType::F16, DType::BF16}) {
        SCOPED_TRACE(cat(c.workload, c.epilogues.empty() ? "" : " with an epilogue", is_large ? " large " : " small ",
                         name_of(type)));
        visit(c, is_large, type);
      }
    }
  }
}

TEST(ResultCheck, AProgramAsItIsWrittenIsRightAndFarFromTheLimit) {
  each_case([](const Case& c, bool is_large, DType type) {
    OwnedProgram owned = program_of(c, is_large, type);
    Judged judged(owned.program);
    for (const auto& [name, array] : judged.results_of(owned.program)) {
      Comparison found = judged.compared(name, array);
      EXPECT_TRUE(found.is_right()) << found.wrong << " wrong, " << found.actual << " for " << found.expected;
      EXPECT_LT(found.distance, 0.8);
    }
  });
}

TEST(ResultCheck, ZerosAndRowsThatAreMissingOrExchangedAreFound) {
  each_case([](const Case& c, bool is_large, DType type) {
    OwnedProgram owned = program_of(c, is_large, type);
    Judged judged(owned.program);
    Results right = judged.results_of(owned.program);
    for (auto& [name, array] : right) {
      HostArray zeros = array, tail = array, exchanged = array;
      std::fill(zeros.bytes.begin(), zeros.bytes.end(), 0);
      std::fill(tail.bytes.end() - row_bytes(tail), tail.bytes.end(), 0xff);
      std::swap_ranges(exchanged.bytes.begin(), exchanged.bytes.begin() + row_bytes(exchanged),
                       exchanged.bytes.begin() + row_bytes(exchanged));
      EXPECT_FALSE(judged.accepts({{name, zeros}})) << "zeros";
      EXPECT_FALSE(judged.accepts({{name, tail}})) << "a row is not written";
      EXPECT_FALSE(judged.accepts({{name, exchanged}})) << "two rows are exchanged";
    }
  });
}

// What exact results with the fault differ by, relative to those without; of vectors of all outputs.
double exact_difference(Judged& judged, const Program& right, const Program& faulty) {
  Arena arena;
  Results with = judged.results_of(widen_to_f64(arena, faulty)),
          without = judged.results_of(widen_to_f64(arena, right));
  double difference = 0, size = 0;
  for (const auto& [name, array] : without) {
    for (i64 i = 0; i < array.elements(); ++i) {
      difference += std::pow(with.at(name).get(i) - array.get(i), 2);
      size += std::pow(array.get(i), 2);
    }
  }
  return std::sqrt(difference / size);
}

// But for one of 4,096 terms of a row's sum that is below a single rounding of the result.
TEST(ResultCheck, ATermThatIsMissingIsFound) {
  int found = 0;
  each_case([&](const Case& c, bool is_large, DType type) {
    OwnedProgram owned = program_of(c, is_large, type);
    Judged judged(owned.program);
    Arena arena;
    for (bool is_last : {false, true}) {
      Program faulty = test::without_a_term(arena, owned.program, is_last);
      bool is_accepted = judged.accepts(judged.results_of(faulty));
      found += !is_accepted;
      if (is_accepted) {
        EXPECT_LT(exact_difference(judged, owned.program, faulty), unit_roundoff(type) / 2)
            << (is_last ? "the last one" : "one step");
      }
    }
  });
  std::printf("%d of %zu faults found\n", found, 6 * 2 * cases().size());
  EXPECT_GE(found, static_cast<int>(6 * 2 * cases().size()) - 7);
}

TEST(ResultCheck, SumsInTheNarrowTypeAreFound) {
  int tried = 0;
  each_case([&](const Case& c, bool is_large, DType type) {
    std::vector<Signature> all = signatures(operator_library());
    auto signature = std::find_if(all.begin(), all.end(), [&](const Signature& s) { return s.name == c.workload; });
    auto is_type_of_sums = [](const Signature::Parameter& parameter) { return parameter.name == "acc"; };
    if (type == DType::F32 || std::none_of(signature->parameters.begin(), signature->parameters.end(), is_type_of_sums))
      return;
    OwnedProgram owned = program_of(c, is_large, type), narrow = program_of(c, is_large, type, type);
    Judged judged(owned.program);
    ++tried;
    EXPECT_FALSE(judged.accepts(judged.results_of(narrow.program)));
  });
  EXPECT_GE(tried, 40);
}

// How often stores run, conditions aside.
double stores_of(const Node* node) {
  if (node->kind == Kind::Store) return 1;
  double sum = 0;
  for_each_child(node, [&](const Node* child) { sum += child->kind >= Kind::Store ? stores_of(child) : 0; });
  const For* loop = as<For>(node);
  return loop ? static_cast<double>(loop->extent) * sum : sum;
}
constexpr double kMostAgain = 100;

Target machine(const std::string& text) { return text.empty() ? host_target() : test::parsed_target(text); }

// A set for processors, and the machine that it is for ("" = this one), which decides what is drawn.
struct SetOfProcessors {
  const char* name;
  const char* machine;
  i64 every;  // of how many numbers one is drawn
};
constexpr const char* kRiscV = "cpu -triple=riscv64-linux-gnu -mattr=+m,+a,+f,+d,+v -threads=2 -vector-bits=128";
constexpr const char* kArm = "cpu -triple=aarch64-linux-gnu -mcpu=cortex-a76 -threads=2";
constexpr SetOfProcessors kSetsOfProcessors[] = {
    {"cpu", "", 1},
    {"untuned", "", 16},
    {"reference-cpu", "", 4},
    {"reference-cpu-vnni", "cpu -mcpu=cascadelake -threads=2", 8},
    {"reference-c", "", 8},
    {"reference-arm", kArm, 8},
    {"reference-arm-dotprod", kArm, 8},
    {"reference-rvv", kRiscV, 8},
    {"reference-hexagon", "cpu -triple=hexagon-unknown-elf -mcpu=hexagonv68 -threads=4", 8},
};
constexpr const char* kSetsOfDevices[] = {"cuda", "reference-cuda", "reference-cuda-tensorcore",
                                          "opencl"};  // in the tests below
struct Counts {
  i64 compared = 0, by_loops = 0, refused = 0;
};

void compare_draws(const Program& workload, const CandidateSpace& space, std::span<const i64> numbers, Judged& judged,
                   Counts& counts) {
  CandidateBuilder builder(space);
  auto sketches = static_cast<i64>(space.space.sketches.size());
  for (i64 i : numbers) {
    Rng rng(9, static_cast<u64>(i));
    Candidate candidate;
    if (!builder.draw(static_cast<int>(i % sketches), candidate, rng)) continue;
    Result<Program> program = builder.build(candidate, &rng);
    // A stage that is computed again inside of the loops that read it may take hours; a trial would be stopped.
    if (!program || stores_of(program->body) > kMostAgain * stores_of(workload.body)) continue;
    if (!can_be_lowered(judged.arena(), *program, host_target())) continue;
    bool is_by_loops = false;
    Results results = judged.results_of(*program, &is_by_loops);
    ++counts.compared;
    counts.by_loops += is_by_loops;
    counts.refused += !judged.accepts(results);
    for (const auto& [name, array] : results) {
      Comparison found = judged.compared(name, array);
      EXPECT_TRUE(found.is_right()) << "draw " << i << ": "
                                    << difference_text(found, array.elements(), cat(found.first));
    }
  }
}

// Each set that has draws of this case; of those that have few, other cases have others.
void compare_draws_of_sets(const Program& workload, i64 case_number, const test::Seeds& seeds,
                           std::map<std::string, Counts>& counts) {
  static const rules::Library library = rules::Library::built_in();
  Judged judged(workload);
  for (const SetOfProcessors& set : kSetsOfProcessors) {
    SCOPED_TRACE(set.name);
    std::vector<i64> numbers;
    for (i64 i = seeds.first; i < seeds.end; ++i) {
      if ((i + case_number) % set.every == 0) numbers.push_back(i);
    }
    if (numbers.empty()) continue;
    std::string errors;
    CandidateSpace space =
        make_candidate_space(workload, *library.find_set(set.name), library, machine(set.machine), errors);
    ASSERT_EQ(errors, "");
    compare_draws(workload, space, numbers, judged, counts[set.name]);
  }
}

// Kernels that the search makes are right: TW_CASES draws for each case, from TW_FIRST on. Sums of bytes are exact.
TEST(ResultCheck, DrawsFromTheSpacesForProcessorsAreRight) {
  const test::Seeds seeds = test::seeds_from_environment(4);
  std::map<std::string, Counts> counts;
  i64 case_number = 0;
  each_case([&](const Case& c, bool is_large, DType type) {
    OwnedProgram owned = program_of(c, is_large, type);
    compare_draws_of_sets(owned.program, case_number++, seeds, counts);
  });
  Source source{"bytes.tw", test::kBytes};
  Diagnostics diagnostics(source);
  WorkloadModule module = parse_workloads(source, diagnostics);
  for (auto [a, b] : {std::pair{DType::U8, DType::I8}, {DType::I8, DType::I8}, {DType::U8, DType::U8}}) {
    SCOPED_TRACE(cat("bytes ", name_of(a), " ", name_of(b)));
    for (i64 m = 8; m < 16; ++m) {
      const WorkloadArguments arguments = {{"M", m}, {"N", i64{32}}, {"K", i64{64}}, {"A", a}, {"B", b}};
      std::optional<OwnedProgram> owned = instantiate(module, "bytes", arguments, {}, diagnostics);
      ASSERT_TRUE(owned) << diagnostics.render();
      compare_draws_of_sets(owned->program, m, seeds, counts);
    }
  }
  i64 compared = 0;
  for (const auto& [set, count] : counts) {
    std::printf("%s: %lld draws compared, %lld of them without instructions of another processor, %lld refused\n",
                set.c_str(), static_cast<long long>(count.compared), static_cast<long long>(count.by_loops),
                static_cast<long long>(count.refused));
    compared += count.compared;
  }
  EXPECT_EQ(counts.size(), std::size(kSetsOfProcessors));
  EXPECT_GT(compared, 60 * (seeds.end - seeds.first));
}

// No set is left out of these tests.
TEST(ResultCheck, DrawsAreFromEverySetThereIs) {
  std::set<std::string> all, drawn(std::begin(kSetsOfDevices), std::end(kSetsOfDevices));
  for (const SetOfProcessors& set : kSetsOfProcessors) drawn.insert(set.name);
  for (const std::string& name : rules::Library::built_in().set_names()) all.insert(name);
  EXPECT_EQ(drawn, all);
}

// The cases with small sums and without epilogues, which fit emulators.
void each_small_case(const std::function<void(const Program&, DType)>& visit) {
  each_case([&](const Case& c, bool is_large, DType type) {
    if (!is_large && c.epilogues.empty()) visit(program_of(c, is_large, type).program, type);
  });
}

// The same for GPUs, in the emulator: run whole, and in part.
TEST(ResultCheck, DrawsFromTheSpacesForGpusAreRight) {
  const test::Seeds seeds = test::seeds_from_environment(1);
  auto draws = static_cast<int>(seeds.end - seeds.first);
  i64 compared = 0, in_part = 0;
  each_small_case([&](const Program& workload, DType type) {
    EmulationGate gate(workload), in_part_gate(workload, {.runs = 1, .full_points = 0, .max_groups = 2});
    // Tensor cores take halves.
    bool has_tensor_cores = workload.name == Str("matmul") && type != DType::F32;
    for (const char* set : {"cuda", "reference-cuda", "reference-cuda-tensorcore"}) {
      if (set == std::string_view("reference-cuda-tensorcore") && !has_tensor_cores) continue;
      test::DrawnKernels drawn = test::drawn_kernels(workload, set, test::cuda_target(), draws, seeds.first);
      for (std::size_t i = 0; i < drawn.kernels.size(); ++i) {
        EmulationVerdict verdict = gate.check({drawn.kernels[i], drawn.scheduled[i].program});
        EXPECT_EQ(verdict.kind, EmulationVerdict::Right) << set << ": " << verdict.message;
        compared += verdict.compared > 0;
        verdict = in_part_gate.check({drawn.kernels[i], drawn.scheduled[i].program});
        bool is_not_compared = verdict.kind == EmulationVerdict::Unknown &&
                               verdict.message.ends_with("is too large for its values to be compared");
        EXPECT_TRUE(verdict.kind == EmulationVerdict::Right || is_not_compared) << set << ": " << verdict.message;
        in_part += !verdict.report.is_complete;
      }
    }
  });
  std::printf("%lld draws compared, %lld of them in part, too\n", static_cast<long long>(compared),
              static_cast<long long>(in_part));
  EXPECT_GT(compared, 40 * draws);
  EXPECT_GT(in_part, 8 * draws);  // the others have one or two groups
}

// Products whose factors are rounded to tf32, under the smallest tolerance that lets them be.
TEST(ResultCheck, DrawsThatRoundToTf32AreRight) {
  const test::Seeds seeds = test::seeds_from_environment(2);
  auto draws = static_cast<int>(seeds.end - seeds.first);
  i64 compared = 0;
  for (const char* use : {"matmul(M = 48, N = 56, K = 64)", "matmul(M = 33, N = 40, K = 1024)",
                          "dense(M = 48, N = 40, K = 96)", "batch_matmul(B = 2, M = 24, N = 40, K = 128)",
                          "conv2d(N = 2, H = 8, W = 8, CI = 16, CO = 16, K = 3, padding = 1)"}) {
    test::Scheduled plain(use, {}, "");
    Program workload = plain.program();
    std::vector<std::size_t> rounded;
    test::DrawnKernels drawn;
    for (double bound = 1e-4; bound < 1 && rounded.empty(); bound *= 1.1) {
      workload.tolerance = {bound, bound};
      drawn = test::drawn_kernels(workload, "cuda", test::cuda_target(), 8 * draws, seeds.first);
      for (std::size_t i = 0; i < drawn.kernels.size(); ++i) {
        if (drawn.kernels[i].code.find("tf32", drawn.kernels[i].code.find("__global__")) != std::string::npos)
          rounded.push_back(i);
      }
    }
    ASSERT_FALSE(rounded.empty()) << use;
    EmulationGate gate(workload);
    for (std::size_t i : rounded) {
      EmulationVerdict verdict = gate.check({drawn.kernels[i], drawn.scheduled[i].program});
      EXPECT_EQ(verdict.kind, EmulationVerdict::Right)
          << use << ", tolerance " << workload.tolerance.absolute << ": " << verdict.message;
      compared += verdict.compared > 0;
    }
  }
  std::printf("%lld draws compared\n", static_cast<long long>(compared));
  EXPECT_GE(compared, 5 * draws);
}

// The same for OpenCL, on a device, by its worker.
TEST(ResultCheck, DrawsFromTheSpaceForOpenClAreRight) {
  if (std::string missing = test::missing_for_opencl(); !missing.empty()) GTEST_SKIP() << missing;
  test::TemporaryDirectory cache;
  setenv("POCL_CACHE_DIR", cache.path().c_str(), 1);
  Target target;
  target.kind = TargetKind::OpenCl;
  WorkerStart worker = start_worker(worker_options(target));
  ASSERT_TRUE(worker.measurer) << worker.error;
  const test::Seeds seeds = test::seeds_from_environment(1);
  auto draws = static_cast<int>(seeds.end - seeds.first);
  i64 compared = 0;
  each_small_case([&](const Program& workload, DType) {
    Result<LlvmCompiler> compiler = LlvmCompiler::create(codegen_target(host_target()));
    BuiltKernel reference = build_reference(workload, target, *compiler);
    ASSERT_TRUE(reference.kernel) << reference.problem;
    TaskStart start = worker.measurer->begin_task(*reference.kernel, tolerance_of(workload), 1);
    ASSERT_GE(start.task, 0) << start.error;
    for (const Kernel& kernel : test::drawn_kernels(workload, "opencl", target, draws, seeds.first).kernels) {
      MeasureResult result = worker.measurer->measure(start.task, kernel, {.time = false, .timeout_seconds = 20});
      EXPECT_EQ(result.status, MeasureStatus::Ok) << result.message << "\n" << kernel.code;
      compared += result.status == MeasureStatus::Ok;
    }
    worker.measurer->end_task(start.task);
  });
  std::printf("%lld draws compared\n", static_cast<long long>(compared));
  EXPECT_GT(compared, 25 * draws);
}

TEST(ResultCheck, ATransformerBlockIsRightAndItsFaultsAreFound) {
  // Depth does not make the check too strict for the program as it is written.
  Source source{"transformer.tw", test::kTransformer};
  Diagnostics diagnostics(source);
  WorkloadModule module = parse_workloads(source, diagnostics);
  for (DType type : {DType::F32, DType::F16}) {
    std::optional<OwnedProgram> owned =
        instantiate(module, "block", {{"S", i64{48}}, {"D", i64{64}}, {"T", type}}, {}, diagnostics);
    ASSERT_TRUE(owned) << diagnostics.render();
    Judged judged(owned->program);
    for (const auto& [name, array] : judged.results_of(owned->program)) {
      Comparison found = judged.compared(name, array);
      EXPECT_TRUE(found.is_right()) << difference_text(found, array.elements(), "");
      HostArray zeros = HostArray::zeros(array.dtype, array.shape);
      EXPECT_FALSE(judged.accepts({{name, zeros}}));
    }
    EXPECT_FALSE(judged.accepts(judged.results_of(test::without_a_term(judged.arena(), owned->program, true))))
        << name_of(type);
  }
}

// Integers that stand for floats, rounded or cut off, and what becomes of them. Numbers that are operands, as graphs
// have them, and one far beyond the limits of a byte.
constexpr const char* kQuantized = R"(
workload quantized(N: int) {
  input X: f32[N]
  const Zero: f32[], Low: f32[], High: f32[]
  R[i: N] = X[i] * 20.3 * 1.7
  Q[i: N] = round(R[i]) + Zero[]
  output Y: u8[i: N] = u8(min(max(Q[i] - (if i == 7 then 1e30 else 0.0), Low[]), High[]))
  output Z: i32[i: N] = i32(R[i] * 1000.3)
  output L: i64[i: N] = i64(R[i] * 1000.3)
  output P: i32[i: N] = i32((if i == 7 then 8.0 else R[i]) / 0.001)
  output V: f32[i: N] = f32(Y[i]) * 0.1
}
)";

class Quantized : public testing::Test {
 protected:
  Judged judged_of(i64 elements) {
    Source source{"quantized.tw", kQuantized};
    Diagnostics diagnostics(source);
    WorkloadModule module = parse_workloads(source, diagnostics);
    owned_ = instantiate(module, "quantized", {{"N", elements}}, {}, diagnostics);
    EXPECT_TRUE(owned_) << diagnostics.render();
    return Judged(owned_->program, {{"Zero", 100}, {"Low", 0}, {"High", 255}});
  }
  std::optional<OwnedProgram> owned_;
};

// Of R in f32 some elements lie on the other side of the middle of two integers than exact ones.
TEST_F(Quantized, IntegersNextToWhereTheyChangeMayBeEither) {
  Judged judged = judged_of(4000000);
  Results results = judged.results_of(owned_->program),
          exact = judged.results_of(widen_to_f64(judged.arena(), owned_->program));
  i64 others = 0;
  for (const auto& [name, array] : results) {
    Comparison found = judged.compared(name, array);
    EXPECT_TRUE(found.is_right()) << name << ": " << difference_text(found, array.elements(), "");
    for (i64 i = 0; i < array.elements(); ++i) others += name != "V" && array.get(i) != exact.at(name).get(i);
    auto wrong_with = [&](double more) {
      HostArray changed = array;
      for (i64 i = 0; i < changed.elements(); ++i) changed.set(i, array.get(i) + (name == "V" ? 0.1 : 1) * more);
      return judged.compared(name, changed).wrong;
    };
    EXPECT_GT(wrong_with(1), array.elements() * 97 / 100) << name << ": nearly all are far from where it changes";
    EXPECT_EQ(wrong_with(3), array.elements()) << name << ": the one or the other, and no third";
  }
  EXPECT_GT(others, 0) << "this test shows nothing";
}

// However few elements are next to where they change, as of Z one in a thousand is.
TEST_F(Quantized, AKernelIsNotWrongForTheOnlyIntegerThatChanged) {
  int changed = 0;
  for (i64 elements = 100; elements <= 2000; elements += 100) {
    Judged judged = judged_of(elements);
    Results results = judged.results_of(owned_->program),
            exact = judged.results_of(widen_to_f64(judged.arena(), owned_->program));
    for (const auto& [name, array] : results) {
      Comparison found = judged.compared(name, array);
      EXPECT_TRUE(found.is_right()) << name << ": " << difference_text(found, array.elements(), "");
      changed += name == "Z" && array.bytes != exact.at(name).bytes;
    }
  }
  EXPECT_GT(changed, 0) << "this test shows nothing";
}

TEST(ResultCheck, EveryOperatorHasVariances) {
  for (const test::SmallOperator& one : test::small_operators()) {
    Arena arena;
    EXPECT_TRUE(with_error_variances(arena, one.owned.program, kVarianceSuffix)) << one.name;
  }
}

}  // namespace
}  // namespace tw
