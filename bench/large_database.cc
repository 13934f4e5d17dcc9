// large_database ADDRESS TEMPLATE.db RECORDS OF_TASK: how fast a large tuning database on a PostgreSQL server is. Fills
// an empty one: OF_TASK records of the first task of TEMPLATE.db (its workload and traces, each with another program),
// a hundred tasks with a thousand records each, and others up to RECORDS that SQL makes. Then it times a task's best
// and reading all records of the first task, as a resumed search does. A database that has RECORDS already is only
// timed.
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "dsl/base/clock.h"
#include "dsl/base/rng.h"
#include "dsl/base/text.h"
#include "dsl/ir/compare.h"
#include "runtime/store/database.h"
#include "runtime/store/postgres_schema.h"

namespace {

using namespace tw;

constexpr int kOtherTasks = 100, kOfOtherTask = 1000, kBatch = 1000, kLooks = 500;

template <class T>
T must(DatabaseResult<T> result) {
  if (result) return std::move(*result);
  std::fprintf(stderr, "%s\n", result.error().c_str());
  std::exit(3);
}

std::string hash_of(const std::string& text) { return to_hex(hash_bytes(text)); }

// `count` records like `templates`, each of another program.
void add(Database& to, const std::vector<Record>& templates, const std::string& workload, const std::string& task,
         i64 count) {
  std::vector<Record> batch;
  for (i64 i = 0; i < count; ++i) {
    Record record = templates[static_cast<std::size_t>(i) % templates.size()];
    record.workload = workload, record.task = task, record.object.clear();
    record.program = hash_of(cat(workload, " ", i));
    record.seconds *= 1 + static_cast<double>(i * 7919 % 10007) / 1e4;
    batch.push_back(std::move(record));
    if (batch.size() == kBatch || i + 1 == count) must(to.add_records(batch)), batch.clear();
  }
}

void fill(const std::string& address, Database& to, Database& from, i64 records, i64 of_task) {
  std::vector<TaskSummary> tasks = must(from.tasks());
  const TaskSummary& first = tasks.at(0);
  std::vector<Record> templates = must(from.all(first.workload, first.target));
  std::erase_if(templates, [](const Record& record) { return !record.ok() || record.trace.empty(); });
  must(to.add_workload(first.workload, must(from.workload_text(first.workload))));
  add(to, templates, first.workload, first.task, of_task);
  for (int i = 0; i < kOtherTasks; ++i) add(to, templates, hash_of(cat("task ", i)), cat("other ", i), kOfOtherTask);
  PostgresConnection connection = must(PostgresConnection::open(address));
  must(connection.run(
      cat("INSERT INTO tracewright.records (", postgres_sql::kRecordColumns,
          ") SELECT '', hashtextextended('task ' || n % 990, 0), n % 4, md5('task ' || n % 990), 'cpu', 'ok', 1000000 "
          "+ "
          "n * 7919 % 10000019, 1, 1, 1, 1, 1700000000000 + n, 1, n / 1000, 'filler', md5(n::text), '', '', 'filler', "
          "'', repeat('l0, l1 = split(i, [_, 8])' || chr(10), 12), 0 FROM generate_series(1::bigint, $1) n"),
      {records - must(to.latest_record())}));
  must(connection.script("ANALYZE tracewright.records"));
}

void time_best(Database& database, const Record& like, std::size_t most) {
  std::vector<double> seconds;
  Rng rng(1);
  for (int i = 0; i < kLooks; ++i) {
    std::string workload = hash_of(cat("task ", rng.below(kOtherTasks)));
    double begin = seconds_now();
    std::size_t found = must(database.best(workload, like.target, machine_of(like.host), most)).size();
    seconds.push_back(seconds_now() - begin);
    if (found != most) std::fprintf(stderr, "%zu of %zu best records\n", found, most), std::exit(1);
  }
  std::ranges::sort(seconds);
  std::printf("the best %zu of a task: median %.2f ms, 99 of 100 within %.2f ms, longest %.2f ms\n", most,
              seconds[kLooks / 2] * 1e3, seconds[kLooks * 99 / 100] * 1e3, seconds.back() * 1e3);
}

}  // namespace

int main(int count, char** words) {
  if (count != 5) return std::fprintf(stderr, "large_database ADDRESS TEMPLATE.db RECORDS OF_TASK\n"), 2;
  const std::string address = words[1];
  const i64 records = std::atoll(words[3]), of_task = std::atoll(words[4]);
  {
    PostgresConnection owner = must(PostgresConnection::open(address));
    must(make_postgres_schema(owner, {.tuner = "", .worker = "", .reader = ""}));
  }
  Database database = must(Database::open(address, DatabaseMode::Write));
  Database from = must(Database::open(words[2], DatabaseMode::Read));
  if (must(database.latest_record()) < records) fill(address, database, from, records, of_task);
  const TaskSummary first = must(from.tasks()).at(0);
  Record like = must(from.all(first.workload, first.target)).back();
  std::printf("%lld records\n", static_cast<long long>(must(database.latest_record())));
  for (std::size_t most : {1, 5, 256}) time_best(database, like, most);
  for (int round = 0; round < 3; ++round) {
    i64 read = 0;
    double begin = seconds_now(), processor = processor_seconds();
    must(database.visit({first.workload, first.target}, [&](Record&) { ++read; }));
    std::printf("all %lld records of a task: %.2f s, of which %.2f s of this process\n", static_cast<long long>(read),
                seconds_now() - begin, processor_seconds() - processor);
  }
  return 0;
}
