// What `tune` says of whole models at its end. A part of the subcommand tune.
#pragma once
#include <boost/json/array.hpp>

#include "runtime/store/database.h"
#include "sampler/tasks/load_list.h"

namespace tw::cli {

// A row for each model of the list whose kernels are all known: the whole with the kernels that were measured first,
// and with the fastest ones. For processors; what cannot be timed is said on standard error.
boost::json::array time_tuned_models(const LoadedList& list, Database& database, const MachineRates& rates);
void print_tuned_models(const boost::json::array& models);

}  // namespace tw::cli
