#include "runtime/measure/machine_probe.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <vector>

#include "backends/target.h"
#include "dsl/base/clock.h"
#include "runtime/measure/fma_probe.h"
#include "runtime/measure/thread_pool.h"

namespace tw {
namespace {

constexpr std::size_t kBytes = std::size_t{128} << 20;  // what no second cache holds, and few third ones
constexpr std::size_t kChunk = std::size_t{2} << 20;    // that a thread reads in one sample
constexpr int kPasses = 2, kStarts = 400;
constexpr double kFmaSeconds = 5e-3;
constexpr const char* kName = "machine rates";  // in the database's table of models
constexpr i64 kVersion = 2;

using Pool = std::unique_ptr<tw_pool, decltype(&tw_pool_destroy)>;

using Line = u64 __attribute__((vector_size(64)));  // of a cache

struct Read {
  const Line* data;
  u64 sums[64] = {};  // kept, so that nothing is left out
};

// A line at a time: sums must not take longer than the reading.
u64 sum(const Line* data, std::size_t count) {
  Line sums[4] = {};
  for (std::size_t i = 0; i + 4 <= count; i += 4) {
    for (std::size_t line = 0; line < 4; ++line) sums[line] += data[i + line];
  }
  Line together = sums[0] + sums[1] + sums[2] + sums[3];
  u64 all = 0;
  for (int lane = 0; lane < 8; ++lane) all += together[lane];
  return all;
}

void read_chunk(void* context, i64 piece, i64) {
  Read& read = *static_cast<Read*>(context);
  constexpr std::size_t count = kChunk / sizeof(Line);
  read.sums[piece % 64] += sum(read.data + static_cast<std::size_t>(piece) * count, count);
}

void do_nothing(void*, i64, i64) {}

// The first quartile of the samples.
double fast_one(std::vector<double>& seconds) {
  auto at = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 4);
  std::nth_element(seconds.begin(), at, seconds.end());
  return *at;
}

double bandwidth(const std::vector<Line>& data, tw_pool* pool, int threads) {
  std::size_t together = kChunk * static_cast<std::size_t>(threads);
  std::vector<double> seconds;
  for (int pass = 0; pass < kPasses; ++pass) {
    for (std::size_t from = 0; from + together <= kBytes; from += together) {
      Read read{data.data() + from / sizeof(Line)};
      double begin = seconds_now();
      tw_pool_run(pool, threads, read_chunk, &read);
      seconds.push_back(seconds_now() - begin);
    }
  }
  return static_cast<double>(together) / fast_one(seconds);
}

double start_seconds(tw_pool* pool, int threads) {
  std::vector<double> seconds;
  for (int i = 0; i < kStarts; ++i) {
    double begin = seconds_now();
    tw_pool_run(pool, threads, do_nothing, nullptr);
    seconds.push_back(seconds_now() - begin);
  }
  return fast_one(seconds);
}

}  // namespace

#if defined(__aarch64__)
// Cores differ in the FMAs of a cycle. Of additions that wait for each other each takes one.
double measure_clock() {
  constexpr int kRounds = 2000, kAdditions = 64;
  double best = 0, begin = seconds_now();
  for (double before = begin; before - begin < kFmaSeconds;) {
    u64 rounds = kRounds, sum = 0;
    asm volatile("1:\n.rept 64\n  add %1, %1, #1\n.endr\n  subs %0, %0, #1\n  b.ne 1b\n"
                 : "+r"(rounds), "+r"(sum)
                 :
                 : "cc");
    double end = seconds_now();
    best = std::max(best, kRounds * kAdditions / (end - before));
    before = end;
  }
  return best;
}
#else
// A core does two of the widest FMAs in a cycle, as the draft model takes it.
double measure_clock() {
  double peak = measure_fma_peak(kFmaSeconds);
  for (const FmaVariant& variant : fma_variants()) {
    if (peak > 0 && variant.is_present()) return peak / (2 * 2 * static_cast<double>(variant.bits) / 32);
  }
  return 0;
}
#endif

MachineFigures measure_machine(int threads) {
  threads = std::clamp(threads, 1, static_cast<int>(kBytes / kChunk / 2));
  MachineFigures figures{.clock = measure_clock()};
  std::vector<Line> data(kBytes / sizeof(Line), Line{} + 1);
  figures.bandwidth = figures.all_bandwidth = bandwidth(data, nullptr, 1);
  Pool pool(threads > 1 ? tw_pool_create(threads, nullptr) : nullptr, tw_pool_destroy);
  if (!pool) return figures;
  figures.all_bandwidth = bandwidth(data, pool.get(), threads);
  figures.start_seconds = start_seconds(pool.get(), threads);
  return figures;
}

MachineRates rates_of(const MachineFigures& figures, int threads) {
  MachineRates rates;
  constexpr double kUsualClock = 3.2e9, kLine = 64;
  double clock = figures.clock > 0 ? figures.clock : kUsualClock;
  if (figures.bandwidth > 0) rates.memory_line = std::clamp(kLine * clock / figures.bandwidth, 2.0, 100.0);
  if (threads <= 1 || figures.start_seconds <= 0 || figures.bandwidth <= 0) return rates;
  rates.memory_speed_up = std::clamp(figures.all_bandwidth / figures.bandwidth, 1.0, static_cast<double>(threads));
  rates.parallel_start = std::clamp(figures.start_seconds * clock, 500.0, 200000.0);
  return rates;
}

std::string to_text(const MachineRates& rates) {
  char text[96];
  std::snprintf(text, sizeof text, "%.4g %.4g %.4g", rates.memory_line, rates.memory_speed_up, rates.parallel_start);
  return text;
}

std::optional<MachineRates> parse_rates(const std::string& text) {
  MachineRates rates;
  int end = 0;
  int read = std::sscanf(text.c_str(), "%lf %lf %lf%n", &rates.memory_line, &rates.memory_speed_up,
                         &rates.parallel_start, &end);
  bool is_whole = read == 3 && static_cast<std::size_t>(end) == text.size();
  auto is_within = [](double value, double least, double most) { return value >= least && value <= most; };
  if (!is_whole || !is_within(rates.memory_line, 2, 100) || !is_within(rates.memory_speed_up, 1, 1024) ||
      !is_within(rates.parallel_start, 500, 200000))
    return {};
  return rates;
}

DatabaseResult<MachineRates> stored_rates(Database& database, const std::string& host) {
  auto stored = database.load_model(kName, host, kVersion);
  if (!stored) return DatabaseError{stored.error()};
  return parse_rates(stored->data).value_or(MachineRates());
}

DatabaseResult<MachineRates> machine_rates(Database& database, bool may_measure) {
  std::string host = host_description();
  auto stored = database.load_model(kName, host, kVersion);
  if (!stored) return DatabaseError{stored.error()};
  if (std::optional<MachineRates> rates = parse_rates(stored->data)) return *rates;
  if (!may_measure) return MachineRates();
  int threads = usable_threads();
  std::string text = to_text(rates_of(measure_machine(threads), threads));
  if (auto saved = database.save_model(kName, host, kVersion, text); !saved) return DatabaseError{saved.error()};
  return *parse_rates(text);
}

}  // namespace tw
