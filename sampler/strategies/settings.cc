#include "sampler/strategies/settings.h"

#include "dsl/base/check.h"

namespace tw {

Settings::Settings(const std::vector<Setting>& known, const std::map<std::string, double>& given) {
  for (const Setting& setting : known) {
    auto found = given.find(setting.name);
    values_[setting.name] = found == given.end() ? setting.fallback : found->second;
  }
}

double Settings::number(const std::string& name) const {
  auto found = values_.find(name);
  TW_CHECK(found != values_.end(), "a setting that is in no table");
  return found->second;
}

}  // namespace tw
