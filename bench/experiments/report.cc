#include "bench/experiments/report.h"

#include <cmath>
#include <cstdio>

#include "dsl/base/quantile.h"
#include "dsl/base/text.h"
#include "runtime/console/output.h"

namespace tw::bench {
namespace {

// The fastest that any run of a task found, by the times of the searches and by those that were measured in turn.
struct Fastest {
  double searched = kNever, in_turn = kNever;
};
Fastest fastest(const std::vector<Cell>& cells, const TuneTask& task) {
  Fastest out;
  for (const Cell& cell : cells) {
    if (cell.task != &task) continue;
    for (const ArmRun& run : cell.runs)
      out.searched = std::min(out.searched, best_after(run.seconds, run.seconds.size()));
    for (const Found& found : cell.found) out.in_turn = std::min(out.in_turn, found.best);
  }
  return out;
}

std::string number(double value, int digits = 3) {
  if (!std::isfinite(value)) return "";
  char text[32];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

// Names may have any characters.
std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + '"';
}

std::string row_begin(const Cell& cell) { return cat(csv_field(cell.task->name), ",", csv_field(cell.arm->name)); }

// What the runs of a cell say together.
struct Summary {
  Spread best, first, to_95;  // GFLOP/s after all trials and after the first; trials to 95 % of the fastest of the task
  double of_fastest = 0;      // the median of the best, a part of the fastest of the task
  double wall = 0, search = 0, training = 0;  // medians, seconds
  int unknown = 0;
};

Summary summarize(const Cell& cell, const Fastest& fastest) {
  std::vector<double> best, first, to_95, wall, search, training;
  Summary out;
  for (std::size_t i = 0; i < cell.found.size(); ++i) {
    const ArmRun& run = cell.runs[i];
    best.push_back(gflops(cell, cell.found[i].best));
    first.push_back(gflops(cell, cell.found[i].first));
    to_95.push_back(trials_to(run.seconds, fastest.searched / 0.95));
    wall.push_back(run.wall_seconds), search.push_back(run.search_seconds), training.push_back(run.training_seconds);
    out.unknown += run.unknown;
  }
  out.best = spread(best), out.first = spread(first), out.to_95 = spread(to_95);
  out.of_fastest = out.best.median / gflops(cell, fastest.in_turn);
  out.wall = median(wall), out.search = median(search), out.training = median(training);
  return out;
}

}  // namespace

double gflops(const Cell& cell, double seconds) { return std::isfinite(seconds) ? cell.flops / seconds * 1e-9 : 0; }

std::string curves_csv(const std::vector<Cell>& cells) {
  std::string out = "task,arm,seed,trial,gflops\n";
  for (const Cell& cell : cells) {
    for (const ArmRun& run : cell.runs) {
      double best = kNever;
      for (std::size_t i = 0; i < run.seconds.size(); ++i) {
        best = std::min(best, run.seconds[i]);
        out += cat(row_begin(cell), ",", run.seed, ",", i + 1, ",", number(gflops(cell, best)), "\n");
      }
    }
  }
  return out;
}

std::string summary_csv(const std::vector<Cell>& cells) {
  std::string out =
      "task,arm,seeds,trials,gflops,gflops_least,gflops_most,of_fastest,first_gflops,trials_to_95,trials_to_95_least,"
      "trials_to_95_most,not_recorded\n";
  for (const Cell& cell : cells) {
    if (cell.found.empty()) continue;
    Summary s = summarize(cell, fastest(cells, *cell.task));
    std::size_t trials = 0;
    for (const ArmRun& run : cell.runs) trials = std::max(trials, run.seconds.size());
    out += cat(row_begin(cell), ",", cell.runs.size(), ",", trials, ",", number(s.best.median), ",",
               number(s.best.least), ",", number(s.best.most), ",", number(s.of_fastest, 4), ",",
               number(s.first.median), ",", number(s.to_95.median, 0), ",", number(s.to_95.least, 0), ",",
               number(s.to_95.most, 0), ",", s.unknown, "\n");
  }
  return out;
}

void print_arms(const std::vector<Cell>& cells, const std::vector<Arm>& arms) {
  std::vector<std::vector<std::string>> rows;
  for (const Arm& arm : arms) {
    double of_fastest = 0, first = 0, wall = 0, search = 0, training = 0;
    int count = 0, unknown = 0;
    std::vector<double> to_95;
    for (const Cell& cell : cells) {
      if (cell.arm != &arm || cell.found.empty()) continue;
      Summary s = summarize(cell, fastest(cells, *cell.task));
      if (!(s.of_fastest > 0)) continue;
      of_fastest += std::log(s.of_fastest), ++count;
      first += s.first.median > 0 ? std::log(s.first.median / s.best.median) : std::log(1e-3);
      wall += s.wall, search += s.search, training += s.training, unknown += s.unknown;
      to_95.push_back(s.to_95.median);
    }
    if (count == 0) continue;
    double middle = median(to_95);
    rows.push_back({arm.name, std::to_string(count), number(100 * std::exp(of_fastest / count), 1),
                    number(100 * std::exp(first / count), 1), std::isfinite(middle) ? number(middle, 0) : "never",
                    number(wall, 1), number(search, 1), number(training, 1), std::to_string(unknown)});
  }
  print_table({"arm", "tasks", "% of fastest", "first trial, % of own best", "trials to 95 %", "seconds", "search",
               "training", "not recorded"},
              rows);
}

}  // namespace tw::bench
