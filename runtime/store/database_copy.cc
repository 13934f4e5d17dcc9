#include "runtime/store/database_copy.h"

#include <set>

#include "runtime/store/stored_rows.h"

namespace tw {
namespace {

constexpr std::size_t records_of_a_transaction = 256;

Hash128 key_of(const Record& record) { return parse_hash(content_digest(record)).value_or(Hash128{}); }

DatabaseStatus copy_workloads(Database& from, Database& to, CopyReport& report) {
  auto there = to.workloads(), wanted = from.workloads();
  if (!there) return there.failure();
  if (!wanted) return wanted.failure();
  std::set<std::string> known;
  for (const WorkloadText& workload : *there) known.insert(workload.hash);
  for (const WorkloadText& workload : *wanted) {
    if (!known.insert(workload.hash).second) continue;
    if (auto done = to.add_workload(workload.hash, workload.text); !done) return done;
    ++report.workloads;
  }
  return Done{};
}

DatabaseStatus copy_models(Database& from, Database& to, CopyReport& report) {
  auto there = to.models(), wanted = from.models();
  if (!there) return there.failure();
  if (!wanted) return wanted.failure();
  std::set<std::pair<std::string, std::string>> known;
  for (const StoredModel& model : *there) known.insert({model.name, model.target});
  for (const StoredModel& model : *wanted) {
    if (!known.insert({model.name, model.target}).second) continue;
    if (auto done = to.save_model(model.name, model.target, model.version, model.data); !done) return done;
    ++report.models;
  }
  return Done{};
}

DatabaseStatus copy_records(Database& from, Database& to, CopyReport& report) {
  std::set<Hash128> known;
  if (auto read = to.visit({}, [&](const Record& record) { known.insert(key_of(record)); }); !read) return read;
  std::vector<Record> batch;
  DatabaseStatus stored = Done{};
  auto store = [&] {
    stored = to.add_records(batch);
    if (stored) report.records += static_cast<i64>(batch.size());
    batch.clear();
  };
  RecordFilter filter{.stop = [&] { return !stored; }};
  auto read = from.visit(filter, [&](Record& record) {
    if (known.count(key_of(record)) > 0) return void(++report.known);
    batch.push_back(std::move(record));
    if (batch.size() == records_of_a_transaction) store();
  });
  if (!read) return read;
  if (stored) store();
  return stored;
}

}  // namespace

DatabaseResult<CopyReport> copy_database(Database& from, Database& to) {
  CopyReport report;
  if (auto done = copy_workloads(from, to, report); !done) return done.failure();
  if (auto done = copy_records(from, to, report); !done) return done.failure();
  if (auto done = copy_models(from, to, report); !done) return done.failure();
  return report;
}

}  // namespace tw
