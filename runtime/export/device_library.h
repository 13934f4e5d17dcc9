// The C functions of a model's library for a device, as its users see them and as they call device_model.h and
// device_times.h. For export_device_model.cc.
#pragma once
#include <string>

#include "backends/target.h"
#include "runtime/export/export.h"

namespace tw {

// The whole header.
std::string device_header(const ExportPlan& plan, const Target& target);
// Definitions of what it declares; they stand behind a `static const tw_model model`.
std::string device_definitions(const ExportPlan& plan, const Target& target);

}  // namespace tw
