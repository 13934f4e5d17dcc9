#include "costmodel/xgboost_model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "costmodel/model_bytes.h"
#include "costmodel/xgboost_api.h"
#include "dsl/base/rng.h"
#include "dsl/base/text.h"

namespace tw {
namespace {

XgboostForm named(const char* name, XgboostForm form) {
  form.name = name;
  return form;
}

using xgboost::Api;
using xgboost::Handle;
using Owned = std::unique_ptr<void, int (*)(Handle)>;

constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();
constexpr int held_out_every = 10;   // of a full fit
constexpr int least_held_out = 640;  // candidates; of fewer, a tenth would be too few to say when to stop

// What XGBoost was asked and refused; the text is its own.
bool failed(const Api& api, int code, std::string& problem) {
  if (code != 0) problem = cat("XGBoost: ", api.last_error());
  return code != 0;
}

// Sums of the rows' values, per candidate.
std::vector<float> sum_rows(const FeatureBatch& batch, const float* values) {
  std::vector<float> out(batch.size());
  for (int c = 0; c < batch.size(); ++c) {
    out[c] = std::accumulate(values + batch.first_row[c], values + batch.first_row[c + 1], 0.0f);
  }
  return out;
}

// The value of each candidate for each of its rows, the second derivatives times `rows` if so wanted.
std::vector<float> spread(const FeatureBatch& batch, const std::vector<float>& values, bool times_rows) {
  std::vector<float> out(batch.rows());
  for (int c = 0; c < batch.size(); ++c) {
    const i32 begin = batch.first_row[c], end = batch.first_row[c + 1];
    const float factor = times_rows ? static_cast<float>(end - begin) : 1.0f;
    std::fill(out.begin() + begin, out.begin() + end, values[c] * factor);
  }
  return out;
}

Owned new_booster(const Api& api, const XgboostForm& form, u64 seed, const Handle* matrix, std::string& problem) {
  Handle made = nullptr;
  if (failed(api, api.create_booster(matrix, matrix ? 1 : 0, &made), problem)) return {nullptr, api.free_booster};
  Owned booster(made, api.free_booster);
  const std::pair<const char*, std::string> parameters[] = {
      {"verbosity", "0"},
      {"nthread", "1"},  // a second thread adds sums in another order
      {"seed", cat(seed % 0x7fffffff)},
      {"base_score", "0"},
      {"tree_method", form.bins > 0 ? "hist" : "auto"},
      {"max_bin", cat(std::max(form.bins, 2))},
      {"max_depth", cat(form.depth)},
      {"eta", cat(form.rate)},
      {"gamma", cat(form.least_gain)},
      {"min_child_weight", "0"},
      {"colsample_bytree", cat(form.column_share)}};
  for (const auto& [name, value] : parameters) {
    if (failed(api, api.set_parameter(made, name, value.c_str()), problem)) return {nullptr, api.free_booster};
  }
  return booster;
}

// Candidates of a dataset, as they are learned.
struct Chosen {
  FeatureBatch features;
  std::vector<float> speed;
  std::vector<i32> group;
  std::vector<float> base;  // empty = zeros
};

Chosen choose(const Dataset& data, int limit, u64 seed) {
  const std::vector<float> speed = relative_speed(data.seconds, data.group);
  if (limit == 0 || data.size() <= limit) return {data.features, speed, data.group, data.base};
  std::vector<int> places(data.size());
  std::iota(places.begin(), places.end(), 0);
  Rng rng(seed, static_cast<u64>(data.size()));
  for (int i = 0; i < limit; ++i) std::swap(places[i], places[i + rng.below(data.size() - i)]);
  places.resize(limit);
  std::sort(places.begin(), places.end());
  Chosen out{.features = {.columns = data.features.columns}};
  for (int place : places) {
    out.features.add(data.features, place);
    out.speed.push_back(speed[place]);
    out.group.push_back(data.group[place]);
    if (!data.base.empty()) out.base.push_back(data.base[place]);
  }
  return out;
}

// One fit from scratch.
class Fit {
 public:
  Fit(const Api& api, const XgboostForm& form, Objective objective, const Chosen& chosen, u64 seed)
      : api_(api), form_(form), objective_(objective), chosen_(chosen), seed_(seed) {}

  // The booster, or null with `problem`.
  Owned run(int trees, int patience) {
    const FeatureBatch& features = chosen_.features;
    Handle made = nullptr;
    Owned none(nullptr, api_.free_booster);
    if (failed(api_,
               api_.create_matrix(features.values.data(), features.rows(), features.columns, not_a_number, &made, 1),
               problem))
      return none;
    const Owned matrix(made, api_.free_matrix);
    Owned booster = new_booster(api_, form_, seed_, &made, problem);
    if (!booster) return none;
    std::vector<int> judged;
    for (int c = 0; c < features.size(); ++c) {
      const bool out = patience > 0 && !form_.stops_on_learned && c % held_out_every == held_out_every - 1;
      (out ? judged : learned_).push_back(c);
    }
    if (patience > 0 && form_.stops_on_learned) judged = learned_;
    const Learned learned{chosen_.speed, chosen_.group, learned_}, to_judge{chosen_.speed, chosen_.group, judged};
    double best = std::numeric_limits<double>::infinity();
    for (int tree = 0; tree < trees; ++tree) {
      if (!add_tree(booster.get(), made, learned, tree)) return none;
      loss = slopes_.loss;
      if (judged.empty()) {
        best_trees = tree + 1;
        continue;
      }
      if (!score(booster.get(), made)) return none;
      slopes(to_judge, 0);  // the same pairs each time
      if (slopes_.loss < best) best = slopes_.loss, best_trees = tree + 1;
      if (tree + 1 - best_trees >= patience) break;
    }
    return booster;
  }

  std::string problem;
  int best_trees = 0;
  double loss = 0;

 private:
  // The scores of all candidates, with their bases.
  bool score(Handle booster, Handle matrix) {
    static constexpr const char* config =
        R"({"type": 1, "training": true, "iteration_begin": 0, "iteration_end": 0, "strict_shape": false})";
    const u64* shape = nullptr;
    u64 dimensions = 0;
    const float* values = nullptr;
    if (failed(api_, api_.predict(booster, matrix, config, &shape, &dimensions, &values), problem)) return false;
    scores_ = sum_rows(chosen_.features, values);
    for (std::size_t c = 0; c < chosen_.base.size(); ++c) scores_[c] += chosen_.base[c];
    return true;
  }

  void slopes(const Learned& data, int pass) {
    if (objective_ == Objective::Rank)
      pairwise_slopes(data, scores_, seed_, pass, slopes_);
    else
      squared_slopes(data, scores_, form_.slow_weight, slopes_);
  }

  bool add_tree(Handle booster, Handle matrix, const Learned& data, int tree) {
    if (!score(booster, matrix)) return false;
    slopes(data, tree);
    std::vector<float> gradient = spread(chosen_.features, slopes_.gradient, false);
    std::vector<float> curvature = spread(chosen_.features, slopes_.curvature, form_.knows_rows);
    return !failed(api_, api_.boost(booster, matrix, gradient.data(), curvature.data(), gradient.size()), problem);
  }

  const Api& api_;
  const XgboostForm& form_;
  Objective objective_;
  const Chosen& chosen_;
  u64 seed_;
  std::vector<int> learned_;
  std::vector<float> scores_;
  Slopes slopes_;
};

class XgboostModel : public CostModel {
 public:
  XgboostModel(const Api& api, const XgboostForm& form, int columns, u64 seed, Objective objective)
      : api_(api),
        form_(form),
        columns_(columns),
        seed_(seed),
        objective_(resolved(objective, form.usual)),
        booster_(nullptr, api.free_booster) {}

  const char* name() const override { return form_.name; }
  Objective objective() const override { return objective_; }

  std::vector<float> predict(const FeatureBatch& batch) const override {
    TW_CHECK(batch.columns == columns_);
    if (!booster_ || batch.rows() == 0) return std::vector<float>(batch.size(), 0.0f);
    const std::string values =
        cat(R"({"data": [)", reinterpret_cast<std::uintptr_t>(batch.values.data()), R"(, true], "shape": [)",
            batch.rows(), ", ", columns_, R"(], "typestr": "<f4", "version": 3})");
    const std::string config = cat(R"({"type": 1, "training": false, "iteration_begin": 0, "iteration_end": )", trees_,
                                   R"(, "strict_shape": false, "missing": NaN, "cache_id": 0})");
    const u64* shape = nullptr;
    u64 dimensions = 0;
    const float* out = nullptr;
    std::string problem;
    const int code =
        api_.predict_dense(booster_.get(), values.c_str(), config.c_str(), nullptr, &shape, &dimensions, &out);
    if (failed(api_, code, problem)) check_failed("XGBoost predicts", __FILE__, __LINE__, problem.c_str());
    return sum_rows(batch, out);
  }

  TrainReport update(const Dataset& data, Effort effort) override {
    TW_CHECK(data.features.columns == columns_);
    TrainReport report{.candidates = data.size()};
    if (data.size() < form_.least_candidates || data.features.rows() == 0) return report;
    const bool is_full = effort == Effort::Full;
    const Chosen chosen = choose(data, is_full ? 0 : form_.round_limit, seed_);
    if (chosen.features.rows() == 0) return report;
    Fit fit(api_, form_, objective_, chosen, seed_);
    const bool may_stop = form_.stops_on_learned || (is_full && data.size() >= least_held_out);
    Owned booster = fit.run(is_full ? form_.full_trees : form_.round_trees, may_stop ? form_.patience : 0);
    report.problem = fit.problem;
    if (!booster) return report;
    booster_ = std::move(booster);
    trees_ = report.passes = fit.best_trees;
    report.from_scratch = true;
    report.loss = static_cast<float>(fit.loss);
    return report;
  }

  std::string save() const override {
    ModelWriter out(name(), columns_, objective_);
    out.put(seed_);
    out.put(static_cast<i64>(trees_));
    std::string_view bytes;
    std::string problem;
    if (booster_) {
      u64 size = 0;
      const char* begin = nullptr;
      if (failed(api_, api_.save(booster_.get(), R"({"format": "ubj"})", &size, &begin), problem))
        check_failed("XGBoost saves", __FILE__, __LINE__, problem.c_str());
      bytes = {begin, static_cast<std::size_t>(size)};
    }
    out.put_text(bytes);
    return out.take();
  }

  Status load(std::string_view bytes) override {
    ModelReader in(bytes);
    TW_TRY_STATUS(in.header(name(), columns_));
    u64 seed = 0;
    i64 trees = 0;
    std::string_view saved;
    // XGBoost walks trees whose nodes point nowhere: the hash of the header's check keeps such bytes from it.
    if (!in.get(seed) || !in.get(trees) || !in.get_text(saved) || !in.at_end()) return damaged_model();
    Owned booster(nullptr, api_.free_booster);
    if (!saved.empty()) {
      std::string problem;
      booster = new_booster(api_, form_, seed, nullptr, problem);
      if (!booster || failed(api_, api_.load(booster.get(), saved.data(), saved.size()), problem))
        return damaged_model();
    }
    booster_ = std::move(booster);
    seed_ = seed;
    trees_ = static_cast<int>(trees);
    return ok();
  }

 private:
  Api api_;
  const XgboostForm& form_;
  int columns_;
  u64 seed_;
  Objective objective_;
  Owned booster_;  // null: nothing was learned yet
  int trees_ = 0;  // that count
};

}  // namespace

const XgboostForm kXgboost = {.name = "xgboost",
                              .usual = Objective::Rank,
                              .depth = 6,
                              .rate = 0.2f,
                              .least_gain = 0,
                              .column_share = 0.4f,
                              .bins = 64,  // 256 take twice the time and rank no better
                              .knows_rows = true,
                              .slow_weight = 1,
                              .round_trees = 60,
                              .round_limit = 2000,
                              .full_trees = 500,
                              .patience = 50,
                              .stops_on_learned = false,
                              .least_candidates = 2};

const XgboostForm kXgboostReference = {.name = "xgboost-reference",
                                       .usual = Objective::Regression,
                                       .depth = 10,
                                       .rate = 0.2f,
                                       .least_gain = 1e-3f,
                                       .column_share = 1,
                                       .bins = 0,
                                       .knows_rows = false,
                                       .slow_weight = 0,
                                       .round_trees = 10000,
                                       .round_limit = 0,
                                       .full_trees = 10000,
                                       .patience = 50,
                                       .stops_on_learned = true,
                                       .least_candidates = 100};

const XgboostForm kXgboostRelation = named("xgboost-relation", kXgboost),
                  kXgboostKnobs = named("xgboost-knobs", kXgboost);

std::unique_ptr<CostModel> open_xgboost_model(const XgboostForm& form, int columns, u64 seed, Objective objective,
                                              std::string* why) {
  const std::optional<Api> api = xgboost::open_api(why);
  if (!api) return nullptr;
  return std::make_unique<XgboostModel>(*api, form, columns, seed, objective);
}

}  // namespace tw
