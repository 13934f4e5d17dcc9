#include "support/opencl_device.h"

#include "support/run_program.h"

namespace tw::test {

std::string missing_for_opencl() {
  if (!TW_HAS_OPENCL_WORKER) return "CL/cl.h was not there when this was built (opencl-c-headers)";
  Finished devices = run_program({TW_BINARY_DIR "/tests/opencl_devices"});
  return devices.code == 0 ? "" : devices.out + devices.err;
}

}  // namespace tw::test
