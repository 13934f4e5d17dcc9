// What a block reads and writes, access by access: the first part of region.h.
#include <algorithm>

#include "dsl/analysis/region.h"
#include "dsl/ir/walk.h"

namespace tw {
namespace {

void collect(const Node* node, List<Access>& out) {
  walk(node, [&](const Node* n) {
    if (const Load* load = as<Load>(n)) out.push_back({load->buffer, load->indices, AccessKind::Read});
    if (const Store* store = as<Store>(n)) {
      for (const Expr* value : store->values) collect(value, out);
      for (const StoreTarget& target : store->targets) {
        for (const Expr* index : target.indices) collect(index, out);
        out.push_back({target.buffer, target.indices, AccessKind::Write});
      }
      return false;
    }
    return true;
  });
}

List<const Buffer*> distinct(const Block* block, AccessKind kind) {
  List<const Buffer*> buffers;
  for (const Access& access : accesses_of(block)) {
    if (access.kind == kind && std::find(buffers.begin(), buffers.end(), access.buffer) == buffers.end()) {
      buffers.push_back(access.buffer);
    }
  }
  return buffers;
}

}  // namespace

List<const For*> loops_inside(const Block* block) {
  List<const For*> loops;
  for (const Stmt* part : {block->init, block->body}) {
    if (part && part->kind != Kind::Store) for_each<For>(part, [&](const For* loop) { loops.push_back(loop); });
  }
  return loops;
}

void add_ranges(VarRanges& ranges, const List<const For*>& loops) {
  for (const For* loop : loops) ranges.set_extent(loop->var, loop->extent);
}

bool accumulates(const Block* block) {
  return block->init ||
         std::any_of(block->iters.begin(), block->iters.end(), [](const IterVar& i) { return i.kind == IterKind::R; });
}

bool is_hidden(const Block* block, const Buffer* buffer) {
  const Annotation* hidden = find_annotation(block->annotations, kHiddenMark);
  std::string_view rest = hidden ? std::string_view(hidden->value.text) : std::string_view();
  while (!rest.empty()) {
    std::string_view name = rest.substr(0, rest.find(' '));
    if (name == buffer->name) return true;
    rest.remove_prefix(std::min(rest.size(), name.size() + 1));
  }
  return false;
}

List<Access> accesses_of(const Block* block) {
  List<Access> all;
  if (block->init) collect(block->init, all);
  collect(block->body, all);
  if (find_annotation(block->annotations, kHiddenMark)) {
    std::erase_if(all, [&](const Access& a) { return a.kind == AccessKind::Read && is_hidden(block, a.buffer); });
  }
  if (!accumulates(block)) return all;
  auto is_own = [&](const Access& access) {
    return access.kind == AccessKind::Read && writes_buffer(block, access.buffer);
  };
  std::erase_if(all, is_own);
  return all;
}

bool writes_buffer(const Block* block, const Buffer* buffer) {
  bool found = false;
  auto visit = [&](const Store* store) {
    for (const StoreTarget& target : store->targets) found |= target.buffer == buffer;
  };
  if (block->init) for_each<Store>(block->init, visit);
  for_each<Store>(block->body, visit);
  return found;
}

bool reads_buffer(const Block* block, const Buffer* buffer) {
  bool found = false;
  auto visit = [&](const Load* load) { found |= load->buffer == buffer; };
  if (block->init) for_each<Load>(block->init, visit);
  for_each<Load>(block->body, visit);
  return found && !(accumulates(block) && writes_buffer(block, buffer)) && !is_hidden(block, buffer);
}

List<const Buffer*> buffers_read(const Block* block) { return distinct(block, AccessKind::Read); }
List<const Buffer*> buffers_written(const Block* block) { return distinct(block, AccessKind::Write); }

}  // namespace tw
