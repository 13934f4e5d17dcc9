#include "sampler/report/task_curves.h"

#include <algorithm>

#include "dsl/base/text.h"

namespace tw {

void TaskCurves::add(Tasks& tasks, const Record& record) const {
  std::string machine = machine_of(record.host);
  auto [at, is_new] = tasks.try_emplace({record.workload, record.target, machine});
  Followed& followed = at->second;
  if (is_new) {
    followed.task.workload = record.workload, followed.task.target = record.target, followed.task.machine = machine;
  }
  followed.task.name = clean_text(record.task, report_.limits.name_bytes);
  followed.latest = record.id;
  add_trial(followed.task, record, report_.limits);
}

DatabaseStatus TaskCurves::read(Database& database) {
  if (last_ < 0) {
    auto latest = database.latest_record();
    if (!latest) return latest.failure();
    last_ = std::max<i64>(0, *latest - kRecentRecords);
  }
  report_.databases = {database.path()};
  auto read = database.visit({.after = last_}, [this](const Record& record) {
    last_ = record.id;
    Key key{record.workload, record.target};
    if (known_.contains(key))
      add(tasks_, record);
    else
      unread_.insert(std::move(key));
  });
  if (!read) return read;
  while (!unread_.empty()) {
    if (auto status = read_history(database, *unread_.begin()); !status) return status;
    known_.insert(unread_.extract(unread_.begin()));
  }
  for (auto& [key, followed] : tasks_) {
    if (followed.is_described) continue;
    auto workload = database.workload_text(followed.task.workload);
    if (!workload) return workload.failure();
    set_work(followed.task, *workload);
    if (auto status = set_roof(report_, database, followed.task); !status) return status;
    followed.is_described = true;
  }
  return Done{};
}

DatabaseStatus TaskCurves::read_history(Database& database, const Key& key) {
  Tasks tasks;
  auto read = database.visit({.workload = key.first, .target = key.second}, [&](const Record& record) {
    if (record.id <= last_) add(tasks, record);
  });
  if (!read) return read;
  tasks_.merge(tasks);
  return Done{};
}

Report TaskCurves::report() const {
  Report report = report_;
  std::vector<const Followed*> order;
  for (const auto& [key, followed] : tasks_) {
    if (followed.is_described) order.push_back(&followed);
  }
  std::ranges::stable_sort(order, std::greater(), &Followed::latest);
  for (const Followed* followed : order) {
    report.tasks.push_back(followed->task);
    TaskReport& task = report.tasks.back();
    end_trials(task, report.limits);
    task.target = clean_text(task.target, report.limits.name_bytes);
    task.machine = clean_text(task.machine, report.limits.name_bytes);
  }
  thin_out(report);
  return report;
}

}  // namespace tw
