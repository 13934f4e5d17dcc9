// What `compile --check` does with a library that was just made.
#pragma once
#include <boost/json/object.hpp>
#include <string>
#include <vector>

#include "cli/compile_to.h"
#include "cli/input_files.h"

namespace tw::cli {

struct CheckChoices {
  std::string folder;             // of the library
  std::vector<InputFile> inputs;  // others are random; only with one entry
  int threads = 1;
  u64 seed = 0;          // of random inputs
  bool is_json = false;  // nothing but messages is printed
};

// By what the target can be checked with: the library itself where its device is there, the emulator. `labels`: of the
// entries, `report`: gets what was found. Ok, or another exit code after a message.
int check_compiled(const CheckChoices& choices, const std::vector<OpenedModel>& models,
                   const std::vector<std::string>& labels, const ExportPlan& plan, boost::json::object& report);

}  // namespace tw::cli
