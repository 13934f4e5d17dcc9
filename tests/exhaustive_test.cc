// All schedules of two instructions on small programs, with all arguments from small sets: each is rejected, or keeps
// the program's meaning, lowered too. Where random programs find what is common, this finds what is at the edge. Of
// those with two instructions one of kShare is checked; TW_SHARE=1 checks all.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <set>

#include "dsl/base/text.h"
#include "dsl/ir/print.h"
#include "dsl/passes/lower.h"
#include "dsl/schedule/schedule.h"
#include "dsl/text/parse_program.h"
#include "support/meaning.h"
#include "support/random_schedule.h"
#include "support/support.h"

namespace tw {
namespace {

constexpr i64 kShare = 8;

constexpr const char* kStages = R"(program stages(A: input f32[2, 3], C: output f32[2, 3]) {
  local B: f32[2, 3]
  for i in 2 {
    for j in 3 {
      block B(i: S 2 = i, j: S 3 = j) {
        B[i, j] = A[i, j] * 2.0
      }
    }
  }
  for i in 2 {
    for j in 3 {
      block C(i: S 2 = i, j: S 3 = j) {
        C[i, j] = B[i, j] + A[i, 2 - j]
      }
    }
  }
}
)";
constexpr const char* kSum = R"(program sum(X: input f32[3, 2], Y: output f32[3]) {
  for i in 3 {
    for k in 2 {
      block Y(i: S 3 = i, k: R 2 = k) {
        init {
          Y[i] = 0.0
        }
        Y[i] = Y[i] + X[i, k]
      }
    }
  }
}
)";

using Choices = std::vector<Arg>;

// All lists of `length` of these.
void all_lists(Arena& arena, const Choices& items, std::size_t length, Choices& out) {
  std::vector<std::size_t> at(length, 0);
  for (;;) {
    Choices list;
    for (std::size_t i : at) list.push_back(items[i]);
    out.push_back({.tag = Arg::Tag::List, .items = arena.copy(list)});
    std::size_t i = 0;
    while (i < length && ++at[i] == items.size()) at[i++] = 0;
    if (i == length) return;
  }
}

Choices integers(std::initializer_list<i64> values) {
  Choices out;
  for (i64 value : values) out.push_back(Arg::of_int(value));
  return out;
}
Choices texts(std::initializer_list<Str> words) {
  Choices out;
  for (Str word : words) out.push_back(Arg::of_text(word));
  return out;
}

// Everything that an argument may be in the state of a schedule, by the type of its parameter.
class ArgumentChoices {
 public:
  // Records the queries for all blocks and loops.
  explicit ArgumentChoices(Schedule& schedule) : arena_(schedule.state().arena()) {
    std::set<std::string> names;
    std::set<i64> seen;
    for (const Block* block : schedule.state().blocks()) {
      if (!names.insert(std::string(block->name)).second) continue;
      if (!schedule.get_block(block->name)) continue;
      blocks_.push_back(last(schedule));
      u32 first = static_cast<u32>(schedule.state().values().size());
      std::size_t count = schedule.get_loops(block->id)->size();
      for (std::size_t i = 0; i < count; ++i) {
        u32 value = first + static_cast<u32>(i);
        if (seen.insert(schedule.state().values()[value].payload).second) loops_.push_back(Arg::of_value(value));
      }
    }
  }

  Choices of(const Parameter& parameter) const {
    const std::string& type = parameter.type;
    if (type == "LoopId") return loops_;
    if (type == "BlockId") return blocks_;
    if (type == "LoopOrBlock" || type == "Location") return loops_and_blocks(type == "LoopOrBlock");
    if (type == "Loops") return ordered_loops();
    if (type == "Factors")
      return lists({Arg{.tag = Arg::Tag::Hole}, Arg::of_int(1), Arg::of_int(2), Arg::of_int(3)}, 2);
    if (type == "i64") return integers({-1, 0, 1, 2});
    if (type == "bool") return integers({0, 1});
    if (type == "Literal")
      return {
          Arg::of_int(0), Arg::of_number(0.5), {.tag = Arg::Tag::List, .items = arena_.list<Arg>({Arg::of_int(1)})}};
    if (type == "Str") return words(parameter.name);
    if (type == "IndexMap") return parameter.name == "box" ? boxes() : maps();
    if (type == "Ints") return lists(integers({0, 1, 2}), 2);
    EXPECT_EQ(type, "Blocks") << "no choices for this type of parameter";
    Choices out = {Arg{.tag = Arg::Tag::List}};
    for (const Arg& block : blocks_) out.push_back({.tag = Arg::Tag::List, .items = arena_.list<Arg>({block})});
    if (parameter.name == "consumers") {
      Choices pairs = lists(blocks_, 2);
      out.insert(out.end(), pairs.begin() + static_cast<std::ptrdiff_t>(blocks_.size()), pairs.end());
    }
    return out;
  }

 private:
  static Arg last(const Schedule& schedule) {
    return Arg::of_value(static_cast<u32>(schedule.state().values().size() - 1));
  }

  Choices loops_and_blocks(bool with_blocks) const {
    Choices out = loops_;
    if (with_blocks) out.insert(out.end(), blocks_.begin(), blocks_.end());
    return out;
  }
  Choices ordered_loops() const {
    Choices out;
    for (const Arg& a : loops_) {
      for (const Arg& b : loops_) {
        if (a.integer != b.integer) out.push_back({.tag = Arg::Tag::List, .items = arena_.list<Arg>({a, b})});
      }
    }
    return out;
  }
  Choices lists(const Choices& items, std::size_t longest) const {
    Choices out;
    for (std::size_t length = 1; length <= longest; ++length) all_lists(arena_, items, length, out);
    return out;
  }
  static Choices words(const std::string& parameter) {
    static const std::map<std::string, Choices> known = {
        {"scope", texts({"global", "local"})},  {"access", texts({"read", "write"})},
        {"position", texts({"first", "last"})}, {"thread", texts({"blockIdx.x", "threadIdx.x", "vthread"})},
        {"dtype", texts({"f64", "i32"})},       {"intrinsic", texts({"test_fma2", "test_scale2", "test_add2"})}};
    auto found = known.find(parameter);
    return found == known.end() ? texts({"word"}) : found->second;
  }
  // (p) and (p, q) to themselves, exchanged, in tiles of two, as one.
  Choices maps() const {
    Arg p{.tag = Arg::Tag::Param, .integer = 0}, q{.tag = Arg::Tag::Param, .integer = 1};
    auto binary = [&](BinaryOp op, Arg a, Arg b) {
      return Arg{.tag = Arg::Tag::Binary, .op = op, .items = arena_.list<Arg>({a, b})};
    };
    auto map = [&](i64 rank, std::initializer_list<Arg> results) {
      return Arg{.tag = Arg::Tag::Map, .integer = rank, .items = arena_.list<Arg>(results)};
    };
    Arg two = Arg::of_int(2), three = Arg::of_int(3);
    Arg outer = binary(BinaryOp::FloorDiv, p, two), inner = binary(BinaryOp::FloorMod, p, two);
    return {map(1, {p}),
            map(1, {outer, inner}),
            map(1, {inner, outer}),
            map(2, {p, q}),
            map(2, {q, p}),
            map(2, {outer, q, inner}),
            map(2, {p}),
            map(2, {q}),
            map(2, {binary(BinaryOp::Add, binary(BinaryOp::Mul, p, three), q)})};
  }
  Choices boxes() const {
    Arg p{.tag = Arg::Tag::Param, .integer = 0}, q{.tag = Arg::Tag::Param, .integer = 1}, zero = Arg::of_int(0),
                                                                                          one = Arg::of_int(1);
    auto box = [&](std::initializer_list<Arg> results) {
      return Arg{.tag = Arg::Tag::Map, .integer = 2, .items = arena_.list<Arg>(results)};
    };
    return {box({p, one}), box({zero, Arg::of_int(3)}), box({p, one, q, one}),
            box({zero, Arg::of_int(2), zero, Arg::of_int(3)}), box({p, one, zero, Arg::of_int(2)})};
  }

  Arena& arena_;
  Choices blocks_, loops_;
};

struct Count {
  i64 tried = 0, pairs = 0, checked = 0, lowered = 0;
};

class EveryTwoSteps {
 public:
  explicit EveryTwoSteps(const Program& base)
      : base_(base), judge_(base, 1), every_(test::from_environment("TW_SHARE", kShare)) {}

  void run() {
    Schedule start(base_);
    for_each_step(start, [&](Schedule& after) {
      check(after);
      for_each_step(after, [&](Schedule& last) {
        if (count.pairs++ % every_ == 0) check(last);
      });
    });
  }
  Count count;

 private:
  // Calls `visit` with the schedule after each instruction that is accepted.
  template <class Visit>
  void for_each_step(const Schedule& from, const Visit& visit) {
    Schedule queried = from.fork();
    ArgumentChoices choices(queried);
    for (const InstructionKind* kind : test::changing_kinds()) {
      std::vector<Choices> each;
      for (const Parameter& parameter : kind->parameters) each.push_back(choices.of(parameter));
      if (std::any_of(each.begin(), each.end(), [](const Choices& c) { return c.empty(); })) continue;
      std::vector<std::size_t> at(each.size(), 0);
      for (std::size_t i = 0; i < at.size() && !testing::Test::HasFatalFailure();) {
        Choices arguments;
        for (std::size_t p = 0; p < at.size(); ++p) arguments.push_back(each[p][at[p]]);
        Schedule attempt = queried.fork();
        ++count.tried;
        if (attempt.apply(*kind, attempt.state().arena().copy(arguments))) visit(attempt);
        for (i = 0; i < at.size() && ++at[i] == each[i].size(); ++i) at[i] = 0;
      }
    }
  }

  void check(const Schedule& schedule) {
    ++count.checked;
    std::string wrong = judge_.difference(schedule.program());
    Arena arena;
    Result<LoweredProgram> lowered = lower(arena, schedule.program(), {});
    count.lowered += static_cast<bool>(lowered);
    if (wrong.empty() && lowered) wrong = judge_.difference(*lowered);
    ASSERT_EQ(wrong, "") << schedule.trace().without_dead_code().print() << print(schedule.program());
  }

  const Program& base_;
  Judge judge_;
  i64 every_;
};

class Exhaustive : public testing::TestWithParam<const char*> {};

TEST_P(Exhaustive, SchedulesOfTwoInstructions) {
  Source source{"program", GetParam()};
  Diagnostics diagnostics(source);
  std::optional<OwnedProgram> program = parse_program(source, diagnostics);
  ASSERT_TRUE(program) << diagnostics.render();
  EveryTwoSteps all(program->program);
  all.run();
  std::cout << cat("  ", all.count.tried, " instructions tried, ", all.count.pairs, " schedules of two, ",
                   all.count.checked, " schedules checked, ", all.count.lowered, " of them lowered\n");
  EXPECT_GT(all.count.pairs, 1000);
  EXPECT_GT(all.count.lowered, all.count.checked / 3);
}

INSTANTIATE_TEST_SUITE_P(Programs, Exhaustive, testing::Values(kStages, kSum),
                         [](const auto& info) { return info.index == 0 ? "Stages" : "Sum"; });

}  // namespace
}  // namespace tw
