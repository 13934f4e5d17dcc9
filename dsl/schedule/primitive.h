// The one-file-per-primitive mechanism. A primitive's file reads
//
//   // before -> after, and when it applies
//   PRIMITIVE(split, Loops(LoopId loop, Factors factors))
//   static Result<Loops> apply(State& state, LoopId loop, Factors factors) { ... }
//   REGISTER(split, "Cuts one loop into a nest of several.")
//
// From the signature follow argument conversion and checks, recording, replay, printing, parsing, documentation, the
// C++ method of Schedule and the random arguments of property tests. A query takes `const State&` (it is pure); a
// sample takes `const State&` and, last, a `Draw`. This is the only header with such templates.
#pragma once
#include <tuple>
#include <type_traits>

#include "dsl/schedule/state.h"

namespace tw {

// ---- types of parameters and results (besides LoopId, BlockId, i64, bool, Str, Literal)

using Loops = Array<LoopId>;
using Blocks = Array<BlockId>;
using Ints = Array<i64>;

// Factors of a split, outer to inner; kHole = what is left (at most one).
struct Factors {
  static constexpr i64 kHole = -1;
  Array<i64> values;
};
// Where a block goes: a loop, or one of two special places.
struct Location {
  enum class Place : u8 { Loop, Root, Inline } place = Place::Root;
  LoopId loop = {};
};
// (params) -> (results), with open values already filled in.
struct IndexMap {
  Array<const Var*> params;
  Array<const Expr*> results;
  bool is_open = false;  // a number in it comes from a sample
};
// A loop or a block.
struct LoopOrBlock {
  LoopId loop = {};
  BlockId block = {};
};

// The default of an optional parameter: an empty value of any of these types, written `none` in text.
struct None {
  template <class T>
  operator T() const {
    return T{};
  }
};
inline constexpr None none;

// ---- reading arguments

class ArgReader {
 public:
  ArgReader(State& state, Array<Arg> args, Draw draw) : state_(state), args_(args), draw_(draw) {}

  template <class T>
  T read() {
    if constexpr (std::is_same_v<T, Draw>) {
      return draw_;
    } else {
      TW_CHECK(next_ < args_.size(), "instruction with too few arguments");
      auto value = convert(args_[next_++], static_cast<T*>(nullptr));
      if (value) return *value;
      if (!failed_) {
        reject_ = value.rejected();
        failed_ = true;
      }
      return T{};
    }
  }
  bool failed() const { return failed_; }
  const Reject& rejected() const { return reject_; }

 private:
  Result<LoopId> convert(const Arg& arg, LoopId*);
  Result<BlockId> convert(const Arg& arg, BlockId*);
  Result<LoopOrBlock> convert(const Arg& arg, LoopOrBlock*);
  Result<i64> convert(const Arg& arg, i64*) { return state_.integer(arg); }
  Result<bool> convert(const Arg& arg, bool*);
  Result<Str> convert(const Arg& arg, Str*);
  Result<Loops> convert(const Arg& arg, Loops*);
  Result<Blocks> convert(const Arg& arg, Blocks*);
  Result<Ints> convert(const Arg& arg, Ints*);
  Result<Factors> convert(const Arg& arg, Factors*);
  Result<Location> convert(const Arg& arg, Location*);
  Result<IndexMap> convert(const Arg& arg, IndexMap*);
  Result<Literal> convert(const Arg& arg, Literal*);
  Result<const Expr*> map_result(const Arg& arg, Array<const Var*> params);

  State& state_;
  Array<Arg> args_;
  Draw draw_;
  std::size_t next_ = 0;
  bool failed_ = false;
  Reject reject_;
};

// ---- writing results

inline void append_result(List<Value>&, Unit) {}
inline void append_result(List<Value>& out, i64 value) { out.push_back({Value::Tag::Int, value}); }
inline void append_result(List<Value>& out, LoopId id) { out.push_back({Value::Tag::Loop, id.value}); }
inline void append_result(List<Value>& out, BlockId id) { out.push_back({Value::Tag::Block, id.value}); }
inline void append_result(List<Value>& out, Location at) {
  // Root and Inline are -1 and -2 (the reference's numbers); a loop is its id.
  out.push_back({Value::Tag::Location, at.place == Location::Place::Loop   ? static_cast<i64>(at.loop.value)
                                       : at.place == Location::Place::Root ? -1
                                                                           : -2});
}
template <class T>
void append_result(List<Value>& out, Array<T> list) {
  for (const T& item : list) append_result(out, item);
}

// ---- from an apply function to an InstructionKind

template <class Function>
struct ApplyTraits;
template <class R, class S, class... A>
struct ApplyTraits<Result<R> (*)(S&, A...)> {
  static constexpr bool pure = std::is_const_v<S>;
  static constexpr bool samples = (std::is_same_v<A, Draw> || ...);
  template <auto Apply>
  static Status call(State& state, Array<Arg> arguments, Draw draw, List<Value>& results) {
    ArgReader reader(state, arguments, draw);
    std::tuple<A...> values{reader.template read<A>()...};  // braces: evaluated from left to right
    if (reader.failed()) return reader.rejected();
    Program before = state.program();
    auto result = std::apply([&](A... args) { return Apply(state, args...); }, values);
    if (!result) return result.rejected();
    if constexpr (!pure) {
      if (Status within = state.within_limits(); !within) {
        state.set_program(before);
        return within;
      }
    }
    append_result(results, *result);
    return ok();
  }
};

// Splits the text of a PRIMITIVE line, "Loops(LoopId loop, bool keep = false)", into result and parameters.
InstructionKind make_kind(const char* name, const char* signature, const char* doc);

}  // namespace tw

#define PRIMITIVE(name, ...) static constexpr const char* name##_signature = #__VA_ARGS__;
// After the sentence come the fields of `Meaning` that are not as in most instructions: `.is_condition = true`.
#define REGISTER(name, doc, ...)                                          \
  namespace tw {                                                          \
  const InstructionKind& kind_of_##name() {                               \
    static const InstructionKind kind = [] {                              \
      InstructionKind made = make_kind(#name, name##_signature, doc);     \
      made.pure = ApplyTraits<decltype(&apply)>::pure;                    \
      made.samples = ApplyTraits<decltype(&apply)>::samples;              \
      made.meaning = Meaning{__VA_ARGS__};                                \
      made.apply = &ApplyTraits<decltype(&apply)>::template call<&apply>; \
      return made;                                                        \
    }();                                                                  \
    return kind;                                                          \
  }                                                                       \
  }
