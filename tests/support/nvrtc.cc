#include "support/nvrtc.h"

#include "support/run_program.h"

namespace tw::test {

std::string missing_for_nvrtc() {
  Finished found = run_program({"sh", "-c",
                                "ls /usr/local/cuda/lib64/libnvrtc.so.1[23] \"$CUDA_HOME\"/lib64/libnvrtc.so.1[23] 2>/dev/null; "
                                "/sbin/ldconfig -p | grep 'libnvrtc[.]so[.]1[23]'"});
  return found.out.empty() ? "no libnvrtc.so of CUDA 12 or 13 (the CUDA toolkit)" : "";
}

bool has_cuda_driver() { return run_program({"sh", "-c", "/sbin/ldconfig -p | grep -q 'libcuda[.]so[.]1 '"}).code == 0; }

}  // namespace tw::test
