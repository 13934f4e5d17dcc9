#include <algorithm>
#include <charconv>
#include <map>
#include <mutex>

#include "dsl/base/embedded_text.h"
#include "dsl/base/text.h"
#include "dsl/intrinsics/intrinsic.h"
#include "dsl/ir/compare.h"
#include "dsl/ir/walk.h"
#include "dsl/text/parse_program.h"

namespace tw {
namespace {

// "i32", "i32x16".
std::optional<Type> parse_type(std::string_view text) {
  std::size_t x = text.rfind('x');
  std::string_view lanes = x == std::string_view::npos ? std::string_view() : text.substr(x + 1);
  std::optional<DType> dtype = parse_dtype(text.substr(0, x));
  bool is_vector = x != std::string_view::npos;
  int count = is_vector ? 0 : 1;
  auto [end, error] = std::from_chars(lanes.data(), lanes.data() + lanes.size(), count);
  bool is_count = !is_vector || (error == std::errc() && end == lanes.data() + lanes.size() &&
                                 count >= 2 && count <= 256);
  if (!dtype || !is_count) return std::nullopt;
  return Type{*dtype, static_cast<std::uint16_t>(count)};
}

i64 bytes_of(Type type) { return bytes_of(type.dtype) * type.lanes; }

class IntrinsicParser {
 public:
  explicit IntrinsicParser(Parser& parser) : p_(parser), made_(std::make_shared<Intrinsic>()) {}

  std::shared_ptr<const Intrinsic> run() {
    p_.take();
    std::optional<Token> name = p_.expect_name("the name of the intrinsic");
    if (!name || !p_.expect("{")) return nullptr;
    made_->name = std::string(name->text);
    while (!p_.accept("}")) {
      if (!item()) return nullptr;
    }
    if (!made_->description.program.body || made_->steps.empty() || made_->arch.empty()) {
      p_.error(name->span, cat("intrinsic `", made_->name,
                               "` lacks its `arch`, its `program` or its `implementation`"));
      return nullptr;
    }
    return made_;
  }

 private:
  bool item() {
    if (p_.accept("doc")) return text(made_->doc, "what the intrinsic does, in quotes");
    if (p_.accept("arch")) return text(made_->arch, "the architecture of LLVM's triple, in quotes");
    if (p_.accept("needs"))
      return text(made_->features.emplace_back(), "a feature of the target, in quotes");
    if (p_.accept("cost")) {
      std::optional<i64> cost = p_.expect_integer("how many instructions it takes");
      made_->cost = cost.value_or(1);
      return cost.has_value();
    }
    if (p_.at("program")) return description();
    if (p_.accept("implementation")) return implementation();
    p_.error_expected("`doc`, `arch`, `needs`, `cost`, `program`, `implementation` or `}`");
    return false;
  }

  bool text(std::string& into, std::string_view what) {
    std::optional<Str> found = p_.expect_text(what);
    if (found) into = std::string(*found);
    return found.has_value();
  }

  // Loops around one store to the only output; every parameter is used.
  bool description() {
    Span at = p_.peek().span;
    std::optional<OwnedProgram> program = parse_program(p_);
    if (!program) return false;
    const Stmt* body = program->program.body;
    std::vector<const Buffer*> used;
    while (as<For>(body)) body = as<For>(body)->body;
    const Store* store = as<Store>(body);
    for_each<Load>(body, [&](const Load* load) { used.push_back(load->buffer); });
    bool fits = store && store->targets.size() == 1 && program->program.locals.empty();
    for (const Param& param : program->program.params) {
      bool is_target = fits && store->targets[0].buffer == param.buffer;
      bool is_used = is_target || std::find(used.begin(), used.end(), param.buffer) != used.end();
      fits = fits && is_used && is_target == (param.role == Role::Output);
    }
    made_->description = *program;
    if (!fits)
      p_.error(at, "expected loops around one store to the only output, which use every parameter");
    return fits;
  }

  bool implementation() {
    if (!made_->description.program.body)
      return p_.error_expected("`program`, which names the operands, before `implementation`"),
             false;
    if (!p_.expect("{")) return false;
    while (!p_.accept("}")) {
      std::optional<Token> name = p_.peek(1).is("=") ? p_.expect_name("a name") : std::nullopt;
      if (name && !p_.expect("=")) return false;
      const ast::Expr* e = p_.expr();
      std::optional<int> value = e ? step(e) : std::nullopt;
      if (!value || !p_.end_statement()) return false;
      if (name) names_[std::string(name->text)] = *value;
    }
    return true;
  }

  // ---- steps; nothing after an error

  std::nullopt_t fail(Span span, std::string message) {
    p_.error(span, std::move(message));
    return std::nullopt;
  }

  std::optional<int> step(const ast::Expr* e) {
    if (auto* name = ast::as<ast::Name>(e)) {
      auto known = names_.find(std::string(name->name));
      if (known == names_.end()) return fail(e->span, cat("`", name->name, "` is no value here"));
      return known->second;
    }
    auto* call = ast::as<ast::Call>(e);
    auto* callee = call ? ast::as<ast::Name>(call->callee) : nullptr;
    static const std::map<std::string_view,
                          std::optional<int> (IntrinsicParser::*)(const ast::Call*)>
        kOperations = {{"load", &IntrinsicParser::load},
                       {"store", &IntrinsicParser::store},
                       {"splat", &IntrinsicParser::splat},
                       {"as", &IntrinsicParser::reinterpret},
                       {"call", &IntrinsicParser::call}};
    auto known = callee ? kOperations.find(callee->name) : kOperations.end();
    if (known == kOperations.end()) return fail(e->span, "expected load, store, splat, as or call");
    return (this->*known->second)(call);
  }

  int add(IntrinsicStep step) {
    made_->steps.push_back(std::move(step));
    return static_cast<int>(made_->steps.size()) - 1;
  }
  Type type_of(int step) const { return made_->steps[static_cast<std::size_t>(step)].type; }

  static const ast::Expr* argument(const ast::Call* call, std::size_t at) {
    return at < call->arguments.size() ? call->arguments[at].value : nullptr;
  }
  std::optional<Type> type(const ast::Call* call, std::size_t at) {
    auto* name = ast::as<ast::Name>(argument(call, at));
    std::optional<Type> found = name ? parse_type(name->name) : std::nullopt;
    if (!found) p_.error(call->span, "expected a type such as i32 or i32x16");
    return found;
  }
  std::optional<int> operand(const ast::Call* call) {
    auto* name = ast::as<ast::Name>(argument(call, 0));
    Array<Param> params = made_->description.program.params;
    for (std::size_t i = 0; name && i < params.size(); ++i) {
      if (params[i].buffer->name == name->name) return static_cast<int>(i);
    }
    return fail(call->span, "expected an operand of the description");
  }
  std::optional<int> value(const ast::Call* call, std::size_t at) {
    const ast::Expr* e = argument(call, at);
    if (!e) return fail(call->span, "too few arguments");
    return step(e);
  }
  // The offset behind the other arguments, and whether all of `type` lies in the operand.
  std::optional<i64> offset(const ast::Call* call, int operand, Type type) {
    auto* number = ast::as<ast::Int>(argument(call, 2));
    if (call->arguments.size() > 3 || (argument(call, 2) && !number))
      return fail(call->span, "expected an offset in elements");
    const Buffer* buffer =
        made_->description.program.params[static_cast<std::size_t>(operand)].buffer;
    i64 first = number ? number->value : 0;
    if (first < 0 || first * tw::bytes_of(buffer->dtype) + bytes_of(type) > tw::bytes_of(buffer))
      return fail(call->span, cat("this reaches beyond operand `", buffer->name, "`"));
    return first;
  }

  std::optional<int> load(const ast::Call* call) {
    std::optional<int> from = operand(call);
    std::optional<Type> as_type = from ? type(call, 1) : std::nullopt;
    std::optional<i64> first = as_type ? offset(call, *from, *as_type) : std::nullopt;
    if (!first) return std::nullopt;
    return add(
        {.op = IntrinsicStep::Op::Load, .type = *as_type, .operand = *from, .offset = *first});
  }
  std::optional<int> store(const ast::Call* call) {
    std::optional<int> to = operand(call), what = to ? value(call, 1) : std::nullopt;
    std::optional<i64> first = what ? offset(call, *to, type_of(*what)) : std::nullopt;
    if (!first) return std::nullopt;
    if (made_->description.program.params[static_cast<std::size_t>(*to)].role != Role::Output)
      return fail(call->span, "only the output is written");
    return add(
        {.op = IntrinsicStep::Op::Store, .operand = *to, .offset = *first, .arguments = {*what}});
  }
  std::optional<int> splat(const ast::Call* call) {
    auto* lanes = ast::as<ast::Int>(argument(call, 1));
    std::optional<int> of = value(call, 0);
    if (!of || !lanes || lanes->value < 2 || lanes->value > 256 || type_of(*of).lanes != 1)
      return fail(call->span, "expected splat(scalar, lanes)");
    return add({.op = IntrinsicStep::Op::Splat,
                .type = {type_of(*of).dtype, static_cast<std::uint16_t>(lanes->value)},
                .arguments = {*of}});
  }
  std::optional<int> reinterpret(const ast::Call* call) {
    std::optional<Type> to = type(call, 0);
    std::optional<int> of = to ? value(call, 1) : std::nullopt;
    if (!of) return std::nullopt;
    if (bytes_of(*to) != bytes_of(type_of(*of)))
      return fail(call->span, cat(to_string(*to), " has ", bytes_of(*to), " bytes, the value has ",
                                  bytes_of(type_of(*of))));
    return add({.op = IntrinsicStep::Op::As, .type = *to, .arguments = {*of}});
  }
  std::optional<int> call(const ast::Call* call) {
    std::optional<Type> result = type(call, 0);
    auto* name = ast::as<ast::Text>(argument(call, 1));
    if (!result || !name) return fail(call->span, "expected call(type, \"llvm.name\", values)");
    if (!name->value.starts_with("llvm."))
      return fail(call->span, "only LLVM's intrinsics, llvm.*, are called");
    IntrinsicStep made{
        .op = IntrinsicStep::Op::Call, .type = *result, .function = std::string(name->value)};
    for (std::size_t i = 2; i < call->arguments.size(); ++i) {
      std::optional<int> one = value(call, i);
      if (!one) return std::nullopt;
      made.arguments.push_back(*one);
    }
    return add(std::move(made));
  }

  Parser& p_;
  std::shared_ptr<Intrinsic> made_;
  std::map<std::string, int> names_;
};

// Everything that was declared in this process. Entries stay for ever: traces name them.
struct Registry {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<const Intrinsic>, std::less<>> known;
};

std::vector<std::shared_ptr<const Intrinsic>> parse_all(const Source& source,
                                                        Diagnostics& diagnostics) {
  Arena scratch;
  Parser parser(source, scratch, diagnostics);
  std::vector<std::shared_ptr<const Intrinsic>> all;
  while (!parser.at_end()) {
    std::shared_ptr<const Intrinsic> made;
    if (parser.at("intrinsic"))
      made = parse_intrinsic(parser);
    else
      parser.error_expected("`intrinsic`");
    if (!made) return {};
    all.push_back(made);
  }
  return all;
}

Registry& registry() {
  static Registry* shared = [] {
    auto* made = new Registry;
    for (const EmbeddedText& text : embedded_texts()) {
      if (!text.path.starts_with("dsl/intrinsics/")) continue;
      Source source{std::string(text.path), std::string(text.text)};
      Diagnostics diagnostics(source);
      for (const auto& one : parse_all(source, diagnostics)) made->known[one->name] = one;
      if (diagnostics.has_errors()) std::fputs(diagnostics.render().c_str(), stderr);
      TW_CHECK(!diagnostics.has_errors(), "a built-in intrinsic has an error");
    }
    return made;
  }();
  return *shared;
}

bool same_step(const IntrinsicStep& a, const IntrinsicStep& b) {
  return a.op == b.op && a.type == b.type && a.function == b.function && a.operand == b.operand &&
         a.offset == b.offset && a.arguments == b.arguments;
}

bool same_intrinsic(const Intrinsic& a, const Intrinsic& b) {
  return a.arch == b.arch && a.features == b.features && a.cost == b.cost &&
         structurally_equal(a.description.program, b.description.program) &&
         std::equal(a.steps.begin(), a.steps.end(), b.steps.begin(), b.steps.end(), same_step);
}

}  // namespace

std::shared_ptr<const Intrinsic> parse_intrinsic(Parser& parser) {
  return IntrinsicParser(parser).run();
}

bool declare_intrinsic(std::shared_ptr<const Intrinsic> intrinsic) {
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  auto [at, is_new] = all.known.try_emplace(intrinsic->name, intrinsic);
  return is_new || same_intrinsic(*at->second, *intrinsic);
}

bool declare_intrinsics(const Source& source, Diagnostics& diagnostics) {
  for (const auto& one : parse_all(source, diagnostics)) {
    if (declare_intrinsic(one)) continue;
    diagnostics.error({0, 0}, cat("there is another intrinsic `", one->name, "`"));
  }
  return !diagnostics.has_errors();
}

const Intrinsic* find_intrinsic(std::string_view name) {
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  auto at = all.known.find(name);
  return at == all.known.end() ? nullptr : at->second.get();
}

std::vector<std::string> intrinsic_names() {
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  std::vector<std::string> names;
  for (const auto& [name, intrinsic] : all.known) names.push_back(name);
  return names;
}

}  // namespace tw
