#include "cli/known_names.h"

#include <algorithm>

#include "dsl/base/text.h"
#include "runtime/console/output.h"

namespace tw::cli {

bool are_known(const std::string& flag, const std::string& what, const std::vector<std::string>& names,
               const std::vector<std::string>& known) {
  for (const std::string& name : names) {
    if (std::ranges::count(known, name) > 0) continue;
    std::string near = closest(name, known);
    say(cat(flag, ": unknown ", what, " `", name, "`",
            near.empty() ? cat("; there are: ", join(known, ", ")) : cat("; did you mean `", near, "`?")));
    return false;
  }
  return true;
}

}  // namespace tw::cli
