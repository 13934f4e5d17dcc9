// A rule that looks at index expressions, which the rule language cannot: loops that step through consecutive elements
// go inside; and a postprocessor.
#include <algorithm>

#include "dsl/analysis/affine.h"
#include "dsl/analysis/block_info.h"
#include "dsl/analysis/region.h"
#include "rules/lang/plugin.h"

namespace {

using namespace tw;

// In how many accesses of the block does the loop step through consecutive elements?
int contiguous_accesses(const Block& block, const For& loop) {
  int count = 0;
  for (const Access& access : accesses_of(&block)) {
    std::optional<LinearForm> last = access.indices.empty() ? std::nullopt : linear_form(access.indices.back());
    for (std::size_t i = 0; last && i < block.iters.size(); ++i) {
      count += block.bindings[i] == loop.var && last->coefficient(block.iters[i].var) == 1;
    }
  }
  return count;
}

class LoopsByStride : public rules::NativeRule {
 public:
  std::string name() const override { return "loops_by_stride"; }
  std::string doc() const override { return "loops that step through consecutive elements go inside, and are cut"; }

  std::string unmet(const State& state, const Block& block, const rules::TargetFacts&) const override {
    if (!has_trivial_bindings(&block)) return "each iter is bound to one loop";
    return state.loops_around(block.id)->size() < 2 ? "there are at least two loops" : "";
  }

  std::vector<Schedule> apply(const Schedule& base, BlockId id, const rules::TargetFacts&,
                              std::vector<Reject>& rejects) const override {
    std::vector<Schedule> sketches;
    Schedule schedule = base.fork();
    BlockId block = *schedule.get_block(schedule.state().find_block(id)->name);
    Loops handles = *schedule.get_loops(block);
    std::vector<LoopId> loops(handles.begin(), handles.end());
    std::stable_sort(loops.begin(), loops.end(), [&](LoopId a, LoopId b) {
      const State& state = schedule.state();
      return contiguous_accesses(*state.find_block(id), *state.find_loop(a)) <
             contiguous_accesses(*state.find_block(id), *state.find_loop(b));
    });
    if (auto reordered = schedule.reorder(Array<LoopId>(loops)); !reordered) {
      rejects.push_back(reordered.rejected());
      return sketches;
    }
    sketches.push_back(schedule.fork());
    if (Status cut = cut_by_a_drawn_number(schedule, loops.back()); !cut)
      rejects.push_back(cut.rejected());
    else
      sketches.push_back(std::move(schedule));
    return sketches;
  }

 private:
  // As an Arg what was drawn stays open; schedule.split(...) would record the number that was drawn at this moment.
  static Status cut_by_a_drawn_number(Schedule& schedule, LoopId loop) {
    const Arg numbers[] = {Arg::of_int(4), Arg::of_int(8), Arg::of_int(16)};
    const Arg sample[] = {{.tag = Arg::Tag::List, .items = Array<Arg>(numbers)}, {.tag = Arg::Tag::None}};
    TW_TRY(u32 drawn, schedule.apply(*find_kind("sample_categorical"), Array<Arg>(sample)));
    const Arg factors[] = {{.tag = Arg::Tag::Hole}, Arg::of_value(drawn)};
    const Arg cut[] = {handle_of(schedule, loop), {.tag = Arg::Tag::List, .items = Array<Arg>(factors)}};
    Result<u32> made = schedule.apply(*find_kind("split"), Array<Arg>(cut));
    return made ? ok() : Status(made.rejected());
  }

  static Arg handle_of(const Schedule& schedule, LoopId loop) {
    const List<Value>& values = schedule.state().values();
    u32 i = 0;
    while (values[i].tag != Value::Tag::Loop || values[i].payload != loop.value) ++i;
    return Arg::of_value(i);
  }
};

// A postprocessor: it sees the program of one draw, in which nothing is open.
class UnrollShortLoops : public rules::NativePost {
 public:
  std::string name() const override { return "unroll_short_loops"; }
  std::string doc() const override { return "innermost loops of up to four iterations are written out"; }

  Status apply(Schedule& schedule, const rules::TargetFacts&) const override {
    for (const Block* block : schedule.state().blocks()) {
      Loops loops = *schedule.get_loops(*schedule.get_block(block->name));
      const For* inner = loops.empty() ? nullptr : schedule.state().find_loop(loops.back());
      if (!inner || inner->loop_kind != LoopKind::Serial || inner->extent > 4) continue;
      if (Result<Unit> unrolled = schedule.unroll(inner->id); !unrolled) return unrolled.rejected();
    }
    return ok();
  }
};

std::vector<std::shared_ptr<const rules::NativeRule>> make_rules() { return {std::make_shared<LoopsByStride>()}; }
std::vector<std::shared_ptr<const rules::NativePost>> make_posts() { return {std::make_shared<UnrollShortLoops>()}; }

}  // namespace

TW_PLUGIN(make_rules, make_posts)
