#include "dsl/schedule/state.h"

#include <algorithm>

#include "dsl/base/text.h"
#include "dsl/ir/limits.h"
#include "dsl/ir/print.h"

namespace tw {
namespace {

// Depth-first search for a statement; leaves the path to it in `path`. Blocks are not entered: they are leaves of a
// schedule.
template <class Found>
bool search(const Stmt* node, Path& path, Found found) {
  if (!node) return false;
  path.push(node);
  if (found(node)) return true;
  bool is_below = false;
  auto in_child = [&](const auto* child) {
    if constexpr (std::is_convertible_v<decltype(child), const Stmt*>)
      is_below = is_below || search(child, path, found);
  };
  if (node->kind != Kind::Block) for_each_child(node, in_child);
  if (is_below) return true;
  path.pop();
  return false;
}

const Stmt* replace_in(Arena& arena, const Path& path, int at, const Stmt* now) {
  // From the node upwards: rebuild each ancestor with its one changed child.
  for (int i = at - 1; i >= 0; --i) {
    const Stmt* child = path[i + 1];
    struct Swap {
      const Stmt *from, *to;
    } swap{child, now};
    ChildMap map{&swap, nullptr, [](void* s, const Stmt* stmt) {
                   auto* both = static_cast<Swap*>(s);
                   return stmt == both->from ? both->to : stmt;
                 }};
    now = with_children(arena, path[i], map);
  }
  return now;
}

}  // namespace

Result<Path> State::path_to(LoopId id) const {
  Path path;
  bool found = search(program_.body, path, [&](const Stmt* s) {
    const For* loop = as<For>(s);
    return loop && loop->id == id;
  });
  if (!found) return reject("the loop no longer exists: an earlier instruction replaced it");
  return path;
}

Result<Path> State::path_to(BlockId id) const {
  Path path;
  bool found = search(program_.body, path, [&](const Stmt* s) {
    const Block* block = as<Block>(s);
    return block && block->id == id;
  });
  if (!found) return reject("the block no longer exists: an earlier instruction inlined or replaced it");
  return path;
}

Result<const For*> State::loop(LoopId id) const {
  TW_TRY(Path path, path_to(id));
  return static_cast<const For*>(path.back());
}

Result<const Block*> State::block(BlockId id) const {
  TW_TRY(Path path, path_to(id));
  return static_cast<const Block*>(path.back());
}

const For* State::find_loop(LoopId id) const {
  auto found = loop(id);
  return found ? *found : nullptr;
}

const Block* State::find_block(BlockId id) const {
  auto found = block(id);
  return found ? *found : nullptr;
}

Array<const For*> State::loops_on(const Path& path) const {
  const For* loops[Path::kMax];
  int count = 0;
  for (int i = 0; i + 1 < path.size(); ++i) {
    if (const For* loop = as<For>(path[i])) loops[count++] = loop;
  }
  return arena_->copy(loops, count);
}

Result<Array<const For*>> State::loops_around(BlockId id) const {
  TW_TRY(Path path, path_to(id));
  return loops_on(path);
}

Array<const Block*> State::blocks() const {
  List<const Block*> found;
  Path path;
  search(program_.body, path, [&](const Stmt* s) {
    if (const Block* block = as<Block>(s)) found.push_back(block);
    return false;
  });
  return arena_->copy(found.data(), found.size());
}

Status State::within_limits() const {
  // Each loop and block adds three statements at most: itself, a sequence and a condition.
  bool may_be_deep = 3 * (program_.next_loop + program_.next_block) > static_cast<u32>(kMostNesting);
  if (may_be_deep && nesting_of(program_.body) > kMostNesting)
    return reject("the program would have more than {0} statements inside of one another", kMostNesting);
  for (const Buffer* local : program_.locals) {
    i64 elements = 1;
    for (i64 extent : local->shape) {
      if (__builtin_mul_overflow(elements, extent, &elements) || elements > kMostElements)
        return reject("`{a}` would have more than {0} elements", local->name, kMostElements);
    }
  }
  return ok();
}

void State::replace(const Stmt* old, const Stmt* now) {
  if (old == now) return;
  Path path;
  bool found = search(program_.body, path, [&](const Stmt* s) { return s == old; });
  TW_CHECK(found, "replace: the statement is not in the program");
  program_.body = replace_in(*arena_, path, path.size() - 1, now);
}

void State::add_local(const Buffer* buffer) {
  List<const Buffer*> locals(program_.locals.begin(), program_.locals.end());
  locals.push_back(buffer);
  program_.locals = arena_->copy(locals);
}

void State::remove_local(const Buffer* buffer) {
  List<const Buffer*> locals(program_.locals.begin(), program_.locals.end());
  std::erase(locals, buffer);
  program_.locals = arena_->copy(locals);
}

void State::replace_buffer_everywhere(const Buffer* from, const Buffer* to) {
  List<Param> params(program_.params.begin(), program_.params.end());
  for (Param& param : params) {
    if (param.buffer == from) param.buffer = to;
  }
  List<const Buffer*> locals(program_.locals.begin(), program_.locals.end());
  for (const Buffer*& local : locals) {
    if (local == from) local = to;
  }
  program_.params = arena_->copy(params);
  program_.locals = arena_->copy(locals);
  program_.body = replace_buffer(*arena_, program_.body, from, to);
}

Str State::name(std::string_view base, std::string_view suffix) const {
  char* both = static_cast<char*>(arena_->allocate(base.size() + suffix.size(), 1));
  std::copy(suffix.begin(), suffix.end(), std::copy(base.begin(), base.end(), both));
  std::replace(both + base.size(), both + base.size() + suffix.size(), '.', '_');  // `global.vtcm`
  return {both, base.size() + suffix.size()};
}

const Buffer* State::fresh_buffer(Str wanted, DType dtype, Array<i64> shape, Scope scope) {
  auto taken = [&](std::string_view candidate) {
    for (const Param& param : program_.params)
      if (param.buffer->name == candidate) return true;
    for (const Buffer* local : program_.locals)
      if (local->name == candidate) return true;
    return false;
  };
  Str unique = wanted;
  for (int i = 1; taken(unique); ++i) unique = name(wanted, cat("_", i));
  return arena_->make<Buffer>(BufferId{program_.next_buffer++}, unique, dtype, shape, scope, Str{});
}

Str State::fresh_block_name(Str wanted) const {
  Array<const Block*> all = blocks();
  auto taken = [&](std::string_view candidate) {
    for (const Block* block : all)
      if (block->name == candidate) return true;
    return false;
  };
  Str unique = wanted;
  for (int i = 1; taken(unique); ++i) unique = name(wanted, cat("_", i));
  return unique;
}

Result<i64> State::integer(const Arg& arg) const {
  switch (arg.tag) {
    case Arg::Tag::Int:
      return arg.integer;
    case Arg::Tag::Value: {
      TW_CHECK(arg.integer < static_cast<i64>(values_.size()), "argument refers to a later value");
      const Value& value = values_[arg.integer];
      if (value.tag != Value::Tag::Int) return reject("expected an integer, found a handle");
      return value.payload;
    }
    case Arg::Tag::Extent: {
      const Value& value = values_[arg.items[0].integer];
      if (value.tag != Value::Tag::Loop) return reject("extent: expected a loop");
      TW_TRY(const For* found, loop({static_cast<u32>(value.payload)}));
      return found->extent;
    }
    case Arg::Tag::Binary: {
      TW_TRY(i64 a, integer(arg.items[0]));
      TW_TRY(i64 b, integer(arg.items[1]));
      std::optional<i64> value = fold(arg.op, a, b);
      if (!value) return reject("division by zero");
      return *value;
    }
    default:
      return reject("expected an integer");
  }
}

std::string explain(const Reject& reject, const State& state) {
  PrintMarks marks;
  for (u32 id : reject.loops)
    if (id) marks.marks.push_back({{id}, {}, "here"});
  for (u32 id : reject.blocks)
    if (id) marks.marks.push_back({{}, {id}, "here"});
  return cat(to_string(reject), "\nthe program at this step:\n", print(state.program(), marks));
}

}  // namespace tw
