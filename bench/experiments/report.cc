#include "bench/experiments/report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <set>

#include "dsl/base/quantile.h"
#include "dsl/base/text.h"
#include "runtime/console/output.h"

namespace tw::bench {
namespace {

// The fastest that any run of a cell's task in its space found, by the times of the searches and by those of
// Cell::found.
struct Fastest {
  double searched = kNever, compared = kNever;
};
Fastest fastest(const std::vector<Cell>& cells, const Cell& of) {
  Fastest out;
  for (const Cell& cell : cells) {
    if (cell.task != of.task || cell.arm->space != of.arm->space) continue;
    for (const ArmRun& run : cell.runs)
      out.searched = std::min(out.searched, best_after(run.seconds, run.seconds.size()));
    for (const Found& found : cell.found) out.compared = std::min(out.compared, found.best.value_or(kNever));
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
  Spread tuning, search, training, measured;  // of SearchSeconds
  int unknown = 0;
  std::size_t in_turn = 0;  // runs whose best program was measured in turn
};

// What counts in the medians are times that can be compared.
void add_gflops(const Cell& cell, const std::optional<double>& seconds, std::vector<double>& out) {
  if (seconds) out.push_back(gflops(cell, *seconds));
}

Summary summarize(const Cell& cell, const Fastest& fastest) {
  std::vector<double> best, first, to_95, tuning, search, training, measured;
  Summary out;
  for (const Found& found : cell.found) add_gflops(cell, found.best, best), add_gflops(cell, found.first, first);
  for (const ArmRun& run : cell.runs) {
    const bool is_known = run.unknown == 0 || std::isfinite(best_after(run.seconds, run.seconds.size()));
    if (is_known) to_95.push_back(trials_to(run.seconds, fastest.searched / 0.95));
    out.unknown += run.unknown;
    if (!run.took) continue;
    tuning.push_back(run.took->tuning), search.push_back(run.took->search);
    training.push_back(run.took->training), measured.push_back(static_cast<double>(run.took->measured));
  }
  out.best = spread(best), out.first = spread(first), out.to_95 = spread(to_95);
  out.of_fastest = out.best.median / gflops(cell, fastest.compared);
  out.tuning = spread(tuning), out.search = spread(search);
  out.training = spread(training), out.measured = spread(measured);
  if (cell.is_in_turn) out.in_turn = best.size() - static_cast<std::size_t>(std::ranges::count(best, 0.0));
  return out;
}

// What the cells of one arm say together: means of logarithms, and sums.
struct Total {
  std::vector<double> of_fastest, first, to_95;
  double tuning = 0, search = 0, training = 0;
  int unknown = 0, ended_early = 0;
};

bool has_run(const Cell& cell) { return !cell.found.empty() || cell.ended_early > 0; }
bool is_compared(const Summary& s) { return s.of_fastest > 0; }

void add(const Summary& s, Total& total) {
  total.of_fastest.push_back(std::log(s.of_fastest));
  if (!std::isnan(s.first.median))
    total.first.push_back(s.first.median > 0 ? std::log(s.first.median / s.best.median) : std::log(1e-3));
  total.to_95.push_back(s.to_95.median);
  total.tuning += s.tuning.median, total.search += s.search.median, total.training += s.training.median;
}

std::string percent(const std::vector<double>& logarithms) {
  if (logarithms.empty()) return "";
  double sum = std::accumulate(logarithms.begin(), logarithms.end(), 0.0);
  return number(100 * std::exp(sum / static_cast<double>(logarithms.size())), 1);
}

std::vector<std::string> row_of(const Arm& arm, const Total& total) {
  const std::string unknown = std::to_string(total.unknown), ended_early = std::to_string(total.ended_early);
  if (total.of_fastest.empty()) return {arm.name, "0", "", "", "", "", "", "", unknown, ended_early};
  double middle = median(total.to_95);
  const bool all_have_first = total.first.size() == total.of_fastest.size();
  return {arm.name,
          std::to_string(total.of_fastest.size()),
          percent(total.of_fastest),
          all_have_first ? percent(total.first) : "",
          std::isfinite(middle) ? number(middle, 0) : "never",
          number(total.tuning, 1),
          number(total.search, 1),
          number(total.training, 1),
          unknown,
          ended_early};
}

// The cells of one arm, with what they say.
struct ArmCells {
  std::vector<std::pair<const Cell*, Summary>> cells;
  std::vector<std::string> lacking;  // tasks on which it has nothing to compare
  std::vector<std::string> failed;   // of them those on which all its trials failed

  bool has_any() const { return lacking.size() < cells.size(); }
};

ArmCells cells_of(const Arm& arm, const std::vector<Cell>& cells) {
  ArmCells out;
  for (const Cell& cell : cells) {
    if (cell.arm != &arm || !has_run(cell)) continue;
    out.cells.emplace_back(&cell, summarize(cell, fastest(cells, cell)));
    const Summary& summary = out.cells.back().second;
    if (is_compared(summary)) continue;
    out.lacking.push_back(cell.task->name);
    if (summary.best.median == 0) out.failed.push_back(cell.task->name);
  }
  return out;
}

Total total_of(const ArmCells& arm, const std::set<std::string>& left_out) {
  Total total;
  for (const auto& [cell, summary] : arm.cells) {
    total.unknown += summary.unknown, total.ended_early += cell->ended_early;
    if (is_compared(summary) && !left_out.contains(cell->task->name)) add(summary, total);
  }
  return total;
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
      "trials_to_95_most,not_recorded,in_turn,ended_early,tuning_seconds,search_seconds,training_seconds,measured\n";
  for (const Cell& cell : cells) {
    if (!has_run(cell)) continue;
    Summary s = summarize(cell, fastest(cells, cell));
    std::size_t trials = 0;
    for (const ArmRun& run : cell.runs) trials = std::max(trials, run.seconds.size());
    out +=
        cat(row_begin(cell), ",", cell.runs.size(), ",", trials, ",", number(s.best.median), ",", number(s.best.least),
            ",", number(s.best.most), ",", number(s.of_fastest, 4), ",", number(s.first.median), ",",
            number(s.to_95.median, 0), ",", number(s.to_95.least, 0), ",", number(s.to_95.most, 0), ",", s.unknown, ",",
            s.in_turn, ",", cell.ended_early, ",", number(s.tuning.median), ",", number(s.search.median), ",",
            number(s.training.median), ",", number(s.measured.median, 0), "\n");
  }
  return out;
}

std::string print_arms(const std::vector<Cell>& cells, const std::vector<Arm>& arms) {
  std::string lacking;
  std::set<std::string> left_out;
  std::vector<ArmCells> of_arms;
  for (const Arm& arm : arms) {
    const ArmCells& own = of_arms.emplace_back(cells_of(arm, cells));
    if (own.has_any()) left_out.insert(own.lacking.begin(), own.lacking.end());
    if (own.lacking.empty()) continue;
    const std::string failed = own.failed.empty() ? "" : cat("; all trials failed on ", join(own.failed, ", "));
    lacking += cat(arm.name, ": nothing to compare on ", join(own.lacking, ", "), failed, "\n");
  }
  std::vector<std::vector<std::string>> rows;
  for (std::size_t i = 0; i < arms.size(); ++i)
    if (!of_arms[i].cells.empty()) rows.push_back(row_of(arms[i], total_of(of_arms[i], left_out)));
  print_table({"arm", "tasks", "% of fastest", "first trial, % of own best", "trials to 95 %", "seconds", "search",
               "training", "not recorded", "ended early"},
              rows);
  return lacking;
}

}  // namespace tw::bench
