// AutoTVM's templates (examples/autotvm): on random shapes every draw computes what its workload says, their spaces are
// as large as AutoTVM's are, and Winograd's algorithm gives the results of the convolution.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "backends/meaning.h"
#include "dsl/base/text.h"
#include "dsl/text/workload.h"
#include "sampler/search/trial.h"
#include "sampler/space/candidate.h"
#include "sampler/tasks/load_list.h"
#include "support/planted_faults.h"
#include "support/support.h"

namespace tw {
namespace {

const std::string folder = TW_SOURCE_DIR "/examples/autotvm/";

struct Use {
  std::string text;
  bool has_free_layout = false;
};

// A task list of one use, with the templates for its operator.
LoadedList list_of(const Use& use, const std::string& target = "threads: 1") {
  const std::string& text = use.text;
  const char* module = text.starts_with("conv2d")     ? "conv2d.tw"
                       : text.starts_with("winograd") ? "winograd.tw"
                       : text.starts_with("dense")    ? "dense.tw"
                                                      : "depthwise.tw";
  test::TemporaryDirectory place;
  test::write_file(place.path() + "/list.yaml",
                   cat("version: 1\ntarget: {kind: cpu, ", target, "}\nrules: untuned\nmodules: [", folder, module,
                       "]\ntasks:\n  - {name: t, workload: ", folder, "operators.tw, use: \"", text,
                       "\", layout: ", use.has_free_layout ? "free" : "fixed", "}\n"));
  std::string messages;
  std::optional<LoadedList> list = load_list(place.path() + "/list.yaml", messages);
  EXPECT_TRUE(list) << messages;
  EXPECT_EQ(messages, "");
  return list ? std::move(*list) : LoadedList{};
}

CandidateSpace space_of(const LoadedList& list, const TuneTask& task) {
  std::string errors;
  CandidateSpace space = make_candidate_space(task.program.program, *list.library.find_set(list.list.rules.value),
                                              list.library, task.target, errors);
  EXPECT_EQ(errors, "") << task.name;
  return space;
}

// The templates that have sketches of a space.
std::set<std::string> templates_of(const CandidateSpace& space) {
  std::set<std::string> out;
  for (const Sketch& sketch : space.space.sketches) out.insert(sketch.rules.begin(), sketch.rules.end());
  return out;
}

// A shape of each operator, small enough for the interpreter: channels that no vector divides, odd images, windows as
// large as the image, strides, several images.
Use random_use(Rng& rng, const std::string& op) {
  auto one_of = [&](std::vector<i64> values) {
    return values[static_cast<std::size_t>(rng.below(static_cast<i64>(values.size())))];
  };
  bool has_free_layout = rng.below(2) == 0;
  if (op == "dense_nt") {
    return {cat("dense_nt(M = ", one_of({1, 2, 7, 12}), ", N = ", one_of({1, 13, 16, 48}),
                ", K = ", one_of({1, 11, 16, 40}), ")"),
            has_free_layout};
  }
  i64 window = op == "winograd_nchw" ? 3 : one_of({1, 3, 3, 5}), padding = rng.below(window / 2 + 2);
  i64 least = std::max<i64>(1, window - 2 * padding);
  std::string image = cat(op, "(N = ", one_of({1, 2}), ", H = ", least + rng.below(5), ", W = ", least + rng.below(5));
  std::string rest = cat(", padding = ", padding);
  if (op == "winograd_nchw") {
    rest += cat(", m = ", one_of({2, 4}));
  } else {
    i64 stride = one_of({1, 1, 2, 3});
    rest += cat(", K = ", window, ", stride = ", stride);
    // Strides may leave rows unread. No copy has them, and the interpreter misses them in what is packed beforehand.
    has_free_layout &= stride == 1;
  }
  if (op == "depthwise_conv2d_nchw")
    return {cat(image, ", C = ", one_of({1, 6, 13, 16, 32}), rest, ")"), has_free_layout};
  return {cat(image, ", CI = ", one_of({1, 3, 4, 13}), ", CO = ", one_of({1, 5, 8, 13, 16}), rest, ")"),
          has_free_layout};
}

const std::vector<std::string> operators{"conv2d_nchw", "winograd_nchw", "dense_nt", "depthwise_conv2d_nchw"};

// "" if what the sketch draws computes what the task's program computes, scheduled and lowered; else what is wrong.
// `fault`: what happens to the scheduled program before it is judged.
using Fault = std::function<Program(Arena&, const Program&)>;
std::string wrong_draw(const CandidateSpace& space, int sketch, const Judge& judge, const Target& target, Rng& rng,
                       const Fault& fault = nullptr) {
  CandidateBuilder builder(space);
  Candidate candidate;
  if (!builder.draw(sketch, candidate, rng)) return "the prior has no draw";
  Result<Program> scheduled = builder.build(candidate, &rng);
  if (!scheduled) return cat("rejected: ", to_string(scheduled.rejected()));
  Arena arena;
  Program program = fault ? fault(arena, *scheduled) : *scheduled;
  if (std::string wrong = judge.difference(program); !wrong.empty()) return wrong;
  Result<LoweredProgram> lowered = lower(arena, program, lowering_options(target));
  return lowered ? judge.difference(*lowered) : cat("not lowered: ", to_string(lowered.rejected()));
}

TEST(AutotvmTemplates, DrawsOnRandomShapesAreRight) {
  const auto [first, end, is_one_case] = test::seeds_from_environment(24);
  std::set<std::string> drawn;
  for (i64 seed = first; seed < end && !HasFailure(); ++seed) {
    Rng rng(static_cast<u64>(seed));
    Use use = random_use(rng, operators[static_cast<std::size_t>(seed % 4)]);
    const char* machines[] = {"threads: 1, vector_bits: 128, vector_registers: 16",
                              "threads: 2, vector_bits: 256, vector_registers: 16",
                              "threads: 1, vector_bits: 512, vector_registers: 32"};
    LoadedList list = list_of(use, machines[seed % 3]);
    ASSERT_EQ(list.tasks.size(), 1u);
    const TuneTask& task = list.tasks[0];
    CandidateSpace space = space_of(list, task);
    Judge judge(task.program.program, 1, tolerance_for_small_integers(task.program.program));
    const SketchList& sketches = space.space.sketches;
    for (int sketch = 0; sketch < static_cast<int>(sketches.size()); ++sketch) {
      const std::string& name = sketches[static_cast<std::size_t>(sketch)].rules.at(0);
      if (name == "conv2d_spatial_pack" && rng.below(4) > 0) continue;  // of 16 sketches some
      drawn.insert(name);
      EXPECT_EQ(wrong_draw(space, sketch, judge, task.target, rng), "")
          << "TW_SEED=" << seed << "  " << use.text << "\n"
          << sketches[static_cast<std::size_t>(sketch)].trace.print();
    }
  }
  if (is_one_case) return;
  EXPECT_EQ(drawn, (std::set<std::string>{"conv2d_nchwc", "conv2d_nchwc_1x1", "conv2d_spatial_pack", "conv2d_direct",
                                          "winograd", "dense_nopack", "dense_pack", "depthwise_nchwc"}));
}

// One element of one draw that is something else.
TEST(AutotvmTemplates, AWrongDrawIsFound) {
  Fault first_element = [](Arena& arena, const Program& program) {
    return test::with_fault(
        arena, program,
        [](Build& build, const std::vector<const Expr*>& indices) {
          const Expr* all = nullptr;
          for (const Expr* index : indices) all = build.both(all, build.binary(BinaryOp::Eq, index, build.integer(0)));
          return all;
        },
        0.5);
  };
  for (const char* use : {"conv2d_nchw(N = 1, H = 5, W = 7, CI = 3, CO = 13, K = 3, padding = 1)",
                          "conv2d_nchw(N = 1, H = 5, W = 7, CI = 3, CO = 13, K = 1)",
                          "winograd_nchw(N = 1, H = 5, W = 7, CI = 3, CO = 13)", "dense_nt(M = 7, N = 13, K = 12)",
                          "depthwise_conv2d_nchw(N = 1, H = 5, W = 7, C = 13, K = 3)"}) {
    LoadedList list = list_of({use});
    ASSERT_EQ(list.tasks.size(), 1u);
    const TuneTask& task = list.tasks[0];
    CandidateSpace space = space_of(list, task);
    Judge judge(task.program.program, 1, tolerance_for_small_integers(task.program.program));
    for (int sketch = 0; sketch < static_cast<int>(space.space.sketches.size()); ++sketch) {
      Rng rng(1, static_cast<u64>(sketch));
      EXPECT_TRUE(wrong_draw(space, sketch, judge, task.target, rng, first_element).starts_with("element 0 of `Y`"))
          << use << "\n"
          << space.space.sketches[static_cast<std::size_t>(sketch)].trace.print();
    }
  }
}

// How many different points the template draws; counting ends at `most`.
std::size_t points(const CandidateSpace& space, const std::string& name, std::size_t most) {
  std::vector<int> sketches;
  for (int i = 0; i < static_cast<int>(space.space.sketches.size()); ++i) {
    if (space.space.sketches[static_cast<std::size_t>(i)].rules == std::vector<std::string>{name})
      sketches.push_back(i);
  }
  std::set<u64> keys;
  CandidateBuilder builder(space);
  Rng rng(1);
  for (std::size_t n = 0; !sketches.empty() && n < 20 * most && keys.size() < most; ++n) {
    Candidate candidate;
    EXPECT_TRUE(builder.draw(sketches[n % sketches.size()], candidate, rng) && builder.decide(candidate, &rng));
    keys.insert(decision_key(candidate));
  }
  return keys.size();
}

TEST(AutotvmTemplates, SpacesAreLarge) {
  auto expect_points = [&](const std::string& use, const std::map<std::string, std::size_t>& least) {
    LoadedList list = list_of({use, true}, "threads: 1, vector_bits: 256, vector_registers: 16");
    ASSERT_EQ(list.tasks.size(), 1u);
    CandidateSpace space = space_of(list, list.tasks[0]);
    std::set<std::string> names;
    for (const auto& [name, most] : least) {
      names.insert(name);
      EXPECT_EQ(points(space, name, most), most) << name;
    }
    EXPECT_EQ(templates_of(space), names);
  };
  expect_points("conv2d_nchw(N = 1, H = 28, W = 28, CI = 128, CO = 128, K = 3, padding = 1)",
                {{"conv2d_nchwc", 400}, {"conv2d_spatial_pack", 1000}, {"conv2d_direct", 1000}});
  expect_points("conv2d_nchw(N = 1, H = 56, W = 56, CI = 64, CO = 64, K = 1)",
                {{"conv2d_nchwc_1x1", 250}, {"conv2d_spatial_pack", 1000}, {"conv2d_direct", 1000}});
  expect_points("dense_nt(M = 512, N = 512, K = 512)", {{"dense_nopack", 50}, {"dense_pack", 1000}});
  expect_points("depthwise_conv2d_nchw(N = 1, H = 112, W = 112, C = 64, K = 3, padding = 1)",
                {{"depthwise_nchwc", 400}});
  // Of 7 x 7 tiles three numbers have a divisor.
  expect_points("winograd_nchw(N = 1, H = 28, W = 28, CI = 128, CO = 128)", {{"winograd", 60}});
}

// The lists are those of the paper's networks, and what the templates draw for them can be made.
TEST(AutotvmTemplates, TheListsCanBeTuned) {
  std::set<std::string> convolutions;
  for (const char* name : {"resnet18.yaml", "dense.yaml"}) {
    std::string messages;
    std::optional<LoadedList> list = load_list(folder + name, messages);
    ASSERT_TRUE(list) << messages;
    EXPECT_EQ(messages, "");
    EXPECT_EQ(list->list.search.strategy.value, "annealing");
    for (const TuneTask& task : list->tasks) {
      CandidateSpace space = space_of(*list, task);
      EXPECT_FALSE(templates_of(space).empty()) << task.name;
      CandidateBuilder builder(space);
      Rng rng(1);
      Candidate candidate;
      ASSERT_TRUE(builder.draw(0, candidate, rng));
      Result<Program> program = builder.build(candidate, &rng);
      ASSERT_TRUE(program) << to_string(program.rejected());
      Arena arena;
      EXPECT_TRUE(can_be_lowered(arena, *program, task.target)) << task.name;
      if (task.program.program.name == Str("conv2d_nchw")) convolutions.insert(task.name);
    }
  }
  EXPECT_EQ(convolutions.size(), 12u);
}

// ---- Winograd's algorithm

OwnedProgram made(const std::string& text, const std::string& use_text) {
  Source source{"operators.tw", text}, use_source{"use", use_text};
  Diagnostics diagnostics(source), of_use(use_source);
  WorkloadModule module = parse_workloads(source, diagnostics);
  std::optional<WorkloadUse> use = parse_use(use_source, of_use);
  std::optional<OwnedProgram> program = instantiate(module, use->workload, use->arguments, {}, diagnostics);
  EXPECT_TRUE(program) << diagnostics.render();
  return *program;
}

// "" if it gives what the convolution gives.
std::string difference_of_winograd(const std::string& text, const std::string& shape, int m, int padding) {
  OwnedProgram convolution = made(text, cat("conv2d_nchw(", shape, ", K = 3, padding = ", padding, ")"));
  OwnedProgram winograd = made(text, cat("winograd_nchw(", shape, ", m = ", m, ", padding = ", padding, ")"));
  return Judge(convolution.program, 1, m == 2 ? 0 : 1e-4).difference(winograd.program);
}

TEST(AutotvmTemplates, WinogradGivesTheConvolution) {
  std::string text = test::read_file(folder + "operators.tw");
  for (const char* shape : {"N = 1, H = 8, W = 8, CI = 3, CO = 4", "N = 2, H = 5, W = 7, CI = 2, CO = 3"}) {
    for (int m : {2, 4}) {
      for (int padding : {0, 1, 2})
        EXPECT_EQ(difference_of_winograd(text, shape, m, padding), "") << shape << m << padding;
    }
  }
}

// Each coefficient of the transforms counts.
TEST(AutotvmTemplates, AWrongTransformIsFound) {
  const std::string text = test::read_file(folder + "operators.tw");
  const std::pair<const char*, const char*> faults[] = {
      {"then a - c else", "then a + c else"},
      {"(a - b + c) / 2.0", "(a - b + c) / 2.5"},
      {"then a + b + c else b - c - d", "then a + b + c else b - c + d"},
      {"4 * a - 5 * c + f", "4 * a - 4 * c + f"},
      {"else 4 * b - 5 * d + g", "else 4 * b - 5 * d - g"},
      {"(b - a - c) / 6.0", "(b - a + c) / 6.0"},
      {"a / 24.0 - b / 12.0", "a / 24.0 + b / 12.0"},
      {"8 * (d - f) + g", "8 * (d - f)"}};
  for (const auto& [right, wrong] : faults) {
    std::size_t at = text.find(right);
    ASSERT_NE(at, std::string::npos) << right;
    std::string changed = text;
    changed.replace(at, std::string(right).size(), wrong);
    bool is_found = false;
    for (int m : {2, 4})
      is_found |= !difference_of_winograd(changed, "N = 1, H = 8, W = 8, CI = 3, CO = 4", m, 1).empty();
    EXPECT_TRUE(is_found) << wrong;
  }
}

}  // namespace
}  // namespace tw
