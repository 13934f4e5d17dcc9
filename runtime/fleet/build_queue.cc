#include "runtime/fleet/build_queue.h"

#include <cstdlib>

#include "dsl/base/text.h"
#include "runtime/fleet/build_sql.h"
#include "runtime/fleet/queue_answers.h"
#include "runtime/fleet/queue_sql.h"
#include "runtime/fleet/sql_array.h"

namespace tw {
namespace {

// See BuildPurpose::text().
constexpr std::string_view kCalibration = "calibration of ", kRecord = "record ", kOfRecord = " for ";

DatabaseResult<bool> has_changed(DatabaseResult<PostgresRows> rows) {
  if (!rows) return rows.failure();
  return rows->changed() > 0;
}

DatabaseResult<SignedBytes> signed_bytes(DatabaseResult<PostgresRows> rows) {
  if (!rows) return rows.failure();
  if (rows->empty()) return SignedBytes();
  return SignedBytes{(*rows)[0].bytes(0), (*rows)[0].bytes(1)};
}

}  // namespace

std::string BuildKind::text() const {
  return cat("tracewright ", version, ", key ", key, ", references for ", processor);
}

std::string BuildPurpose::text() const {
  if (sort == Sort::Calibration) return cat(kCalibration, target);
  return sort == Sort::Record ? cat(kRecord, record, kOfRecord, target) : target;
}

BuildPurpose BuildPurpose::parse(const std::string& text) {
  if (text.starts_with(kCalibration)) return {Sort::Calibration, text.substr(kCalibration.size())};
  const std::size_t at = text.find(kOfRecord);
  if (!text.starts_with(kRecord) || at == std::string::npos) return {Sort::Trials, text};
  return {Sort::Record, text.substr(at + kOfRecord.size()), std::atoll(text.c_str() + kRecord.size())};
}

// ---- machines

DatabaseStatus BuildQueue::want(i64 machine, const std::vector<WantedBuild>& wanted) {
  return queue_.repeated([&] {
    return connection_.transaction<Done>([&]() -> DatabaseStatus {
      if (auto forgot = connection_.run(build_sql::kForgetWanted, {machine}); !forgot) return forgot.failure();
      for (const WantedBuild& one : wanted) {
        if (auto put = connection_.run(build_sql::kWant, {machine, one.target, one.kind, one.processor}); !put)
          return put.failure();
      }
      return done(connection_.run(build_sql::kNotifyMachines));
    });
  });
}

DatabaseResult<std::vector<std::string>> BuildQueue::with_builder(const std::vector<WantedBuild>& wanted) {
  auto rows = connection_.run(build_sql::kWithBuilder, {array_of(wanted, &WantedBuild::target),
                                                        array_of(wanted, &WantedBuild::kind), kGoneSeconds});
  if (!rows) return rows.failure();
  std::vector<std::string> targets;
  for (int i = 0; i < rows->size(); ++i) targets.push_back((*rows)[i].text(0));
  return targets;
}

DatabaseResult<SignedBytes> BuildQueue::build_of(i64 trial, const std::string& kind) {
  return signed_bytes(connection_.run(build_sql::kBuildOf, {trial, kind}));
}

DatabaseResult<SignedBytes> BuildQueue::task_of(const QueuedTrial& trial, const std::string& kind) {
  return signed_bytes(
      connection_.run(build_sql::kTaskOf, {trial.workload, trial.target, static_cast<i64>(trial.seed), kind}));
}

// ---- builders

DatabaseResult<i64> BuildQueue::add_builder(const FleetBuilder& builder) {
  for (const char* tidy : {build_sql::kRemoveGoneBuilders, build_sql::kForgetTasks}) {
    if (auto removed = connection_.run(tidy); !removed) return removed.failure();
  }
  auto rows = connection_.run(build_sql::kAddBuilder,
                              {clean_text(builder.name, kLongestName), builder.version, builder.targets, builder.key});
  if (!rows) return rows.failure();
  if (auto listening = connection_.listen(queue_sql::kTrialsChannel); !listening) return listening.failure();
  return (*rows)[0].integer(0);
}

DatabaseResult<std::vector<WantedBuild>> BuildQueue::wanted() {
  auto rows = connection_.run(build_sql::kWanted, {kGoneSeconds});
  if (!rows) return rows.failure();
  std::vector<WantedBuild> wanted;
  for (int i = 0; i < rows->size(); ++i) wanted.push_back({(*rows)[i].text(0), (*rows)[i].text(1), (*rows)[i].text(2)});
  return wanted;
}

DatabaseResult<std::optional<QueuedTrial>> BuildQueue::trial_of_record(i64 record, const std::string& target) {
  auto rows = connection_.run(build_sql::kTrialOfRecord, {record, target});
  if (!rows) return rows.failure();
  if (rows->empty()) return std::optional<QueuedTrial>();
  PostgresRow row = (*rows)[0];
  return std::optional(
      QueuedTrial{.workload = row.text(0), .target = target, .program = row.text(1), .trace = row.text(2)});
}

DatabaseStatus BuildQueue::offer(i64 builder, const std::vector<WantedBuild>& wanted) {
  return done(connection_.run(build_sql::kOffer,
                              {builder, array_of(wanted, &WantedBuild::target), array_of(wanted, &WantedBuild::kind)}));
}

DatabaseResult<std::vector<TakenBuild>> BuildQueue::take(i64 builder, const std::vector<WantedBuild>& wanted,
                                                         int most) {
  auto rows = queue_.repeated([&] {
    return connection_.run(build_sql::kTake, {builder, array_of(wanted, &WantedBuild::target),
                                              array_of(wanted, &WantedBuild::kind), most, kLeaseSeconds});
  });
  if (!rows) return rows.failure();
  std::vector<TakenBuild> taken;
  for (int i = 0; i < rows->size(); ++i) {
    PostgresRow row = (*rows)[i];
    QueuedTrial trial{.workload = row.text(1),
                      .target = row.text(2),
                      .program = row.text(3),
                      .trace = row.text(4),
                      .task = row.text(5),
                      .seed = static_cast<u64>(row.integer(6))};
    taken.push_back({row.integer(0), std::move(trial), row.text(7), row.integer(8)});
  }
  return taken;
}

DatabaseResult<bool> BuildQueue::store(i64 builder, const TakenBuild& taken, const SignedBytes& build,
                                       i64 FleetBuilder::* counted) {
  return queue_.repeated([&] {
    return connection_.transaction<bool>([&]() -> DatabaseResult<bool> {
      auto stored = has_changed(
          connection_.run(build_sql::kStore, {taken.trial, taken.kind, builder, PostgresValue::bytes(build.content),
                                              PostgresValue::bytes(build.signature)}));
      if (!stored || !*stored) return stored;
      auto one = [&](i64 FleetBuilder::* count) { return i64{counted == count}; };
      if (auto added = connection_.run(build_sql::kCount, {builder, one(&FleetBuilder::built),
                                                           one(&FleetBuilder::failed), one(&FleetBuilder::faults)});
          !added)
        return added.failure();
      if (auto told = connection_.run(build_sql::kNotifyMachines); !told) return told.failure();
      return true;
    });
  });
}

DatabaseStatus BuildQueue::store_task(const QueuedTrial& trial, const std::string& kind, const SignedBytes& task) {
  auto stored = connection_.run(build_sql::kStoreTask,
                                {trial.workload, trial.target, static_cast<i64>(trial.seed), kind,
                                 PostgresValue::bytes(task.content), PostgresValue::bytes(task.signature)});
  if (!stored) return stored.failure();
  return done(connection_.run(build_sql::kNotifyMachines));
}

DatabaseResult<bool> BuildQueue::beat(i64 builder) {
  if (auto prolonged = connection_.run(build_sql::kProlong, {builder, kLeaseSeconds, kLongestLeaseSeconds}); !prolonged)
    return prolonged.failure();
  return has_changed(connection_.run(build_sql::kBeat, {builder}));
}

DatabaseStatus BuildQueue::give_back(i64 builder) { return done(connection_.run(build_sql::kGiveBack, {builder})); }

DatabaseStatus BuildQueue::leave(i64 builder) { return done(connection_.run(build_sql::kLeave, {builder})); }

DatabaseResult<BuildStatus> BuildQueue::status() {
  BuildStatus status;
  auto builders = connection_.run(build_sql::kBuilders, {kGoneSeconds});
  if (!builders) return builders.failure();
  for (int i = 0; i < builders->size(); ++i) {
    PostgresRow row = (*builders)[i];
    status.builders.push_back({row.text(0), row.text(1), row.text(2), row.text(3), row.integer(4), row.integer(5),
                               row.integer(6), static_cast<double>(row.integer(7)) * 1e-3, row.is_true(8)});
  }
  auto targets = connection_.run(build_sql::kUnbuilt, {kGoneSeconds});
  if (!targets) return targets.failure();
  for (int i = 0; i < targets->size(); ++i) {
    PostgresRow row = (*targets)[i];
    status.targets.push_back({row.text(0), row.text(1), row.integer(2), row.integer(3)});
  }
  return status;
}

}  // namespace tw
