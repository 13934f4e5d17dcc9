#include "support/random_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "dsl/analysis/block_info.h"
#include "dsl/analysis/region.h"

namespace tw::test {
namespace {

// Makes the arguments of one instruction. Handles that belong together are drawn together: loops mostly come from
// around the block that was drawn before, locations from around blocks that it feeds or that feed it.
class ArgumentMaker {
 public:
  ArgumentMaker(Schedule& schedule, Rng& rng) : schedule_(schedule), rng_(rng) {}

  // Nothing if the program has no such thing, or the type is not one that can be drawn.
  std::optional<Arg> make(const Parameter& parameter) {
    static const std::map<std::string, std::optional<Arg> (ArgumentMaker::*)(const Parameter&)> makers = {
        {"LoopId", &ArgumentMaker::loop},       {"BlockId", &ArgumentMaker::block},
        {"Loops", &ArgumentMaker::loops},       {"Factors", &ArgumentMaker::factors},
        {"i64", &ArgumentMaker::integer},       {"bool", &ArgumentMaker::boolean},
        {"Str", &ArgumentMaker::text},          {"Literal", &ArgumentMaker::literal},
        {"Location", &ArgumentMaker::location}, {"LoopOrBlock", &ArgumentMaker::loop_or_block},
        {"IndexMap", &ArgumentMaker::map},      {"Ints", &ArgumentMaker::integers}};
    auto maker = makers.find(parameter.type);
    return maker == makers.end() ? std::nullopt : (this->*maker->second)(parameter);
  }

 private:
  template <class List>
  auto pick(const List& list) {
    return list[static_cast<std::size_t>(rng_.below(static_cast<i64>(list.size())))];
  }
  bool chance(double p) { return rng_.uniform() < p; }

  static Arg last_value(const Schedule& schedule) {
    return Arg::of_value(static_cast<u32>(schedule.state().values().size() - 1));
  }

  std::optional<Arg> handle_of(const Block* block) {
    auto done = schedule_.get_block(block->name);
    if (!done) return std::nullopt;  // two blocks of one name: the other one was meant
    return last_value(schedule_);
  }
  std::optional<Arg> block(const Parameter& parameter) {
    // An epilogue is mostly a consumer of the block before.
    std::vector<const Block*> after;
    if (block_ && parameter.name == "epilogue") after = consumers(schedule_.program().body, block_);
    if (parameter.name == "reduction") {
      for (const Block* block : schedule_.state().blocks()) {
        if (block->init) after.push_back(block);
      }
    }
    block_ = after.empty() || chance(0.1) ? pick(schedule_.state().blocks()) : pick(after);
    return handle_of(block_);
  }
  // Values of the loops around a block, recorded by a query.
  std::vector<Arg> loops_of(const Block* block) {
    if (!handle_of(block)) return {};
    u32 first = static_cast<u32>(schedule_.state().values().size());
    std::size_t count = schedule_.get_loops(block->id)->size();
    std::vector<Arg> out;
    for (std::size_t i = 0; i < count; ++i) out.push_back(Arg::of_value(first + static_cast<u32>(i)));
    return out;
  }
  const Block* block_for_loops() { return block_ && chance(0.8) ? block_ : pick(schedule_.state().blocks()); }
  std::optional<Arg> loop(const Parameter&) {
    std::vector<Arg> all = loops_of(block_for_loops());
    if (all.empty()) return std::nullopt;
    return pick(all);
  }
  // Loops at one depth around neighbouring blocks.
  std::optional<Arg> siblings() {
    Array<const Block*> blocks = schedule_.state().blocks();
    if (blocks.size() < 2) return std::nullopt;
    std::size_t first = static_cast<std::size_t>(rng_.below(static_cast<i64>(blocks.size()) - 1));
    std::vector<Arg> a = loops_of(blocks[first]), b = loops_of(blocks[first + 1]);
    if (a.empty() || b.empty()) return std::nullopt;
    std::size_t depth = static_cast<std::size_t>(rng_.below(static_cast<i64>(std::min(a.size(), b.size()))));
    return list({a[depth], b[depth]});
  }
  std::optional<Arg> loops(const Parameter& parameter) {
    if (parameter.name == "siblings") return siblings();
    std::vector<Arg> all = loops_of(block_for_loops());
    if (all.size() < 2) return std::nullopt;
    std::size_t count = 2 + static_cast<std::size_t>(rng_.below(std::min<i64>(2, static_cast<i64>(all.size()) - 1)));
    std::size_t first = static_cast<std::size_t>(rng_.below(static_cast<i64>(all.size() - count + 1)));
    std::vector<Arg> some(all.begin() + static_cast<std::ptrdiff_t>(first),
                          all.begin() + static_cast<std::ptrdiff_t>(first + count));
    if (chance(0.4)) std::swap(some[0], some.back());
    return list(some);
  }
  std::optional<Arg> location(const Parameter& parameter) {
    const Stmt* root = schedule_.program().body;
    std::vector<const Block*> near;
    if (block_) near = chance(0.5) ? consumers(root, block_) : producers(root, block_);
    std::vector<Arg> all = loops_of(near.empty() || chance(0.1) ? pick(schedule_.state().blocks()) : pick(near));
    if (all.empty()) return std::nullopt;
    (void)parameter;
    return pick(all);
  }
  std::optional<Arg> loop_or_block(const Parameter& parameter) {
    return chance(0.5) ? loop(parameter) : block(parameter);
  }
  std::optional<Arg> factors(const Parameter&) {
    std::vector<Arg> some;
    std::size_t count = 2 + static_cast<std::size_t>(rng_.below(2)),
                hole = static_cast<std::size_t>(rng_.below(static_cast<i64>(count) + 1));
    for (std::size_t i = 0; i < count; ++i)
      some.push_back(i == hole ? Arg{.tag = Arg::Tag::Hole} : Arg::of_int(1 + rng_.below(5)));
    return list(some);
  }
  std::optional<Arg> integer(const Parameter& parameter) {
    if (parameter.name == "factor") return Arg::of_int(rng_.below(9));
    return Arg::of_int(chance(0.7) ? 0 : rng_.below(4) - 1);
  }
  // One number per iter of the block drawn before: a permutation, or sizes.
  std::optional<Arg> integers(const Parameter& parameter) {
    i64 count = block_ ? static_cast<i64>(block_->iters.size()) : 1 + rng_.below(3);
    std::vector<Arg> some;
    for (i64 i = 0; i < count; ++i) {
      if (parameter.name != "new_order") {
        some.push_back(Arg::of_int(1 + rng_.below(4)));
        continue;
      }
      some.push_back(Arg::of_int(i));
      std::swap(some.back(), some[static_cast<std::size_t>(rng_.below(i + 1))]);
    }
    return list(some);
  }
  std::optional<Arg> boolean(const Parameter&) { return Arg::of_int(rng_.below(2)); }
  std::optional<Arg> literal(const Parameter&) { return Arg::of_int(rng_.below(3)); }
  std::optional<Arg> text(const Parameter& parameter) {
    static const std::map<std::string, std::vector<Str>> words = {
        {"scope", {"global", "global", "global", "local"}},
        {"access", {"read", "write"}},
        {"thread", {"blockIdx.x", "threadIdx.x", "threadIdx.y", "vthread"}},
        {"dtype", {"f64", "f64", "f32", "i32"}},
        {"key", {"mark"}}};
    auto known = words.find(parameter.name);
    return Arg::of_text(known == words.end() ? Str("word") : pick(known->second));
  }
  // A permutation of the parameters with some of them tiled. Maps of a block's iters mostly use those of one access.
  std::optional<Arg> map(const Parameter& parameter) {
    i64 rank = 1 + rng_.below(3);
    bool of_iters = block_ && parameter.name == "iter_map";
    std::vector<Access> accesses = of_iters ? accesses_of(block_) : std::vector<Access>{};
    Array<const Expr*> indices = accesses.empty() ? Array<const Expr*>{} : pick(accesses).indices;
    auto left_out = [&](i64 p) {
      if (!of_iters || chance(0.1)) return false;
      const Var* iter = block_->iters[static_cast<std::size_t>(p)].var;
      return std::none_of(indices.begin(), indices.end(), [&](const Expr* e) { return uses(e, iter); });
    };
    if (of_iters) {
      rank = static_cast<i64>(block_->iters.size());
    } else if (block_ && chance(0.9)) {
      std::vector<const Buffer*> all = buffers_written(block_);
      for (const Buffer* buffer : buffers_read(block_)) all.push_back(buffer);
      rank = static_cast<i64>(pick(all)->shape.size());
    }
    std::vector<Arg> results;
    for (i64 p = 0; p < rank; ++p) {
      if (left_out(p)) continue;
      Arg param{.tag = Arg::Tag::Param, .integer = p};
      if (chance(of_iters ? 0.7 : 0.5)) {
        results.push_back(param);
        continue;
      }
      Array<Arg> operands = schedule_arena().list<Arg>({param, Arg::of_int(1 + rng_.below(5))});
      results.push_back({.tag = Arg::Tag::Binary, .op = BinaryOp::FloorDiv, .items = operands});
      results.push_back({.tag = Arg::Tag::Binary, .op = BinaryOp::FloorMod, .items = operands});
    }
    for (std::size_t i = results.size(); i > 1; --i)
      std::swap(results[i - 1], results[static_cast<std::size_t>(rng_.below(static_cast<i64>(i)))]);
    return Arg{.tag = Arg::Tag::Map, .integer = rank, .items = schedule_arena().copy(results)};
  }

  std::optional<Arg> list(const std::vector<Arg>& items) {
    return Arg{.tag = Arg::Tag::List, .items = schedule_arena().copy(items)};
  }
  Arena& schedule_arena() { return schedule_.state().arena(); }

  Schedule& schedule_;
  Rng& rng_;
  const Block* block_ = nullptr;
};

}  // namespace

std::vector<const InstructionKind*> changing_kinds() {
  std::vector<const InstructionKind*> kinds;
  for (const InstructionKind* kind : instruction_kinds()) {
    if (!kind->pure && !kind->samples && !kind->parameters.empty()) kinds.push_back(kind);
  }
  return kinds;
}

bool apply_random(Schedule& schedule, const InstructionKind& kind, Rng& rng, Acceptance& acceptance) {
  ArgumentMaker maker(schedule, rng);
  std::vector<Arg> arguments;
  for (const Parameter& parameter : kind.parameters) {
    std::optional<Arg> arg = maker.make(parameter);
    if (!arg) return false;
    arguments.push_back(*arg);
  }
  Tried& tried = acceptance[kind.name];
  auto done = schedule.apply(kind, arguments);
  if (done) {
    ++tried.accepted;
    return true;
  }
  ++tried.rejected;
  ++tried.reasons[done.rejected().reason];
  return false;
}

}  // namespace tw::test
