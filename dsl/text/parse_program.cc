#include "dsl/text/parse_program.h"

#include <algorithm>

#include "dsl/base/text.h"
#include "dsl/ir/limits.h"
#include "dsl/text/program_expr.h"

namespace tw {
namespace {

constexpr i64 kMaxExtent = i64{1} << 40;

struct LoopWord {
  std::string_view word;
  LoopKind kind;
};
constexpr LoopWord kLoopWords[] = {
    {"parallel", LoopKind::Parallel}, {"vectorize", LoopKind::Vectorize}, {"unroll", LoopKind::Unroll}};

class ProgramParser {
 public:
  explicit ProgramParser(Parser& parser)
      : p_(parser), arena_(std::make_shared<Arena>()), build_{*arena_}, exprs_(*arena_, parser, names_) {}

  std::optional<OwnedProgram> run() {
    if (!head()) return std::nullopt;
    std::vector<const Stmt*> list;
    if (!settings() || !statements(list)) return std::nullopt;
    program_.body = build_.seq(list);
    program_.params = arena_->copy(params_);
    program_.locals = arena_->copy(locals_);
    if (p_.diagnostics().has_errors()) return std::nullopt;
    return OwnedProgram{arena_, program_};
  }

 private:
  // ---- head

  bool head() {
    if (!p_.expect("program")) return false;
    std::optional<Token> name = p_.expect_name("the name of the program");
    if (!name || !p_.expect("(")) return false;
    program_.name = arena_->text(name->text);
    while (!p_.at(")")) {
      if (!param()) return false;
      if (!p_.accept(",")) break;
    }
    return p_.expect(")") && annotations(program_.annotations) && p_.expect("{");
  }

  bool param() {
    std::optional<Str> name = new_name("the name of a parameter");
    if (!name || !p_.expect(":")) return false;
    Role role = Role::Input;
    if (p_.accept("const"))
      role = Role::Constant;
    else if (p_.accept("output"))
      role = Role::Output;
    else if (!p_.accept("input"))
      return p_.error_expected("`input`, `const` or `output`"), false;
    Span span = p_.peek().span;
    const Buffer* made = buffer(*name);
    if (made && !made->stride_rules.empty())
      return p_.error(span, "a parameter has no `align`: its strides are fixed"), false;
    if (made) params_.push_back({made, role});
    return made != nullptr;
  }

  std::optional<Str> new_name(std::string_view what) {
    std::optional<Token> token = p_.expect_name(what);
    if (!token) return std::nullopt;
    if (names_.is_buffer(token->text)) {
      p_.error(token->span, cat("there is already a buffer `", token->text, "` here"));
      return std::nullopt;
    }
    return arena_->text(token->text);
  }

  // f32[4, 5] in shared layout "..."; the buffer is known under its name from here on.
  const Buffer* buffer(Str name) {
    std::optional<Token> word = p_.expect_name("an element type");
    if (!word) return nullptr;
    std::optional<DType> type = parse_dtype(word->text);
    if (!type) {
      p_.error(word->span, cat("expected an element type, found `", word->text, "`"),
               "types are f64 f32 f16 bf16 i64 i32 i8 u8 bool");
      return nullptr;
    }
    std::vector<i64> shape;
    if (!p_.expect("[") || !dimensions(shape) || !p_.expect("]")) return nullptr;
    Buffer* made =
        arena_->make<Buffer>(BufferId{program_.next_buffer++}, name, *type, arena_->copy(shape), Scope::Global, Str{});
    if (p_.accept("in") && !scope(made->scope)) return nullptr;
    if (p_.accept("layout")) {
      std::optional<Str> layout = p_.expect_text("the text of `layout`");
      if (!layout) return nullptr;
      made->layout = arena_->text(*layout);
    }
    if (!stride_rules(made)) return nullptr;
    names_.push(made, name);
    return made;
  }

  // align(0, 32, 8) align(1, 4, 0)
  bool stride_rules(Buffer* buffer) {
    std::vector<StrideRule> rules;
    while (p_.at("align")) {
      Span span = p_.peek().span;
      p_.accept("align");
      std::optional<i64> axis, factor, offset;
      if (!p_.expect("(") || !(axis = p_.expect_integer("an axis"))) return false;
      if (!p_.expect(",") || !(factor = p_.expect_integer("a factor"))) return false;
      if (!p_.expect(",") || !(offset = p_.expect_integer("an offset")) || !p_.expect(")")) return false;
      bool known = std::any_of(rules.begin(), rules.end(), [&](const StrideRule& rule) { return rule.axis == *axis; });
      bool is_axis = *axis >= 0 && *axis < static_cast<i64>(buffer->shape.size());
      if (known || !is_axis || *factor < 1 || *factor > kMaxStrideFactor || *offset < 0 || *offset >= *factor) {
        p_.error(span, "expected align(axis, factor, offset): each axis once, 0 <= offset < factor <= 4096");
        return false;
      }
      rules.push_back({*axis, *factor, *offset});
    }
    buffer->stride_rules = arena_->copy(rules);
    return true;
  }

  bool dimensions(std::vector<i64>& shape) {
    i64 elements = 1;
    while (!p_.at("]")) {
      std::optional<i64> value = extent("a dimension");
      if (!value) return false;
      shape.push_back(*value);
      if (__builtin_mul_overflow(elements, *value, &elements) || elements > kMostElements) {
        p_.error(p_.peek().span, "this buffer has more than 2^45 elements");
        return false;
      }
      if (!p_.accept(",")) break;
    }
    return true;
  }

  std::optional<i64> extent(std::string_view what) {
    Span span = p_.peek().span;
    std::optional<i64> value = p_.expect_integer(what);
    if (value && (*value < 1 || *value > kMaxExtent)) {
      p_.error(span, cat("expected ", what, " from 1 to 2^40, found ", *value));
      return std::nullopt;
    }
    return value;
  }

  bool scope(Scope& scope) {
    std::optional<Scope> found = parse_scope(p_.peek().text);
    if (!found) {
      p_.error_expected("`global`, `register`, `shared`, `local` or `global.vtcm`");
      return false;
    }
    p_.take();
    if (*found == Scope::Global && p_.accept(".")) {
      if (!p_.expect("vtcm")) return false;
      found = Scope::Vtcm;
    }
    scope = *found;
    return true;
  }

  // blockIdx.x and the like, as one text.
  std::optional<Str> dotted(std::string_view what) {
    std::optional<Token> token = p_.expect_name(what);
    if (!token) return std::nullopt;
    std::string text(token->text);
    while (p_.accept(".")) {
      std::optional<Token> part = p_.expect_name(what);
      if (!part) return std::nullopt;
      text += cat(".", part->text);
    }
    return arena_->text(text);
  }

  bool annotations(Array<Annotation>& out) {
    std::vector<Annotation> list;
    while (p_.accept("@")) {
      std::optional<Str> key = dotted("the name of an annotation");
      if (!key || !p_.expect("=")) return false;
      std::optional<Literal> value = literal();
      if (!value) return false;
      list.push_back({*key, *value});
    }
    out = arena_->copy(list);
    return true;
  }

  std::optional<Literal> literal() {
    Parser::Nesting nesting(p_);
    if (!nesting) return std::nullopt;
    if (p_.peek().kind == TokenKind::Text) return Literal::of(arena_->text(*p_.expect_text("a text")));
    if (p_.accept("[")) return items_of(Literal::Tag::List, "]");
    if (p_.accept("{")) return items_of(Literal::Tag::Dictionary, "}");
    if (p_.peek(p_.at("-") ? 1 : 0).kind == TokenKind::Float) {
      return Literal{.tag = Literal::Tag::Number, .number = *p_.expect_number("a number")};
    }
    std::optional<i64> integer = p_.expect_integer("an integer, a number, a text, a list or a dictionary");
    return integer ? std::optional(Literal::of(*integer)) : std::nullopt;
  }

  std::optional<Literal> items_of(Literal::Tag tag, std::string_view close) {
    std::vector<Literal> items;
    std::vector<Str> keys;
    while (!p_.at(close)) {
      if (tag == Literal::Tag::Dictionary) {
        Span at = p_.peek().span;
        std::optional<Str> key = p_.expect_text("a key in quotes");
        if (!key || !p_.expect(":")) return std::nullopt;
        if (std::find(keys.begin(), keys.end(), *key) != keys.end())
          return p_.error(at, cat("the key ", quote(*key), " is there twice")), std::nullopt;
        keys.push_back(arena_->text(*key));
      }
      std::optional<Literal> item = literal();
      if (!item) return std::nullopt;
      items.push_back(*item);
      if (!p_.accept(",")) break;
    }
    if (!p_.expect(close)) return std::nullopt;
    return Literal{.tag = tag, .items = arena_->copy(items), .keys = arena_->copy(keys)};
  }

  bool settings() {
    if (p_.at("tolerance")) {
      p_.take();
      std::optional<double> absolute = p_.expect_number("the absolute tolerance");
      if (!absolute || !p_.expect(",")) return false;
      std::optional<double> relative = p_.expect_number("the relative tolerance");
      if (!relative || !p_.end_statement()) return false;
      program_.tolerance = {*absolute, *relative};
    }
    while (p_.at("local") && !p_.peek(1).is("[")) {
      p_.take();
      std::optional<Str> name = new_name("the name of a buffer");
      const Buffer* made = name && p_.expect(":") ? buffer(*name) : nullptr;
      if (!made || !p_.end_statement()) return false;
      locals_.push_back(made);
    }
    return true;
  }

  // ---- statements

  // Up to the closing brace, which is taken. False if the structure is lost; single wrong statements are skipped.
  bool statements(std::vector<const Stmt*>& list) {
    Parser::Nesting nesting(p_);
    if (!nesting) return false;
    while (!p_.at("}") && !p_.at_end()) {
      const Stmt* made = statement();
      if (made)
        list.push_back(made);
      else
        p_.recover();
    }
    return p_.expect("}");
  }

  const Stmt* body() {
    std::vector<const Stmt*> list;
    std::size_t begin = p_.here();
    if (!p_.expect("{") || !statements(list)) return nullptr;
    if (list.empty() && !p_.diagnostics().has_errors())
      p_.error(p_.span_from(begin), "expected a statement between `{` and `}`");
    return build_.seq(list);
  }

  const Stmt* statement() {
    if (p_.at("if")) return if_statement();
    if (p_.peek(1).is("[")) return store();
    if (p_.at("for") || p_.at("bind") || loop_word()) return loop();
    if (p_.accept("block")) return block();
    if (p_.accept("alloc")) return alloc();
    std::string near =
        closest(p_.peek().text, {"for", "parallel", "vectorize", "unroll", "bind", "block", "alloc", "if"});
    p_.error_expected("a statement", near.empty() ? "" : cat("did you mean `", near, "`?"));
    return nullptr;
  }

  const LoopWord* loop_word() const {
    auto at =
        std::find_if(std::begin(kLoopWords), std::end(kLoopWords), [&](const LoopWord& w) { return p_.at(w.word); });
    return at == std::end(kLoopWords) ? nullptr : at;
  }

  const Stmt* if_statement() {
    p_.take();
    const ast::Expr* text = p_.expr();
    const Expr* condition = text ? exprs_.condition(text) : nullptr;
    const Stmt* then = text ? body() : nullptr;
    if (!then) return nullptr;
    const Stmt* otherwise = nullptr;
    if (p_.accept("else") && !(otherwise = body())) return nullptr;
    return condition ? arena_->make<If>(Stmt{{Kind::If}}, condition, then, otherwise) : nullptr;
  }

  const Stmt* loop() {
    LoopKind kind = LoopKind::Serial;
    Str thread;
    if (p_.accept("bind")) {
      kind = LoopKind::Bind;
      std::optional<Str> name = dotted("the name of a thread axis");
      if (!name) return nullptr;
      thread = *name;
    } else if (const LoopWord* word = loop_word()) {
      kind = word->kind;
      p_.take();
    }
    if (!p_.expect("for")) return nullptr;
    std::optional<Str> name = new_name("the name of a loop variable");
    if (!name || !p_.expect("in")) return nullptr;
    std::optional<i64> count = extent("an extent");
    Array<Annotation> marks;
    if (!count || !annotations(marks)) return nullptr;
    const Var* var = build_.var(program_.next_var++, *name);
    LoopId id{program_.next_loop++};
    names_.push(var, *name);
    const Stmt* inside = body();
    names_.pop();
    return inside ? arena_->make<For>(Stmt{{Kind::For}}, id, var, *count, kind, thread, marks, inside) : nullptr;
  }

  const Stmt* alloc() {
    std::optional<Str> name = new_name("the name of a buffer");
    const Buffer* made = name && p_.expect(":") ? buffer(*name) : nullptr;
    if (!made) return nullptr;
    const Stmt* inside = body();
    names_.pop();
    return inside ? arena_->make<Alloc>(Stmt{{Kind::Alloc}}, made, inside) : nullptr;
  }

  const Stmt* store() {
    std::optional<std::vector<const ast::Expr*>> left = p_.exprs();
    if (!left || !p_.expect("=")) return nullptr;
    std::optional<std::vector<const ast::Expr*>> right = p_.exprs();
    if (!right) return nullptr;
    if (left->size() != right->size()) {
      p_.error(right->back()->span, cat("expected ", left->size(), " values, found ", right->size()));
      return nullptr;
    }
    std::vector<StoreTarget> targets;
    std::vector<const Expr*> values;
    for (std::size_t i = 0; i < left->size(); ++i) {
      std::optional<StoreTarget> target = exprs_.element((*left)[i]);
      const Expr* value = target ? exprs_.lower((*right)[i]) : nullptr;
      if (!value) return nullptr;
      if (value->type.dtype != target->buffer->dtype) {
        p_.error((*right)[i]->span,
                 cat("expected ", name_of(target->buffer->dtype), " for `", target->buffer->name, "`, found ",
                     to_string(value->type)),
                 "conversions are written out, as in `f32(x)`");
        return nullptr;
      }
      targets.push_back(*target);
      values.push_back(value);
    }
    if (!p_.end_statement()) return nullptr;
    return build_.store(arena_->copy(targets), arena_->copy(values));
  }

  // ---- blocks

  struct BlockHead {
    std::vector<IterVar> iters;
    std::vector<const Expr*> bindings;
  };

  // name: S 4 = binding. The bindings see the loops around, not the iters.
  bool iter(BlockHead& head) {
    std::optional<Str> name = new_name("the name of an iter");
    if (!name || !p_.expect(":")) return false;
    IterKind kind = p_.at("R") ? IterKind::R : IterKind::S;
    if (!p_.accept("S") && !p_.accept("R")) return p_.error_expected("`S` or `R`"), false;
    std::optional<i64> count = extent("an extent");
    if (!count || !p_.expect("=")) return false;
    const ast::Expr* text = p_.expr();
    const Expr* binding = text ? exprs_.index(text) : nullptr;
    if (!binding) return false;
    head.iters.push_back({build_.var(program_.next_var++, *name), *count, kind});
    head.bindings.push_back(binding);
    return true;
  }

  const Stmt* block() {
    std::optional<Token> name = p_.expect_name("the name of a block");
    if (!name || !p_.expect("(")) return nullptr;
    BlockHead head;
    while (!p_.at(")")) {
      if (!iter(head)) return nullptr;
      if (!p_.accept(",")) break;
    }
    if (!p_.expect(")")) return nullptr;
    Block* made = arena_->make<Block>(Stmt{{Kind::Block}}, BlockId{program_.next_block++}, arena_->text(name->text),
                                      arena_->copy(head.iters), arena_->copy(head.bindings));
    if (p_.accept("where")) {
      const ast::Expr* text = p_.expr();
      made->predicate = text ? exprs_.condition(text) : nullptr;
      if (!made->predicate) return nullptr;
    }
    if (!annotations(made->annotations)) return nullptr;
    std::size_t before = names_.enter_block();
    for (const IterVar& iter : head.iters) names_.push(iter.var, iter.var->name);
    bool fine = block_body(*made);
    for (std::size_t i = 0; i < head.iters.size(); ++i) names_.pop();
    names_.leave_block(before);
    return fine ? made : nullptr;
  }

  bool block_body(Block& made) {
    std::vector<const Stmt*> list;
    std::size_t begin = p_.here();
    if (!p_.expect("{")) return false;
    if (p_.at("init") && p_.peek(1).is("{")) {
      p_.take();
      made.init = body();
      if (!made.init) return false;
    }
    if (!statements(list)) return false;
    if (list.empty() && !p_.diagnostics().has_errors())
      p_.error(p_.span_from(begin), "expected a statement between `{` and `}`");
    made.body = build_.seq(list);
    return made.body != nullptr;
  }

  Parser& p_;
  std::shared_ptr<Arena> arena_;
  Build build_;
  ProgramNames names_;
  ProgramExprs exprs_;
  Program program_;
  std::vector<Param> params_;
  std::vector<const Buffer*> locals_;
};

}  // namespace

std::optional<OwnedProgram> parse_program(Parser& parser) { return ProgramParser(parser).run(); }

std::optional<OwnedProgram> parse_program(const Source& source, Diagnostics& diagnostics) {
  Arena scratch;
  Parser parser(source, scratch, diagnostics);
  std::optional<OwnedProgram> program = parse_program(parser);
  if (!program || parser.at_end()) return program;
  parser.error_expected("the end of the text");
  return std::nullopt;
}

}  // namespace tw
