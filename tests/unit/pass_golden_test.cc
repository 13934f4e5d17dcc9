// Runs tests/passes/*.tw: lowering passes on small programs, with the whole text that they give. A file holds cases
// (support/golden_cases.h) with a section `passes`, one per line, each with the options that it needs:
//
//   passes
//     place_buffers vector_registers=8
//     vectorize_loops vector_bits=128
//
// What the programs compute before and after is compared by the interpreter wherever it can run both. TW_BLESS=1
// rewrites what is expected.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <sstream>

#include "backends/device_form.h"
#include "dsl/base/text.h"
#include "dsl/ir/print.h"
#include "dsl/ir/walk.h"
#include "dsl/passes/barriers.h"
#include "dsl/passes/cost.h"
#include "dsl/passes/device_scopes.h"
#include "dsl/passes/flatten_buffers.h"
#include "dsl/passes/lower.h"
#include "dsl/passes/lower_blocks.h"
#include "dsl/passes/lower_gpu.h"
#include "dsl/passes/parallel_loops.h"
#include "dsl/passes/partition_loops.h"
#include "dsl/passes/place_buffers.h"
#include "dsl/passes/register_loops.h"
#include "dsl/passes/skip_identity_terms.h"
#include "dsl/passes/split_entry_points.h"
#include "dsl/passes/split_kernels.h"
#include "dsl/passes/stage_copies.h"
#include "dsl/passes/thread_axes.h"
#include "dsl/passes/unroll_loops.h"
#include "dsl/passes/vectorize_loops.h"
#include "dsl/passes/widen.h"
#include "dsl/text/parse_program.h"
#include "support/golden_cases.h"
#include "support/meaning.h"

namespace tw {
namespace {

// What a case asks of a pass beside its defaults.
struct Settings {
  LoweringOptions lowering;
  GpuLimits gpu;
  bool parallel = true;
};

// A program on its way through passes; `remarks`: what they say beside it.
struct Stage {
  Arena& arena;
  Program program;
  std::string remarks;
};

using Pass = Status (*)(Stage&, const Settings&);

template <auto pass>
Status plain(Stage& at, const Settings&) {
  Result<Program> made = pass(at.arena, at.program);
  if (!made) return made.rejected();
  at.program = *made;
  return ok();
}

template <auto pass>
Status with_options(Stage& at, const Settings& settings) {
  Result<Program> made = pass(at.arena, at.program, settings.lowering);
  if (!made) return made.rejected();
  at.program = *made;
  return ok();
}

Status serialized(Stage& at, const Settings& settings) {
  at.program = serialize_inner_parallel(at.arena, at.program, settings.parallel);
  return ok();
}

const char* name_of(Place place) {
  switch (place) {
    case Place::SharedScratch:
      return "shared";
    case Place::WorkerScratch:
      return "worker";
    default:
      return "?";
  }
}

Status placed(Stage& at, const Settings& settings) {
  TW_TRY(PlacedProgram out, place_buffers(at.arena, at.program, settings.lowering));
  at.program = out.program;
  for (std::size_t i = 0; i < out.slots.size(); ++i)
    at.remarks +=
        cat("// ", out.program.locals[i]->name, ": ", name_of(out.slots[i].place), " ", out.slots[i].offset, "\n");
  if (!settings.lowering.is_device)
    at.remarks += cat("// shared ", out.shared_bytes, ", worker ", out.worker_bytes, "\n");
  return ok();
}

Status scoped(Stage& at, const Settings& settings) {
  TW_TRY(ScopedProgram out, device_scopes(at.arena, at.program, settings.gpu));
  at.program = out.program;
  for (const Buffer* buffer : out.group_scratch)
    at.remarks += cat("// ", buffer->name, ": scratch of ", buffer->shape[0], " groups\n");
  return ok();
}

Status bound(Stage& at, const Settings& settings) {
  TW_TRY(at.program, bind_threads(at.arena, at.program, settings.gpu));
  return ok();
}

Status combining(Stage& at, const Settings&) { return check_combining(at.program); }
Status apart(Stage& at, const Settings&) { return check_apart(at.arena, at.program); }

Status entry_points(Stage& at, const Settings&) {
  TW_TRY(EntryPoints out, split_entry_points(at.arena, at.program));
  if (out.prepack.body) at.remarks = "// prepack\n" + print(out.prepack);
  at.program = out.run;
  return ok();
}

Status kernels(Stage& at, const Settings&) {
  TW_TRY(SplitKernels out, split_kernels(at.arena, at.program));
  at.remarks = cat("// scratch ", out.scratch_bytes, "\n");
  for (const SplitKernel& kernel : out.kernels) {
    at.remarks += "//";
    for (const SplitParam& param : kernel.params)
      at.remarks += cat(param.is_scratch ? " scratch " : " argument ", param.at);
    at.remarks += "\n" + print(kernel.program);
  }
  return ok();
}

Status cost(Stage& at, const Settings& settings) {
  Cost found = cost_of(at.program.body, settings.lowering);
  at.remarks = cat("// code ", found.code, ", executed ", found.executed, ", lanes ",
                   lanes_of(at.program.body, settings.lowering), "\n");
  return ok();
}

// The statements behind barriers stand in a loop `barrier`.
class BarrierMarks {
 public:
  BarrierMarks(Arena& arena, const std::vector<const Stmt*>& marked) : arena_(arena), marked_(marked) {}
  const Stmt* stmt(const Stmt* s) {
    ChildMap map{this, [](void*, const Expr* e) { return e; },
                 [](void* self, const Stmt* child) { return static_cast<BarrierMarks*>(self)->stmt(child); }};
    const Stmt* out = with_children(arena_, s, map);
    if (std::find(marked_.begin(), marked_.end(), s) == marked_.end()) return out;
    Build build{arena_};
    return build.loop({next_++}, build.var(next_++, "barrier"), 1, out);
  }

 private:
  Arena& arena_;
  const std::vector<const Stmt*>& marked_;
  u32 next_ = 1 << 20;
};

Status barriers(Stage& at, const Settings&) {
  at.program.body = BarrierMarks(at.arena, steps_behind_barriers(at.program.body)).stmt(at.program.body);
  return ok();
}

std::string axes(const std::array<i64, 3>& extents) { return cat(extents[0], " ", extents[1], " ", extents[2]); }

// Whole lowerings: the function, where its buffers are, and that it computes the same.
std::string text_of(const LoweredFunction& function) {
  std::string out;
  for (const Placement& slot : function.scratch)
    out += cat("// ", slot.buffer->name, ": ", name_of(slot.place), " ", slot.offset, "\n");
  return out + print(function.body);
}

Status whole(Stage& at, const Settings& settings) {
  TW_TRY(LoweredProgram out, lower(at.arena, at.program, settings.lowering));
  EXPECT_EQ(test::difference(at.program, out, 1), "");
  at.remarks = cat("// run, shared ", out.scratch_shared_bytes, ", worker ", out.scratch_worker_bytes,
                   out.parallel ? ", parallel\n" : "\n", text_of(out.run));
  if (out.prepack.body) at.remarks += "// prepack\n" + text_of(out.prepack);
  return ok();
}

Status whole_gpu(Stage& at, const Settings& settings) {
  TW_TRY(LoweredGpuProgram out, lower_gpu(at.arena, at.program, settings.lowering, settings.gpu));
  EXPECT_EQ(test::difference(at.program, as_interpreted(at.arena, out), 1), "");
  at.remarks = cat("// scratch ", out.scratch_bytes, "\n");
  for (Array<GpuKernel> list : {out.prepack, out.run}) {
    for (const GpuKernel& kernel : list) {
      at.remarks += cat("// kernel ", kernel.name, ", groups ", axes(kernel.extents.groups), ", threads ",
                        axes(kernel.extents.threads), "\n");
      for (const KernelParam& param : kernel.params)
        at.remarks += cat("// ", param.buffer->name, param.is_scratch ? ": scratch " : ": argument ", param.at,
                          param.is_written ? ", written\n" : "\n");
      std::vector<const Stmt*> marked(kernel.barriers.begin(), kernel.barriers.end());
      at.remarks += print(BarrierMarks(at.arena, marked).stmt(kernel.body));
    }
  }
  return ok();
}

const std::map<std::string, Pass> kPasses = {
    {"skip_identity_terms", plain<skip_identity_terms>},
    {"lower_blocks", plain<lower_blocks>},
    {"unbind_threads", plain<unbind_threads>},
    {"bind_parallel_loops", plain<bind_parallel_loops>},
    {"serialize_inner_parallel", serialized},
    {"fuse_parallel_loops", plain<fuse_parallel_loops>},
    {"place_buffers", placed},
    {"unroll_register_loops", plain<unroll_register_loops>},
    {"partition_loops", with_options<partition_loops>},
    {"flatten_buffers", plain<flatten_buffers>},
    {"vectorize_loops", with_options<vectorize_loops>},
    {"unroll_loops", with_options<unroll_loops>},
    {"stage_copies", plain<stage_copies>},
    {"bind_threads", bound},
    {"device_scopes", scoped},
    {"check_combining", combining},
    {"check_apart", apart},
    {"split_entry_points", entry_points},
    {"split_kernels", kernels},
    {"barriers", barriers},
    {"cost", cost},
    {"widen", plain<widen_to_f64>},
    {"lower", whole},
    {"lower_gpu", whole_gpu},
};
// Their text is in the remarks, not in the program.
const std::vector<std::string> kWholeTexts = {"lower", "lower_gpu", "split_kernels", "cost"};

Settings settings_of(std::istringstream& words) {
  Settings out;
  for (std::string word; words >> word;) {
    std::size_t at = word.find('=');
    std::string key = word.substr(0, at);
    i64 value = at == std::string::npos ? 1 : std::stoll(word.substr(at + 1));
    if (key == "vector_bits")
      out.lowering.vector_bits = static_cast<int>(value);
    else if (key == "vector_registers")
      out.lowering.vector_registers = static_cast<int>(value);
    else if (key == "max_instructions")
      out.lowering.max_instructions = value;
    else if (key == "has_lane_masks")
      out.lowering.has_lane_masks = value;
    else if (key == "is_device")
      out.lowering.is_device = value;
    else if (key == "threads")
      out.gpu.threads = value;
    else if (key == "shared_bytes")
      out.gpu.shared_bytes = value;
    else if (key == "private_bytes")
      out.gpu.private_bytes = value;
    else if (key == "parallel")
      out.parallel = value;
    else
      ADD_FAILURE() << "no setting " << key;
  }
  return out;
}

bool same_parameters(const Program& a, const Program& b) {
  return std::equal(
      a.params.begin(), a.params.end(), b.params.begin(), b.params.end(), [](const Param& x, const Param& y) {
        return x.buffer->dtype == y.buffer->dtype && std::equal(x.buffer->shape.begin(), x.buffer->shape.end(),
                                                                y.buffer->shape.begin(), y.buffer->shape.end());
      });
}

// Passes give copies of a loop the same id, flat buffers another shape and wide ones another type. The first goes away
// in the text; the second, and what is no text of the language (vectors), only whole lowerings can compare. Nor are
// compared: device_scopes, behind which work-items have elements of their own at the same indices, and
// split_entry_points, whose run is a part.
void check_meaning(const Program& before, const Program& after) {
  Source source{"what a pass gave", print(after)};
  Diagnostics diagnostics(source);
  std::optional<OwnedProgram> again = parse_program(source, diagnostics);
  Judge judge(before);
  bool both_run = again && same_parameters(before, after) && judge.problem().empty();
  EXPECT_EQ(both_run ? judge.difference(again->program) : "", "");
}

std::string run(const std::string& name, const test::GoldenCase& c) {
  Source source{name, c.program};
  Diagnostics diagnostics(source);
  std::optional<OwnedProgram> before = parse_program(source, diagnostics);
  EXPECT_TRUE(before) << diagnostics.render();
  if (!before) return "";
  Arena arena;
  Stage at{arena, before->program, ""};
  std::string last;
  for (const std::string& line : test::lines_of(c.steps)) {
    std::istringstream words(line);
    words >> last;
    auto pass = kPasses.find(last);
    EXPECT_TRUE(pass != kPasses.end()) << "no pass " << last;
    if (pass == kPasses.end()) return "";
    Status status = pass->second(at, settings_of(words));
    if (!status) return cat("//! ", to_string(status.rejected()), "\n");
  }
  if (std::find(kWholeTexts.begin(), kWholeTexts.end(), last) != kWholeTexts.end()) return at.remarks;
  if (last != "device_scopes" && last != "split_entry_points" && at.program.body)
    check_meaning(before->program, at.program);
  return at.remarks + print(at.program);
}

class PassGolden : public testing::TestWithParam<std::string> {};

TEST_P(PassGolden, File) { test::run_golden_file(GetParam(), "passes", run); }

INSTANTIATE_TEST_SUITE_P(All, PassGolden, testing::ValuesIn(test::golden_files("passes")),
                         [](const auto& info) { return std::filesystem::path(info.param).stem().string(); });

}  // namespace
}  // namespace tw
