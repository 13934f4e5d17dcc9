// Networks as cost models. They live in the LibTorch plugin libtracewright_torch.so, so that nothing but these models
// ever loads LibTorch. This side finds and opens the plugin, decides how to train, and keeps the books; the networks
// themselves are in torch/.
#pragma once
#include <memory>
#include <string>

#include "costmodel/cost_model.h"
#include "costmodel/objective.h"

namespace tw {

// A network and how it is trained.
struct NetworkForm {
  const char* name;  // of the model
  int kind;          // TW_NETWORK_MLP, ... (network_abi.h)
  int max_epochs;    // of a full fit, which stops after `patience` epochs without a better held-out order
  int patience;
  float learning_rate;  // at the start
  int round_visits;     // candidates visited between two rounds of a search
  int first_visits;     // in the first round, when nothing has been learned yet
  // Otherwise than by visits, if not 0: epochs between two rounds; max_epochs, as long as nothing was learned or there
  // are fewer than `few` candidates.
  int round_epochs = 0, few = 0;
  int rank_loss = 0;  // of the objective rank: TW_NETWORK_RANK or TW_NETWORK_LAMBDA_RANK
  int batch_size = 64;
  int held_out_every = 10;  // of a full fit, to judge an epoch
};

// A multi-layer perceptron on per-store rows. Architecture after MetaSchedule's (arXiv 2205.13603; TVM's MLP model):
// two layers, rows summed, two residual blocks. Otherwise than there, layers have 128 units and not 256, features are
// standardised, the loss is a weighted pairwise one within each task, and steps are smaller in size and larger in rate:
// in the same second this orders held-out pairs better (0.87 against 0.78 on the synthetic problem of the tests, 4
// tasks of 300 candidates).
extern const NetworkForm kMlp;
// MetaSchedule's own form of it, on its 164 features: 256 units, features divided by the largest, LambdaRank on batches
// of 128 candidates whatever their task, small steps, 50 epochs, 5 between rounds once its batch of 64 trials is less
// than a fifth of what is known. Otherwise than there, held out are candidates and not tasks, which a search has too
// few of, rounds visit all candidates, with steps that fall, and not the new ones alone, and there are no features of
// the names of blocks.
extern const NetworkForm kMlpReference;
// AutoTVM's TreeGRU (NeurIPS 2018) on the rows of the loop tree (loop_rows.h).
extern const NetworkForm kTreeGru;
// A network after TLP (ASPLOS 2023) on the rows of the trace (trace_rows.h): attention between instructions.
extern const NetworkForm kTlp;

// Opens the plugin and makes a model in it. Null if that is not possible; then *why says where it
// was looked for and what was wrong. The plugin is the file named by the environment variable
// TRACEWRIGHT_TORCH_PLUGIN if that is set; otherwise it is looked for in the folder of this library
// and in the library folders beside it.
std::unique_ptr<CostModel> open_network_model(const NetworkForm& form, int columns, u64 seed, Objective objective,
                                              std::string* why);

}  // namespace tw
