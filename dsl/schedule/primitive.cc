#include "dsl/schedule/primitive.h"

#include <algorithm>
#include <cmath>

#include "dsl/base/text.h"

namespace tw {
namespace {

const Value* value_of(const State& state, const Arg& arg, Value::Tag tag) {
  if (arg.tag != Arg::Tag::Value) return nullptr;
  const Value& value = state.values()[arg.integer];
  return value.tag == tag ? &value : nullptr;
}

bool comes_from_a_sample(const Arg& arg) {
  bool is_here = arg.tag == Arg::Tag::Value || arg.tag == Arg::Tag::Extent;
  return is_here || std::any_of(arg.items.begin(), arg.items.end(), comes_from_a_sample);
}

std::string trim(std::string text) {
  text.erase(0, text.find_first_not_of(' '));
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

}  // namespace

Result<LoopId> ArgReader::convert(const Arg& arg, LoopId*) {
  const Value* value = value_of(state_, arg, Value::Tag::Loop);
  if (!value) return reject("expected a loop");
  return LoopId{static_cast<u32>(value->payload)};
}

Result<BlockId> ArgReader::convert(const Arg& arg, BlockId*) {
  const Value* value = value_of(state_, arg, Value::Tag::Block);
  if (!value) return reject("expected a block");
  return BlockId{static_cast<u32>(value->payload)};
}

Result<LoopOrBlock> ArgReader::convert(const Arg& arg, LoopOrBlock*) {
  if (const Value* loop = value_of(state_, arg, Value::Tag::Loop))
    return LoopOrBlock{.loop = {static_cast<u32>(loop->payload)}};
  if (const Value* block = value_of(state_, arg, Value::Tag::Block))
    return LoopOrBlock{.block = {static_cast<u32>(block->payload)}};
  return reject("expected a loop or a block");
}

Result<bool> ArgReader::convert(const Arg& arg, bool*) {
  TW_TRY(i64 value, state_.integer(arg));
  return value != 0;
}

Result<Str> ArgReader::convert(const Arg& arg, Str*) {
  if (arg.tag != Arg::Tag::Text) return reject("expected a text");
  return arg.text;
}

Result<Literal> ArgReader::convert(const Arg& arg, Literal*) {
  if (arg.tag == Arg::Tag::Text) return Literal::of(arg.text);
  if (arg.tag == Arg::Tag::Number) {
    if (!std::isfinite(arg.number)) return reject("expected a finite number");
    return Literal{.tag = Literal::Tag::Number, .number = arg.number};
  }
  if (arg.tag == Arg::Tag::None || arg.tag == Arg::Tag::Hole || arg.tag == Arg::Tag::Map)
    return reject("expected an integer, a number, a text, a list or a dictionary");
  if (arg.tag != Arg::Tag::List && arg.tag != Arg::Tag::Dictionary) {
    TW_TRY(i64 value, state_.integer(arg));
    return Literal::of(value);
  }
  bool is_list = arg.tag == Arg::Tag::List;
  List<Literal> items;
  List<Str> keys;
  for (const Arg& item : arg.items) {
    if (!is_list && std::find(keys.begin(), keys.end(), item.text) != keys.end())
      return reject("the key \"{a}\" is there twice", state_.arena().text(item.text));
    if (!is_list) keys.push_back(item.text);
    TW_TRY(Literal value, convert(is_list ? item : item.items[0], static_cast<Literal*>(nullptr)));
    items.push_back(value);
  }
  return Literal{.tag = is_list ? Literal::Tag::List : Literal::Tag::Dictionary,
                 .items = state_.arena().copy(items),
                 .keys = state_.arena().copy(keys)};
}

Result<Loops> ArgReader::convert(const Arg& arg, Loops*) {
  if (arg.tag != Arg::Tag::List) return reject("expected a list of loops");
  LoopId* out = static_cast<LoopId*>(state_.arena().allocate(sizeof(LoopId) * (arg.items.size() + 1), alignof(LoopId)));
  for (std::size_t i = 0; i < arg.items.size(); ++i) {
    TW_TRY(out[i], convert(arg.items[i], static_cast<LoopId*>(nullptr)));
  }
  return Loops{out, arg.items.size()};
}

Result<Blocks> ArgReader::convert(const Arg& arg, Blocks*) {
  if (arg.tag == Arg::Tag::None) return Blocks{};
  if (arg.tag != Arg::Tag::List) return reject("expected a list of blocks");
  BlockId* out =
      static_cast<BlockId*>(state_.arena().allocate(sizeof(BlockId) * (arg.items.size() + 1), alignof(BlockId)));
  for (std::size_t i = 0; i < arg.items.size(); ++i) {
    TW_TRY(out[i], convert(arg.items[i], static_cast<BlockId*>(nullptr)));
  }
  return Blocks{out, arg.items.size()};
}

Result<Ints> ArgReader::convert(const Arg& arg, Ints*) {
  if (arg.tag == Arg::Tag::None) return Ints{};
  if (arg.tag != Arg::Tag::List) return reject("expected a list of integers");
  i64* out = static_cast<i64*>(state_.arena().allocate(sizeof(i64) * (arg.items.size() + 1), alignof(i64)));
  for (std::size_t i = 0; i < arg.items.size(); ++i) {
    TW_TRY(out[i], state_.integer(arg.items[i]));
  }
  return Ints{out, arg.items.size()};
}

Result<Factors> ArgReader::convert(const Arg& arg, Factors*) {
  if (arg.tag != Arg::Tag::List) return reject("expected a list of factors");
  i64* out = static_cast<i64*>(state_.arena().allocate(sizeof(i64) * (arg.items.size() + 1), alignof(i64)));
  for (std::size_t i = 0; i < arg.items.size(); ++i) {
    if (arg.items[i].tag == Arg::Tag::Hole) {
      out[i] = Factors::kHole;
    } else {
      TW_TRY(out[i], state_.integer(arg.items[i]));
    }
  }
  return Factors{{out, arg.items.size()}};
}

Result<Location> ArgReader::convert(const Arg& arg, Location*) {
  if (const Value* loop = value_of(state_, arg, Value::Tag::Loop)) {
    return Location{Location::Place::Loop, {static_cast<u32>(loop->payload)}};
  }
  const Value* at = value_of(state_, arg, Value::Tag::Location);
  if (!at) return reject("expected a loop or a location");
  if (at->payload == -1) return Location{Location::Place::Root, {}};
  if (at->payload == -2) return Location{Location::Place::Inline, {}};
  return Location{Location::Place::Loop, {static_cast<u32>(at->payload)}};
}

Result<const Expr*> ArgReader::map_result(const Arg& arg, Array<const Var*> params) {
  Build build = state_.build();
  if (arg.tag == Arg::Tag::Param) return static_cast<const Expr*>(params[arg.integer]);
  if (arg.tag == Arg::Tag::Binary) {
    TW_TRY(const Expr* a, map_result(arg.items[0], params));
    TW_TRY(const Expr* b, map_result(arg.items[1], params));
    if (a->type != b->type) return reject("an index map combines a condition and an integer");
    return build.binary(arg.op, a, b);
  }
  TW_TRY(i64 value, state_.integer(arg));
  return build.integer(value);
}

Result<IndexMap> ArgReader::convert(const Arg& arg, IndexMap*) {
  if (arg.tag != Arg::Tag::Map) return reject("expected an index map, e.g. (i, j) -> (j, i)");
  List<const Var*> params;
  for (i64 i = 0; i < arg.integer; ++i) params.push_back(state_.fresh_var("p"));
  IndexMap map{state_.arena().copy(params), {}};
  List<const Expr*> results;
  for (const Arg& item : arg.items) {
    TW_TRY(const Expr* result, map_result(item, map.params));
    results.push_back(result);
  }
  map.results = state_.arena().copy(results);
  map.is_open = std::any_of(arg.items.begin(), arg.items.end(), comes_from_a_sample);
  return map;
}

InstructionKind make_kind(const char* name, const char* signature, const char* doc) {
  InstructionKind kind{.name = name, .doc = doc};
  std::string text = signature;
  std::size_t open = text.find('('), close = text.rfind(')');
  TW_CHECK(open != std::string::npos && close != std::string::npos, "PRIMITIVE line without a signature");
  kind.result = trim(text.substr(0, open));
  std::string list = text.substr(open + 1, close - open - 1);
  for (std::size_t at = 0; at < list.size();) {
    std::size_t comma = std::min(list.find(',', at), list.size());
    std::string item = trim(list.substr(at, comma - at));
    at = comma + 1;
    Parameter parameter;
    std::size_t equals = item.find('=');
    if (equals != std::string::npos) {
      parameter.fallback = trim(item.substr(equals + 1));
      item = trim(item.substr(0, equals));
    }
    std::size_t space = item.rfind(' ');
    parameter.type = trim(item.substr(0, space));
    parameter.name = item.substr(space + 1);
    kind.parameters.push_back(parameter);
  }
  return kind;
}

}  // namespace tw
