#include "backends/gpu_source/vocabulary.h"

#include "backends/gpu_source/language.h"
#include "dsl/base/text.h"

namespace tw {

std::string cuda_vocabulary() { return cat(gpu::half_functions(), gpu::cuda_c().async_copies); }

}  // namespace tw
