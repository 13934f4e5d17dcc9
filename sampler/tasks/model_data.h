// Data for cost models out of databases: the trace of each record is replayed, and features of the kind that the model
// wants are extracted of it and its program. Nothing is built of rules, compiled or run, so any database will do,
// whatever list it was tuned with.
#pragma once
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "costmodel/evaluation.h"
#include "costmodel/feature_kind.h"
#include "costmodel/gpu/kernel_estimate.h"
#include "dsl/ir/compare.h"
#include "runtime/store/database.h"

namespace tw {

struct ModelData {
  // What one machine measured of one task: a group of the data set.
  struct Task {
    std::string name, workload, target, machine;
    std::string op;  // the name that the workload has in its text
    int candidates = 0, failed = 0;
  };
  FeatureKind features = FeatureKind::Stores;  // of `data`
  Dataset data;                                // group: number of the task
  std::vector<float> draft;  // for each candidate: what the draft model says, as a score (higher is faster)
  std::vector<std::vector<KernelEstimate>> estimates;  // and its parts, of described GPUs
  std::vector<std::string> rules;                      // the rule that tiled it; "-": none says so
  std::vector<Task> tasks;
  i64 left_out = 0;            // records that this version cannot replay
  std::string first_left_out;  // why the first of them was left out
  i64 repeated = 0;            // records of a task, machine and program that an earlier database has
  std::set<Hash128> taken;     // of task, machine and program, each record that was read
};

// Adds the trials of a database: of each task those of the machine that has the most, so that times can be compared;
// without untuned programs, which have no trace, and each program of a task and machine once, also if several databases
// have it: else a copy could be learned from while the other one is held out.
// `stop` is asked now and then; once true, what was read so far counts. Errors are those of the database.
DatabaseStatus add_model_data(ModelData& data, Database& database, const std::function<bool()>& stop = {});

// For folds_of, a number for each task: tasks of one workload, whatever machine or target measured them, have the same
// one; or those of one operator.
std::vector<int> kinds_of(const ModelData& data, Holdout holdout);

}  // namespace tw
