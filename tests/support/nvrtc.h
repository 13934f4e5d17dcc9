// Whether tests that compile with NVRTC can run here. Asks the file system, not the code under test.
#pragma once
#include <string>

namespace tw::test {

// "" = they must; else what is missing.
std::string missing_for_nvrtc();

// Is there an NVIDIA driver where the dynamic linker looks, whatever LD_LIBRARY_PATH says?
bool has_cuda_driver();

}  // namespace tw::test
