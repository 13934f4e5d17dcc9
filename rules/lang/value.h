// Values of the rule language. FIXED values are known while the space is built; OPEN values come from samples and are
// known at replay only: they may go into instructions, index maps, require, and integer arithmetic, never into if, when
// or either.
#pragma once
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dsl/schedule/instruction.h"
#include "dsl/text/ast.h"

namespace tw::rules {

struct Module;
struct Scope;

// How much is written when an argument is written out, `most` or more being `most`.
i64 parts_of(const Arg& arg, i64 most);

struct RuleValue {
  enum class Tag : u8 { None, Bool, Int, Text, List, Loop, Block, Lambda, Open, Number, Dictionary };
  Tag tag = Tag::None;
  i64 integer = 0;  // Bool, Int; id of Loop and Block
  double number = 0;
  std::string text;
  std::shared_ptr<std::vector<RuleValue>> list;    // of a Dictionary: its values
  std::shared_ptr<std::vector<std::string>> keys;  // of a Dictionary
  int depth = 0;                                   // of lists inside lists; 0 = no list
  i64 parts =
      1;  // what is written when it is written out: all values of lists inside lists, all of an open value's expression
  Arg open;  // Open: an argument over values of the trace
  const ast::Lambda* lambda = nullptr;
  std::shared_ptr<Scope> scope;  // of Lambda
  const Module* home = nullptr;  // of Lambda: whose text it is

  static RuleValue none() { return {}; }
  static RuleValue of(bool value) { return {.tag = Tag::Bool, .integer = value}; }
  static RuleValue of(i64 value) { return {.tag = Tag::Int, .integer = value}; }
  static RuleValue of(std::string value) {
    RuleValue v;
    v.tag = Tag::Text;
    v.text = std::move(value);
    return v;
  }
  static RuleValue of(LoopId id) { return {.tag = Tag::Loop, .integer = id.value}; }
  static RuleValue of(BlockId id) { return {.tag = Tag::Block, .integer = id.value}; }
  static RuleValue of(std::vector<RuleValue> items) {
    RuleValue v;
    v.tag = Tag::List;
    v.depth = 1;
    for (const RuleValue& item : items) {
      v.depth = std::max(v.depth, item.depth + 1);
      v.parts = std::min(v.parts + item.parts, most_parts);
    }
    v.list = std::make_shared<std::vector<RuleValue>>(std::move(items));
    return v;
  }
  static RuleValue of_number(double value) {
    RuleValue v;
    v.tag = Tag::Number;
    v.number = value;
    return v;
  }
  static RuleValue of(std::vector<std::string> keys, std::vector<RuleValue> values) {
    RuleValue v = of(std::move(values));
    v.tag = Tag::Dictionary;
    v.keys = std::make_shared<std::vector<std::string>>(std::move(keys));
    return v;
  }
  static RuleValue of_open(Arg arg) { return of_open(arg, parts_of(arg, most_parts)); }
  static RuleValue of_open(Arg arg, i64 parts) {
    RuleValue v;
    v.tag = Tag::Open;
    v.open = arg;
    v.parts = std::min(parts, most_parts);
    return v;
  }
  static constexpr i64 most_parts =
      1 << 20;  // counted no further: values are shared, and what is written out may be exponential

  bool has_items() const { return tag == Tag::List || tag == Tag::Dictionary; }
  LoopId loop() const { return {static_cast<u32>(integer)}; }
  BlockId block() const { return {static_cast<u32>(integer)}; }
};

const char* name_of(RuleValue::Tag tag);  // "an integer", "a loop", ...

// Equal values; open ones and functions if they are the same. Takes at most as many steps as the smaller one has parts.
bool same(const RuleValue& a, const RuleValue& b);
// An operator between integers; nothing where the result does not fit into 64 bits, or there is none (division by
// zero).
std::optional<i64> exact(BinaryOp op, i64 a, i64 b);

// Names in scope, innermost last; a child sees its parent's.
struct Scope {
  std::shared_ptr<Scope> parent;
  std::vector<std::pair<std::string, RuleValue>> names;
  RuleValue* find(std::string_view name) {
    for (Scope* scope = this; scope; scope = scope->parent.get()) {
      for (std::size_t i = scope->names.size(); i-- > 0;) {
        if (scope->names[i].first == name) return &scope->names[i].second;
      }
    }
    return nullptr;
  }
  void set(std::string_view name, RuleValue value) { names.emplace_back(std::string(name), std::move(value)); }
};

// What rules may ask about the target, as `target.name`. A small copy, so that rules see no backend.
struct TargetFacts {
  i64 vector_bits = 256, vector_registers = 16, threads = 1, l1_bytes = 32 << 10, l2_bytes = 512 << 10, l3_bytes = 0,
      cache_line = 64;
  i64 group_threads = 1, shared_bytes = 0;  // of devices
  i64 sm = 0;                               // of CUDA devices
  i64 wgmma = 0;                            // 1: they have it
  i64 vtcm_bytes = 0;                       // of Hexagon
};

struct TargetMember {
  const char* name;
  i64 TargetFacts::* field;
  const char* doc;
};
const std::vector<TargetMember>& target_members();

}  // namespace tw::rules
