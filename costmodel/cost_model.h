// The interface of every cost model: features of candidates in, scores out. Used by the search
// (which sees nothing but this file, make_model.h and accuracy.h) and by the commands that train
// from a database. It knows no programs, traces or records: features and measured seconds come in
// as plain arrays. A model is used by one thread at a time.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/objective.h"
#include "dsl/base/arena.h"
#include "dsl/base/result.h"

namespace tw {

using i32 = std::int32_t;

// Candidates as ragged matrices: candidate c has the rows first_row[c] .. first_row[c + 1] (what a
// row is: feature_kind.h), each of `columns` numbers, all in one row-major block. A candidate may have no
// rows.
struct FeatureBatch {
  int columns = 0;
  std::vector<float> values;         // rows() x columns
  std::vector<i32> first_row = {0};  // size() + 1 entries, rising

  int size() const { return static_cast<int>(first_row.size()) - 1; }
  int rows() const { return first_row.back(); }
  const float* row(int index) const { return values.data() + static_cast<std::size_t>(index) * columns; }
  // All numbers of a candidate.
  std::span<const float> rows_of(int candidate) const {
    return {row(first_row[candidate]), row(first_row[candidate + 1])};
  }
  // Appends one candidate; rows.size() is a multiple of columns.
  void add(std::span<const float> rows);
  // Appends candidate `index` of another batch with the same columns.
  void add(const FeatureBatch& other, int index);
};

// Measured candidates. Those of a group oldest first: models take the order as the order of measuring.
struct Dataset {
  FeatureBatch features;
  std::vector<double> seconds;  // per candidate, > 0; infinity = failed
  std::vector<i32> group;       // per candidate: its task; only within one group they are compared
  // Per candidate: the score to which what is learned is added (a base margin); empty = zeros. So a model learns what
  // its base does not know. predict() gives what was learned alone, without a base.
  std::vector<float> base;

  int size() const { return features.size(); }
  // Appends candidate `index` of another dataset with the same columns. Either both have bases, or neither has.
  void add(const Dataset& other, int index);
};

// What a model learns: seconds of the fastest of the group / seconds, in [0, 1]; 0 = failed.
std::vector<float> relative_speed(std::span<const double> seconds, std::span<const i32> group);

// Round: between two rounds of a search; bounded time, may adjust the model that is there instead
// of fitting a new one. Full: a fit from scratch that takes the time it needs, for training from a
// database alone and for a search that starts with more than some hundred records.
enum class Effort { Round, Full };

struct TrainReport {
  bool from_scratch = false;  // false: the model was adjusted, or left as it was
  int candidates = 0;         // in the dataset
  int passes = 0;             // epochs or boosting rounds that ended up in the model
  float loss = 0;             // training loss at the end; comparable within one kind of model only
  std::string problem;        // not empty: training failed and the model is as it was before
};

// A score and how far it may be off; 0 = the model cannot tell.
struct Prediction {
  float mean = 0, deviation = 0;
};

class CostModel {
 public:
  virtual ~CostModel() = default;
  // The name by which make_model() makes it.
  virtual const char* name() const = 0;
  // What it learns: rank or regression; usual = nothing.
  virtual Objective objective() const { return Objective::Usual; }
  // One score per candidate; higher = expected to be faster. Scores are comparable within a group
  // only. A model that has learned nothing yet scores all candidates 0.
  virtual std::vector<float> predict(const FeatureBatch& batch) const = 0;
  // The same scores with deviations.
  virtual std::vector<Prediction> predict_with_deviation(const FeatureBatch& batch) const;
  // Learns from everything measured so far (not only from what is new). The result depends only on
  // the model's state, its seed and the data, never on time or threads.
  virtual TrainReport update(const Dataset& data, Effort effort) = 0;
  // The model as bytes, and back: a loaded model predicts bit for bit what the saved one predicted.
  // Rejects bytes of another kind of model, another number of columns or another version, and
  // leaves the model as it was.
  virtual std::string save() const = 0;
  virtual Status load(std::string_view bytes) = 0;
};

}  // namespace tw
