// `search` of a task list: from names and numbers with places to a checked choice.
#pragma once
#include <string>

#include "runtime/lists/task_list.h"
#include "sampler/strategies/search_choice.h"

namespace tw {

// Reports what is wrong, and fills in what is left out. `flag`: a strategy that takes the place of all of it, if not
// empty; it has no place in the list, so what is wrong with it is returned.
std::string check_search(SearchEntry& search, const std::string& flag, Diagnostics& diagnostics);

SearchChoice choice_of(const SearchEntry& search);

}  // namespace tw
