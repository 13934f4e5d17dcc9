// Export of kernels for devices: their source, a manifest with launches, the traces; for OpenCL also a small launcher
// in C with its header, to be compiled into any OpenCL host program. Needs nothing of tracewright and no device.
#pragma once
#include "runtime/export.h"

namespace tw {

// The launcher of an OpenCL library: tables and functions, in C99.
std::string opencl_header(const ExportPlan& plan);
std::string opencl_source(const ExportPlan& plan);
std::string device_manifest(const ExportPlan& plan);

// As write_export. All tasks must be for devices of one kind.
ExportResult write_device_export(const ExportPlan& plan, const std::string& folder);

}  // namespace tw
