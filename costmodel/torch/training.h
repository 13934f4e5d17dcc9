// How the plugin's networks learn and score, whatever their architecture.
#pragma once
#include "costmodel/torch/architecture.h"

namespace tw_torch {

struct Model {
  const Architecture* architecture;
  int64_t columns;
  bool trained = false;
  Tensor mean, scale;  // [columns]: a feature enters the network as (value - mean) * scale
  Weights weights;
};

Weights random_weights(const Architecture& architecture, int64_t columns, uint64_t seed);

// Scales the features to mean 0 and deviation 1 over the batch, or to at most 1 (Architecture). The first layer is
// rewritten so that the network computes what it computed before, except for values that are cut.
void fit_scaling(Model& model, const tw_network_batch& batch);

// Throws if training ends in weights that are no numbers; the model is then in between.
void train(Model& model, const tw_network_data& data, const tw_network_training& options, tw_network_report& report);

// One score per candidate into `scores`.
void predict(const Model& model, const tw_network_batch& batch, float* scores);

}  // namespace tw_torch
