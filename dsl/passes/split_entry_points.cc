#include "dsl/passes/split_entry_points.h"

#include <algorithm>

#include "dsl/ir/walk.h"

namespace tw {
namespace {

using Buffers = std::vector<const Buffer*>;

bool contains(const Buffers& list, const Buffer* buffer) {
  return std::find(list.begin(), list.end(), buffer) != list.end();
}
void add(Buffers& list, const Buffer* buffer) {
  if (!contains(list, buffer)) list.push_back(buffer);
}

bool is_prepack(const Block* block) {
  const Annotation* mark = find_annotation(block->annotations, "prepack");
  return mark && mark->value.integer == 1;
}

struct Accesses {
  Buffers read, written;
};
Accesses accesses_of(const Stmt* stmt) {
  Accesses out;
  walk(stmt, [&](const Node* node) {
    if (const Load* load = as<Load>(node)) add(out.read, load->buffer);
    if (const Store* store = as<Store>(node)) {
      for (const StoreTarget& target : store->targets) add(out.written, target.buffer);
    }
    return true;
  });
  return out;
}

// The top-level nests, divided.
struct Nests {
  std::vector<const Stmt*> run, prepack;
};
Result<Nests> divide(const Stmt* body) {
  Nests out;
  std::vector<const Stmt*> nests;
  if (const Seq* seq = as<Seq>(body))
    nests.assign(seq->stmts.begin(), seq->stmts.end());
  else if (body)
    nests.push_back(body);
  for (const Stmt* nest : nests) {
    const Block *marked = nullptr, *plain = nullptr;
    for_each<Block>(nest, [&](const Block* block) { (is_prepack(block) ? marked : plain) = block; });
    if (marked && plain) {
      return reject(
                 "prepack: block `{a}` shares a loop nest with block `{b}`; it must be a nest of its own at the top "
                 "level",
                 marked->name, plain->name)
          .about_block(marked->id.value)
          .about_block(plain->id.value);
    }
    (marked ? out.prepack : out.run).push_back(nest);
  }
  return out;
}

// A load, or a load inside bounds and a number outside of them.
bool is_copied(const Expr* value) {
  if (const Select* select = as<Select>(value)) {
    return as<Load>(select->then) && (as<FloatImm>(select->otherwise) || as<IntImm>(select->otherwise));
  }
  return as<Load>(value) != nullptr;
}

// What holds elements of inputs with a free layout: these inputs, and what prepack makes of them.
Buffers holders_of_inputs(const Program& program, const Accesses& accesses, const Stmt* prepack) {
  Buffers out;
  for (const Buffer* buffer : accesses.read) {
    if (has_free_layout(program, buffer)) out.push_back(buffer);
  }
  for (std::size_t known = 0; known != out.size();) {
    known = out.size();
    for_each<Block>(prepack, [&](const Block* block) {
      Accesses own = accesses_of(block);
      if (std::none_of(own.read.begin(), own.read.end(), [&](const Buffer* b) { return contains(out, b); })) return;
      for (const Buffer* buffer : own.written) add(out, buffer);
    });
  }
  return out;
}

// What depends on an input with a free layout may be moved before the run, not computed there.
Status check_copies(const Program& program, const Accesses& accesses, const Stmt* prepack) {
  Buffers holders = holders_of_inputs(program, accesses, prepack);
  const Block* wrong = nullptr;
  for_each<Block>(prepack, [&](const Block* block) {
    bool computes = false, reads_input = false;
    walk(block, [&](const Node* node) {
      if (const Store* store = as<Store>(node)) {
        for (const Expr* value : store->values) computes |= !is_copied(value);
      }
      if (const Load* load = as<Load>(node)) reads_input |= contains(holders, load->buffer);
      return true;
    });
    if (computes && reads_input) wrong = block;
  });
  if (!wrong) return ok();
  return reject("prepack: block `{a}` computes with an input; of inputs with a free layout it may only make copies",
                wrong->name)
      .about_block(wrong->id.value);
}

Status check_prepack(const Program& program, const Accesses& prepack, const Accesses& run) {
  for (const Buffer* buffer : prepack.written) {
    if (is_param(program, buffer))
      return reject("prepack: writes `{a}`, which is a parameter; it may write locals only", buffer->name);
    if (contains(run.written, buffer)) return reject("prepack: `{a}` is also written outside of prepack", buffer->name);
  }
  for (const Buffer* buffer : prepack.read) {
    if (is_prepackable(program, buffer) || contains(prepack.written, buffer)) continue;
    return reject("prepack: reads `{a}`, which is not constant and has no free layout", buffer->name);
  }
  return ok();
}

Array<Param> run_params(Arena& arena, const Program& program, const Accesses& prepack, const Accesses& run) {
  std::vector<Param> inputs, constants, packed, outputs;
  for (const Param& param : program.params) {
    if (param.role == Role::Output) outputs.push_back(param);
    bool moved = contains(prepack.read, param.buffer) && !contains(run.read, param.buffer);
    if (param.role == Role::Input && !moved) inputs.push_back(param);
    if (param.role == Role::Constant && !moved) constants.push_back(param);
  }
  for (const Buffer* buffer : prepack.written) {
    if (contains(run.read, buffer)) packed.push_back({buffer, Role::Constant});
  }
  for (auto* part : {&constants, &packed, &outputs}) inputs.insert(inputs.end(), part->begin(), part->end());
  return arena.copy(inputs);
}

Array<Param> prepack_params(Arena& arena, const Program& program, const Accesses& prepack) {
  std::vector<Param> out;
  for (const Param& param : program.params) {
    if (contains(prepack.read, param.buffer)) out.push_back(param);
  }
  for (const Buffer* buffer : prepack.written) out.push_back({buffer, Role::Output});
  return arena.copy(out);
}

}  // namespace

Result<EntryPoints> split_entry_points(Arena& arena, const Program& program) {
  TW_TRY(Nests nests, divide(program.body));
  EntryPoints out{program, program};
  out.prepack.body = nullptr;
  if (nests.prepack.empty()) return out;
  Build build{arena};
  out.prepack.body = build.seq(nests.prepack);
  out.run.body = build.seq(nests.run);
  Accesses prepack = accesses_of(out.prepack.body), run = accesses_of(out.run.body);
  TW_TRY_STATUS(check_prepack(program, prepack, run));
  TW_TRY_STATUS(check_copies(program, prepack, out.prepack.body));
  out.run.params = run_params(arena, program, prepack, run);
  out.prepack.params = prepack_params(arena, program, prepack);
  Buffers locals;
  for (const Buffer* local : program.locals) {
    if (!contains(prepack.written, local)) locals.push_back(local);
  }
  out.run.locals = arena.copy(locals);
  out.prepack.locals = {};
  return out;
}

}  // namespace tw
