#include "rules/lang/library.h"

#include <algorithm>
#include <cstdio>
#include <set>

#include "dsl/base/embedded_text.h"
#include "dsl/base/text.h"
#include "rules/lang/check_types.h"
#include "rules/lang/list_functions.h"
#include "rules/lang/type_checker.h"

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
    check_types(*module, library.declared_, diagnostics);
    check(library.add_sets(module, diagnostics) && !diagnostics.has_errors(), diagnostics);
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

std::string Library::near_rule(std::string_view name) const {
  std::vector<std::string> names;
  for (const auto& module : modules_) {
    for (const Rule& rule : module->rules) names.emplace_back(rule.name);
  }
  std::string near = closest(name, names);
  return near.empty() ? "" : cat("did you mean `", near, "`?");
}

bool Library::add(std::shared_ptr<const Module> module, Diagnostics& diagnostics) {
  Library before = *this;
  bool good = add_rules(module, diagnostics);
  if (good) check_types(*module, declared_, diagnostics);
  good = good && add_sets(module, diagnostics);
  if (good) rearrange_sets(module, diagnostics);
  good = good && !diagnostics.has_errors();
  if (!good) *this = std::move(before);
  return good;
}

bool Library::add_rules(const std::shared_ptr<const Module>& module, Diagnostics& diagnostics) {
  std::set<Str> own;
  for (const Rule& rule : module->rules) {
    const Rule* old = find_rule(rule.name);
    if (!own.insert(rule.name).second) {
      diagnostics.error(rule.span, cat("this module has two rules `", rule.name, "`"));
    } else if (old && !rule.replaces) {
      bool fits = std::string_view(old->kind()) == rule.kind();
      std::string replace = cat("write `replace ", rule.kind(), " ", rule.name, "` to put this one in its place, or ");
      diagnostics.error(rule.span, cat("there already is a ", old->kind(), " `", rule.name, "`"),
                        (fits ? replace : "") + "give it a name of its own");
    } else if (!old && rule.replaces) {
      diagnostics.error(rule.span, cat("there is no rule `", rule.name, "` to replace"), near_rule(rule.name));
    } else if (old && std::string_view(old->kind()) != rule.kind()) {
      diagnostics.error(rule.span, cat("`", rule.name, "` is a ", old->kind(), "; its replacement must be one, too"));
    }
  }
  add_functions(module, diagnostics);
  add_marks(module, diagnostics);
  if (diagnostics.has_errors()) return false;
  modules_.push_back(module);
  return true;
}

template <class T>
void Library::check_name(const std::shared_ptr<const Module>& module, const T& definition,
                         Diagnostics& diagnostics) const {
  Str name = definition.name;
  bool is_instruction = find_kind(name),
       is_built_in = name == "loops" || find_function(name) || find_list_function(name);
  auto is_taken = [&](const auto& all) {
    return std::any_of(all.begin(), all.end(), [&](const auto& other) {
      return other.what->name == name && (other.home == module || (other.what->is_exported && definition.is_exported));
    });
  };
  bool is_step = is_taken(declared_.steps);
  if (!is_instruction && !is_built_in && !is_step && !is_taken(declared_.functions)) return;
  diagnostics.error(definition.span,
                    cat("there already is ",
                        is_instruction ? "an instruction `"
                        : is_step      ? "a step `"
                                       : "a function `",
                        name, "`"),
                    "give it a name of its own");
}

void Library::add_functions(const std::shared_ptr<const Module>& module, Diagnostics& diagnostics) {
  for (const UserFunction& function : module->functions) {
    check_name(module, function, diagnostics);
    declared_.functions.push_back({module, &function});
  }
  for (const Step& step : module->steps) {
    check_name(module, step, diagnostics);
    declared_.steps.push_back({module, &step});
  }
}

void Library::add_marks(const std::shared_ptr<const Module>& module, Diagnostics& diagnostics) {
  for (const Mark& mark : module->marks) {
    auto other = std::find_if(declared_.marks.begin(), declared_.marks.end(), [&](const auto& row) {
      return row.what->name == mark.name && word_of(row.what->type) != word_of(mark.type);
    });
    if (other != declared_.marks.end()) {
      diagnostics.error(mark.span,
                        cat("the mark `", mark.name, "` is declared as ", described(other->what->type), " already"),
                        cat("it is declared in ", other->home->source->name));
    }
    declared_.marks.push_back({module, &mark});
  }
}

void Library::add_schedules(std::string_view set, std::vector<RuleUse>& uses) const {
  for (const auto& module : modules_) {
    bool is_own =
        std::any_of(module->sets.begin(), module->sets.end(), [&](const RuleSet& own) { return own.name == set; });
    for (const Rule& rule : module->rules) {
      bool is_there =
          std::any_of(uses.begin(), uses.end(), [&](const RuleUse& use) { return use.rule->name == rule.name; });
      if (rule.is_schedule() && !is_own && !is_there) uses.push_back({&rule, module, {}, module});
    }
  }
}

void Library::rearrange_sets(const std::shared_ptr<const Module>& module, Diagnostics& diagnostics) {
  for (auto& [name, uses] : sets_) add_schedules(name, uses);
  for (const Rule& rule : module->rules) {
    bool is_placed = rule.placement.where != Placement::Where::Nowhere, is_found = false;
    for (auto& [name, uses] : sets_) {
      for (std::size_t i = 0; i < uses.size(); ++i) {
        if (!rule.replaces || uses[i].rule->name != rule.name) continue;
        uses[i].rule = &rule;
        uses[i].module = module;
        for (const ast::Argument& argument : uses[i].arguments) {
          bool has = std::any_of(rule.params.begin(), rule.params.end(),
                                 [&](const RuleParam& p) { return p.name == argument.name; });
          if (!has)
            diagnostics.error(rule.span, cat("the set `", name, "` gives `", rule.name, "` a parameter `",
                                             argument.name, "`, which this one lacks"));
        }
      }
      auto at = std::find_if(uses.begin(), uses.end(),
                             [&](const RuleUse& use) { return is_placed && use.rule->name == rule.placement.anchor; });
      bool is_there = std::any_of(uses.begin(), uses.end(), [&](const RuleUse& use) { return use.rule == &rule; });
      if (at == uses.end()) continue;
      is_found = true;
      if (!is_there) uses.insert(at + (rule.placement.where == Placement::Where::After), {&rule, module, {}, module});
    }
    if (is_placed && !is_found) {
      std::string near = near_rule(rule.placement.anchor);
      diagnostics.error(rule.placement.span, cat("no set has a rule `", rule.placement.anchor, "`"), near);
    }
  }
}

std::string Library::place(const std::shared_ptr<const Module>& module, std::string_view set, Place where,
                           std::string_view anchor) {
  auto found = std::find_if(sets_.rbegin(), sets_.rend(), [&](const auto& row) { return row.first == set; });
  if (found == sets_.rend()) return cat("there is no rule set `", set, "`");
  std::vector<RuleUse>& uses = found->second;
  auto own = [&](const RuleUse& use) { return use.module == module; };
  uses.erase(std::remove_if(uses.begin(), uses.end(), own), uses.end());
  auto at = std::find_if(uses.begin(), uses.end(), [&](const RuleUse& use) { return use.rule->name == anchor; });
  if (at == uses.end()) return cat("the set `", set, "` has no rule `", anchor, "`");
  std::vector<RuleUse> placed;
  for (const Rule& rule : module->rules) placed.push_back({&rule, module, {}, module});
  if (where == Place::Instead) at = uses.erase(at);
  uses.insert(at + (where == Place::After), placed.begin(), placed.end());
  return "";
}

bool Library::add_sets(const std::shared_ptr<const Module>& module, Diagnostics& diagnostics) {
  bool good = true;
  for (const RuleSet& set : module->sets) {
    bool is_known = find_set(set.name);
    if (is_known && !set.replaces) {
      diagnostics.error(set.span, cat("there already is a rule set `", set.name, "`"),
                        cat("write `replace rules ", set.name, "`, or give it a name of its own"));
    } else if (!is_known && set.replaces) {
      std::string near = closest(set.name, set_names());
      diagnostics.error(set.span, cat("there is no rule set `", set.name, "` to replace"),
                        near.empty() ? cat("there are: ", join(set_names(), ", ")) : cat("did you mean `", near, "`?"));
    }
    good &= add_set(module, set, diagnostics) && !diagnostics.has_errors();
  }
  return good;
}

bool Library::add_set(const std::shared_ptr<const Module>& module, const RuleSet& set, Diagnostics& diagnostics) {
  std::vector<RuleUse> uses;
  for (const SetEntry& entry : set.entries) {
    const Rule* rule = nullptr;
    std::shared_ptr<const Module> home;
    for (const auto& candidate : modules_) {
      for (const Rule& known : candidate->rules) {
        if (known.name == entry.rule) {
          rule = &known;
          home = candidate;
        }
      }
    }
    if (!rule) {
      std::string near = near_rule(entry.rule);
      diagnostics.error(
          entry.span, cat("unknown rule `", entry.rule, "`"),
          near.empty() ? "a set names rules of its module, of those it imports, and built-in ones" : near);
      continue;
    }
    for (const ast::Argument& argument : entry.arguments) {
      bool known = std::any_of(rule->params.begin(), rule->params.end(),
                               [&](const RuleParam& p) { return p.name == argument.name; });
      if (known)
        check_parameter(argument, *module, *rule, *home, declared_, diagnostics);
      else
        diagnostics.error(argument.value->span, cat("rule `", rule->name, "` has no parameter `", argument.name, "`"));
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
