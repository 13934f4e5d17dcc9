// Static types of the rule language: what a value is, and whether it is known while the space is
// built (fixed) or at replay only (open). Used by the type checker and the tables of the language.
// The evaluator checks again what no text can tell, e.g. whether a rule before this one made a
// loop's extent open.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dsl/schedule/instruction.h"

namespace tw::ast {
struct Lambda;
}
namespace tw::rules {
struct Module;
}

namespace tw::rules {

// Unknown: the text alone does not tell.
enum class Openness : u8 { Fixed, Open, Unknown };
// Of a value that is computed from two others.
Openness combine_openness(Openness a, Openness b);

struct TypeScope;

struct Type {
  // Any: the text does not tell. Location: what sample_compute_location gives. Map: an index map.
  enum class Kind : u8 { Any, None, Bool, Int, Text, List, Loop, Block, Location, Function, Map, Number, Dictionary };
  Kind kind = Kind::Any;
  Openness openness = Openness::Fixed;     // of the value; of a loop or block: was it chosen by a sample?
  Openness extent = Openness::Fixed;       // Loop: of its extent
  int size = -1;                           // List: how many, if known
  std::shared_ptr<const Type> element;     // List, values of a Dictionary; null = nothing is known
  const ast::Lambda* lambda = nullptr;     // Function
  std::shared_ptr<const TypeScope> scope;  // Function: the names that it sees
  const Module* home = nullptr;            // Function: whose text it is
  std::vector<std::pair<std::string, Type>> fields = {};  // Dictionary: of each key, where the text tells them

  static Type any() { return {.openness = Openness::Unknown, .extent = Openness::Unknown}; }
  static Type of(Kind kind, Openness openness = Openness::Fixed) { return {.kind = kind, .openness = openness}; }
  // A loop of the program as the rule found it: whether its extent is open depends on the rules
  // before.
  static Type loop(Openness extent = Openness::Unknown) { return {.kind = Kind::Loop, .extent = extent}; }
  static Type list(Type element, int size = -1) {
    return {.kind = Kind::List, .size = size, .element = std::make_shared<const Type>(std::move(element))};
  }
  static Type dictionary(Type element) {
    return {.kind = Kind::Dictionary, .element = std::make_shared<const Type>(std::move(element))};
  }
  Type item() const { return element ? *element : any(); }
  bool is(Kind wanted) const { return kind == wanted; }
};

// "a loop", "an open integer", "a list": as name_of(RuleValue::Tag).
std::string name_of(const Type& type);
// As it is written in a signature or a declaration: "int", "[text]", "{number}", "value".
std::string word_of(const Type& type);
// What a value is that is one or the other.
Type join_types(const Type& a, const Type& b);

// "(block, loop or block) -> int?" as types; several for alternatives, and in the result only one.
struct TypedSignature {
  std::vector<std::vector<Type>> parameters;
  Type result;
};
TypedSignature parse_signature(std::string_view signature);

// May the argument come from a sample? All that only fills in numbers may: factors, paddings, index
// maps, marks. What decides how many results an instruction has, and which buffer or dimension is
// meant, may not.
bool may_be_open(const InstructionKind& kind, const Parameter& parameter);
// What is said where an open value stands in the place of a fixed one.
std::string open_argument_message(const InstructionKind& kind, const Parameter& parameter);
inline constexpr const char* open_condition_message =
    "this condition depends on a sample, so the space would depend on a draw";
inline constexpr const char* open_condition_note =
    "`if`, `when` and `either` take fixed values only; use `require`, or a list of sketches";
inline constexpr const char* only_records_have_members = "only `target` and records have members";
inline constexpr const char* open_argument_note =
    "only numbers that are filled in may be open: factors, paddings, index maps, marks";

// The arguments and results of an instruction in the words of the language: "(loop: loop, factors:
// ~[int or _]) -> [loop]".
std::string signature_text(const InstructionKind& kind);

}  // namespace tw::rules
