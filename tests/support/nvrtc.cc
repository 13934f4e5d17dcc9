#include "support/nvrtc.h"

#include "support/run_program.h"

namespace tw::test {

std::string missing_for_nvrtc() {
  Finished found = run_program({"sh", "-c",
                                "for home in \"$CUDA_HOME\" \"$CUDA_PATH\" /usr/local/cuda /usr/local/cuda-*; do "
                                "ls \"$home\"/lib64/libnvrtc.so* \"$home\"/lib/libnvrtc.so* 2>/dev/null; done; "
                                "/sbin/ldconfig -p | grep 'libnvrtc[.]so'"});
  return found.out.empty() ? "no libnvrtc.so (the CUDA toolkit)" : "";
}

bool has_cuda_driver() {
  return run_program({"sh", "-c", "/sbin/ldconfig -p | grep -q 'libcuda[.]so[.]1 '"}).code == 0;
}

}  // namespace tw::test
