// Whether tests on OpenCL devices can run here.
#pragma once
#include <string>

namespace tw::test {

// "" = they must; else what is missing: a device, or its worker, which is built where the headers are.
std::string missing_for_opencl();

}  // namespace tw::test
