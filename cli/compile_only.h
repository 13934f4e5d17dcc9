// `tune --compile-only`: for every task of a list the finalists of a search without a device
// (sampler/search/finalists.h), written as files for `run-manifest`. A part of the subcommand tune; it measures nothing
// and touches no database.
#pragma once
#include <atomic>
#include <string>

#include "cli/open_list.h"

namespace tw::cli {

struct CompileOnlyOptions {
  std::string output;  // folder
  int finalists = 8;   // of each task
  u64 seed = 0;
  int threads = 0;
  double seconds = 0;  // of all tasks; 0 = no limit
  bool json = false;
};

// Returns an exit code, after messages. All tasks must be for `cuda`.
int compile_only(const LoadedList& list, const CompileOnlyOptions& options, const std::atomic<bool>& stop);

}  // namespace tw::cli
