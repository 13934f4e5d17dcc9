// Settings: numbers with names that a strategy or selection has, with what they are if nothing is said. One table each
// serves messages, the check of task lists, and the values themselves.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "dsl/base/arena.h"

namespace tw {

struct Setting {
  const char* name;
  double fallback, least, most;
  bool is_whole;
  const char* at_most = nullptr;  // another setting of the table, which it may not exceed
};

class Settings {
 public:
  Settings() = default;
  // What is given beside those that are known is ignored.
  Settings(const std::vector<Setting>& known, const std::map<std::string, double>& given);
  double number(const std::string& name) const;
  int whole(const std::string& name) const { return static_cast<int>(number(name)); }

 private:
  std::map<std::string, double> values_;
};

}  // namespace tw
