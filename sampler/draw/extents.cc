#include "sampler/draw/extents.h"

#include <algorithm>
#include <map>

#include "dsl/ir/walk.h"

namespace tw {
namespace {

class Arithmetic {
 public:
  explicit Arithmetic(Arena& arena) : arena_(arena) {}
  const Arg* keep(const Arg& arg) { return arena_.list<Arg>({arg}).data(); }
  Arg binary(BinaryOp op, const Arg& a, const Arg& b) {
    return {.tag = Arg::Tag::Binary, .op = op, .items = arena_.list<Arg>({a, b})};
  }
  Arg product(const Arg& a, const Arg& b) {
    return a.tag == Arg::Tag::Int && a.integer == 1 ? b : binary(BinaryOp::Mul, a, b);
  }
  Arg ceil_div(const Arg& a, const Arg& b) {
    return binary(BinaryOp::FloorDiv, binary(BinaryOp::Sub, binary(BinaryOp::Add, a, b), Arg::of_int(1)), b);
  }

 private:
  Arena& arena_;
};

}  // namespace

// What each instruction does to the extents of loops.
class Extents::Walk {
 public:
  Walk(Extents& extents, const Program& base, const std::vector<LoopId>& loops)
      : extents_(extents), make_(*extents.arena_), loops_(loops) {
    for_each<For>(base.body,
                  [&](const For* loop) { of_loop_[loop->id.value] = make_.keep(Arg::of_int(loop->extent)); });
  }

  void step(const Instruction& step) {
    switch (step.kind->meaning.extents) {
      case Meaning::Extents::Kept:
        break;
      case Meaning::Extents::Split:
        split(step);
        break;
      case Meaning::Extents::Fused:
        fuse(step);
        break;
      case Meaning::Extents::Listed:
        note_loops(step);
        break;
      case Meaning::Extents::Padded:
        pad(step);
        break;
      case Meaning::Extents::Lost:
        forget();
        break;
    }
    for (u32 value = step.first_result; value < step.first_result + step.results; ++value) {
      if (auto found = of_loop_.find(loops_[value].value); loops_[value].value && found != of_loop_.end())
        extents_.of_value_[value] = found->second;
    }
  }

 private:
  const Arg* known(const Arg& loop) const {
    return loop.tag == Arg::Tag::Value ? extents_.of(static_cast<u32>(loop.integer)) : nullptr;
  }

  void note_loops(const Instruction& step) {
    if (step.arguments[0].tag == Arg::Tag::Value) loops_of_block_[step.arguments[0].integer] = &step;
  }

  void forget() {
    of_loop_.clear();
    std::fill(extents_.of_value_.begin(), extents_.of_value_.end(), nullptr);
  }

  void split(const Instruction& step) {
    const Arg* whole = known(step.arguments[0]);
    Array<Arg> factors = step.arguments[1].items;
    Arg others = Arg::of_int(1);
    for (const Arg& factor : factors) {
      if (factor.tag == Arg::Tag::Hole) continue;
      const Arg* size = extents_.resolved(factor);
      if (!size) return;
      others = make_.product(others, *size);
    }
    for (u32 i = 0; whole && i < step.results; ++i) {
      bool is_rest = factors[i].tag == Arg::Tag::Hole;
      of_loop_[loops_[step.first_result + i].value] =
          is_rest ? make_.keep(make_.ceil_div(*whole, others)) : extents_.resolved(factors[i]);
    }
  }

  void fuse(const Instruction& step) {
    Arg all = Arg::of_int(1);
    for (const Arg& loop : step.arguments[0].items) {
      const Arg* extent = known(loop);
      if (!extent) return;
      all = make_.product(all, *extent);
    }
    of_loop_[loops_[step.first_result].value] = make_.keep(all);
  }

  // The block's loops become multiples of the padding. Which they are is what a list of them said last.
  void pad(const Instruction& step) {
    auto asked = loops_of_block_.find(step.arguments[0].integer);
    Array<Arg> padding = step.arguments[1].items;
    if (asked == loops_of_block_.end() || asked->second->results != padding.size()) return forget();
    for (u32 i = 0; i < padding.size(); ++i) {
      auto loop = of_loop_.find(loops_[asked->second->first_result + i].value);
      const Arg* multiple = extents_.resolved(padding[i]);
      if (loop == of_loop_.end()) continue;
      if (!multiple)
        of_loop_.erase(loop);
      else if (multiple->tag != Arg::Tag::Int || multiple->integer != 1)
        loop->second = padded(*loop->second, *multiple);
    }
    // The handles that were there before are of the longer loops now.
    for (u32 value = 0; value < step.first_result; ++value) {
      auto found = of_loop_.find(loops_[value].value);
      if (extents_.of_value_[value]) extents_.of_value_[value] = found == of_loop_.end() ? nullptr : found->second;
    }
  }
  const Arg* padded(const Arg& extent, const Arg& multiple) {
    return make_.keep(make_.binary(BinaryOp::Mul, make_.ceil_div(extent, multiple), multiple));
  }

  Extents& extents_;
  Arithmetic make_;
  const std::vector<LoopId>& loops_;
  std::map<u32, const Arg*> of_loop_;
  std::map<i64, const Instruction*> loops_of_block_;
};

Extents::Extents(const Trace& trace, const Program& base, const std::vector<LoopId>& loops)
    : of_value_(trace.value_count()) {
  Walk walk(*this, base, loops);
  for (const Instruction& step : trace.instructions()) walk.step(step);
}

const Arg* Extents::constant(i64 extent) const { return Arithmetic(*arena_).keep(Arg::of_int(extent)); }

const Arg* Extents::resolved(const Arg& arg) const {
  if (arg.tag == Arg::Tag::Extent)
    return arg.items[0].tag == Arg::Tag::Value ? of(static_cast<u32>(arg.items[0].integer)) : nullptr;
  if (arg.tag != Arg::Tag::Binary) return &arg;
  const Arg *a = resolved(arg.items[0]), *b = resolved(arg.items[1]);
  if (!a || !b) return nullptr;
  if (a == &arg.items[0] && b == &arg.items[1]) return &arg;
  Arithmetic make(*arena_);
  return make.keep(make.binary(arg.op, *a, *b));
}

}  // namespace tw
