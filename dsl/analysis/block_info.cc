#include "dsl/analysis/block_info.h"

#include <algorithm>

#include "dsl/analysis/region.h"

namespace tw {
namespace {

void collect(const Stmt* stmt, List<const Block*>& out) {
  struct Visit {
    List<const Block*>& out;
    void operator()(const Stmt* s) const { collect(s, out); }
    void operator()(const Expr*) const {}
  };
  if (!stmt) return;
  if (const Block* block = as<Block>(stmt))
    out.push_back(block);
  else
    for_each_child(stmt, Visit{out});
}

Status is_only_writer(const Stmt* root, const Block* block) {
  for (const Buffer* buffer : buffers_written(block)) {
    for (const Block* writer : writers_of(root, buffer)) {
      if (writer != block) {
        return reject("expected `{a}` to have one writer, but block `{b}` writes it too", buffer->name, writer->name)
            .about_block(block->id.value)
            .about_block(writer->id.value);
      }
    }
  }
  return ok();
}

}  // namespace

List<const Block*> blocks_in(const Stmt* root) {
  List<const Block*> out;
  collect(root, out);
  return out;
}

List<const Block*> writers_of(const Stmt* root, const Buffer* buffer) {
  List<const Block*> out = blocks_in(root);
  std::erase_if(out, [&](const Block* block) { return !writes_buffer(block, buffer); });
  return out;
}

List<const Block*> readers_of(const Stmt* root, const Buffer* buffer) {
  List<const Block*> out = blocks_in(root);
  std::erase_if(out, [&](const Block* block) { return !reads_buffer(block, buffer); });
  return out;
}

List<const Block*> producers(const Stmt* root, const Block* block) {
  List<const Buffer*> inputs = buffers_read(block);
  List<const Block*> out = blocks_in(root);
  auto feeds = [&](const Block* other) {
    return std::any_of(inputs.begin(), inputs.end(),
                       [&](const Buffer* buffer) { return writes_buffer(other, buffer); });
  };
  std::erase_if(out, [&](const Block* other) { return other == block || !feeds(other); });
  return out;
}

List<const Block*> consumers(const Stmt* root, const Block* block) {
  List<const Buffer*> outputs = buffers_written(block);
  List<const Block*> out = blocks_in(root);
  auto is_fed = [&](const Block* other) {
    return std::any_of(outputs.begin(), outputs.end(),
                       [&](const Buffer* buffer) { return reads_buffer(other, buffer); });
  };
  std::erase_if(out, [&](const Block* other) { return other == block || !is_fed(other); });
  return out;
}

bool is_inside(const Stmt* root, const Block* block) {
  List<const Block*> all = blocks_in(root);
  return std::find(all.begin(), all.end(), block) != all.end();
}

bool is_spatial(const Block* block) {
  return std::all_of(block->iters.begin(), block->iters.end(),
                     [](const IterVar& iter) { return iter.kind == IterKind::S; });
}

bool is_output_block(const Program& program, const Block* block) {
  List<const Buffer*> written = buffers_written(block);
  return std::any_of(written.begin(), written.end(), [&](const Buffer* buffer) { return is_param(program, buffer); });
}

bool has_trivial_bindings(const Block* block) {
  for (std::size_t i = 0; i < block->bindings.size(); ++i) {
    const Expr* binding = block->bindings[i];
    if (block->iters[i].extent == 1 && is_constant(binding, 0)) continue;
    if (!as<Var>(binding)) return false;
    if (std::find(block->bindings.begin(), block->bindings.begin() + i, binding) != block->bindings.begin() + i)
      return false;
  }
  return true;
}

bool is_composite(const Block* block) { return block->body->kind != Kind::Store && !accumulates(block); }

const Store* single_store(const Block* block) {
  const Store* store = as<Store>(block->body);
  return store && store->targets.size() == 1 ? store : nullptr;
}

std::optional<List<int>> iters_as_indices(const Block* block, Array<const Expr*> indices) {
  List<int> out;
  for (const Expr* index : indices) {
    if (is_constant(index, 0)) {
      out.push_back(-1);
      continue;
    }
    auto same = [&](const IterVar& iter) { return iter.var == index; };
    auto iter = std::find_if(block->iters.begin(), block->iters.end(), same);
    int position = static_cast<int>(iter - block->iters.begin());
    if (iter == block->iters.end() || std::find(out.begin(), out.end(), position) != out.end()) return std::nullopt;
    out.push_back(position);
  }
  return out;
}

Status is_complete(const Stmt* root, const Block* block) {
  if (!is_spatial(block))
    return reject("expected all iters of block `{a}` to be spatial", block->name).about_block(block->id.value);
  for (const Buffer* buffer : buffers_written(block)) {
    if (reads_buffer(block, buffer)) {
      return reject("block `{a}` reads `{b}`, which it also writes", block->name, buffer->name)
          .about_block(block->id.value);
    }
  }
  return is_only_writer(root, block);
}

Status is_reduction(const Stmt* root, const Block* block) {
  if (!block->init)
    return reject("block `{a}` has no init: it is not a reduction, or it was decomposed", block->name)
        .about_block(block->id.value);
  for (const Access& access : accesses_of(block)) {
    if (access.kind != AccessKind::Write) continue;
    for (const IterVar& iter : block->iters) {
      auto used = [&](const Expr* index) { return uses(index, iter.var); };
      if (iter.kind == IterKind::R && std::any_of(access.indices.begin(), access.indices.end(), used)) {
        return reject("block `{a}` writes to indices that depend on its reduction iter `{b}`", block->name,
                      iter.var->name)
            .about_block(block->id.value);
      }
    }
  }
  return is_only_writer(root, block);
}

Status is_complete_or_reduction(const Stmt* root, const Block* block) {
  return accumulates(block) ? is_reduction(root, block) : is_complete(root, block);
}

}  // namespace tw
