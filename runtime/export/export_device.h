// Export of kernels for devices: their source, for CUDA also machine code, for OpenCL the driver's binary where the
// plan has it, a manifest with launches, the traces; a small launcher in C with its header, to be compiled into any
// host program. The files need nothing of tracewright, and writing them no device.
#pragma once
#include "runtime/export/export.h"

namespace tw {

// As write_export. All tasks must be for devices of one kind. Where NVRTC is missing, an export for CUDA has neither
// machine code nor launcher, and the note says so.
ExportResult write_device_export(const ExportPlan& plan, const std::string& folder);

}  // namespace tw
