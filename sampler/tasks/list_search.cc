#include "sampler/tasks/list_search.h"

#include <algorithm>
#include <limits>

#include "dsl/base/text.h"
#include "runtime/lists/yaml_decode.h"

namespace tw {
namespace {

// A part of the choice, as the list has it.
struct Part {
  Span span;
  std::string word;
};

Part part_of(const ChoiceError& error, const SearchEntry& search) {
  switch (error.of) {
    case ChoiceError::Of::Strategy:
      return {search.strategy.span, search.strategy.value};
    case ChoiceError::Of::Select:
      return {search.select.span, search.select.value};
    case ChoiceError::Of::Acquisition:
      return {search.acquisition.span, search.acquisition.value};
    case ChoiceError::Of::Model:
      return {search.model.span, search.model.value};
    case ChoiceError::Of::Objective:
      return {search.objective.span, search.objective.value};
    case ChoiceError::Of::Transfer:
      return {search.transfer.span, search.transfer.value};
    default:
      break;
  }
  auto setting = std::ranges::find(search.settings, error.setting, &SearchEntry::Setting::name);
  bool is_name = error.of == ChoiceError::Of::SettingName;
  return is_name ? Part{setting->name_span, setting->name} : Part{setting->span, setting->text};
}

void report(const ChoiceError& error, const Part& part, Diagnostics& diagnostics) {
  bool is_value = error.of == ChoiceError::Of::SettingValue, has_names = error.note.empty() && !error.known.empty();
  diagnostics.error(part.span, is_value ? cat(error.text, ", found ", part.word) : error.text,
                    has_names ? yaml::suggestion(part.word, error.known) : error.note);
}

void fill_in(SearchEntry& search) {
  SearchChoice whole = completed(choice_of(search));
  search.strategy.value = whole.strategy;
  search.select.value = whole.select;
  search.acquisition.value = whole.acquisition;
  search.model.value = whole.model;
  search.objective.value = whole.objective;
  search.transfer.value = whole.transfer;
  search.settings.clear();
  for (const auto& [name, value] : whole.settings) search.settings.push_back({name, value, "", {}, {}});
}

}  // namespace

SearchChoice choice_of(const SearchEntry& search) {
  SearchChoice choice{.select = search.select.value,
                      .acquisition = search.acquisition.value,
                      .model = search.model.value,
                      .objective = search.objective.value,
                      .transfer = search.transfer.value};
  if (!search.strategy.value.empty()) choice.strategy = search.strategy.value;
  for (const SearchEntry::Setting& setting : search.settings)
    choice.settings[setting.name] = setting.value.value_or(std::numeric_limits<double>::quiet_NaN());
  return choice;
}

std::string check_search(SearchEntry& search, const std::string& flag, Diagnostics& diagnostics) {
  Source words{"--strategy", flag};
  Diagnostics about_flag(words);
  if (!flag.empty()) {
    search = SearchEntry();
    search.strategy = {flag, {0, flag.size()}, true};
  }
  std::vector<ChoiceError> errors = errors_of(choice_of(search));
  std::ranges::stable_sort(errors, {}, [&](const ChoiceError& error) { return part_of(error, search).span.begin; });
  for (const ChoiceError& error : errors)
    report(error, part_of(error, search), flag.empty() ? diagnostics : about_flag);
  if (errors.empty()) fill_in(search);
  return about_flag.render();
}

}  // namespace tw
