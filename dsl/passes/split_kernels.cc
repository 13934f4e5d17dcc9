#include "dsl/passes/split_kernels.h"

#include <algorithm>
#include <map>

#include "dsl/base/text.h"
#include "dsl/ir/walk.h"
#include "dsl/passes/lifetimes.h"

namespace tw {
namespace {

constexpr i64 kAlignment = 256;  // bytes; of buffers in scratch memory

using Buffers = std::vector<const Buffer*>;

bool contains(const Buffers& list, const Buffer* buffer) {
  return std::find(list.begin(), list.end(), buffer) != list.end();
}

Buffers buffers_in(const Stmt* nest) {
  Buffers out;
  auto add = [&](const Buffer* buffer) {
    if (!contains(out, buffer)) out.push_back(buffer);
  };
  walk(nest, [&](const Node* node) {
    if (const Load* load = as<Load>(node)) add(load->buffer);
    if (const Store* store = as<Store>(node)) {
      for (const StoreTarget& target : store->targets) add(target.buffer);
    }
    return true;
  });
  return out;
}

Str name_of_nest(Arena& arena, const Stmt* nest, std::size_t position) {
  Str name = {};
  for_each<Block>(nest, [&](const Block* block) { name = block->name; });  // the last: it gives what the nest is for
  return arena.text(cat(name.empty() ? "nest" : name, "_", position));
}

// Offsets of the locals that several nests touch. Kernels run one after another: from the first to the last that
// touches a buffer it is needed.
Result<std::map<const Buffer*, i64>> place_scratch(const Program& entry, const std::vector<Buffers>& touched,
                                                   i64& bytes) {
  Buffers stored;
  std::vector<StorageNeed> needs;
  for (const Buffer* local : entry.locals) {
    std::vector<i64> users;
    for (std::size_t n = 0; n < touched.size(); ++n) {
      if (contains(touched[n], local)) users.push_back(static_cast<i64>(n));
    }
    if (users.size() < 2) continue;
    if (local->scope != Scope::Global) {
      return reject("buffer `{a}` in scope {b} is used by several kernels; only global memory outlives one",
                    local->name, Str(name_of(local->scope)));
    }
    stored.push_back(local);
    needs.push_back({{users.front(), users.back()}, bytes_of(local)});
  }
  StoragePlan plan = first_fit(needs, kAlignment);
  bytes = plan.bytes;
  std::map<const Buffer*, i64> offsets;
  for (std::size_t i = 0; i < stored.size(); ++i) offsets[stored[i]] = plan.offsets[i];
  return offsets;
}

}  // namespace

i64 take_scratch(const Buffer* buffer, i64& bytes) {
  i64 offset = bytes;
  bytes += (bytes_of(buffer) + kAlignment - 1) / kAlignment * kAlignment;
  return offset;
}

Result<SplitKernels> split_kernels(Arena& arena, const Program& entry) {
  std::vector<const Stmt*> nests;
  if (const Seq* seq = as<Seq>(entry.body))
    nests.assign(seq->stmts.begin(), seq->stmts.end());
  else if (entry.body)
    nests.push_back(entry.body);
  std::vector<Buffers> touched;
  for (const Stmt* nest : nests) touched.push_back(buffers_in(nest));
  SplitKernels out;
  TW_TRY(auto offsets, place_scratch(entry, touched, out.scratch_bytes));
  for (std::size_t n = 0; n < nests.size(); ++n) {
    SplitKernel kernel{entry, {}};
    std::vector<Param> params;
    Buffers locals;
    for (std::size_t i = 0; i < entry.params.size(); ++i) {
      if (!contains(touched[n], entry.params[i].buffer)) continue;
      params.push_back(entry.params[i]);
      kernel.params.push_back({false, static_cast<i64>(i)});
    }
    for (const Buffer* local : entry.locals) {
      auto scratch = offsets.find(local);
      if (!contains(touched[n], local)) continue;
      if (scratch == offsets.end()) {
        locals.push_back(local);
        continue;
      }
      params.push_back({local, Role::Output});
      kernel.params.push_back({true, scratch->second});
    }
    kernel.program.name = name_of_nest(arena, nests[n], n);
    kernel.program.params = arena.copy(params);
    kernel.program.locals = arena.copy(locals);
    kernel.program.body = nests[n];
    out.kernels.push_back(std::move(kernel));
  }
  return out;
}

}  // namespace tw
