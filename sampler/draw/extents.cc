#include "sampler/draw/extents.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "dsl/ir/walk.h"

namespace tw {
namespace {

class Arithmetic {
 public:
  explicit Arithmetic(Arena& arena) : arena_(arena) {}
  const Arg* keep(const Arg& arg) { return arena_.list<Arg>({arg}).data(); }
  Arg binary(BinaryOp op, const Arg& a, const Arg& b) { return {.tag = Arg::Tag::Binary, .op = op, .items = arena_.list<Arg>({a, b})}; }
  Arg product(const Arg& a, const Arg& b) { return a.tag == Arg::Tag::Int && a.integer == 1 ? b : binary(BinaryOp::Mul, a, b); }
  Arg ceil_div(const Arg& a, const Arg& b) {
    return binary(BinaryOp::FloorDiv, binary(BinaryOp::Sub, binary(BinaryOp::Add, a, b), Arg::of_int(1)), b);
  }

 private:
  Arena& arena_;
};

// Padding makes loops longer that were there before; all others keep their extents.
bool changes_extents(std::string_view instruction) { return instruction == "pad_einsum" || instruction == "decompose_padding"; }

}  // namespace

Extents::Extents(const Trace& trace, const Program& base, const std::vector<LoopId>& loops) : of_value_(trace.value_count()) {
  Arithmetic make(*arena_);
  std::map<u32, const Arg*> of_loop;
  for_each<For>(base.body, [&](const For* loop) { of_loop[loop->id.value] = make.keep(Arg::of_int(loop->extent)); });
  auto known = [&](const Arg& arg) { return arg.tag == Arg::Tag::Value ? of(static_cast<u32>(arg.integer)) : nullptr; };
  auto give = [&](u32 value, const Arg* extent) { of_loop[loops[value].value] = extent; };

  for (const Instruction& step : trace.instructions()) {
    std::string_view name = step.kind->name;
    if (changes_extents(name)) of_loop.clear();
    if (name == "split") {
      const Arg* whole = known(step.arguments[0]);
      Array<Arg> factors = step.arguments[1].items;
      Arg others = Arg::of_int(1);
      for (const Arg& factor : factors) {
        if (factor.tag == Arg::Tag::Hole) continue;
        const Arg* size = resolved(factor);
        if (!size) whole = nullptr;
        else others = make.product(others, *size);
      }
      for (u32 i = 0; whole && i < step.results; ++i) {
        const Arg& factor = factors[i];
        give(step.first_result + i, factor.tag == Arg::Tag::Hole ? make.keep(make.ceil_div(*whole, others)) : resolved(factor));
      }
    } else if (name == "fuse") {
      Arg all = Arg::of_int(1);
      bool is_known = true;
      for (const Arg& loop : step.arguments[0].items) {
        const Arg* extent = known(loop);
        is_known &= extent != nullptr;
        if (extent) all = make.product(all, *extent);
      }
      if (is_known) give(step.first_result, make.keep(all));
    }
    for (u32 value = step.first_result; value < step.first_result + step.results; ++value) {
      auto found = of_loop.find(loops[value].value);
      if (loops[value].value && found != of_loop.end()) of_value_[value] = found->second;
    }
  }
}

const Arg* Extents::constant(i64 extent) const { return Arithmetic(*arena_).keep(Arg::of_int(extent)); }

const Arg* Extents::resolved(const Arg& arg) const {
  if (arg.tag == Arg::Tag::Extent) return arg.items[0].tag == Arg::Tag::Value ? of(static_cast<u32>(arg.items[0].integer)) : nullptr;
  if (arg.tag != Arg::Tag::Binary) return &arg;
  const Arg *a = resolved(arg.items[0]), *b = resolved(arg.items[1]);
  if (!a || !b) return nullptr;
  if (a == &arg.items[0] && b == &arg.items[1]) return &arg;
  Arithmetic make(*arena_);
  return make.keep(make.binary(arg.op, *a, *b));
}

}  // namespace tw
