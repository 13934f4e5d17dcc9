#include "support/random_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "dsl/analysis/block_info.h"
#include "dsl/analysis/region.h"
#include "dsl/base/text.h"
#include "dsl/intrinsics/intrinsic.h"

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
        {"IndexMap", &ArgumentMaker::map},      {"Ints", &ArgumentMaker::integers},
        {"Blocks", &ArgumentMaker::blocks}};
    auto maker = makers.find(parameter.type);
    return maker == makers.end() ? std::nullopt : (this->*maker->second)(parameter);
  }

  // Before most draws for instructions that rarely find what they apply to: other instructions make it. False if it
  // cannot be made.
  bool prepare(std::string_view kind) {
    static const std::map<std::string_view, bool (ArgumentMaker::*)()> preparations = {
        {"rolling_buffer", &ArgumentMaker::prepare_rolling}, {"cache_inplace", &ArgumentMaker::prepare_inplace},
        {"unannotate", &ArgumentMaker::prepare_unannotate},  {"decompose_padding", &ArgumentMaker::prepare_padding},
        {"blockize", &ArgumentMaker::prepare_blockize},      {"pipeline", &ArgumentMaker::prepare_pipeline},
        {"make_async", &ArgumentMaker::prepare_async},       {"stage_epilogue", &ArgumentMaker::prepare_epilogue},
        {"tensorize", &ArgumentMaker::prepare_tensorize}};
    auto found = preparations.find(kind);
    return found == preparations.end() || chance(0.1) || (this->*found->second)();
  }

 private:
  template <class List>
  auto pick(const List& list) {
    return list[static_cast<std::size_t>(rng_.below(static_cast<i64>(list.size())))];
  }
  bool chance(double p) { return rng_.uniform() < p; }

  // ---- preparations: they leave a block, and perhaps one of its loops, for the arguments to come

  LoopId loop_of(const Arg& value) const {
    return {static_cast<u32>(schedule_.state().values()[static_cast<std::size_t>(value.integer)].payload)};
  }
  // Does somebody read a window of what the block writes? A window moves with a loop, which is what rolling buffers are
  // for.
  bool is_read_in_windows(const Block* writer) {
    for (const Block* reader : consumers(schedule_.program().body, writer)) {
      for (const Access& access : accesses_of(reader)) {
        if (access.kind != AccessKind::Read || !writes_buffer(writer, access.buffer)) continue;
        if (std::any_of(access.indices.begin(), access.indices.end(), [](const Expr* e) { return !as<Var>(e); }))
          return true;
      }
    }
    return false;
  }
  // A producer in a loop of its consumer.
  bool prepare_rolling() {
    std::vector<const Block*> producers;
    for (const Block* block : schedule_.state().blocks()) {
      if (is_complete(schedule_.program().body, block) && !consumers(schedule_.program().body, block).empty())
        producers.push_back(block);
    }
    if (producers.empty()) return false;
    auto others = std::stable_partition(producers.begin(), producers.end(),
                                        [&](const Block* b) { return is_read_in_windows(b); });
    if (others != producers.begin() && !chance(0.2)) producers.erase(others, producers.end());
    BlockId id = pick(producers)->id;
    block_ = schedule_.state().find_block(id);
    std::vector<Arg> loops = loops_of(pick(consumers(schedule_.program().body, block_)));
    if (loops.empty() || !handle_of(block_)) return false;
    bool moved = static_cast<bool>(schedule_.compute_at(id, {Location::Place::Loop, loop_of(pick(loops))}));
    block_ = schedule_.state().find_block(id);
    return moved;
  }
  // A reduction whose init is a block of its own.
  bool prepare_inplace() {
    std::vector<const Block*> reductions;
    for (const Block* block : schedule_.state().blocks()) {
      if (block->init) reductions.push_back(block);
    }
    if (reductions.empty()) return chance(0.5);
    BlockId id = pick(reductions)->id;
    std::vector<Arg> loops = loops_of(schedule_.state().find_block(id));
    if (loops.empty()) return false;
    bool decomposed = static_cast<bool>(schedule_.decompose_reduction(id, loop_of(loops[0])));
    block_ = schedule_.state().find_block(id);
    return decomposed;
  }
  bool prepare_unannotate() {
    block_ = any_block();
    BlockId id = block_->id;
    std::vector<Arg> loops = loops_of(block_);
    LoopOrBlock at{.block = id};
    wants_block_ = loops.empty() || chance(0.5);
    if (!wants_block_) at = {.loop = wanted_ = loop_of(pick(loops))};
    bool marked = handle_of(block_) && schedule_.annotate(at, "mark", Literal::of(1));
    block_ = schedule_.state().find_block(id);
    return marked;
  }
  bool prepare_padding() {
    std::vector<const Block*> padding;
    for (const Block* block : schedule_.state().blocks()) {
      const Store* store = single_store(block);
      if (store && as<Select>(store->values[0]) && is_complete(schedule_.program().body, block))
        padding.push_back(block);
    }
    if (padding.empty()) return false;
    block_ = pick(padding);
    Array<const For*> loops = *schedule_.state().loops_around(block_->id);
    if (!loops.empty()) wanted_ = pick(loops)->id;
    return true;
  }
  // A loop near the block, or two neighbours.
  bool prepare_blockize() {
    Array<const Block*> all = schedule_.state().blocks();
    std::size_t at = static_cast<std::size_t>(rng_.below(static_cast<i64>(all.size())));
    block_ = all[at];
    wants_block_ = at + 1 < all.size() && chance(0.5);
    if (wants_block_) {
      neighbour_ = all[at + 1];
      return true;
    }
    Array<const For*> loops = *schedule_.state().loops_around(block_->id);
    if (loops.empty()) return false;
    i64 outwards = rng_.below(std::min<i64>(2, static_cast<i64>(loops.size())));
    wanted_ = loops[loops.size() - 1 - static_cast<std::size_t>(outwards)]->id;
    return true;
  }
  // A copy into shared memory in a loop around its reader.
  bool prepare_pipeline() {
    block_ = any_block();
    BlockId id = block_->id;
    std::vector<Arg> loops = loops_of(block_);
    i64 reads = static_cast<i64>(buffers_read(block_).size());
    if (loops.empty() || reads == 0) return false;
    auto copy = schedule_.cache_read(id, rng_.below(reads), "shared");
    if (!copy) return false;
    wanted_ = loop_of(chance(0.5) ? loops.back() : pick(loops));
    bool moved = static_cast<bool>(schedule_.compute_at(*copy, {Location::Place::Loop, wanted_}, true));
    copy_ = *copy;
    block_ = schedule_.state().find_block(id);
    return moved;
  }
  bool prepare_async() {
    if (!prepare_pipeline() || !schedule_.pipeline(wanted_, 1 + rng_.below(4))) return false;
    block_ = schedule_.state().find_block(copy_);
    return true;
  }
  // A block and the outermost of its loops, or another one.
  bool prepare_epilogue() {
    block_ = any_block();
    std::vector<Arg> loops = loops_of(block_);
    if (loops.empty()) return false;
    wanted_ = loop_of(chance(0.6) ? loops[0] : pick(loops));
    return true;
  }
  // Two iterations of a loop innermost, which is what the intrinsics of the test take.
  bool prepare_tensorize() {
    block_ = any_block();
    BlockId id = block_->id;
    (void)loops_of(block_);
    std::vector<const For*> even;
    Array<const For*> around = *schedule_.state().loops_around(id);
    for (const For* loop : around) {
      if (loop->extent % 2 == 0) even.push_back(loop);
    }
    if (even.empty()) return false;
    auto parts = schedule_.split(pick(even)->id, {schedule_arena().list<i64>({Factors::kHole, 2})});
    if (!parts) return false;
    wanted_ = (*parts)[1];
    Array<const For*> now = *schedule_.state().loops_around(id);
    LoopId last = now[now.size() - 1]->id;
    bool innermost = last == wanted_ || schedule_.reorder(schedule_arena().list<LoopId>({last, wanted_}));
    block_ = schedule_.state().find_block(id);
    return innermost;
  }

  static Arg last_value(const Schedule& schedule) {
    return Arg::of_value(static_cast<u32>(schedule.state().values().size() - 1));
  }

  std::optional<Arg> handle_of(const Block* block) {
    auto done = schedule_.get_block(block->name);
    if (!done) return std::nullopt;  // two blocks of one name: the other one was meant
    return last_value(schedule_);
  }
  // Blocks that accumulate without an init (the updates of decomposed reductions) are rare, and picked more often.
  const Block* any_block() {
    Array<const Block*> all = schedule_.state().blocks();
    std::vector<const Block*> updates(all.begin(), all.end());
    std::erase_if(updates, [](const Block* b) { return b->init || !accumulates(b); });
    return updates.empty() || chance(0.7) ? pick(all) : pick(updates);
  }
  std::optional<Arg> block(const Parameter& parameter) {
    // An epilogue is mostly a consumer of the block before.
    List<const Block*> after;
    if (block_ && parameter.name == "epilogue") after = consumers(schedule_.program().body, block_);
    if (parameter.name == "reduction") {
      for (const Block* block : schedule_.state().blocks()) {
        if (block->init) after.push_back(block);
      }
    }
    if (!after.empty() && !chance(0.1)) {
      block_ = pick(after);
    } else if (!block_ || chance(0.2)) {
      block_ = any_block();
    }
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
    const Block* around = block_for_loops();
    if (!block_) block_ = around;
    std::vector<Arg> all = loops_of(around);
    if (all.empty()) return std::nullopt;
    for (const Arg& one : all) {
      bool meant =
          schedule_.state().values()[static_cast<std::size_t>(one.integer)].payload == static_cast<i64>(wanted_.value);
      if (wanted_.value && meant) return one;
    }
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
    List<const Block*> near;
    if (block_) near = chance(0.5) ? consumers(root, block_) : producers(root, block_);
    std::vector<Arg> all = loops_of(near.empty() || chance(0.1) ? pick(schedule_.state().blocks()) : pick(near));
    if (all.empty()) return std::nullopt;
    (void)parameter;
    return pick(all);
  }
  std::optional<Arg> loop_or_block(const Parameter& parameter) {
    if (wants_block_) return handle_of(block_);
    return wanted_.value || chance(0.5) ? loop(parameter) : block(parameter);
  }
  std::optional<Arg> blocks(const Parameter& parameter) {
    if (parameter.name == "consumers") return consumers_of_copy(parameter);
    std::optional<Arg> other = neighbour_ ? handle_of(neighbour_) : std::nullopt;
    return other ? list({*other}) : list({});
  }
  // None, or some of the blocks that read the buffer which was drawn, in any order.
  std::optional<Arg> consumers_of_copy(const Parameter& parameter) {
    List<const Buffer*> buffers = reads_ ? buffers_read(block_) : buffers_written(block_);
    if (chance(0.4) || number_ < 0 || number_ >= static_cast<i64>(buffers.size())) return default_argument(parameter);
    List<const Block*> readers = readers_of(schedule_.program().body, buffers[static_cast<std::size_t>(number_)]);
    if (chance(0.02)) readers.push_back(any_block());
    std::vector<Arg> some;
    for (const Block* reader : readers) {
      std::optional<Arg> handle = chance(0.7) ? handle_of(reader) : std::nullopt;
      if (!handle) continue;
      some.push_back(*handle);
      std::swap(some.back(), some[static_cast<std::size_t>(rng_.below(static_cast<i64>(some.size())))]);
    }
    return list(some);
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
    static const std::map<std::string_view, std::pair<i64, i64>> of_samples = {
        {"n", {1, 4}},     {"max_innermost", {0, 8}}, {"partition_pos", {0, 2}}, {"innerpart_factor", {1, 3}},
        {"parts", {1, 3}}, {"stages", {1, 4}}};
    if (auto range = of_samples.find(parameter.name); range != of_samples.end())
      return Arg::of_int(range->second.first + rng_.below(range->second.second));
    if (parameter.name == "factor") return Arg::of_int(rng_.below(9));
    if (parameter.name == "bits") return Arg::of_int(word_ == "xor" ? rng_.below(4) : 0);
    reads_ = parameter.name == "read_index";
    number_ = chance(0.7) ? 0 : rng_.below(4) - 1;
    return Arg::of_int(number_);
  }
  // One number per iter of the block drawn before: a permutation, or sizes.
  std::optional<Arg> integers(const Parameter& parameter) {
    if (parameter.name == "buffer_indices") return list({Arg::of_int(rng_.below(2))});
    if (parameter.name == "weights" && chance(0.5)) return default_argument(parameter);
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
  std::optional<Arg> boolean(const Parameter& parameter) {
    return Arg::of_int(parameter.name == "disable_predication" ? chance(0.1) : rng_.below(2));
  }
  // An integer, a number, a text, or a list or a dictionary of these.
  std::optional<Arg> literal(const Parameter& parameter) {
    i64 shape = rng_.below(8);
    if (shape == 0) return Arg::of_number(static_cast<double>(rng_.below(9)) / 4 - 1);
    if (shape == 1) return Arg::of_text(pick(std::vector<Str>{"a", "b \"c\""}));
    if (shape > 3) return Arg::of_int(rng_.below(3));
    std::vector<Arg> items;
    for (Str key : {"a", "b"}) {
      if (chance(0.3)) continue;
      Array<Arg> value = schedule_arena().list<Arg>({*literal(parameter)});
      items.push_back(shape == 2 ? value[0] : Arg{.tag = Arg::Tag::Entry, .text = key, .items = value});
    }
    return Arg{.tag = shape == 2 ? Arg::Tag::List : Arg::Tag::Dictionary, .items = schedule_arena().copy(items)};
  }
  std::optional<Arg> text(const Parameter& parameter) {
    const std::map<std::string, std::vector<Str>> words = {
        {"scope", {"global", "global", "global", "local"}},
        {"access", {"read", "write"}},
        {"position", {"first", "last"}},
        {"thread", {"blockIdx.x", "threadIdx.x", "threadIdx.y", "vthread"}},
        {"dtype", {"f64", "f64", "f32", "i32"}},
        {"key", {"mark"}},
        {"layout", {"xor", "xor", "xor", "rows"}},
        {"intrinsic",
         block_ && accumulates(block_) ? std::vector<Str>{"test_fma2"} : std::vector<Str>{"test_scale2", "test_add2"}}};
    if (parameter.name == "name") return Arg::of_text(any_block()->name);
    auto known = words.find(parameter.name);
    word_ = known == words.end() ? Str("word") : pick(known->second);
    return Arg::of_text(word_);
  }
  // A permutation of the parameters with some of them tiled. Maps of a block's iters mostly use those of one access.
  std::optional<Arg> map(const Parameter& parameter) {
    if (parameter.name == "box") return box();
    i64 rank = 1 + rng_.below(3);
    bool of_iters = block_ && parameter.name == "iter_map";
    List<Access> accesses = of_iters ? accesses_of(block_) : List<Access>{};
    Array<const Expr*> indices = accesses.empty() ? Array<const Expr*>{} : pick(accesses).indices;
    auto left_out = [&](i64 p) {
      if (!of_iters || chance(0.1)) return false;
      const Var* iter = block_->iters[static_cast<std::size_t>(p)].var;
      return std::none_of(indices.begin(), indices.end(), [&](const Expr* e) { return uses(e, iter); });
    };
    std::vector<i64> extents;
    if (of_iters) {
      for (const IterVar& iter : block_->iters) extents.push_back(iter.extent);
    } else if (block_ && chance(0.9)) {
      List<const Buffer*> all = buffers_written(block_);
      for (const Buffer* buffer : buffers_read(block_)) all.push_back(buffer);
      const Buffer* buffer = pick(all);
      extents.assign(buffer->shape.begin(), buffer->shape.end());
    }
    if (of_iters || !extents.empty()) rank = static_cast<i64>(extents.size());
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
    if (!extents.empty() && chance(0.2)) rotate(results, extents);
    for (std::size_t i = results.size(); i > 1; --i)
      std::swap(results[i - 1], results[static_cast<std::size_t>(rng_.below(static_cast<i64>(i)))]);
    return Arg{.tag = Arg::Tag::Map, .integer = rank, .items = schedule_arena().copy(results)};
  }

  // p becomes (p + q) % n, or p * 3 % n where there is no other parameter.
  void rotate(std::vector<Arg>& results, const std::vector<i64>& extents) {
    if (results.empty()) return;
    Arg& result = results[static_cast<std::size_t>(rng_.below(static_cast<i64>(results.size())))];
    if (result.tag != Arg::Tag::Param) return;
    i64 p = result.integer, rank = static_cast<i64>(extents.size());
    Arg q{.tag = Arg::Tag::Param, .integer = (p + 1) % rank};
    Array<Arg> terms = schedule_arena().list<Arg>({result, rank == 1 ? Arg::of_int(3) : q});
    Arg sum{.tag = Arg::Tag::Binary, .op = rank == 1 ? BinaryOp::Mul : BinaryOp::Add, .items = terms};
    Array<Arg> remainder = schedule_arena().list<Arg>({sum, Arg::of_int(extents[static_cast<std::size_t>(p)])});
    result = {.tag = Arg::Tag::Binary, .op = BinaryOp::FloorMod, .items = remainder};
  }

  // Minimum and extent of each dimension of the buffer that was drawn: the iter that stands there, or everything.
  std::optional<Arg> box() {
    if (!block_) return std::nullopt;
    AccessKind kind = word_ == "read" ? AccessKind::Read : AccessKind::Write;
    List<const Buffer*> buffers = kind == AccessKind::Read ? buffers_read(block_) : buffers_written(block_);
    if (number_ < 0 || number_ >= static_cast<i64>(buffers.size())) return std::nullopt;
    const Buffer* buffer = buffers[static_cast<std::size_t>(number_)];
    std::vector<Arg> results;
    for (std::size_t d = 0; d < buffer->shape.size(); ++d) {
      std::optional<i64> iter = chance(0.95) ? iter_at(buffer, kind, d) : std::nullopt;
      results.push_back(iter ? Arg{.tag = Arg::Tag::Param, .integer = *iter} : Arg::of_int(0));
      results.push_back(Arg::of_int(iter && chance(0.9) ? 1 : buffer->shape[d]));
    }
    return Arg{.tag = Arg::Tag::Map,
               .integer = static_cast<i64>(block_->iters.size()),
               .items = schedule_arena().copy(results)};
  }
  std::optional<i64> iter_at(const Buffer* buffer, AccessKind kind, std::size_t dimension) const {
    for (const Access& access : accesses_of(block_)) {
      if (access.buffer != buffer || access.kind != kind) continue;
      for (std::size_t i = 0; i < block_->iters.size(); ++i) {
        if (access.indices[dimension] == block_->iters[i].var) return static_cast<i64>(i);
      }
    }
    return std::nullopt;
  }

  std::optional<Arg> list(const std::vector<Arg>& items) {
    return Arg{.tag = Arg::Tag::List, .items = schedule_arena().copy(items)};
  }
  Arena& schedule_arena() { return schedule_.state().arena(); }

  Schedule& schedule_;
  Rng& rng_;
  const Block* block_ = nullptr;
  // From preparations: a loop, the block, its neighbour, and a copy that it reads.
  LoopId wanted_ = {};
  bool wants_block_ = false;
  const Block* neighbour_ = nullptr;
  BlockId copy_ = {};
  // The latest number and word drawn, and whether the number counts buffers that are read.
  i64 number_ = 0;
  bool reads_ = false;
  Str word_ = {};
};

// Small ones, which the random programs have a use for.
void declare_test_intrinsics() {
  static const bool declared = [] {
    std::string text;
    for (const auto& [name, value] :
         {std::pair("fma2", "C[i] + A[0] * B[i]"), {"scale2", "A[i] * B[i]"}, {"add2", "A[i] + B[i]"}}) {
      const char* a = std::string_view(name) == "fma2" ? "f32[1]" : "f32[2]";
      text += cat("intrinsic test_", name, " {\n  arch \"none\"\n  program d(A: input ", a,
                  ", B: input f32[2], C: output f32[2]) {\n", "    for i in 2 {\n      C[i] = ", value,
                  "\n    }\n  }\n  implementation {\n    store(C, load(B, f32x2))\n  }\n}\n");
    }
    Source source{"intrinsics of the test", text};
    Diagnostics diagnostics(source);
    bool good = declare_intrinsics(source, diagnostics);
    EXPECT_TRUE(good) << diagnostics.render();
    return good;
  }();
  (void)declared;
}

// What a sample has drawn, as an argument of the instruction that it is made for: is it accepted? Its values stay open
// in the trace.
class SampleUser {
 public:
  SampleUser(Schedule& schedule, Rng& rng, Acceptance& acceptance)
      : schedule_(schedule), rng_(rng), acceptance_(acceptance) {}

  // `arguments` are those of the sample, `first` its first value.
  void use(const InstructionKind& sample, const std::vector<Arg>& arguments, u32 first) {
    static const std::map<std::string_view, void (SampleUser::*)(const Arg&, u32)> uses = {
        {"sample_categorical", &SampleUser::cut_some_loop}, {"sample_tile", &SampleUser::cut},
        {"sample_perfect_tile", &SampleUser::cut},          {"sample_partitioned_tile", &SampleUser::cut},
        {"sample_permutation", &SampleUser::reorder},       {"sample_compute_location", &SampleUser::move}};
    (this->*uses.at(sample.name))(arguments[0], first);
  }

 private:
  Arg values(u32 first) {
    std::vector<Arg> all;
    for (u32 i = first; i < schedule_.state().values().size(); ++i) all.push_back(Arg::of_value(i));
    return {.tag = Arg::Tag::List, .items = schedule_.state().arena().copy(all)};
  }
  void apply(const char* name, std::vector<Arg> arguments) {
    const InstructionKind& kind = *find_kind(name);
    while (arguments.size() < kind.parameters.size())
      arguments.push_back(default_argument(kind.parameters[arguments.size()]));
    Tried& tried = acceptance_[name];
    auto done = schedule_.apply(kind, schedule_.state().arena().copy(arguments));
    ++(done ? tried.accepted : tried.rejected);
    if (!done) ++tried.reasons[done.rejected().reason];
  }
  void cut(const Arg& loop, u32 first) { apply("split", {loop, values(first)}); }
  void reorder(const Arg&, u32 first) { apply("reorder", {values(first)}); }
  void move(const Arg& block, u32 first) {
    apply("compute_at", {block, Arg::of_value(first), Arg::of_int(rng_.below(2))});
  }
  void cut_some_loop(const Arg&, u32 first) {
    std::optional<Arg> loop = ArgumentMaker(schedule_, rng_).make({"LoopId", "loop", ""});
    if (!loop) return;
    std::vector<Arg> factors = {{.tag = Arg::Tag::Hole}, Arg::of_value(first)};
    apply("split", {*loop, {.tag = Arg::Tag::List, .items = schedule_.state().arena().copy(factors)}});
  }

  Schedule& schedule_;
  Rng& rng_;
  Acceptance& acceptance_;
};

bool changes(const InstructionKind& kind) { return !kind.pure && !kind.samples && !kind.parameters.empty(); }

std::vector<const InstructionKind*> kinds_that(bool change) {
  std::vector<const InstructionKind*> kinds;
  for (const InstructionKind* kind : instruction_kinds()) {
    if (changes(*kind) == change) kinds.push_back(kind);
  }
  return kinds;
}

}  // namespace

std::vector<const InstructionKind*> changing_kinds() { return kinds_that(true); }
std::vector<const InstructionKind*> other_kinds() { return kinds_that(false); }

bool apply_random(Schedule& schedule, const InstructionKind& kind, Rng& rng, Acceptance& acceptance) {
  declare_test_intrinsics();
  ArgumentMaker maker(schedule, rng);
  if (!maker.prepare(kind.name)) return false;
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
    if (kind.samples) SampleUser(schedule, rng, acceptance).use(kind, arguments, *done);
    return true;
  }
  ++tried.rejected;
  ++tried.reasons[done.rejected().reason];
  return false;
}

}  // namespace tw::test
