#include "sampler/strategies/search_choice.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "costmodel/make_model.h"
#include "dsl/base/check.h"
#include "dsl/base/text.h"

namespace tw {
namespace {

struct AcquisitionKind {
  const char* name;
  Acquisition::Kind kind;
  std::vector<Setting> settings;
};

const std::vector<AcquisitionKind>& acquisitions() {
  static const std::vector<AcquisitionKind> table = {
      {"mean", Acquisition::Kind::Mean, {{"models", 1, 1, kMostModels, true}}},
      {"ei", Acquisition::Kind::ExpectedImprovement, {{"models", 5, 2, kMostModels, true}}},
      {"ucb",
       Acquisition::Kind::UpperConfidenceBound,
       {{"models", 5, 2, kMostModels, true}, {"kappa", 1, 0, 1000, false}}}};
  return table;
}

template <class Kind>
const Kind* find(const std::vector<Kind>& kinds, const std::string& name) {
  auto found = std::ranges::find_if(kinds, [&](const Kind& kind) { return kind.name == name; });
  return found == kinds.end() ? nullptr : &*found;
}

template <class Kind>
std::vector<std::string> names_of(const std::vector<Kind>& kinds) {
  std::vector<std::string> names;
  for (const Kind& kind : kinds) names.push_back(kind.name);
  return names;
}

// The first row of a table is what counts if nothing is said.
template <class Kind>
const Kind* chosen(const std::vector<Kind>& kinds, const std::string& name) {
  return name.empty() ? &kinds[0] : find(kinds, name);
}

// "`select: diverse`" for a setting of that one; "" if nothing has it.
std::string owner_of(const std::string& setting) {
  for (const SelectionKind& kind : selections()) {
    if (find(kind.settings, setting)) return cat("`select: ", kind.name, "`");
  }
  for (const AcquisitionKind& kind : acquisitions()) {
    if (find(kind.settings, setting)) return cat("`acquisition: ", kind.name, "`");
  }
  for (const StrategyKind& kind : strategies()) {
    if (find(kind.settings, setting)) return cat("`strategy: ", kind.name, "`");
  }
  return "";
}

std::string range_of(const Setting& setting) {
  if (!setting.is_whole) return cat("a number from ", setting.least, " to ", setting.most);
  return cat("an integer from ", static_cast<i64>(setting.least), " to ", static_cast<i64>(setting.most));
}

// What the setting may be at most because of another one.
double most_beside(const Setting& setting, const std::vector<Setting>& known, const SearchChoice& choice) {
  if (!setting.at_most) return setting.most;
  auto said = choice.settings.find(setting.at_most);
  return said == choice.settings.end() ? find(known, setting.at_most)->fallback : said->second;
}

void check_settings(const SearchChoice& choice, std::vector<ChoiceError>& errors) {
  std::vector<Setting> known = settings_of(choice);
  for (const auto& [name, value] : choice.settings) {
    const Setting* setting = find(known, name);
    if (!setting) {
      std::string owner = owner_of(name);
      std::vector<std::string> words = names_of(known);
      words.insert(words.end(), {"strategy", "select", "acquisition", "model", "objective", "transfer"});
      errors.push_back({ChoiceError::Of::SettingName, name,
                        cat("the strategy `", choice.strategy, "` has no setting `", name, "` here"), std::move(words),
                        owner.empty() ? "" : cat("it is one of ", owner)});
    } else if (!(value >= setting->least && value <= setting->most) ||
               (setting->is_whole && value != std::floor(value))) {
      std::string text = cat("expected `", name, "` to be ", range_of(*setting));
      errors.push_back({ChoiceError::Of::SettingValue, name, text, {}, ""});
    } else if (double most = most_beside(*setting, known, choice); value > most) {
      std::string text = cat("expected `", name, "` to be at most `", setting->at_most, "`, which is ", most);
      errors.push_back({ChoiceError::Of::SettingValue, name, text, {}, ""});
    }
  }
}

}  // namespace

std::vector<ChoiceError> errors_of(const SearchChoice& choice) {
  std::vector<ChoiceError> errors;
  auto unknown = [&](ChoiceError::Of of, const char* what, const std::string& name, std::vector<std::string> known) {
    errors.push_back({of, "", cat("unknown ", what, " `", name, "`"), std::move(known), ""});
  };
  const StrategyKind* kind = find(strategies(), choice.strategy);
  if (!kind) unknown(ChoiceError::Of::Strategy, "strategy", choice.strategy, names_of(strategies()));
  if (!chosen(selections(), choice.select))
    unknown(ChoiceError::Of::Select, "way to select", choice.select, names_of(selections()));
  if (!chosen(acquisitions(), choice.acquisition))
    unknown(ChoiceError::Of::Acquisition, "acquisition function", choice.acquisition, names_of(acquisitions()));
  if (!choice.model.empty() && std::ranges::count(model_names(), choice.model) == 0)
    unknown(ChoiceError::Of::Model, "cost model", choice.model, model_names());
  if (!choice.objective.empty() && !parse_objective(choice.objective))
    unknown(ChoiceError::Of::Objective, "objective", choice.objective, objective_names());
  if (!errors.empty()) return errors;
  auto asks_none = [&](ChoiceError::Of of, const char* what, const std::string& said) {
    if (kind->uses_model || said.empty()) return;
    errors.push_back(
        {of, "", cat("the strategy `", choice.strategy, "` asks no cost model and has no `", what, "`"), {}, ""});
  };
  asks_none(ChoiceError::Of::Model, "model", choice.model);
  asks_none(ChoiceError::Of::Objective, "objective", choice.objective);
  auto picks_itself = [&](ChoiceError::Of of, const char* what, const std::string& said) {
    if (kind->has_scores || said.empty()) return;
    errors.push_back(
        {of, "", cat("the strategy `", choice.strategy, "` picks its batches itself and has no `", what, "`"), {}, ""});
  };
  picks_itself(ChoiceError::Of::Select, "select", choice.select);
  picks_itself(ChoiceError::Of::Acquisition, "acquisition", choice.acquisition);
  if (choice.transfer != kNoTransfer) picks_itself(ChoiceError::Of::Transfer, "transfer", choice.transfer);
  if (std::string why = why_no_acquisition(choice, choice.model); !why.empty())
    errors.push_back({ChoiceError::Of::Acquisition, "", why, {}, ""});
  check_settings(choice, errors);
  return errors;
}

std::string why_no_acquisition(const SearchChoice& choice, const std::string& cost_model) {
  const AcquisitionKind* kind = chosen(acquisitions(), choice.acquisition);
  if (cost_model != "draft" || !kind || kind->kind == Acquisition::Kind::Mean) return "";
  return cat("the acquisition function `", choice.acquisition,
             "` goes by what a learned cost model predicts, and `draft` is none");
}

std::vector<Setting> settings_of(const SearchChoice& choice) {
  const StrategyKind* kind = find(strategies(), choice.strategy);
  TW_CHECK(kind, "settings of an unknown strategy");
  std::vector<Setting> all = kind->settings;
  if (!kind->has_scores) return all;
  auto add = [&](const std::vector<Setting>& more) { std::copy(more.begin(), more.end(), std::back_inserter(all)); };
  add(chosen(selections(), choice.select)->settings);
  add(chosen(acquisitions(), choice.acquisition)->settings);
  return all;
}

SearchChoice completed(SearchChoice choice) {
  const StrategyKind* kind = find(strategies(), choice.strategy);
  TW_CHECK(kind, "an unknown strategy");
  for (const Setting& setting : settings_of(choice)) choice.settings.emplace(setting.name, setting.fallback);
  if (kind->uses_model) {
    if (choice.model.empty()) choice.model = model_names()[0];
    if (choice.objective.empty()) choice.objective = objective_names()[0];
  }
  if (!kind->has_scores) return choice;
  choice.select = chosen(selections(), choice.select)->name;
  choice.acquisition = chosen(acquisitions(), choice.acquisition)->name;
  if (choice.transfer.empty()) choice.transfer = kShippedModel;
  return choice;
}

SearchPlan plan_of(const SearchChoice& choice) {
  SearchPlan plan{.kind = find(strategies(), choice.strategy),
                  .settings = Settings(settings_of(choice), choice.settings)};
  if (!plan.kind->has_scores) return plan;
  plan.selection = selection_options(*chosen(selections(), choice.select), plan.settings);
  plan.acquisition.kind = chosen(acquisitions(), choice.acquisition)->kind;
  plan.models = plan.settings.whole("models");
  plan.has_transfer = choice.transfer != kNoTransfer;
  if (plan.acquisition.kind == Acquisition::Kind::UpperConfidenceBound)
    plan.acquisition.kappa = plan.settings.number("kappa");
  return plan;
}

}  // namespace tw
