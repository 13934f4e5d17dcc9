#include "dsl/text/ast.h"

#include <cstring>

#include "dsl/base/text.h"
#include "dsl/ir/print.h"

namespace tw::ast {
namespace {

constexpr int kNot = 3, kNegation = 8, kPostfix = 9;

std::string in_parentheses_if(bool yes, std::string text) { return yes ? "(" + text + ")" : text; }

// The text of `e` where its surroundings bind with strength `outer`.
std::string text_of(const Expr* e, int outer);

std::string list_of(Array<const Expr*> items) {
  std::vector<std::string> parts;
  for (const Expr* item : items) parts.push_back(text_of(item, 0));
  return join(parts, ", ");
}

std::string names_of(Array<const Name*> names) {
  std::vector<Str> parts;
  for (const Name* name : names) parts.push_back(name->name);
  return names.size() == 1 ? std::string(parts[0]) : cat("(", join(parts, ", "), ")");
}

std::string text_of(const Call* e) {
  std::vector<std::string> parts;
  for (const Argument& argument : e->arguments) {
    parts.push_back(cat(argument.name, argument.name.empty() ? "" : " = ", text_of(argument.value, 0)));
  }
  return cat(text_of(e->callee, kPostfix), "(", join(parts, ", "), ")");
}

std::string text_of(const Dictionary* e) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < e->keys.size(); ++i)
    parts.push_back(cat(quote(e->keys[i]), ": ", text_of(e->values[i], 0)));
  return cat("{", join(parts, ", "), "}");
}

std::string text_of(const Comprehension* e) {
  std::string condition = e->condition ? cat(" if ", text_of(e->condition, 0)) : "";
  return cat("[", text_of(e->value, 0), " for ", names_of(e->names), " in ", text_of(e->over, 1), condition, "]");
}

std::string text_of(const Quantifier* e) {
  return cat(e->is_all ? "all(" : "any(", names_of(e->names), " in ", text_of(e->over, 1), ": ",
             text_of(e->condition, 0), ")");
}

std::string text_of(const Binary* e, int outer) {
  int own = strength(e->op);
  bool chains = own != 4;
  return in_parentheses_if(
      outer > own, cat(text_of(e->a, chains ? own : own + 1), " ", name_of(e->op), " ", text_of(e->b, own + 1)));
}

std::string text_of(const Expr* e, int outer) {
  if (!e) return "";
  switch (e->kind) {
    case Kind::Int:
      return std::to_string(as<Int>(e)->value);
    case Kind::Float:
      return print_number(as<Float>(e)->value);
    case Kind::Bool:
      return as<Bool>(e)->value ? "true" : "false";
    case Kind::Text:
      return quote(as<Text>(e)->value);
    case Kind::Name:
      return std::string(as<Name>(e)->name);
    case Kind::Hole:
      return "_";
    case Kind::None:
      return "none";
    case Kind::Call:
      return text_of(as<Call>(e));
    case Kind::Index:
      return cat(text_of(as<Index>(e)->value, kPostfix), "[", list_of(as<Index>(e)->indices), "]");
    case Kind::Slice:
      return cat(text_of(as<Slice>(e)->begin, 0), ":", text_of(as<Slice>(e)->end, 0));
    case Kind::Member:
      return cat(text_of(as<Member>(e)->value, kPostfix), ".", as<Member>(e)->name);
    case Kind::List:
      return cat("[", list_of(as<List>(e)->items), "]");
    case Kind::Dictionary:
      return text_of(as<Dictionary>(e));
    case Kind::Comprehension:
      return text_of(as<Comprehension>(e));
    case Kind::Quantifier:
      return text_of(as<Quantifier>(e));
    case Kind::Tuple:
      return cat("(", list_of(as<Tuple>(e)->items), as<Tuple>(e)->items.size() == 1 ? ",)" : ")");
    case Kind::Unary: {
      auto* n = as<Unary>(e);
      if (n->op == UnaryOp::Not) return in_parentheses_if(outer > kNot, cat("not ", text_of(n->value, kNot)));
      bool number = n->value->kind == Kind::Int || n->value->kind == Kind::Float;  // -(1) is not the number -1
      return in_parentheses_if(outer > kNegation, cat("-", in_parentheses_if(number, text_of(n->value, kNegation))));
    }
    case Kind::Binary:
      return text_of(as<Binary>(e), outer);
    case Kind::If: {
      auto* n = as<If>(e);
      return in_parentheses_if(outer > 0, cat("if ", text_of(n->condition, 1), " then ", text_of(n->then, 1), " else ",
                                              text_of(n->otherwise, 0)));
    }
    case Kind::Lambda:
      return in_parentheses_if(outer > 0,
                               cat(names_of(as<Lambda>(e)->parameters), " -> ", text_of(as<Lambda>(e)->body, 0)));
    case Kind::Test:
      return cat(text_of(as<Test>(e)->value, kPostfix), "?");
  }
  return "";
}

bool equal_names(Array<const Name*> a, Array<const Name*> b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i]->name != b[i]->name) return false;
  }
  return true;
}

bool equal_lists(Array<const Expr*> a, Array<const Expr*> b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!equal(a[i], b[i])) return false;
  }
  return true;
}

bool equal_calls(const Call* a, const Call* b) {
  if (!equal(a->callee, b->callee) || a->arguments.size() != b->arguments.size()) return false;
  for (std::size_t i = 0; i < a->arguments.size(); ++i) {
    if (a->arguments[i].name != b->arguments[i].name || !equal(a->arguments[i].value, b->arguments[i].value))
      return false;
  }
  return true;
}

}  // namespace

std::string to_string(const Expr* expr) { return text_of(expr, 0); }

bool equal(const Expr* a, const Expr* b) {
  if (!a || !b || a->kind != b->kind) return a == b;
  switch (a->kind) {
    case Kind::Int:
      return as<Int>(a)->value == as<Int>(b)->value;
    case Kind::Float:
      return std::memcmp(&as<Float>(a)->value, &as<Float>(b)->value, sizeof(double)) == 0;
    case Kind::Bool:
      return as<Bool>(a)->value == as<Bool>(b)->value;
    case Kind::Text:
      return as<Text>(a)->value == as<Text>(b)->value;
    case Kind::Name:
      return as<Name>(a)->name == as<Name>(b)->name;
    case Kind::Hole:
    case Kind::None:
      return true;
    case Kind::Call:
      return equal_calls(as<Call>(a), as<Call>(b));
    case Kind::Index:
      return equal(as<Index>(a)->value, as<Index>(b)->value) &&
             equal_lists(as<Index>(a)->indices, as<Index>(b)->indices);
    case Kind::Slice:
      return equal(as<Slice>(a)->begin, as<Slice>(b)->begin) && equal(as<Slice>(a)->end, as<Slice>(b)->end);
    case Kind::Member:
      return as<Member>(a)->name == as<Member>(b)->name && equal(as<Member>(a)->value, as<Member>(b)->value);
    case Kind::List:
      return equal_lists(as<List>(a)->items, as<List>(b)->items);
    case Kind::Dictionary: {
      auto *x = as<Dictionary>(a), *y = as<Dictionary>(b);
      return std::equal(x->keys.begin(), x->keys.end(), y->keys.begin(), y->keys.end()) &&
             equal_lists(x->values, y->values);
    }
    case Kind::Tuple:
      return equal_lists(as<Tuple>(a)->items, as<Tuple>(b)->items);
    case Kind::Comprehension: {
      auto *x = as<Comprehension>(a), *y = as<Comprehension>(b);
      return equal_names(x->names, y->names) && equal(x->value, y->value) && equal(x->over, y->over) &&
             equal(x->condition, y->condition);
    }
    case Kind::Quantifier: {
      auto *x = as<Quantifier>(a), *y = as<Quantifier>(b);
      return x->is_all == y->is_all && equal_names(x->names, y->names) && equal(x->over, y->over) &&
             equal(x->condition, y->condition);
    }
    case Kind::Unary:
      return as<Unary>(a)->op == as<Unary>(b)->op && equal(as<Unary>(a)->value, as<Unary>(b)->value);
    case Kind::Binary: {
      auto *x = as<Binary>(a), *y = as<Binary>(b);
      return x->op == y->op && equal(x->a, y->a) && equal(x->b, y->b);
    }
    case Kind::If: {
      auto *x = as<If>(a), *y = as<If>(b);
      return equal(x->condition, y->condition) && equal(x->then, y->then) && equal(x->otherwise, y->otherwise);
    }
    case Kind::Lambda:
      return equal_names(as<Lambda>(a)->parameters, as<Lambda>(b)->parameters) &&
             equal(as<Lambda>(a)->body, as<Lambda>(b)->body);
    case Kind::Test:
      return equal(as<Test>(a)->value, as<Test>(b)->value);
  }
  return false;
}

}  // namespace tw::ast
