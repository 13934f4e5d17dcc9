#include "backends/gpu_source/vocabulary.h"

#include "backends/gpu_source/language.h"
#include "backends/gpu_source/matrix_functions.h"
#include "dsl/base/text.h"

namespace tw {

std::vector<WarpProduct> warp_products() {
  std::vector<WarpProduct> out;
  for (const Intrinsic* intrinsic : warp_intrinsics()) {
    if (intrinsic->lanes == kWarpLanes) out.push_back({gpu::mma_function(*intrinsic).name, intrinsic});
  }
  return out;
}

std::vector<WarpgroupProduct> warpgroup_products() {
  std::vector<WarpgroupProduct> out;
  for (const Intrinsic* intrinsic : warp_intrinsics()) {
    bool reads_shared =
        intrinsic->lanes > kWarpLanes && intrinsic->holds[0].is_empty() && intrinsic->holds[1].is_empty();
    for (bool a : {false, true}) {
      for (bool b : {false, true}) {
        if (reads_shared) out.push_back({gpu::warpgroup_mma_function(*intrinsic, {a, b}).name, intrinsic, {a, b}});
      }
    }
  }
  return out;
}

std::string cuda_vocabulary() {
  std::string out =
      cat(gpu::half_functions(), gpu::cuda_c().async_copies, gpu::cuda_c().async_fills, gpu::cuda_c().divide);
  for (const WarpProduct& product : warp_products()) out += gpu::mma_function(*product.intrinsic).definition;
  for (const WarpgroupProduct& product : warpgroup_products())
    out += gpu::warpgroup_mma_function(*product.intrinsic, product.across).definition;
  for (gpu::DeviceFunction (*function)() : {gpu::warpgroup_begin_function, gpu::warpgroup_commit_function,
                                            gpu::warpgroup_wait_function, gpu::shared_fence_function})
    out += function().definition;
  for (int pieces : {1, 2, 4}) {
    for (bool is_transposed : {false, true}) out += gpu::ldmatrix_function(pieces, is_transposed).definition;
  }
  out += gpu::round_function().definition;
  for (DType type : {DType::F16, DType::I8}) out += gpu::pack_function(type).definition;
  return out;
}

}  // namespace tw
