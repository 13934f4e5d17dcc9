#include "dsl/ir/print.h"

#include <charconv>
#include <cmath>
#include <unordered_map>
#include <unordered_set>

#include "dsl/base/text.h"

namespace tw {

std::string print_number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, value);
  std::string text(buffer, end);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

int strength(BinaryOp op) {
  switch (op) {
    case BinaryOp::Or:
      return 1;
    case BinaryOp::And:
      return 2;
    case BinaryOp::Lt:
    case BinaryOp::Le:
    case BinaryOp::Gt:
    case BinaryOp::Ge:
    case BinaryOp::Eq:
    case BinaryOp::Ne:
      return 4;
    case BinaryOp::Add:
    case BinaryOp::Sub:
      return 5;
    case BinaryOp::Mul:
    case BinaryOp::Div:
    case BinaryOp::FloorDiv:
    case BinaryOp::FloorMod:
      return 6;
    case BinaryOp::Min:
    case BinaryOp::Max:
      return 9;  // printed as a call
  }
  return 0;
}

namespace {

class Printer {
 public:
  explicit Printer(const PrintMarks& marks) : marks_(marks) {}

  std::string program(const Program& p) {
    std::vector<std::string> params;
    for (const Param& param : p.params) {
      params.push_back(cat(claim(param.buffer), ": ", name_of(param.role), " ", buffer_type(param.buffer)));
    }
    line(cat("program ", p.name, "(", join(params, ", "), ")", annotations(p.annotations), " {"));
    ++depth_;
    if (p.tolerance.absolute != 0 || p.tolerance.relative != 0) {
      line(cat("tolerance ", print_number(p.tolerance.absolute), ", ", print_number(p.tolerance.relative)));
    }
    for (const Buffer* local : p.locals) line(cat("local ", claim(local), ": ", buffer_type(local)));
    if (p.body) stmt(p.body);
    --depth_;
    line("}");
    return std::move(out_);
  }

  std::string statement(const Stmt* s) {
    stmt(s);
    return std::move(out_);
  }

  std::string expr(const Expr* e, int outer = 0) {
    switch (e->kind) {
      case Kind::IntImm: {
        auto* n = static_cast<const IntImm*>(e);
        if (n->type.dtype == DType::Bool) return n->value ? "true" : "false";
        if (n->type.dtype == DType::I64) return std::to_string(n->value);
        return cat(name_of(n->type.dtype), "(", n->value, ")");
      }
      case Kind::FloatImm: {
        auto* n = static_cast<const FloatImm*>(e);
        std::string text = print_number(n->value);
        return n->type.dtype == DType::F32 ? text : cat(name_of(n->type.dtype), "(", text, ")");
      }
      case Kind::Var:
        return name(static_cast<const Var*>(e));
      case Kind::Cast:
        return cat(name_of(e->type.dtype), "(", expr(static_cast<const Cast*>(e)->value), ")");
      case Kind::Unary: {
        auto* n = static_cast<const Unary*>(e);
        return n->op == UnaryOp::Neg ? cat("-", expr(n->value, 8))
                                     : parenthesize(outer > 3, cat("not ", expr(n->value, 3)));
      }
      case Kind::Binary:
        return binary(static_cast<const Binary*>(e), outer);
      case Kind::Select: {
        auto* n = static_cast<const Select*>(e);
        return parenthesize(
            outer > 0, cat("if ", expr(n->condition, 1), " then ", expr(n->then, 1), " else ", expr(n->otherwise, 0)));
      }
      case Kind::Call: {
        auto* n = static_cast<const Call*>(e);
        return cat(name_of(n->function), "(", list(n->arguments), ")");
      }
      case Kind::Load: {
        auto* n = static_cast<const Load*>(e);
        return cat(name(n->buffer), "[", list(n->indices), "]");
      }
      case Kind::Ramp: {
        auto* n = static_cast<const Ramp*>(e);
        return cat("ramp(", expr(n->base), ", ", expr(n->stride), ", ", n->type.lanes, ")");
      }
      case Kind::Broadcast:
        return cat("broadcast(", expr(static_cast<const Broadcast*>(e)->value), ", ", e->type.lanes, ")");
      case Kind::Store:
      case Kind::Seq:
      case Kind::If:
      case Kind::For:
      case Kind::Block:
      case Kind::Alloc:
        break;  // statements
    }
    return "?";
  }

 private:
  static std::string parenthesize(bool yes, std::string text) { return yes ? "(" + text + ")" : text; }

  std::string binary(const Binary* n, int outer) {
    if (n->op == BinaryOp::Min || n->op == BinaryOp::Max)
      return cat(name_of(n->op), "(", expr(n->a), ", ", expr(n->b), ")");
    int own = strength(n->op);
    // Left-associative: the right operand needs parentheses at equal strength; comparisons do not chain.
    bool chains = own != 4;
    return parenthesize(outer > own,
                        cat(expr(n->a, chains ? own : own + 1), " ", name_of(n->op), " ", expr(n->b, own + 1)));
  }

  std::string list(Array<const Expr*> exprs) {
    std::vector<std::string> parts;
    for (const Expr* e : exprs) parts.push_back(expr(e));
    return join(parts, ", ");
  }

  static std::string buffer_type(const Buffer* buffer) {
    std::string scope = buffer->scope == Scope::Global ? "" : cat(" in ", name_of(buffer->scope));
    std::string layout = buffer->layout.empty() ? "" : cat(" layout ", quote(buffer->layout));
    std::string rules;
    for (const StrideRule& rule : buffer->stride_rules)
      rules += cat(" align(", rule.axis, ", ", rule.factor, ", ", rule.offset, ")");
    return cat(name_of(buffer->dtype), "[", join(buffer->shape, ", "), "]", scope, layout, rules);
  }

  std::string annotations(Array<Annotation> list) {
    std::string text;
    for (const Annotation& a : list) {
      text += cat(" @", a.key, " = ", print(a.value));
    }
    return text;
  }

  void stmt(const Stmt* s) {
    switch (s->kind) {
      case Kind::Store: {
        auto* n = static_cast<const Store*>(s);
        std::vector<std::string> left, right;
        for (const StoreTarget& t : n->targets) left.push_back(cat(name(t.buffer), "[", list(t.indices), "]"));
        for (const Expr* value : n->values) right.push_back(expr(value));
        return line(cat(join(left, ", "), " = ", join(right, ", ")));
      }
      case Kind::Seq:
        for (const Stmt* child : static_cast<const Seq*>(s)->stmts) stmt(child);
        return;
      case Kind::If: {
        auto* n = static_cast<const If*>(s);
        line(cat("if ", expr(n->condition), " {"));
        nested(n->then);
        if (n->otherwise) {
          line("} else {");
          nested(n->otherwise);
        }
        return line("}");
      }
      case Kind::For:
        return loop(static_cast<const For*>(s));
      case Kind::Block:
        return block(static_cast<const Block*>(s));
      case Kind::Alloc: {
        auto* n = static_cast<const Alloc*>(s);
        line(cat("alloc ", claim(n->buffer), ": ", buffer_type(n->buffer), " {"));
        nested(n->body);
        return line("}");
      }
      case Kind::IntImm:
      case Kind::FloatImm:
      case Kind::Var:
      case Kind::Cast:
      case Kind::Unary:
      case Kind::Binary:
      case Kind::Select:
      case Kind::Call:
      case Kind::Load:
      case Kind::Ramp:
      case Kind::Broadcast:
        break;  // expressions
    }
    line("?");
  }

  void loop(const For* n) {
    std::string prefix;
    if (n->loop_kind == LoopKind::Bind)
      prefix = cat("bind ", n->thread, " ");
    else if (n->loop_kind != LoopKind::Serial)
      prefix = cat(name_of(n->loop_kind), " ");
    std::string shown = push(n->var);
    line(cat(prefix, "for ", shown, " in ", n->extent, annotations(n->annotations), " {"), remark(n->id, {}));
    nested(n->body);
    line("}");
    pop(n->var);
  }

  void block(const Block* n) {
    std::vector<std::string> bindings;
    for (const Expr* binding : n->bindings) bindings.push_back(expr(binding));
    std::string where = n->predicate ? cat(" where ", expr(n->predicate)) : "";
    std::vector<std::string> heads;
    std::unordered_set<std::string> outer;
    outer.swap(taken_);  // iters hide the loops around; buffers keep their names
    for (const std::string& b : buffer_names_) taken_.insert(b);
    for (std::size_t i = 0; i < n->iters.size(); ++i) {
      const IterVar& iter = n->iters[i];
      heads.push_back(
          cat(push(iter.var), ": ", iter.kind == IterKind::S ? "S" : "R", " ", iter.extent, " = ", bindings[i]));
    }
    line(cat("block ", n->name, "(", join(heads, ", "), ")", where, annotations(n->annotations), " {"),
         remark({}, n->id));
    ++depth_;
    if (n->init) {
      line("init {");
      nested(n->init);
      line("}");
    }
    stmt(n->body);
    --depth_;
    line("}");
    for (const IterVar& iter : n->iters) pop(iter.var);
    taken_.swap(outer);
  }

  void nested(const Stmt* s) {
    ++depth_;
    stmt(s);
    --depth_;
  }

  std::string remark(LoopId loop, BlockId block) const {
    for (const PrintMarks::Mark& mark : marks_.marks) {
      if ((loop.value && mark.loop == loop) || (block.value && mark.block == block))
        return mark.remark.empty() ? "here" : mark.remark;
    }
    return "";
  }

  void line(const std::string& text, const std::string& remark = "") {
    std::string margin = marks_.marks.empty() ? "" : remark.empty() ? "  " : "> ";
    out_ += cat(margin, std::string(2 * depth_, ' '), text, remark.empty() ? "" : cat("    # ", remark), "\n");
  }

  std::string fresh(Str wanted) {
    std::string base = wanted.empty() ? "v" : std::string(wanted), name = base;
    for (int i = 1; taken_.count(name); ++i) name = cat(base, "_", i);
    taken_.insert(name);
    return name;
  }
  std::string push(const Var* var) { return names_[var] = fresh(var->name); }
  void pop(const Var* var) { taken_.erase(names_[var]); }
  std::string name(const Var* var) {
    auto at = names_.find(var);
    return at == names_.end() ? std::string(var->name) : at->second;
  }
  std::string claim(const Buffer* buffer) {
    std::string shown = fresh(buffer->name);
    buffer_names_.push_back(shown);
    return buffers_[buffer] = shown;
  }
  std::string name(const Buffer* buffer) {
    auto at = buffers_.find(buffer);
    return at == buffers_.end() ? std::string(buffer->name) : at->second;
  }

  const PrintMarks& marks_;
  std::string out_;
  int depth_ = 0;
  std::unordered_map<const Var*, std::string> names_;
  std::unordered_map<const Buffer*, std::string> buffers_;
  std::vector<std::string> buffer_names_;
  std::unordered_set<std::string> taken_;
};

const PrintMarks kNoMarks;

}  // namespace

std::string print(const Program& program, const PrintMarks& marks) { return Printer(marks).program(program); }
std::string print(const Stmt* stmt) { return Printer(kNoMarks).statement(stmt); }
std::string print(const Expr* expr) { return Printer(kNoMarks).expr(expr); }

std::string print(const Literal& value) {
  switch (value.tag) {
    case Literal::Tag::Int:
      return std::to_string(value.integer);
    case Literal::Tag::Text:
      return quote(value.text);
    case Literal::Tag::Number:
      return print_number(value.number);
    case Literal::Tag::List:
    case Literal::Tag::Dictionary:
      break;
  }
  bool is_list = value.is(Literal::Tag::List);
  std::vector<std::string> items;
  for (std::size_t i = 0; i < value.items.size(); ++i) {
    items.push_back(is_list ? print(value.items[i]) : cat(quote(value.keys[i]), ": ", print(value.items[i])));
  }
  return cat(is_list ? "[" : "{", join(items, ", "), is_list ? "]" : "}");
}

}  // namespace tw
