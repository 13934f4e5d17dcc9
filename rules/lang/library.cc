#include "rules/lang/library.h"

#include <algorithm>
#include <cstdio>

#include "dsl/base/embedded_text.h"
#include "dsl/base/text.h"

namespace tw::rules {

Library Library::built_in() {
  // Rules of all modules first: a set may name any of them.
  Library library;
  std::vector<std::shared_ptr<const Module>> modules;
  auto check = [](bool good, const Diagnostics& diagnostics) {
    if (!good) std::fputs(diagnostics.render().c_str(), stderr);
    TW_CHECK(good, "a built-in rule module has an error");
  };
  for (const EmbeddedText& text : embedded_texts()) {
    if (!text.path.starts_with("rules/")) continue;
    auto source = std::make_shared<Source>(Source{std::string(text.path), std::string(text.text)});
    Diagnostics diagnostics(*source);
    std::shared_ptr<const Module> module = parse_module(source, diagnostics);
    check(module && library.add_rules(module, diagnostics), diagnostics);
    modules.push_back(module);
  }
  for (const auto& module : modules) {
    Diagnostics diagnostics(*module->source);
    check(library.add_sets(module, diagnostics), diagnostics);
  }
  return library;
}

const Rule* Library::find_rule(std::string_view name) const {
  for (std::size_t i = modules_.size(); i-- > 0;) {
    for (const Rule& rule : modules_[i]->rules) {
      if (rule.name == name) return &rule;
    }
  }
  return nullptr;
}

bool Library::add(std::shared_ptr<const Module> module, Diagnostics& diagnostics) {
  return add_rules(module, diagnostics) && add_sets(module, diagnostics);
}

bool Library::add_rules(const std::shared_ptr<const Module>& module, Diagnostics& diagnostics) {
  for (const Rule& rule : module->rules) {
    if (find_rule(rule.name)) diagnostics.error(rule.span, cat("there already is a rule `", rule.name, "`"), "give it a name of its own");
  }
  if (diagnostics.has_errors()) return false;
  modules_.push_back(module);
  for (const UserFunction& function : module->functions) functions_.emplace_back(std::string(function.name), std::pair(module, &function));
  return true;
}

bool Library::add_sets(const std::shared_ptr<const Module>& module, Diagnostics& diagnostics) {
  bool good = true;
  for (const RuleSet& set : module->sets) good &= add_set(module, set, diagnostics);
  return good;
}

bool Library::add_set(const std::shared_ptr<const Module>& module, const RuleSet& set, Diagnostics& diagnostics) {
  std::vector<RuleUse> uses;
  for (const SetEntry& entry : set.entries) {
    const Rule* rule = nullptr;
    std::shared_ptr<const Module> home;
    std::vector<std::string> names;
    for (const auto& candidate : modules_) {
      for (const Rule& known : candidate->rules) {
        names.emplace_back(known.name);
        if (known.name == entry.rule) {
          rule = &known;
          home = candidate;
        }
      }
    }
    if (!rule) {
      std::string near = closest(entry.rule, names);
      diagnostics.error(entry.span, cat("unknown rule `", entry.rule, "`"), near.empty() ? "" : cat("did you mean `", near, "`?"));
      continue;
    }
    for (const ast::Argument& argument : entry.arguments) {
      bool known = std::any_of(rule->params.begin(), rule->params.end(), [&](const RuleParam& p) { return p.name == argument.name; });
      if (!known) diagnostics.error(argument.value->span, cat("rule `", rule->name, "` has no parameter `", argument.name, "`"));
    }
    uses.push_back({rule, home, entry.arguments, module});
  }
  sets_.emplace_back(std::string(set.name), std::move(uses));
  return !diagnostics.has_errors();
}

std::vector<std::string> Library::set_names() const {
  std::vector<std::string> names;
  for (const auto& [name, uses] : sets_) names.push_back(name);
  return names;
}

const std::vector<RuleUse>* Library::find_set(std::string_view name) const {
  for (std::size_t i = sets_.size(); i-- > 0;) {
    if (sets_[i].first == name) return &sets_[i].second;
  }
  return nullptr;
}

}  // namespace tw::rules
