// Export of a whole model for a device: a library with the functions of any compiled model (model_functions.h), whose
// `create` opens the driver, copies and packs the weights, and whose `run` copies inputs and outputs. It needs nothing
// of tracewright, and neither headers nor a driver to be written or linked.
#pragma once
#include "runtime/export/export.h"

namespace tw {

// Of places in the device's memory: what any OpenCL device asks of a part of a buffer (CL_DEVICE_MEM_BASE_ADDR_ALIGN is
// 4096 bits at most), and more than CUDA does.
inline constexpr i64 kDeviceAlignment = 512;

// As write_export. The plan has a model; all its tasks are for `target`, of which the library opens device number
// `device`. For CUDA, NVRTC is needed.
ExportResult write_device_model(const ExportPlan& plan, const Target& target, const std::string& folder);

}  // namespace tw
