#include "dsl/schedule/copy.h"

#include <algorithm>

#include "dsl/analysis/block_info.h"
#include "dsl/analysis/region.h"
#include "dsl/schedule/move.h"

namespace tw {
namespace {

// The name of the iter that a block uses as the d-th index of either buffer, or "" if there is none.
Str iter_name(const Block* block, const Buffer* a, const Buffer* b, std::size_t d) {
  for (const Access& access : accesses_of(block)) {
    if (access.buffer != a && access.buffer != b) continue;
    if (const Var* var = as<Var>(access.indices[d])) return var->name;
  }
  return "";
}

}  // namespace

Result<Scope> scope_named(const State& state, Str name) {
  if (std::optional<Scope> scope = parse_scope(name)) return *scope;
  return reject("`{a}` is no scope; expected global, register, shared, local or global.vtcm", state.arena().text(name));
}

Result<const Buffer*> buffer_at(const Block* block, const List<const Buffer*>& buffers, i64 index, Str what) {
  i64 count = static_cast<i64>(buffers.size());
  if (index >= 0 && index < count) return buffers[static_cast<std::size_t>(index)];
  return reject("block `{a}` has {1} buffers that are {b}, expected an index from 0, found {0}", block->name, what,
                index, count)
      .about_block(block->id.value);
}

Result<const Buffer*> local_written_by(const State& state, const Block* block, i64 write_index) {
  TW_TRY(const Buffer* buffer, buffer_at(block, buffers_written(block), write_index, "written"));
  if (!is_param(state.program(), buffer)) return buffer;
  return reject("`{a}`, which block `{b}` writes, is a parameter and stays as it is", buffer->name, block->name)
      .about_block(block->id.value);
}

Status is_below(const Path& path, const For* loop) {
  if (path.index_of(loop) >= 0) return ok();
  const Block* block = static_cast<const Block*>(path.back());
  return reject("loop `{a}` is not around block `{b}`", loop->var->name, block->name)
      .about_loop(loop->id.value)
      .about_block(block->id.value);
}

bool loads_of(const Block* block, const Buffer* buffer) {
  bool found = false;
  for_each<Load>(block, [&](const Load* load) { found |= load->buffer == buffer; });
  return found;
}

Result<Array<const Expr*>> only_indices(const Block* block, const Buffer* buffer) {
  const Array<const Expr*>* first = nullptr;
  bool same = true;
  auto meet = [&](const Buffer* accessed, const Array<const Expr*>& indices) {
    if (accessed != buffer) return;
    if (!first) first = &indices;
    same = same && same_exprs(*first, indices);
  };
  walk(block, [&](const Node* node) {
    if (const Load* load = as<Load>(node)) meet(load->buffer, load->indices);
    if (const Store* store = as<Store>(node)) {
      for (const StoreTarget& target : store->targets) meet(target.buffer, target.indices);
    }
    return true;
  });
  TW_CHECK(first, "the block does not access the buffer");
  if (same) return *first;
  return reject("block `{a}` accesses `{b}` at different indices", block->name, buffer->name)
      .about_block(block->id.value);
}

Result<List<const Block*>> consumers_named(const State& state, Array<BlockId> ids, const Buffer* buffer) {
  List<const Block*> named;
  for (BlockId id : ids) {
    TW_TRY(const Block* block, state.block(id));
    if (std::find(named.begin(), named.end(), block) != named.end()) {
      return reject("block `{a}` stands twice among the consumers", block->name).about_block(id.value);
    }
    if (!reads_buffer(block, buffer)) {
      return reject("consumer `{a}` does not read `{b}`", block->name, buffer->name).about_block(id.value);
    }
    named.push_back(block);
  }
  List<const Block*> order = blocks_in(state.program().body);
  std::erase_if(order, [&](const Block* block) { return std::find(named.begin(), named.end(), block) == named.end(); });
  return order;
}

VarRanges ranges_to(const Path& path, int at) {
  VarRanges ranges;
  for (int i = 0; i < at; ++i) {
    if (const For* loop = as<For>(path[i])) ranges.set_extent(loop->var, loop->extent);
  }
  return ranges;
}

int highest_without_writer(const Path& path, const Buffer* buffer) {
  for (int i = 0; i < path.size(); ++i) {
    if (!as<Seq>(path[i]) && writers_of(path[i], buffer).empty()) return i;
  }
  return -1;
}

Status is_written_before(const State& state, const Block* block, const Buffer* buffer) {
  List<const Block*> order = blocks_in(state.program().body);
  for (const Block* writer : writers_of(state.program().body, buffer)) {
    if (order_of(order, writer) > order_of(order, block)) {
      return reject("block `{a}` reads what block `{b}` writes only later", block->name, writer->name)
          .about_block(block->id.value)
          .about_block(writer->id.value);
    }
  }
  return ok();
}

int highest_without_reader(const Path& path, const Buffer* buffer, const List<const Block*>& but_for) {
  auto is_read = [&](const Stmt* stmt) {
    List<const Block*> readers = readers_of(stmt, buffer);
    return std::any_of(readers.begin(), readers.end(), [&](const Block* reader) {
      return std::find(but_for.begin(), but_for.end(), reader) == but_for.end();
    });
  };
  int at = 0;
  while (as<Seq>(path[at]) || is_read(path[at])) ++at;
  return at;
}

namespace {

// Index in the path of the first statement below the loops that are around another block, too; 0 if there are none
// before path[at].
int below_shared_loops(const Path& path, int at, const Path& other) {
  int below = 0;
  for (int i = 0; i < at && i < other.size() && path[i] == other[i]; ++i) {
    const For* loop = as<For>(path[i]);
    if (loop && loop->extent > 1) below = i + 1;
  }
  return below;
}

// All that the readers read in the whole program, without the ends that of_what_is_written leaves out.
Region read_in_all(const State& state, const List<const Block*>& readers, const Buffer* buffer) {
  const Stmt* root = state.program().body;
  Region read = *region_of(state.arena(), root, buffer, AccessKind::Read, {}, readers);
  Region written = *region_of(state.arena(), root, buffer, AccessKind::Write, {});
  for (std::size_t d = 0; d < read.dims.size(); ++d) {
    std::optional<i64> from = constant_of(read.dims[d].min), first = constant_of(written.dims[d].min);
    if (from && first) read.dims[d].extent = std::min(read.dims[d].extent, *first + written.dims[d].extent - *from);
  }
  return read;
}

}  // namespace

Status somebody_writes_all_of(const State& state, const Region& box, const Path& path, int at, const Region* in_all) {
  List<const Block*> writers = writers_of(state.program().body, box.buffer);
  bool is_written =
      writers.empty() || std::any_of(writers.begin(), writers.end(), [&](const Block* writer) {
        // In an iteration of loops that the writer shares with the copy only what this iteration writes is there for
        // sure.
        int below = below_shared_loops(path, at, *state.path_to(writer->id));
        Region written =
            *region_of(state.arena(), path[below], box.buffer, AccessKind::Write, ranges_to(path, below), writer);
        return written.exact && contains(written, in_all && below == 0 ? *in_all : box, ranges_to(path, at));
      });
  if (is_written) return ok();
  return reject("cannot prove that all of the box of `{a}` that would be copied is written", box.buffer->name);
}

Status is_all_written(const State& state, const List<const Block*>& readers, const Region& box, const Path& path,
                      int at) {
  if (box.exact || writers_of(state.program().body, box.buffer).empty()) return ok();
  Region in_all = read_in_all(state, readers, box.buffer);
  return somebody_writes_all_of(state, box, path, at, &in_all);
}

const Block* copy_block(State& state, Str name, const Buffer* from, const Buffer* to, const Block* like) {
  Build build = state.build();
  List<IterVar> iters;
  List<const Expr*> indices;
  for (std::size_t d = 0; d < to->shape.size(); ++d) {
    Str wanted = iter_name(like, from, to, d);
    const Var* var = state.fresh_var(wanted.empty() ? state.name("a", std::to_string(d)) : wanted);
    iters.push_back({var, to->shape[d], IterKind::S});
    indices.push_back(var);
  }
  Array<const Expr*> at = state.arena().copy(indices);
  Block* block = state.arena().make<Block>(Block{});
  block->kind = Kind::Block;
  block->id = state.fresh_block();
  block->name = state.fresh_block_name(name);
  block->iters = state.arena().copy(iters);
  block->body = build.store(to, at, build.load(from, at));
  return block;
}

const Block* of_what_is_written(State& state, const Block* copy, const Buffer* from) {
  std::optional<Region> written = region_of(state.arena(), state.program().body, from, AccessKind::Write, {});
  if (!written) return copy;
  List<IterVar> iters(copy->iters.begin(), copy->iters.end());
  for (std::size_t d = 0; d < iters.size(); ++d) {
    std::optional<i64> min = constant_of(written->dims[d].min);
    if (min) iters[d].extent = std::min(iters[d].extent, *min + written->dims[d].extent);
  }
  Block* out = state.arena().make<Block>(*copy);
  out->iters = state.arena().copy(iters);
  return out;
}

const Block* redirect_loads(Arena& arena, const Block* block, const Buffer* from, const Buffer* to) {
  Build build{arena};
  auto change = [&](const Expr* e) {
    const Load* load = as<Load>(e);
    return load && load->buffer == from ? build.load(to, load->indices) : e;
  };
  const Stmt* init = block->init ? rewrite_exprs(arena, block->init, change) : nullptr;
  return build.with_body(block, init, rewrite_exprs(arena, block->body, change));
}

}  // namespace tw
