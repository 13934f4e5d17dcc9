#include "costmodel/network_model.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "costmodel/model_bytes.h"
#include "costmodel/network_abi.h"
#include "dsl/base/rng.h"
#include "dsl/base/text.h"

namespace tw {
namespace {

constexpr const char* plugin_file = "libtracewright_torch.so";
constexpr const char* plugin_variable = "TRACEWRIGHT_TORCH_PLUGIN";

// Where the plugin may be, first choice first.
std::vector<std::filesystem::path> plugin_places() {
  if (const char* named = std::getenv(plugin_variable)) return {named};
  Dl_info self{};
  if (!dladdr(reinterpret_cast<const void*>(&plugin_places), &self) || !self.dli_fname) return {};
  std::error_code unreadable;
  const std::filesystem::path folder = std::filesystem::absolute(self.dli_fname, unreadable).parent_path();
  std::vector<std::filesystem::path> out;
  for (const char* place : {".", "tracewright", "../lib", "../lib/tracewright", "../lib64"}) {
    out.push_back((folder / place / plugin_file).lexically_normal());
  }
  return out;
}

// The function table of the plugin at `path`, or null and *why. The plugin stays open: LibTorch
// cannot be unloaded.
const tw_network_api* open_plugin(const std::filesystem::path& path, std::string* why) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!library) {
    *why = dlerror();
    return nullptr;
  }
  const auto open = reinterpret_cast<tw_network_open_function>(dlsym(library, "tw_network_open"));
  if (!open) {
    *why = cat(path.string(), " is no cost model plugin: it has no tw_network_open");
    return nullptr;
  }
  const tw_network_api* api = open(TW_NETWORK_ABI_VERSION);
  if (!api) {
    *why = cat(path.string(), " belongs to another version of tracewright: it does not speak version ",
               TW_NETWORK_ABI_VERSION);
  }
  return api;
}

const tw_network_api* find_plugin(std::string* why) {
  const std::vector<std::filesystem::path> places = plugin_places();
  for (const std::filesystem::path& place : places) {
    std::error_code unreadable;
    if (std::filesystem::exists(place, unreadable)) return open_plugin(place, why);
  }
  *why = "no file";
  for (const std::filesystem::path& place : places) *why += cat(&place == &places[0] ? " " : ", ", place.string());
  return nullptr;
}

constexpr int least_held_out = 640;  // candidates; of fewer, a tenth would be too few to say when to stop

constexpr float full_step_candidates = 64;  // with a base; of fewer, steps are smaller

class NetworkModel : public CostModel {
 public:
  NetworkModel(const tw_network_api* api, const NetworkForm& form, tw_network* network, int columns, u64 seed,
               Objective objective)
      : api_(api),
        form_(form),
        network_(network),
        columns_(columns),
        seed_(seed),
        objective_(resolved(objective, kUsual)) {}
  NetworkModel(const NetworkModel&) = delete;
  NetworkModel& operator=(const NetworkModel&) = delete;
  ~NetworkModel() override { api_->destroy(network_); }

  const char* name() const override { return form_.name; }
  Objective objective() const override { return objective_; }

  std::vector<float> predict(const FeatureBatch& batch) const override {
    std::vector<float> scores(batch.size());
    const tw_network_batch view = view_of(batch);
    tw_network_error error{};
    const bool failed = api_->predict(network_, &view, scores.data(), &error) != 0;
    if (failed) check_failed("the network predicts", __FILE__, __LINE__, error.text);
    return scores;
  }

  TrainReport update(const Dataset& data, Effort effort) override {
    TrainReport report{.candidates = data.size()};
    if (data.size() < 2) return report;
    const std::vector<float> speed = relative_speed(data.seconds, data.group);
    const tw_network_data view{view_of(data.features), speed.data(), data.group.data(),
                               data.base.empty() ? nullptr : data.base.data()};
    tw_network_training options = training_for(data.size(), effort);
    // What few candidates say beyond the base is little: steps in proportion do not spoil its order.
    if (view.base) options.learning_rate *= std::min(1.0f, static_cast<float>(data.size()) / full_step_candidates);
    tw_network_report done{};
    tw_network_error error{};
    if (api_->train(network_, &view, &options, &done, &error) != 0) {
      report.problem = error.text;
      return report;
    }
    is_trained_ = true;
    report.from_scratch = options.from_scratch;
    report.passes = done.best_epoch;
    report.loss = done.loss;
    return report;
  }

  std::string save() const override {
    ModelWriter out(name(), columns_, objective_);
    out.put(seed_);
    std::string network(static_cast<std::size_t>(api_->saved_bytes(network_)), '\0');
    api_->save(network_, network.data());
    out.put_text(network);
    return out.take();
  }

  Status load(std::string_view bytes) override {
    ModelReader in(bytes);
    TW_TRY_STATUS(in.header(name(), columns_));
    u64 seed = 0;
    std::string_view network;
    if (!in.get(seed) || !in.get_text(network) || !in.at_end()) return damaged_model();
    tw_network_error error{};
    if (api_->load(network_, network.data(), static_cast<i64>(network.size()), &error) != 0) return damaged_model();
    is_trained_ = true;
    seed_ = seed;
    return ok();
  }

 private:
  static constexpr Objective kUsual = Objective::Rank;

  tw_network_batch view_of(const FeatureBatch& batch) const {
    TW_CHECK(batch.columns == columns_);
    return {batch.values.data(), batch.first_row.data(), batch.size()};
  }

  // Between rounds the network goes on from where it is, for a bounded number of visits. Fits from
  // scratch in the same time are worse as soon as the data outgrow the visits.
  tw_network_training training_for(int candidates, Effort effort) const {
    tw_network_training options = {
        .objective = objective_ == Objective::Regression ? TW_NETWORK_REGRESSION : form_.rank_loss,
        .from_scratch = 1,
        .max_epochs = form_.max_epochs,
        .patience = form_.patience,
        .held_out_every = form_.held_out_every,
        .batch_size = form_.batch_size,
        .learning_rate = form_.learning_rate,
        .weight_decay = 1e-6f,
        .clip_norm = 0.5f,
        .seed = mix64(seed_ + candidates)};
    if (effort == Effort::Full) {
      if (candidates < least_held_out) options.patience = 0;
      return options;
    }
    options.from_scratch = 0;
    options.patience = 0;
    if (form_.round_epochs > 0) {
      if (is_trained_ && candidates >= form_.few) options.max_epochs = form_.round_epochs;
      return options;
    }
    int visits = is_trained_ ? form_.round_visits : form_.first_visits;
    options.max_epochs = std::clamp(visits / candidates, 1, form_.max_epochs);
    return options;
  }

  const tw_network_api* api_;
  const NetworkForm& form_;
  tw_network* network_;
  int columns_;
  u64 seed_;
  bool is_trained_ = false;
  Objective objective_;
};

}  // namespace

// Between two rounds the perceptron takes about a tenth of a second, where a round measures for one. Four times as many
// visits order the next batches no better (bench/model_bench.cc).
const NetworkForm kMlp = {.name = "mlp",
                          .kind = TW_NETWORK_MLP,
                          .max_epochs = 50,
                          .patience = 15,
                          .learning_rate = 3e-3f,
                          .round_visits = 1500,
                          .first_visits = 6000};

const NetworkForm kMlpReference = {.name = "mlp-reference",
                                   .kind = TW_NETWORK_MLP_REFERENCE,
                                   .max_epochs = 50,
                                   .patience = 50,
                                   .learning_rate = 7e-4f,
                                   .round_visits = 0,
                                   .first_visits = 0,
                                   .round_epochs = 5,
                                   .few = 5 * 64,
                                   .rank_loss = TW_NETWORK_LAMBDA_RANK,
                                   .batch_size = 128,
                                   .held_out_every = 5};

const NetworkForm kTreeGru = {.name = "treegru",
                              .kind = TW_NETWORK_TREE_GRU,
                              .max_epochs = 50,
                              .patience = 15,
                              .learning_rate = 3e-3f,
                              .round_visits = 1500,
                              .first_visits = 6000};

const NetworkForm kTlp = {.name = "tlp",
                          .kind = TW_NETWORK_ATTENTION,
                          .max_epochs = 50,
                          .patience = 15,
                          .learning_rate = 3e-3f,
                          .round_visits = 1500,
                          .first_visits = 9000};

std::unique_ptr<CostModel> open_network_model(const NetworkForm& form, int columns, u64 seed, Objective objective,
                                              std::string* why) {
  const tw_network_api* api = find_plugin(why);
  if (!api) return nullptr;
  tw_network_error error{};
  tw_network* network = api->create(form.kind, columns, seed, &error);
  if (!network) {
    *why = error.text;
    return nullptr;
  }
  return std::make_unique<NetworkModel>(api, form, network, columns, seed, objective);
}

}  // namespace tw
