#include "sampler/fleet/trial_builder.h"

#include <algorithm>
#include <chrono>

#include "dsl/base/clock.h"
#include "dsl/base/text.h"
#include "runtime/store/server_answers.h"
#include "sampler/fleet/calibration_kernels.h"
#include "sampler/search/trial.h"

namespace tw {
namespace {

constexpr std::chrono::milliseconds kPoll(1000);  // notifications wake a wait; where one is lost, it ends after so long
constexpr std::size_t kOpenTasks = 8;
constexpr int kMostFailures = 5;          // of the database, one behind the other
constexpr double kStoredSeconds = 86400;  // then a reference is stored again: unused ones are removed after a week

std::optional<Target> target_of(const std::string& text) {
  Source source{"target", text};
  Diagnostics diagnostics(source);
  return parse_target(text, 0, diagnostics);
}

bool is_same_task(const TakenBuild& a, const TakenBuild& b) {
  return a.what.workload == b.what.workload && a.what.target == b.what.target && a.what.seed == b.what.seed &&
         a.kind == b.kind;
}

}  // namespace

bool builds_for(const Target& own, const Target& target) {
  if (own.kind != target.kind) return false;
  if (own.kind == TargetKind::Cuda) return own.arch == target.arch;
  return own.kind == TargetKind::OpenCl ||
         (own.triple == target.triple && own.cpu == target.cpu && own.features == target.features);
}

bool calibrates_for(const Target& own, const Target& target) {
  return builds_for(own, target) || (!is_device(own) && !is_device(target) && own.triple == target.triple);
}

TrialBuilder::TrialBuilder(BuilderOptions options, SigningKey key, Waiting waiting)
    : options_(std::move(options)), key_(std::move(key)), waiting_(std::move(waiting)) {}

bool TrialBuilder::fail(const std::string& why) {
  if (report_.error.empty()) report_.error = why;
  return false;
}

BuilderReport TrialBuilder::run() {
  if (!open()) return report_;
  while (!waiting_.must_stop() && report_.error.empty()) {
    std::optional<std::vector<TakenBuild>> taken = take();
    if (!taken || !build_others()) break;
    if (taken->empty()) queue_->call<Done>(waiting_, [](TrialQueue& queue) { return queue.wait(kPoll); });
    std::span<const TakenBuild> left = *taken;
    while (!left.empty() && !waiting_.must_stop()) {
      std::size_t count = 1;
      while (count < left.size() && is_same_task(left[count], left[0])) ++count;
      if (!build_group(left.first(count))) break;
      left = left.subspan(count);
    }
  }
  if (!queue_->error().empty()) fail(queue_->error());
  heartbeat_.reset();
  Waiting no_longer{.must_stop = [] { return true; }, .say = waiting_.say};
  queue_->call<Done>(no_longer, [&](TrialQueue& queue) { return BuildQueue(queue).give_back(id_); });
  queue_->call<Done>(no_longer, [&](TrialQueue& queue) { return BuildQueue(queue).leave(id_); });
  return report_;
}

bool TrialBuilder::open() {
  const std::string& address = options_.address;
  auto queue = open_when_it_answers(address, waiting_, [&] { return TrialQueue::open(address); });
  if (!queue) return fail(queue.error());
  queue_.emplace(std::move(*queue));
  auto database = open_when_it_answers(address, waiting_, [&] { return Database::open(address, DatabaseMode::Write); });
  if (!database) return fail(database.error());
  database_.emplace(std::move(*database));
  if (!announce()) return false;
  heartbeat_ = std::make_unique<Heartbeat>(options_.address, [this](TrialQueue& beats) {
    DatabaseResult<bool> known = BuildQueue(beats).beat(id_);
    if (known && !*known) is_unknown_ = true;
    return known;
  });
  return true;
}

bool TrialBuilder::announce() {
  auto id =
      queue_->call<i64>(waiting_, [&](TrialQueue& queue) { return BuildQueue(queue).add_builder(options_.announced); });
  if (!id) return fail(queue_->error());
  id_ = *id;
  is_unknown_ = false;
  return true;
}

// Of what machines want: for our targets, our version and our key.
std::vector<WantedBuild> TrialBuilder::own_of(const std::vector<WantedBuild>& wanted) const {
  std::vector<WantedBuild> own;
  for (const WantedBuild& one : wanted) {
    const BuildPurpose purpose = BuildPurpose::parse(one.target);
    std::optional<Target> target = target_of(purpose.target), processor = target_of(one.processor);
    const bool is_calibration = purpose.sort == BuildPurpose::Sort::Calibration;
    auto is_for = [&](const Target& own) { return (is_calibration ? calibrates_for : builds_for)(own, *target); };
    bool is_ours = target && processor && !is_device(*processor) &&
                   (is_device(*target) || one.processor == purpose.target) &&
                   one.kind == BuildKind{TW_VERSION, one.processor, key_.name()}.text() &&
                   std::ranges::any_of(options_.targets, is_for);
    if (is_ours) own.push_back(one);
  }
  return own;
}

std::optional<std::vector<TakenBuild>> TrialBuilder::take() {
  using Taken = std::vector<TakenBuild>;
  if (is_unknown_ && !announce()) return std::nullopt;
  auto taken = queue_->call<Taken>(waiting_, [&](TrialQueue& queue) -> DatabaseResult<Taken> {
    BuildQueue builds(queue);
    if (auto back = builds.give_back(id_); !back) return back.failure();  // what an error has left undone
    auto wanted = builds.wanted();
    if (!wanted) return wanted.failure();
    wanted_ = own_of(*wanted);
    if (wanted_.empty()) return Taken();
    if (auto offered = builds.offer(id_, wanted_); !offered) return offered.failure();
    return builds.take(id_, wanted_, 2 * options_.threads);
  });
  return taken;
}

// What machines want beside trials, and what is not there. False: it was stopped, or there is an error.
bool TrialBuilder::build_others() {
  std::map<std::string, double> still_wanted;
  for (const WantedBuild& wanted : wanted_) {
    const BuildPurpose purpose = BuildPurpose::parse(wanted.target);
    if (purpose.sort == BuildPurpose::Sort::Trials) continue;
    const std::string key = cat(wanted.target, "\n", wanted.kind);
    if (auto stored = others_.find(key); stored != others_.end() && seconds_now() - stored->second < kStoredSeconds) {
      still_wanted.insert(*stored);
      continue;
    }
    std::optional<SignedBytes> made = purpose.sort == BuildPurpose::Sort::Calibration
                                          ? build_calibration(wanted, purpose.target)
                                          : build_record(wanted, purpose);
    if (waiting_.must_stop() || !report_.error.empty()) return false;
    if (!made) continue;
    if (!queue_->call<Done>(waiting_, [&](TrialQueue& queue) {
          return BuildQueue(queue).store_task(purpose.task(), wanted.kind, *made);
        }))
      return false;
    still_wanted[key] = seconds_now();
  }
  others_ = std::move(still_wanted);
  return true;
}

std::optional<SignedBytes> TrialBuilder::build_calibration(const WantedBuild& wanted, const std::string& target) {
  const CalibrationKernels kernels =
      compile_calibration(*target_of(target), *target_of(wanted.processor), waiting_.must_stop);
  return sign_calibration(key_, wanted.kind, target, kernels);
}

// nullopt: nobody has to know it just now, or the database does not answer.
std::optional<SignedBytes> TrialBuilder::build_record(const WantedBuild& wanted, const BuildPurpose& purpose) {
  auto trial = queue_->call<std::optional<QueuedTrial>>(
      waiting_, [&](TrialQueue& queue) { return BuildQueue(queue).trial_of_record(purpose.record, purpose.target); });
  if (!trial || !*trial) return std::nullopt;
  BuiltFleetTrial made;
  std::unique_ptr<FleetTask> task = read_program(**trial, *database_, made.fault);
  if (!task && made.fault.kind.empty()) return std::nullopt;
  if (task) {
    Result<LlvmCompiler> compiler = LlvmCompiler::create(codegen_target(task->target));
    if (compiler)
      made = build_fleet_trial(*task, **trial, *compiler);
    else
      made.fault = {fault::kRefused, to_string(compiler.rejected())};
  }
  return sign_built_record(key_, wanted.kind, purpose.record, **trial, made);
}

// Trials of one task, as the same kind. False: it was stopped, or there is an error.
bool TrialBuilder::build_group(std::span<const TakenBuild> taken) {
  std::optional<OpenTask> opened = open_task(taken[0]);
  if (!opened) return false;
  bool good = true;
  if (!opened->task) {
    for (const TakenBuild& one : taken) good = good && store(one, {.fault = opened->fault});
    return good;
  }
  const FleetTask& task = *opened->task;
  std::vector<std::optional<LlvmCompiler>> compilers(static_cast<std::size_t>(options_.threads));
  auto build = [&](std::size_t i, int thread) -> BuiltFleetTrial {
    if (taken[i].attempts > kMostBuilders)
      return {.fault = {fault::kNotBuilt, cat(kMostBuilders, " builders were lost while they built it")}};
    std::optional<LlvmCompiler>& compiler = compilers[static_cast<std::size_t>(thread)];
    if (!compiler) {
      Result<LlvmCompiler> made = LlvmCompiler::create(codegen_target(task.target));
      if (!made) return {.fault = {fault::kRefused, to_string(made.rejected())}};
      compiler.emplace(std::move(*made));
    }
    return build_fleet_trial(task, taken[i].what, *compiler);
  };
  BuildsAhead<BuiltFleetTrial> builds(taken.size(), options_.threads, build);
  for (std::size_t i = 0; i < taken.size() && good; ++i)
    good = !waiting_.must_stop() && store(taken[i], builds.take(i));
  tasks_.push_back(std::move(*opened));
  if (tasks_.size() > kOpenTasks) tasks_.erase(tasks_.begin());
  return good;
}

// nullopt: it was stopped, or there is an error.
std::optional<TrialBuilder::OpenTask> TrialBuilder::open_task(const TakenBuild& first) {
  auto is_it = [&](const OpenTask& open) {
    return open.task->workload == first.what.workload && open.wanted.target == first.what.target &&
           open.task->seed == first.what.seed && open.wanted.kind == first.kind;
  };
  OpenTask opened;
  if (auto found = std::ranges::find_if(tasks_, is_it); found != tasks_.end()) {
    opened = std::move(*found);
    tasks_.erase(found);
    if (seconds_now() - opened.stored < kStoredSeconds) return opened;
  }
  opened = {};
  auto wanted = std::ranges::find_if(
      wanted_, [&](const WantedBuild& w) { return w.target == first.what.target && w.kind == first.kind; });
  if (wanted == wanted_.end()) return opened.fault = {fault::kRefused, "nobody wants it any more"}, std::move(opened);
  opened.wanted = *wanted;
  std::unique_ptr<FleetTask> task = read_program(first.what, *database_, opened.fault);
  bool is_database_lost = !task && opened.fault.kind.empty();  // the next call connects again
  failures_ = is_database_lost ? failures_ + 1 : 0;
  if (failures_ == kMostFailures) fail(opened.fault.message);
  if (is_database_lost) return std::nullopt;
  if (!task) return opened;
  std::optional<BuiltReference> made =
      compile_reference(task->program.program, task->target, *target_of(wanted->processor), task->seed,
                        /*many_kernels=*/true, waiting_.must_stop, opened.fault);
  if (waiting_.must_stop()) return std::nullopt;
  if (!made) return opened;
  made->points = task->points, made->bytes = task->bytes, made->least_flops = task->least_flops;
  SignedBytes bytes = sign_reference(key_, first.kind, first.what, *made);
  if (bytes.content.size() > kLongestBuiltTask) {
    opened.fault = {fault::kNoReference, cat("a reference of ", bytes.content.size(), " bytes is too long")};
    return opened;
  }
  if (!queue_->call<Done>(
          waiting_, [&](TrialQueue& queue) { return BuildQueue(queue).store_task(first.what, first.kind, bytes); }))
    return std::nullopt;
  opened.task = std::move(task), opened.stored = seconds_now();
  return opened;
}

bool TrialBuilder::store(const TakenBuild& taken, BuiltFleetTrial made) {
  SignedBytes bytes = sign_build(key_, taken.kind, taken.trial, taken.what, made);
  if (bytes.content.size() > kLongestBuild) {
    made = {.fault = {fault::kRefused, cat("code of ", bytes.content.size(), " bytes is too long")}};
    bytes = sign_build(key_, taken.kind, taken.trial, taken.what, made);
  }
  bool is_fault = !made.fault.kind.empty(), is_failed = !made.built.kernel;
  i64 FleetBuilder::* counted = is_fault    ? &FleetBuilder::faults
                                : is_failed ? &FleetBuilder::failed
                                            : &FleetBuilder::built;
  auto stored = queue_->call<bool>(
      waiting_, [&](TrialQueue& queue) { return BuildQueue(queue).store(id_, taken, bytes, counted); });
  if (!stored) return false;
  ++(!*stored ? report_.late : is_fault ? report_.faults : is_failed ? report_.failed : report_.built);
  return true;
}

}  // namespace tw
