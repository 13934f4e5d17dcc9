#include "dsl/passes/unroll_loops.h"

#include "dsl/ir/walk.h"
#include "dsl/passes/check_intrinsics.h"
#include "dsl/passes/cost.h"

namespace tw {
namespace {

class Unrolling {
 public:
  explicit Unrolling(Arena& arena) : arena_(arena), build_{arena} {}

  const Stmt* stmt(const Stmt* s) {
    const For* loop = as<For>(s);
    if (loop && loop->loop_kind == LoopKind::Unroll) return unroll(loop);
    if (const Store* one = as<Store>(s)) return values_.empty() ? s : store(one);
    return with_children(arena_, s, map());
  }

 private:
  ChildMap map() {
    return {this, [](void* self, const Expr* e) { return static_cast<Unrolling*>(self)->expr(e); },
            [](void* self, const Stmt* s) { return static_cast<Unrolling*>(self)->stmt(s); }};
  }

  const Stmt* unroll(const For* loop) {
    std::vector<const Stmt*> copies;
    for (i64 i = 0; i < loop->extent; ++i) {
      values_.emplace_back(loop->var, build_.integer(i));
      copies.push_back(marked(loop, stmt(loop->body)));
      values_.pop_back();
    }
    return build_.seq(copies);
  }

  // A mark for the backend must survive: each copy is a loop of one iteration that carries it.
  const Stmt* marked(const For* loop, const Stmt* body) {
    if (!body || !find_annotation(loop->annotations, "hide_address")) return body;
    For* copy = arena_.make<For>(*loop);
    copy->extent = 1;
    copy->loop_kind = LoopKind::Serial;
    copy->body = body;
    return copy;
  }

  const Expr* expr(const Expr* e) {
    if (const Var* var = as<Var>(e)) {
      for (const auto& [from, to] : values_) {
        if (from == var) return to;
      }
      return e;
    }
    if (e->kind == Kind::IntImm || e->kind == Kind::FloatImm || values_.empty()) return e;
    return with_children(arena_, e, map());
  }

  // with_children, without its temporary list: there are thousands of these.
  const Stmt* store(const Store* s) {
    if (s->targets.size() != 1) return with_children(arena_, s, map());
    const StoreTarget& target = s->targets[0];
    const Expr *index = expr(target.indices[0]), *value = expr(s->values[0]);
    if (index == target.indices[0] && value == s->values[0]) return s;
    return build_.store(target.buffer, arena_.list<const Expr*>({index}), value);
  }

  Arena& arena_;
  Build build_;
  std::vector<std::pair<const Var*, const Expr*>> values_;
};

bool is_fixed(const Expr* index) {
  if (const Ramp* ramp = as<Ramp>(index)) return is_fixed(ramp->base) && is_fixed(ramp->stride);
  if (const Broadcast* broadcast = as<Broadcast>(index)) return is_fixed(broadcast->value);
  return index->kind == Kind::IntImm;
}

Status check_registers(const Stmt* body) {
  const Buffer* wrong = nullptr;
  auto check = [&](const Buffer* buffer, Array<const Expr*> indices) {
    if (buffer->scope == Scope::Register && !is_fixed(indices[0])) wrong = buffer;
  };
  walk(body, [&](const Node* node) {
    const For* loop = as<For>(node);
    if (loop && is_one_instruction(loop)) return false;  // check_intrinsics looks at these
    if (const Load* load = as<Load>(node)) check(load->buffer, load->indices);
    if (const Store* store = as<Store>(node)) {
      for (const StoreTarget& target : store->targets) check(target.buffer, target.indices);
    }
    return !wrong;
  });
  if (wrong)
    return reject("register buffer `{a}`: an index is not constant after unrolling and vectorizing", wrong->name);
  return ok();
}

}  // namespace

Result<Program> unroll_loops(Arena& arena, Program program, const LoweringOptions& options) {
  if (!program.body) return program;
  i64 code = code_of_largest_nest(program.body, options);
  if (code > options.max_instructions) {
    return reject("unrolled code of a nest of loops of `{a}` would have {0} vector operations; at most {1} are allowed",
                  program.name, code, options.max_instructions);
  }
  program.body = Unrolling(arena).stmt(program.body);
  TW_TRY_STATUS(check_registers(program.body));
  return program;
}

}  // namespace tw
