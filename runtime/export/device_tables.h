// What all exports for devices write: the C tables that a launcher reads, machine code, and the manifest's entry of a
// kernel. For export_device.cc and export_device_model.cc only.
#pragma once
#include <boost/json/object.hpp>
#include <string>
#include <vector>

#include "backends/kernel.h"
#include "backends/target.h"
#include "runtime/export/export.h"

namespace tw {

// What the names of a kind's launcher begin with: "tw_cl", "tw_cuda".
const char* launcher_prefix(TargetKind kind);
// The text of the launcher; it needs what it is compiled behind to declare the driver's functions, or their headers.
std::string launcher_text(TargetKind kind);

// C tables of one kernel, of which the launcher reads `NAME_table`. `binary`: machine code; empty: the source is
// compiled by the driver.
std::string kernel_tables(TargetKind kind, const std::string& name, const Kernel& kernel, const std::string& binary);

// Machine code of every task for `cuda`, empty strings for others. Where NVRTC fails, `problem` says why, and all are
// empty.
std::vector<std::string> machine_code(const ExportPlan& plan, std::string& problem);

// Arguments with the role Packed, or all others.
std::vector<const KernelArgument*> arguments_with(const std::vector<KernelArgument>& arguments, bool packed);

// Where the files of a task lie, and how its kernels are launched. `has_machine_code`: beside the source.
boost::json::object device_task_entry(const ExportedTask& task, bool has_machine_code);

}  // namespace tw
