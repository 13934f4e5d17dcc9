#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>

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
  bool is_count =
      !is_vector || (error == std::errc() && end == lanes.data() + lanes.size() && count >= 2 && count <= 256);
  if (!dtype || !is_count) return std::nullopt;
  return Type{*dtype, static_cast<std::uint16_t>(count)};
}

i64 bytes_of(Type type) { return bytes_of(type.dtype) * type.lanes; }

// ---- what several lanes do together

bool is_product_of_elements(const Expr* e) {
  if (const Cast* cast = as<Cast>(e)) return is_product_of_elements(cast->value);
  const Binary* binary = as<Binary>(e);
  bool is_known = binary && (binary->op == BinaryOp::Add || binary->op == BinaryOp::Mul);
  return as<Load>(e) || (is_known && is_product_of_elements(binary->a) && is_product_of_elements(binary->b));
}

// Loops over the output's indices, in their order, around one over the sum; indices are loops.
bool adds_products(const Program& description) {
  std::vector<const Expr*> loops;
  const Stmt* body = description.body;
  for (; as<For>(body); body = as<For>(body)->body) loops.push_back(as<For>(body)->var);
  const Store* store = as<Store>(body);
  const StoreTarget& target = store->targets[0];
  bool fits = description.params.back().role == Role::Output && loops.size() == target.indices.size() + 1 &&
              std::equal(target.indices.begin(), target.indices.end(), loops.begin()) &&
              is_product_of_elements(store->values[0]);
  for_each<Load>(store, [&](const Load* load) {
    for (const Expr* index : load->indices) fits = fits && std::find(loops.begin(), loops.end(), index) != loops.end();
    bool is_old =
        load->buffer != target.buffer || std::equal(load->indices.begin(), load->indices.end(), target.indices.begin());
    fits = fits && is_old;
  });
  return fits;
}

// A name that no parameter has; "" = none.
std::string missing_operand(Array<Param> params, const std::set<std::string, std::less<>>& names) {
  for (const std::string& name : names) {
    if (std::none_of(params.begin(), params.end(), [&](const Param& param) { return param.buffer->name == name; }))
      return name;
  }
  return "";
}

// What does not fit together in an intrinsic of several lanes; "" if all does.
std::string why_no_warp_instruction(const Intrinsic& made, const std::set<std::string, std::less<>>& in_shared) {
  if (!adds_products(made.description.program))
    return "expected loops over the indices of the output, which comes last, around one that adds products of elements";
  if (!made.rounds.empty() && made.rounds != "tf32") return "floats are rounded to \"tf32\"";
  Array<Param> params = made.description.program.params;
  if (std::string missing = missing_operand(params, in_shared); !missing.empty())
    return cat("`", missing, "` is no operand");
  for (std::size_t p = 0; p < params.size(); ++p) {
    const Buffer* buffer = params[p].buffer;
    if (made.ptx.find(cat("{", buffer->name, "}")) == std::string::npos)
      return cat("the instruction does not mention {", buffer->name, "}");
    if (in_shared.contains(buffer->name)) {
      if (made.lanes == kWarpLanes || params[p].role == Role::Output)
        return cat("only groups of warps read operands in shared memory, not `", buffer->name, "`");
      continue;
    }
    if (made.holds.size() <= p || made.holds[p].is_empty()) return cat("who holds what of `", buffer->name, "`?");
    i64 bytes = bytes_of(buffer->dtype);
    bool fills =
        made.holds[p].held() * bytes % std::max<i64>(4, bytes) == 0 && (bytes < 8 || buffer->dtype == DType::F64);
    bool is_sum = buffer->dtype == DType::F32 || buffer->dtype == DType::I32 || buffer->dtype == DType::F64;
    if (!fills || (params[p].role == Role::Output && !is_sum))
      return cat("`", buffer->name, "` does not fill registers of 4 bytes, or doubles");
  }
  return "";
}

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
    bool is_done = made_->lanes > 1 ? !made_->ptx.empty() : !made_->steps.empty();
    if (!made_->description.program.body || !is_done || made_->arch.empty()) {
      p_.error(name->span,
               cat("intrinsic `", made_->name, "` lacks its `arch`, its `program` or its `implementation`"));
      return nullptr;
    }
    if (std::string wrong = made_->lanes > 1 ? why_no_warp_instruction(*made_, in_shared_) : ""; !wrong.empty())
      return p_.error(name->span, cat("intrinsic `", made_->name, "`: ", wrong)), nullptr;
    return made_;
  }

 private:
  bool item() {
    if (p_.accept("doc")) return text(made_->doc, "what the intrinsic does, in quotes");
    if (p_.accept("arch")) return text(made_->arch, "the architecture of LLVM's triple, in quotes");
    if (p_.accept("needs")) return text(made_->features.emplace_back(), "a feature of the target, in quotes");
    if (p_.accept("cost")) {
      std::optional<i64> cost = p_.expect_integer("how many instructions it takes");
      made_->cost = cost.value_or(1);
      return cost.has_value();
    }
    if (p_.accept("lanes")) return lanes();
    if (p_.accept("rounds")) return text(made_->rounds, "what floats are rounded to: \"tf32\"");
    if (p_.at("program")) return description();
    if (p_.accept("holds")) return holds();
    if (p_.accept("in_shared")) return in_shared();
    if (p_.accept("implementation")) return implementation();
    p_.error_expected(
        "`doc`, `arch`, `needs`, `cost`, `lanes`, `rounds`, `program`, `holds`, `in_shared`, `implementation` or `}`");
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
    if (!fits) p_.error(at, "expected loops around one store to the only output, which use every parameter");
    return fits;
  }

  bool lanes() {
    Span at = p_.peek().span;
    std::optional<i64> lanes = p_.expect_integer("how many lanes do it together");
    if (lanes && *lanes != kWarpLanes && *lanes != 4 * kWarpLanes)
      return p_.error(at, "expected the 32 lanes of a warp or the 128 of a group of warps"), false;
    made_->lanes = lanes.value_or(1);
    return lanes.has_value();
  }

  // holds A (t, i) -> (..)
  bool holds() {
    Array<Param> params = made_->description.program.params;
    if (params.empty() || made_->lanes == 1)
      return p_.error_expected("`lanes` and `program`, which names the operands, before `holds`"), false;
    Span at = p_.peek().span;
    std::optional<Token> name = p_.expect_name("the name of an operand");
    const ast::Expr* map = name ? p_.expr() : nullptr;
    if (!map) return false;
    auto meant = std::find_if(params.begin(), params.end(),
                              [&](const Param& param) { return param.buffer->name == name->text; });
    if (meant == params.end()) return p_.error(at, "expected an operand of the description"), false;
    ParsedLayout read = read_lane_layout(map, {meant->buffer->shape.begin(), meant->buffer->shape.end()}, made_->lanes);
    if (!read.error.empty()) return p_.error(at, cat("`", meant->buffer->name, "`: ", read.error)), false;
    made_->holds.resize(params.size());
    made_->holds[static_cast<std::size_t>(meant - params.begin())] = std::move(read.layout);
    return true;
  }

  bool in_shared() {
    std::optional<Token> name = p_.expect_name("the name of an operand");
    if (name) in_shared_.emplace(name->text);
    return name.has_value();
  }

  bool implementation() {
    if (!made_->description.program.body)
      return p_.error_expected("`program`, which names the operands, before `implementation`"), false;
    if (!p_.expect("{")) return false;
    if (made_->lanes > 1)
      return p_.expect("ptx") && text(made_->ptx, "an instruction of PTX, in quotes") && p_.expect("}");
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
    static const std::map<std::string_view, std::optional<int> (IntrinsicParser::*)(const ast::Call*)> kOperations = {
        {"load", &IntrinsicParser::load},
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
    const Buffer* buffer = made_->description.program.params[static_cast<std::size_t>(operand)].buffer;
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
    return add({.op = IntrinsicStep::Op::Load, .type = *as_type, .operand = *from, .offset = *first});
  }
  std::optional<int> store(const ast::Call* call) {
    std::optional<int> to = operand(call), what = to ? value(call, 1) : std::nullopt;
    std::optional<i64> first = what ? offset(call, *to, type_of(*what)) : std::nullopt;
    if (!first) return std::nullopt;
    if (made_->description.program.params[static_cast<std::size_t>(*to)].role != Role::Output)
      return fail(call->span, "only the output is written");
    return add({.op = IntrinsicStep::Op::Store, .operand = *to, .offset = *first, .arguments = {*what}});
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
      return fail(call->span,
                  cat(to_string(*to), " has ", bytes_of(*to), " bytes, the value has ", bytes_of(type_of(*of))));
    return add({.op = IntrinsicStep::Op::As, .type = *to, .arguments = {*of}});
  }
  std::optional<int> call(const ast::Call* call) {
    std::optional<Type> result = type(call, 0);
    auto* name = ast::as<ast::Text>(argument(call, 1));
    if (!result || !name) return fail(call->span, "expected call(type, \"llvm.name\", values)");
    if (!name->value.starts_with("llvm.")) return fail(call->span, "only LLVM's intrinsics, llvm.*, are called");
    IntrinsicStep made{.op = IntrinsicStep::Op::Call, .type = *result, .function = std::string(name->value)};
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
  std::set<std::string, std::less<>> in_shared_;
};

// Everything that was declared in this process. Entries stay for ever: traces name them.
struct Registry {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<const Intrinsic>, std::less<>> known;
};

std::vector<std::shared_ptr<const Intrinsic>> parse_all(const Source& source, Diagnostics& diagnostics) {
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
  return a.arch == b.arch && a.features == b.features && a.cost == b.cost && a.lanes == b.lanes && a.holds == b.holds &&
         a.rounds == b.rounds && a.ptx == b.ptx && structurally_equal(a.description.program, b.description.program) &&
         std::equal(a.steps.begin(), a.steps.end(), b.steps.begin(), b.steps.end(), same_step);
}

}  // namespace

std::shared_ptr<const Intrinsic> parse_intrinsic(Parser& parser) { return IntrinsicParser(parser).run(); }

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

std::vector<const Intrinsic*> warp_intrinsics() {
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  std::vector<const Intrinsic*> out;
  for (const auto& [name, intrinsic] : all.known) {
    if (intrinsic->lanes > 1) out.push_back(intrinsic.get());
  }
  return out;
}

i64 elements_of_register(const Intrinsic& intrinsic, std::size_t parameter) {
  return std::max<i64>(1, 4 / bytes_of(intrinsic.description.program.params[parameter].buffer->dtype));
}
i64 registers_of_lane(const Intrinsic& intrinsic, std::size_t parameter) {
  return intrinsic.holds[parameter].held() / elements_of_register(intrinsic, parameter);
}

bool can_do(std::string_view gpu, const Intrinsic& intrinsic) {
  auto number = [](std::string_view arch) {
    return std::atoi(std::string(arch.substr(std::min<std::size_t>(3, arch.size()))).c_str());
  };
  return gpu.empty() ||
         std::all_of(intrinsic.features.begin(), intrinsic.features.end(), [&](const std::string& wanted) {
           return wanted.ends_with("a") ? gpu == wanted : number(gpu) >= number(wanted);
         });
}

std::vector<std::string> intrinsic_names() {
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  std::vector<std::string> names;
  for (const auto& [name, intrinsic] : all.known) names.push_back(name);
  return names;
}

}  // namespace tw
