// Lists of names on the command line.
#pragma once
#include <string>
#include <vector>

namespace tw::cli {

// False, after a message, if one of `names` is not in `known`. `flag` and `what` are for the message: "--against",
// "library".
bool are_known(const std::string& flag, const std::string& what, const std::vector<std::string>& names,
               const std::vector<std::string>& known);

}  // namespace tw::cli
