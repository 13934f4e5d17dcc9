// What a user chooses of the search by name: a strategy, how its batches are picked, and numbers that belong to these.
// What is left out is what is best as far as we know. Read from task lists and taken by tune().
#pragma once
#include <memory>

#include "sampler/strategies/selection.h"
#include "sampler/strategies/strategies.h"

namespace tw {

inline constexpr const char* kNoTransfer = "none";
inline constexpr const char* kShippedModel = "shipped";

struct SearchChoice {
  std::string strategy = "evolutionary";
  std::string select = "", acquisition = "";    // "" = not said
  std::string model = "", objective = "";       // of the cost model (make_model.h, objective.h)
  std::string transfer = "";                    // of what was learned of other tasks: "none", "shipped", a file
  std::map<std::string, double> settings = {};  // that are said; NaN = no number
  bool operator==(const SearchChoice&) const = default;
};

// What is wrong with a choice: with which part of it, as a sentence, and the names that there are.
struct ChoiceError {
  enum class Of : u8 { Strategy, Select, Acquisition, Model, Objective, Transfer, SettingName, SettingValue } of;
  std::string setting;
  std::string text;  // of a value: what was expected, to be followed by what was found
  std::vector<std::string> known;
  std::string note;  // where there is more to say than what is known
};
std::vector<ChoiceError> errors_of(const SearchChoice& choice);

// Why the choice's acquisition would not be used with this cost model, as a sentence; "" if it would, or none is said.
std::string why_no_acquisition(const SearchChoice& choice, const std::string& cost_model);

// The settings of a choice without errors, and what they are if nothing is said. A strategy that picks its batches has
// no others than its own.
std::vector<Setting> settings_of(const SearchChoice& choice);
// With all that is not said filled in.
SearchChoice completed(SearchChoice choice);

struct SearchPlan {
  const StrategyKind* kind = nullptr;
  std::unique_ptr<Strategy> new_strategy() const { return kind->make(settings); }
  Settings settings = {};
  SelectionOptions selection = {};
  Acquisition acquisition = {};
  int models = 1;             // that predict together, see Ensemble
  bool has_transfer = false;  // the search begins with seeds of other machines, too, and transfer seeds
};
// The plan that a choice makes; errors_of(choice) must be empty.
SearchPlan plan_of(const SearchChoice& choice);

}  // namespace tw
