// Kernels printed as CUDA C and run in the emulator compute what the interpreter says of the workload: random draws of
// the rule sets `cuda` and `reference-cuda` over the operator library, products in random tiles, and random programs
// under random schedules. TW_CASES=2000 build/release/tests/emulated_space_test runs more of each, from TW_FIRST=n on;
// TW_SEED=n repeats one case of each.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <optional>
#include <set>

#include "backends/meaning.h"
#include "dsl/analysis/points.h"
#include "dsl/base/text.h"
#include "dsl/ir/walk.h"
#include "dsl/text/workload.h"
#include "runtime/emulation/emulation.h"
#include "runtime/measure/elements.h"
#include "sampler/search/trial.h"
#include "sampler/space/candidate.h"
#include "support/device_schedules.h"
#include "support/drawn_kernels.h"
#include "support/parsed.h"
#include "support/random_program.h"
#include "support/random_schedule.h"
#include "support/scheduled.h"
#include "support/support.h"

namespace tw {
namespace {

constexpr int kTogether = 10;  // kernels compiled as one text

// Small shapes, odd ones among them; `most` for extents.
WorkloadArguments random_arguments(const Signature& signature, i64 most, Rng& rng) {
  bool is_window_operator =
      signature.name.find("conv") != std::string::npos || signature.name.find("pool") != std::string::npos;
  bool is_deep = signature.name == "capsule_conv2d" || signature.name == "conv3d";
  WorkloadArguments out;
  for (const Signature::Parameter& parameter : signature.parameters) {
    const std::string& name = parameter.name;
    if (name == "padding") out.push_back({name, rng.below(2)});
    if (!parameter.required) continue;
    auto between = [&](i64 least, i64 most) { return least + rng.below(most - least + 1); };
    if (is_window_operator && (name == "K" || name == "N" || name == "B")) {
      out.push_back({name, name == "K" ? between(2, 3 - is_deep) : between(1, 2 - is_deep)});
    } else if (is_window_operator) {
      bool is_image = name == "H" || name == "W" || name == "L" || name == "D";
      out.push_back({name, is_deep ? between(3, 4) : is_image ? between(4, 8) : between(1, most / 2)});
    } else {
      out.push_back({name, rng.below(3) == 0 ? std::min(most, i64{4} << rng.below(4)) : between(1, most)});
    }
  }
  return out;
}

struct Case {
  u64 seed = 0;
  std::string use, trace;
  OwnedProgram base;
  std::optional<Kernel> kernel;  // none: lowering refuses what was drawn
};

std::string text_of(const Signature& signature, const WorkloadArguments& arguments) {
  return to_string(WorkloadUse{signature.name, arguments});
}

// A random operator, small enough for the interpreter.
void make_workload(Case& out, Rng& rng) {
  const std::vector<Signature>& all = signatures(operator_library());
  const Signature& signature = all[static_cast<std::size_t>(rng.below(static_cast<i64>(all.size())))];
  std::vector<std::string> epilogues;
  if (signature.name == "dense" && rng.below(2)) epilogues = {"bias", "gelu"};
  bool has_type = std::any_of(signature.parameters.begin(), signature.parameters.end(),
                              [](const Signature::Parameter& parameter) { return parameter.name == "T"; });
  // Halves now and then.
  const DType types[] = {DType::F32, DType::F32, DType::F32, DType::F16, DType::BF16};
  DType type = has_type ? types[rng.below(5)] : DType::F32;
  for (i64 most = 40; most >= 5; most /= 2) {
    WorkloadArguments arguments = random_arguments(signature, most, rng);
    if (type != DType::F32) arguments.push_back({"T", type});
    out.use = text_of(signature, arguments);
    Diagnostics diagnostics(*operator_library().source);
    std::optional<OwnedProgram> made =
        instantiate(operator_library(), signature.name, arguments, epilogues, diagnostics);
    ASSERT_TRUE(made) << out.use << diagnostics.render();
    out.base = *made;
    if (points_of(out.base.program) <= 60'000) return;
  }
}

// The longer one of two: those that do nothing to a block are many and short.
int random_sketch(const Space& space, Rng& rng) {
  auto length = [&](i64 sketch) {
    return space.sketches[static_cast<std::size_t>(sketch)].trace.instructions().size();
  };
  i64 count = static_cast<i64>(space.sketches.size()), a = rng.below(count), b = rng.below(count);
  return static_cast<int>(length(a) > length(b) ? a : b);
}

// Leaves the case without a kernel if lowering refuses the program.
void lower_case(const Program& scheduled, Case& out, const Target& target = test::cuda_target()) {
  Arena arena;
  Result<LoweredGpuProgram> lowered = lower_gpu(arena, scheduled, lowering_options(target), gpu_limits(target));
  if (!lowered) return;
  Result<Kernel> kernel = device_source(*lowered, target, cat("k", out.seed));
  if (kernel) out.kernel = std::move(*kernel);
}

void make_draw(Case& out) {
  static const rules::Library library = rules::Library::built_in();
  Rng rng(out.seed);
  make_workload(out, rng);
  if (testing::Test::HasFatalFailure()) return;
  const char* set = rng.below(3) == 0 ? "reference-cuda" : "cuda";
  out.use = cat(set, ": ", out.use);
  std::string errors;
  CandidateSpace space =
      make_candidate_space(out.base.program, *library.find_set(set), library, test::cuda_target(), errors);
  ASSERT_EQ(errors, "") << out.use;
  CandidateBuilder builder(space);
  Candidate candidate;
  if (!builder.draw(random_sketch(space.space, rng), candidate, rng)) return;
  Result<Program> program = builder.build(candidate, &rng);
  if (!program) return;
  if (Result<Trace> trace = full_trace(space, candidate)) out.trace = trace->print();
  lower_case(*program, out);
}

// A draw of a sketch in which the rule has been applied.
void draw_by(const char* rule, Case& out, Rng& rng, const Target& target = test::cuda_target()) {
  static const rules::Library library = rules::Library::built_in();
  std::string errors;
  CandidateSpace space = make_candidate_space(out.base.program, *library.find_set("cuda"), library, target, errors);
  ASSERT_EQ(errors, "") << out.use;
  std::vector<int> sketches;
  for (std::size_t s = 0; s < space.space.sketches.size(); ++s) {
    const std::vector<std::string>& names = space.space.sketches[s].rules;
    if (std::find(names.begin(), names.end(), rule) != names.end()) sketches.push_back(static_cast<int>(s));
  }
  ASSERT_FALSE(sketches.empty()) << out.use;
  int sketch = sketches[static_cast<std::size_t>(rng.below(static_cast<i64>(sketches.size())))];
  CandidateBuilder builder(space);
  Candidate candidate;
  ASSERT_TRUE(builder.draw(sketch, candidate, rng)) << out.use;
  Result<Program> program = builder.build(candidate, &rng);
  if (!program) return;
  if (Result<Trace> trace = full_trace(space, candidate)) out.trace = trace->print();
  lower_case(*program, out, target);
}

void draw_mma(Case& out, Rng& rng) {
  out.base = test::Scheduled(out.use, {}, "").base();
  if (out.use.find("f32") != std::string::npos) out.base.program.tolerance = {1e-2, 1e-2};  // floats may be rounded
  draw_by("warp_mma", out, rng);
}

// Padded convolutions of several images as products of floats.
void make_convolution(Case& out) {
  Rng rng(out.seed, 6);
  auto upto = [&](i64 most) { return 1 + rng.below(most); };
  i64 dilation = upto(2), side = 3 + 2 * dilation, channels = rng.below(2) ? 4 * upto(4) : upto(9);
  out.use = cat("conv2d(N = ", upto(3), ", H = ", side + rng.below(8), ", W = ", side + rng.below(8),
                ", CI = ", channels, ", CO = ", 1 + upto(40), ", K = ", upto(3), ", padding = ", rng.below(3),
                ", stride = ", upto(2), ", dilation = ", dilation, ")");
  out.base = test::Scheduled(out.use, {}, "").base();
  draw_by("warp_tiling", out, rng);
}

// Rows of any length: some fit no vector, some have few passes or a last one that is not full, some are split over
// groups.
void make_rows(Case& out) {
  Rng rng(out.seed, 7);
  auto upto = [&](i64 most) { return 1 + rng.below(most); };
  const char* types[] = {"f32", "f16", "bf16"};
  i64 narrow = rng.below(3);
  std::string type = cat(", T = ", types[narrow], ")");
  i64 n = rng.below(2) ? 8 * (2 + rng.below(80)) : 16 + rng.below(600);
  const char* names[] = {"softmax", "layernorm", "rmsnorm"};
  i64 drawn = rng.below(5);
  out.use = drawn < 3 ? cat(names[drawn], "(M = ", upto(9), ", N = ", n, type)
                      : cat("norm(B = ", upto(3), ", M = ", 2 * upto(6), ", N = ", n, type);
  if (drawn == 4)
    out.use = rng.below(2) ? cat("norm(B = 1, M = 32, N = 512", type) : cat("softmax(M = 1, N = ", 32 * 1040, type);
  out.base = test::Scheduled(out.use, {}, "").base();
  draw_by(drawn == 4 ? "parts_of_rows" : "rows_of_groups", out, rng);
}

// Sums that are no product of matrices: of a matrix and a vector that all rows share, of everything, and across rows.
constexpr const char* kSums = R"(
workload matrix_vector(M: int, N: int, T: type) {
  input W: T[M, N], X: T[N]
  S[i: M] = sum(k: N) f32(W[i, k]) * f32(X[k])
  output Y: T[i: M] = T(S[i])
}
workload vector_matrix(M: int, N: int, T: type) {
  input X: T[M], W: T[M, N]
  S[j: N] = sum(k: M) f32(W[k, j]) * f32(X[k])
  output Y: T[j: N] = T(S[j])
}
workload whole(M: int, N: int, T: type) {
  input X: T[M, N]
  S[] = sum(i: M, k: N) f32(X[i, k])
  output Y: f32[] = max(S[], 1.0)
}
workload normalised(M: int, N: int, T: type) {
  input X: T[M * N]
  S[] = max(k: M * N) f32(X[k])
  output Y: T[i: M * N] = T(f32(X[i]) - S[])
}
workload one_row(M: int, N: int, T: type) {
  input X: T[1, N], W: T[M, N]
  S[i: 1, j: M] = sum(k: N) f32(X[i, k]) * f32(W[j, k])
  output Y: T[i: 1, j: M] = T(S[i, j])
}
workload statistics(M: int, N: int, T: type) {
  input X: T[M, N]
  S[j: N] = sum(i: M) f32(X[i, j])
  Q[j: N] = max(i: M) f32(X[i, j])
  output Y: f32[j: N] = Q[j] - S[j]
}
)";

void make_sums(Case& out) {
  Rng rng(out.seed, 8);
  struct Kind {
    const char *name, *rule;
    i64 rows, columns;  // at most
  };
  const Kind kinds[] = {{"matrix_vector", "rows_of_groups", 9, 700}, {"vector_matrix", "parts_of_sums", 700, 9},
                        {"whole", "rows_of_groups", 3, 600},         {"whole", "parts_of_rows", 32, 1024},
                        {"normalised", "rows_of_groups", 3, 600},    {"statistics", "parts_of_sums", 700, 9},
                        {"one_row", "rows_of_groups", 9, 700}};
  const DType types[] = {DType::F32, DType::F16, DType::BF16};
  const Kind& kind = kinds[rng.below(7)];
  bool is_in_parts = kind.rule == std::string_view("parts_of_rows");
  i64 m = is_in_parts ? kind.rows : kind.rows < 100 ? 1 + rng.below(kind.rows) : 8 * (16 + rng.below(70));
  i64 n = is_in_parts          ? kind.columns
          : kind.columns < 100 ? 1 + rng.below(kind.columns)
          : rng.below(2)       ? 8 * (2 + rng.below(80))
                               : 16 + rng.below(600);
  WorkloadArguments arguments{{"M", m}, {"N", n}, {"T", types[rng.below(3)]}};
  static const Source source{"sums", kSums};
  Diagnostics diagnostics(source);
  static const WorkloadModule module = parse_workloads(source, diagnostics);
  std::optional<OwnedProgram> made = instantiate(module, kind.name, arguments, {}, diagnostics);
  ASSERT_TRUE(made) << diagnostics.render();
  out.use = cat(kind.name, "(M = ", m, ", N = ", n, ") by ", kind.rule);
  out.base = std::move(*made);
  draw_by(kind.rule, out, rng);
}

// Products and convolutions of halves, and products of bytes and of floats that may be rounded, by matrix instructions.
void make_mma(Case& out) {
  Rng rng(out.seed, 3);
  const char* types[] = {"f16", "bf16", "f16", "bf16", "i8", "u8", "f32"};
  i64 drawn = rng.below(7);
  const char* type = types[drawn];
  i64 m = rng.below(4) ? 64 : 1 + rng.below(64), n = rng.below(4) ? 64 : 8 * (1 + rng.below(8)),
      k = (drawn < 4 ? 16 : 32) * (1 + rng.below(2));
  out.use = rng.below(4) == 0 && drawn < 4
                ? cat("conv2d(N = 1, H = 9, W = 9, CI = 8, CO = ", n, ", K = 2, T = ", type, ")")
                : cat("matmul(M = ", m, ", N = ", n, ", K = ", k, ", T = ", type, ")");
  draw_mma(out, rng);
}

// The same of shapes that no tile fits: every extent may be odd, rows begin at any address.
void make_mma_edges(Case& out) {
  Rng rng(out.seed, 5);
  const char* types[] = {"f16", "bf16", "f16", "bf16", "i8", "u8", "f32"};
  i64 drawn = rng.below(7);
  auto upto = [&](i64 most) { return 1 + rng.below(most); };
  std::string shape = cat("matmul(M = ", upto(80), ", N = ", upto(80), ", K = ", upto(80));
  if (i64 form = rng.below(8); form == 0) {
    shape = "matmul(M = 100, N = 100, K = 100";
  } else if (form == 1) {
    shape = "matmul(M = 65, N = 197, K = 33";
  } else if (form == 2) {
    shape = cat("batch_matmul(B = ", upto(3), ", M = ", upto(70), ", N = ", upto(70), ", K = ", upto(50));
  } else if (form < 5 && drawn < 4) {
    shape = cat("conv2d(N = ", upto(2), ", H = ", 4 + rng.below(8), ", W = ", 4 + rng.below(8), ", CI = ", upto(20),
                ", CO = ", upto(40), ", K = ", upto(3), ", padding = ", rng.below(2));
  }
  out.use = cat(shape, ", T = ", types[drawn], ")");
  draw_mma(out, rng);
}

// Products of halves by Hopper's instructions of four warps: either operand may run along the sum or across it, or be
// the windows of an image; shapes that tiles fit, and others.
constexpr const char* kTurned = R"(
workload turned(M: int, N: int, K: int, T: type) {
  input A: T[K, M], B: T[K, N]
  S[i: M, j: N] = sum(k: K) f32(A[k, i]) * f32(B[k, j])
  output C: T[i: M, j: N] = T(S[i, j])
}
workload of_rows(M: int, N: int, K: int, T: type) {
  input A: T[M, K], B: T[N, K]
  S[i: M, j: N] = sum(k: K) f32(A[i, k]) * f32(B[j, k])
  output C: T[i: M, j: N] = T(S[i, j])
}
)";

void make_warpgroup_mma(Case& out) {
  Rng rng(out.seed, 9);
  auto extent = [&](i64 most) { return rng.below(2) ? 64 * (1 + rng.below(most / 64)) : 1 + rng.below(most); };
  DType type = rng.below(2) ? DType::F16 : DType::BF16;
  const char* text = type == DType::F16 ? "f16" : "bf16";
  i64 form = rng.below(4);
  if (form < 3) {
    const char* names[] = {"matmul", "of_rows", "turned"};
    WorkloadArguments arguments{{"M", extent(70)}, {"N", extent(220)}, {"K", extent(80)}, {"T", type}};
    static const Source source{"turned", kTurned};
    Diagnostics diagnostics(source);
    static const WorkloadModule module = parse_workloads(source, diagnostics);
    std::optional<OwnedProgram> made =
        instantiate(form > 0 ? module : operator_library(), names[form], arguments, {}, diagnostics);
    ASSERT_TRUE(made) << diagnostics.render();
    out.use = to_string(WorkloadUse{names[form], arguments}), out.base = std::move(*made);
  } else {
    out.use = cat("conv2d(N = ", 1 + rng.below(2), ", H = ", 4 + rng.below(4), ", W = 5, CI = ", 1 + rng.below(20),
                  ", CO = ", extent(80), ", K = 3, padding = 1, T = ", text, ")");
    out.base = test::Scheduled(out.use, {}, "").base();
  }
  Target hopper = test::cuda_target();
  hopper.arch = "sm_90a", hopper.shared_bytes = 227 << 10;
  draw_by("warpgroup_mma", out, rng, hopper);
}

void make_tiles(Case& out) {
  Rng rng(out.seed, 1);
  auto between = [&](i64 least, i64 most) { return static_cast<int>(least + rng.below(most - least + 1)); };
  out.use = cat("matmul(M = ", between(1, 40), ", N = ", between(1, 40), ", K = ", between(1, 24), ")");
  test::GpuGemm tiles{.ty = between(1, 8), .tx = between(1, 8), .rows = between(1, 4), .columns = between(1, 8)};
  tiles.depth = between(1, 8);
  out.trace = test::gpu_gemm_schedule(tiles);
  test::Scheduled scheduled(out.use, {}, out.trace);
  out.base = scheduled.base();
  lower_case(scheduled.program(), out);
}

// Instructions of all kinds, and some more that bind loops.
void make_random_schedule(Case& out) {
  static const std::vector<const InstructionKind*> kinds = test::changing_kinds();
  static const InstructionKind* bind = *std::find_if(
      kinds.begin(), kinds.end(), [](const InstructionKind* kind) { return std::string_view(kind->name) == "bind"; });
  Rng rng(out.seed, 2);
  out.base = test::random_program(rng, out.use);
  Schedule schedule(out.base.program, out.seed);
  test::Acceptance acceptance;
  for (i64 i = rng.below(12); i >= 0; --i) {
    test::apply_random(schedule, *kinds[static_cast<std::size_t>(rng.below(static_cast<i64>(kinds.size())))], rng,
                       acceptance);
    if (rng.below(2)) test::apply_random(schedule, *bind, rng, acceptance);
  }
  out.trace = schedule.trace().without_dead_code().print();
  lower_case(schedule.program(), out);
}

// A chain of stages in shared memory, each of which reads its predecessor in another order, and now and then an older
// one; below a serial loop or not. Their buffers are large enough to take turns (dsl/passes/share_storage.h).
std::string chain_text(Rng& rng) {
  i64 threads = i64{32} << rng.below(3), each = 256 / threads + rng.below(3), n = threads * each,
      stages = 3 + rng.below(4);
  i64 rounds = 1 + rng.below(3), groups = 1 + rng.below(2);
  std::string locals, body;
  for (i64 s = 0; s < stages; ++s) {
    locals += cat("  local B", s, ": f32[", groups, ", ", rounds, ", ", n, "] in shared\n");
    auto read = [&](i64 from) {
      std::string j = rng.below(3) == 0 ? "j" : cat(n - 1, " - j");
      return cat(from < 0 ? std::string("X") : cat("B", from), "[i, k, ", j, "]");
    };
    std::string value = read(s - 1);
    if (s > 1 && rng.below(3) == 0) value += " + " + read(rng.below(s));
    body += cat("bind threadIdx.x for t", s, " in ", threads, " {\nfor u", s, " in ", each, " { block S", s, "(i: S ",
                groups, " = i, k: S ", rounds, " = k, j: S ", n, " = u", s, " * ", threads, " + t", s, ") { B", s,
                "[i, k, j] = ", value, " } }\n}\n");
  }
  std::string sum =
      cat("bind threadIdx.x for t in ", threads, " {\nfor u in ", each, " { block S(i: S ", groups, " = i, k: R ",
          rounds, " = k, j: S ", n, " = u * ", threads, " + t) { init { Y[i, j] = 0.0 } Y[i, j] = Y[i, j] + B",
          stages - 1, "[i, k, ", n - 1, " - j] } }\n}\n");
  return cat("program chain(X: input f32[", groups, ", ", rounds, ", ", n, "], Y: output f32[", groups, ", ", n,
             "]) {\n", locals, "bind blockIdx.x for i in ", groups, " {\nfor k in ", rounds, " {\n", body, sum,
             "}\n}\n}\n");
}

void make_chain(Case& out) {
  Rng rng(out.seed, 4);
  out.use = "chain()", out.trace = chain_text(rng);
  out.base = test::parsed(out.trace);
  lower_case(out.base.program, out);
}

// Compares as trials do: with what the interpreter computes in f64, by the rounding that it may have.
std::string difference_beyond_rounding(const Program& workload, const std::vector<HostArray>& inputs,
                                       const std::vector<HostArray>& got) {
  Arena arena;
  Program judged = judged_program(arena, workload);
  std::vector<HostArray> expected;
  for (const Param& param : judged.params) {
    auto input = std::find_if(workload.params.begin(), workload.params.end(),
                              [&](const Param& other) { return other.buffer->name == param.buffer->name; });
    bool is_drawn = param.role != Role::Output;
    expected.push_back(is_drawn ? inputs[static_cast<std::size_t>(input - workload.params.begin())]
                                : HostArray::like(param.buffer));
  }
  if (std::string error = interpret(judged, expected, {.max_steps = 2'000'000'000}); !error.empty())
    return "the reference: " + error;
  auto find = [&](const std::string& name) -> const HostArray* {
    for (std::size_t i = 0; i < judged.params.size(); ++i) {
      if (judged.params[i].buffer->name == name) return &expected[i];
    }
    return nullptr;
  };
  for (std::size_t i = 0; i < got.size(); ++i) {
    const Param& param = workload.params[i];
    std::string name(param.buffer->name);
    const HostArray* variances = find(name + std::string(kVarianceSuffix));
    if (param.role != Role::Output) continue;
    Comparison found = judged_result(got[i], *find(name), variances, tolerance_of(workload));
    if (!found.is_right()) return cat("`", name, "`: ", difference_text(found, got[i].elements(), "the first one"));
  }
  return "";
}

// "" or what is wrong. Where small integers keep every step exact, the bits must be those that the interpreter gives.
std::string judge(const Case& one, const EmulatedKernels& kernels, std::size_t index) {
  Judge judge(one.base.program, one.seed);
  if (!judge.problem().empty()) return "the workload: " + judge.problem();
  NamedArrays arrays;
  const Array<Param> params = one.base.program.params;
  for (std::size_t p = 0; p < params.size(); ++p) {
    if (params[p].role != Role::Output) arrays[std::string(params[p].buffer->name)] = judge.inputs()[p];
  }
  EmulationReport report = kernels.run(index, arrays, {.seed = one.seed});
  if (report.status != EmulationStatus::Ok) return cat(name_of(report.status), ": ", report.message);
  std::vector<HostArray> got;
  for (const Param& param : params) {
    auto found = arrays.find(std::string_view(param.buffer->name));
    got.push_back(found == arrays.end() ? HostArray::like(param.buffer) : found->second);
  }
  bool is_exact = tolerance_for_small_integers(one.base.program) == 0;
  return is_exact ? judge.compare(got) : difference_beyond_rounding(one.base.program, judge.inputs(), got);
}

struct Count {
  int kernels = 0, refused = 0, wrong = 0, with_barriers = 0, with_mma = 0, with_fills = 0, shared_buffers = 0;
  int with_filled_loads = 0;  // vectors that are zeros where padding is
  int with_staged_sums = 0;   // which leave through shared memory, where they lie over operands
  std::set<std::string> operators, matrix_instructions, warpgroup_instructions;
};

void run_batch(std::vector<Case>& cases, Count& count) {
  std::vector<const Kernel*> kernels;
  std::vector<const Case*> with_kernel;
  for (const Case& one : cases) {
    if (!one.kernel) {
      ++count.refused;
      continue;
    }
    kernels.push_back(&*one.kernel);
    with_kernel.push_back(&one);
  }
  if (kernels.empty()) return;
  EmulationReport report;
  std::unique_ptr<EmulatedKernels> compiled = EmulatedKernels::compile(kernels, report);
  ASSERT_TRUE(compiled) << report.message;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    const Case& one = *with_kernel[i];
    ++count.kernels;
    count.with_barriers += one.kernel->code.find("__syncthreads") != std::string::npos;
    const std::string& code = one.kernel->code;
    count.with_staged_sums += code.find("tw_placed") != std::string::npos;
    count.with_fills += code.find("  tw_copy_async_or_zeros_", code.find("__global__")) != std::string::npos;
    count.with_filled_loads +=
        code.find(": float4()") != std::string::npos || code.find(": float2()") != std::string::npos;
    for (std::size_t at = 0; (at = code.find("  __shared__ ", at)) != std::string::npos; ++at) ++count.shared_buffers;
    for (std::size_t at = 0; (at = code.find("  tw_wgmma_m64", at)) != std::string::npos; ++at)
      count.warpgroup_instructions.insert(code.substr(at, code.find('(', at) - at));
    if (std::size_t call = code.find("  tw_mma_"); call != std::string::npos) {
      ++count.with_mma;
      count.matrix_instructions.insert(code.substr(call, code.find('(', call) - call));
    }
    std::size_t name = one.use.rfind(' ', one.use.find('(')) + 1;  // npos + 1 is the beginning
    count.operators.insert(one.use.substr(name, one.use.find('(') - name));
    std::string wrong = judge(one, *compiled, i);
    if (wrong.empty()) continue;
    ++count.wrong;
    ADD_FAILURE() << wrong << "\nTW_SEED=" << one.seed << "  " << one.use << "\n"
                  << one.trace << (std::getenv("TW_SEED") ? one.kernel->code : "");
  }
}

Count run_cases(void (*make)(Case&), i64 by_default = 60) {
  const test::Seeds seeds = test::seeds_from_environment(by_default);
  Count count;
  for (i64 begin = seeds.first; begin < seeds.end; begin += kTogether) {
    std::vector<Case> batch(static_cast<std::size_t>(std::min<i64>(kTogether, seeds.end - begin)));
    for (std::size_t i = 0; i < batch.size(); ++i) {
      batch[i].seed = static_cast<u64>(begin) + i;
      make(batch[i]);
    }
    if (testing::Test::HasFatalFailure()) break;
    run_batch(batch, count);
  }
  std::cout << count.kernels << " kernels of " << count.operators.size() << " operators emulated, "
            << count.with_barriers << " of them with barriers, " << count.with_mma << " with matrix instructions, "
            << count.with_staged_sums << " with sums over operands in shared memory; " << count.refused
            << " draws refused by lowering, " << count.wrong << " wrong\n";
  return count;
}

class EmulatedSpace : public testing::Test {
 protected:
  void SetUp() override {
    std::string error;
    ASSERT_NE(emulation_compiler(error), "") << error << ": these tests were compiled, so there is a compiler";
  }
  static bool is_one_case() { return std::getenv("TW_SEED") != nullptr; }
};

// An environment variable as it is for a test; null: not there.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* text = std::getenv(name)) before_ = text;
    set(value);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() { set(before_ ? before_->c_str() : nullptr); }

 private:
  void set(const char* value) { value ? setenv(name_, value, 1) : unsetenv(name_); }
  const char* name_;
  std::optional<std::string> before_;
};

// Every night has other cases.
TEST(EmulatedSpaceSeeds, BeginWhereTheEnvironmentSays) {
  Variable seed("TW_SEED", nullptr), first("TW_FIRST", "4000"), cases("TW_CASES", "12");
  static std::vector<u64> made;
  made.clear();
  EXPECT_EQ(run_cases([](Case& out) { made.push_back(out.seed); }).refused, 12);
  ASSERT_EQ(made.size(), 12u);
  for (std::size_t i = 0; i < made.size(); ++i) EXPECT_EQ(made[i], 4000 + i);
}

TEST_F(EmulatedSpace, DrawsComputeWhatTheInterpreterSays) {
  Count count = run_cases(make_draw);
  if (is_one_case()) return;
  // `reference-cuda` leaves half of its draws to its last rule, which looks at the limits of the device.
  EXPECT_LE(count.refused, count.kernels / 2) << "most draws must be lowered";
  EXPECT_GE(count.with_barriers, count.kernels / 4);
  EXPECT_GE(count.operators.size(), 10u);
}

TEST_F(EmulatedSpace, MatrixInstructionsComputeWhatTheInterpreterSays) {
  Count count = run_cases(make_mma);
  if (is_one_case()) return;
  EXPECT_GE(count.with_staged_sums, count.kernels / 5);
  EXPECT_EQ(count.with_mma, count.kernels);
  EXPECT_GE(count.matrix_instructions.size(), 4u) << "of f16, bf16, i8, u8 and f32";
  EXPECT_LE(count.refused, count.kernels / 10);
}

TEST_F(EmulatedSpace, MatrixInstructionsBeyondTheEndOfAMatrixComputeWhatTheInterpreterSays) {
  Count count = run_cases(make_mma_edges);
  if (is_one_case()) return;
  EXPECT_EQ(count.with_mma, count.kernels);
  EXPECT_GE(count.operators.size(), 3u);
  EXPECT_GE(count.matrix_instructions.size(), 4u) << "of f16, bf16, i8, u8 and f32";
  EXPECT_GE(count.with_fills, count.kernels / 10) << "zeros by asynchronous copies";
  EXPECT_LE(count.refused, count.kernels / 10);
}

TEST_F(EmulatedSpace, InstructionsOfFourWarpsComputeWhatTheInterpreterSays) {
  Count count = run_cases(make_warpgroup_mma, 24);
  if (is_one_case()) return;
  EXPECT_EQ(count.with_barriers, count.kernels);
  std::string all;
  for (const std::string& name : count.warpgroup_instructions) all += name + " ";
  for (const char* part :
       {"_f16_", "_bf16_", "n64k", "n128k", "n256k", "_along_along", "_along_across", "_across_across"})
    EXPECT_NE(all.find(part), std::string::npos) << part << " is in none of" << all;
  EXPECT_GE(count.with_staged_sums, count.kernels / 8);
  EXPECT_LE(count.refused, count.kernels / 10);
}

TEST_F(EmulatedSpace, ConvolutionsComputeWhatTheInterpreterSays) {
  Count count = run_cases(make_convolution, 20);
  if (is_one_case()) return;
  EXPECT_EQ(count.with_barriers, count.kernels);
  EXPECT_GE(count.with_fills, count.kernels / 10) << "zeros by asynchronous copies";
  EXPECT_GE(count.with_filled_loads, count.kernels / 20);
  EXPECT_LE(count.refused, count.kernels / 10);
}

TEST_F(EmulatedSpace, RowsComputeWhatTheInterpreterSays) {
  Count count = run_cases(make_rows, 30);
  if (is_one_case()) return;
  EXPECT_GE(count.with_barriers, count.kernels / 2);
  EXPECT_GE(count.operators.size(), 4u);
  EXPECT_EQ(count.refused, 0);
}

TEST_F(EmulatedSpace, SumsComputeWhatTheInterpreterSays) {
  Count count = run_cases(make_sums, 30);
  if (is_one_case()) return;
  EXPECT_GE(count.with_barriers, count.kernels / 4);
  EXPECT_EQ(count.operators.size(), 6u);
  EXPECT_EQ(count.refused, 0);
}

TEST_F(EmulatedSpace, TilesComputeWhatTheInterpreterSays) {
  Count count = run_cases(make_tiles);
  if (is_one_case()) return;
  EXPECT_GE(count.with_barriers, count.kernels / 2);
}

TEST_F(EmulatedSpace, BuffersThatTakeTurnsComputeWhatTheInterpreterSays) {
  Count count = run_cases(make_chain);
  if (is_one_case()) return;
  EXPECT_EQ(count.refused, 0);
  EXPECT_EQ(count.with_barriers, count.kernels);
  // Chains have three to six stages.
  EXPECT_LE(count.shared_buffers, 3 * count.kernels) << "most buffers must share a place";
}

TEST_F(EmulatedSpace, RandomSchedulesComputeWhatTheInterpreterSays) {
  Count count = run_cases(make_random_schedule);
  if (is_one_case()) return;
  EXPECT_GE(count.kernels, count.refused / 4);
}

}  // namespace
}  // namespace tw
