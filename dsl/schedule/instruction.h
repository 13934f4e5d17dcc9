// Instructions: what a trace consists of. An instruction is a primitive or a sample applied to arguments; arguments are
// literals, values made by earlier instructions, or integer arithmetic over such values ("open" values: known at
// replay).
#pragma once
#include <string>

#include "dsl/base/list.h"
#include "dsl/base/result.h"
#include "dsl/base/rng.h"
#include "dsl/ir/nodes.h"

namespace tw {

class State;

// One argument as written in the trace. Lives in the arena of its trace.
struct Arg {
  enum class Tag : u8 {
    None,        // none
    Hole,        // _ : a factor left open
    Int,         // integer
    Text,        // "text"
    Value,       // the value with index `integer`
    Param,       // the integer-th parameter of the enclosing Map
    Extent,      // extent of the loop items[0]
    List,        // [items]
    Binary,      // items[0] op items[1]
    Map,         // (p0, ..., p(integer-1)) -> (items)
    Number,      // with a fraction, for marks
    Dictionary,  // {items}, for marks
    Entry,       // of a Dictionary: "text": items[0]
  };
  Tag tag = Tag::None;
  BinaryOp op = BinaryOp::Add;
  i64 integer = 0;
  double number = 0;
  Str text = {};
  Array<Arg> items = {};

  static Arg of_int(i64 value) { return {.tag = Tag::Int, .integer = value}; }
  static Arg of_value(u32 index) { return {.tag = Tag::Value, .integer = index}; }
  static Arg of_text(Str text) { return {.tag = Tag::Text, .text = text}; }
  static Arg of_number(double value) { return {.tag = Tag::Number, .number = value}; }
};

// What a sampling instruction chose: a short list of integers. Empty = open.
struct Decision {
  static constexpr int kMax = 8;
  i64 values[kMax] = {};
  u8 count = 0;
  bool open() const { return count == 0; }
  bool operator==(const Decision& other) const {
    if (count != other.count) return false;
    for (int i = 0; i < count; ++i)
      if (values[i] != other.values[i]) return false;
    return true;
  }
  static Decision of(i64 value) { return {{value}, 1}; }
};

// How a sampling instruction gets its decision: the one given if it is legal; if it is not, strict replay rejects and
// adapting replay takes the nearest legal one; an open one is drawn. What was taken is written back.
struct Draw {
  Decision* decision;
  Rng* rng;  // null: open decisions are rejected
  bool adapt;
};

// A value made by an instruction.
struct Value {
  enum class Tag : u8 { Loop, Block, Int, Location };
  Tag tag;
  i64 payload;
};

// One parameter of a primitive, from its PRIMITIVE line.
struct Parameter {
  std::string type;  // "LoopId", "Factors", "bool", ...
  std::string name;
  std::string fallback;  // the default as written, "" = required
};

// The argument that stands for a parameter that is not given.
Arg default_argument(const Parameter& parameter);

// What an instruction means to those that read a trace without applying it. Stated where the instruction is registered:
// REGISTER(require, "...", .is_condition = true).
struct Meaning {
  // What a sample draws.
  enum class Draws : u8 {
    Other,
    OneOf,           // one of the integers arguments[0], weighted by arguments[1]
    Divisors,        // factors of the loop arguments[0] whose product is its extent, the last at most arguments[2]
    Factors,         // the same, where factors need not divide the extent
    PartedDivisors,  // the same as Divisors, where those from arguments[2] on make a multiple of arguments[3]
    Order,           // an order of the loops arguments[0]
    Place,           // where the block arguments[0] is computed
  };
  // What happens to the extents of loops.
  enum class Extents : u8 {
    Kept,    // all stay, and loops that are made have extents known at replay only
    Split,   // the results are the loop arguments[0] cut by the factors arguments[1]
    Fused,   // the result is the loops arguments[0] in one
    Listed,  // the results are the loops around the block arguments[0]
    Padded,  // the loops around the block arguments[0] become multiples of arguments[1]
    Lost,    // of loops that were there before, too
  };
  // Does it change the mark arguments[1] of the loop or block arguments[0]?
  enum class Mark : u8 { None, Set /* to arguments[2] */, Removed };

  Draws draws = Draws::Other;
  Extents extents = Extents::Kept;
  Mark mark = Mark::None;
  bool is_condition = false;     // only decisions for which arguments[0] is not 0 are in the space
  bool is_weight = false;        // the prior of the decisions is weighted by arguments[0]
  bool picks = false;            // the result is one of arguments[0], the index arguments[1] says which
  bool keeps_loops = false;      // all loops stay where they are
  bool is_parallel = false;      // workers share the iterations of a loop
  bool binds_axis = false;       // iterations of a loop run on an axis of a device's grid
  bool starts_postproc = false;  // what follows is postprocessing
};

// A primitive or sample: everything that recording, replay, printing, parsing and documentation need.
struct InstructionKind {
  const char* name;
  const char* doc;  // one sentence
  std::vector<Parameter> parameters;
  std::string result;  // "Loops", "LoopId", "i64", ...; "Unit" = nothing
  bool pure;           // changes no program: may be dropped if its results are not used
  bool samples;        // takes a decision
  Meaning meaning;
  // Appends the results to `results`. Rejects leave the state as it was.
  Status (*apply)(State& state, Array<Arg> arguments, Draw draw, List<Value>& results);
};

// All kinds, sorted by name, and one by name (null if there is none).
const std::vector<const InstructionKind*>& instruction_kinds();
const InstructionKind* find_kind(std::string_view name);

}  // namespace tw
