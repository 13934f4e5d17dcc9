// The learned cost model: a multi-layer perceptron in LibTorch, which lives in the plugin libtracewright_torch.so so
// that nothing but this model ever loads LibTorch. This side finds and opens the plugin, decides how to train, and
// keeps the books; the network itself is in torch/mlp.cc. Architecture after MetaSchedule's (arXiv 2205.13603; TVM's
// MLP model): two layers, rows summed, two residual blocks. Otherwise than there, layers have 128 units and not 256,
// features are standardised, the loss is a weighted pairwise one within each task, and steps are smaller in size and
// larger in rate: in the same second this orders held-out pairs better (0.87 against 0.78 on the synthetic problem of
// the tests, 4 tasks of 300 candidates).
#pragma once
#include <memory>
#include <string>

#include "costmodel/cost_model.h"
#include "costmodel/objective.h"

namespace tw {

// Opens the plugin and makes a model in it. Null if that is not possible; then *why says where it
// was looked for and what was wrong. The plugin is the file named by the environment variable
// TRACEWRIGHT_TORCH_PLUGIN if that is set; otherwise it is looked for in the folder of this library
// and in the library folders beside it.
std::unique_ptr<CostModel> open_mlp_model(int columns, u64 seed, Objective objective, std::string* why);

}  // namespace tw
