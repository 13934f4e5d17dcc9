// Gradient boosted trees by XGBoost, as MetaSchedule uses them (arXiv 2205.13603; TVM's XGBModel): a tree sees one row
// (say, a store), the score of a candidate is the sum over its rows, and the loss is on that sum. Its derivative by
// each row's part is the one by the score, so all rows of a candidate get the same gradient. XGBoost knows none of
// this: it is handed gradients.
#pragma once
#include <memory>
#include <string>

#include "costmodel/cost_model.h"
#include "costmodel/objective.h"

namespace tw {

// How the trees are grown.
struct XgboostForm {
  const char* name;  // of the model
  Objective usual;   // the objective, where nothing else is asked for
  int depth;
  float rate;          // share of each tree's correction that is added
  float least_gain;    // of a split
  float column_share;  // columns that a tree may ask about, drawn anew per tree
  int bins;  // of a column, between which a split may be; 0 = all values are tried, as XGBoost does with few rows
  // The second derivative of a row is taken for all rows of its candidate together: n rows that move at once move the
  // score n times as far, and steps that do not know of it overshoot.
  bool knows_rows;
  float slow_weight;      // of regression, squared_slopes()
  int round_trees;        // between two rounds of a search
  int round_limit;        // candidates learned then, drawn if there are more; 0 = all
  int full_trees;         // at most
  int patience;           // trees without a lower loss before it stops
  bool stops_on_learned;  // by the loss of what is learned, in rounds too; else by that of held-out ones, if it is full
  int least_candidates;   // of fewer nothing is learned
};

// Measured to be best in a second between two rounds (bench/model_bench.cc).
extern const XgboostForm kXgboost;
// TVM's hyper-parameters: deep trees, as many as lower the loss, a squared error weighted by the relative speed.
extern const XgboostForm kXgboostReference;

// kXgboost on the rows of other feature kinds (feature_kind.h).
extern const XgboostForm kXgboostRelation, kXgboostKnobs;

// Opens the library and makes a model. Null if that is not possible; then *why says what was wrong.
std::unique_ptr<CostModel> open_xgboost_model(const XgboostForm& form, int columns, u64 seed, Objective objective,
                                              std::string* why);

}  // namespace tw
