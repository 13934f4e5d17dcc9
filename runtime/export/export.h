// Export: writes kernels, or a whole model with its weights, as a C library that needs nothing of tracewright: objects,
// header, a check of the CPU, archive and shared library, manifest, traces, and the source of a thread pool that
// parallel kernels may use. Used by the commands export and compile. It neither compiles kernels nor chooses
// them; the small C file that joins the parts is compiled by the system's `cc`.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "backends/target.h"
#include "runtime/export/model_plan.h"
#include "runtime/measure/measurer.h"

namespace tw {

struct ExportedTask {
  std::string name;  // a C identifier
  std::string doc;   // one line for the header: what is computed
  Kernel kernel;     // its symbol must be kernel_symbol(library, name)
  Target target;
  double seconds = 0;      // of one call where it was measured; 0 = nowhere
  i64 record = 0;          // in the database it came from; 0 = from none
  std::string trace_file;  // text
  DeviceBinary binary;     // of an OpenCL kernel, by a device's driver; may be empty
  double flops = 0;        // arithmetic operations of one call; 0 = not known
};

struct ExportPlan {
  std::string library;  // a C identifier; prefix of every symbol
  std::vector<ExportedTask> tasks;
  std::optional<ModelPlan> model;  // that the kernels are for; processors only
  bool make_static = true, make_shared = true;
};

// Prefix of the entry points inside a task's object; the library's own ones are
// <library>_<task>_run and _prepack.
std::string kernel_symbol(const std::string& library, const std::string& task);

// The texts of an export, as they are written.
std::string export_header(const ExportPlan& plan);
std::string export_source(const ExportPlan& plan);
std::string export_manifest(const ExportPlan& plan);

struct ExportResult {
  std::vector<std::string> files;  // written, relative to the folder
  std::string error;               // why the export is not whole
  std::string note;                // what is missing though the rest is there: no C compiler, a foreign target
};

// Makes the folder if it is not there; files of the same names are replaced.
ExportResult write_export(const ExportPlan& plan, const std::string& folder);

}  // namespace tw
