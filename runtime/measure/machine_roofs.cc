#include "runtime/measure/machine_roofs.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "backends/target.h"
#include "dsl/base/text.h"
#include "runtime/measure/fma_probe.h"
#include "runtime/measure/stream_probe.h"

namespace tw {
namespace {

constexpr double kFmaSeconds = 0.02, kStreamSeconds = 0.02;
// A first, second and third cache of usual size, and what is larger than any.
constexpr i64 kLevelBytes[] = {16 << 10, 256 << 10, 4 << 20, 128 << 20};
constexpr const char* kName = "machine roofs";  // in the database's table of models
constexpr i64 kVersion = 1;

bool is_rate(double value) { return value > 0 && value < 1e18; }

}  // namespace

bool MachineRoofs::operator==(const MachineRoofs& other) const { return to_text(*this) == to_text(other); }

double MachineRoofs::peak(int vector_bits, int threads) const {
  double best = 0;
  for (const Peak& peak : peaks) {
    if (peak.vector_bits <= vector_bits) best = std::max(best, peak.flops);
  }
  return best * threads;
}

double MachineRoofs::bandwidth(std::size_t level, int threads) const {
  bool is_memory = level + 1 == levels.size();
  return levels[level].bandwidth * (is_memory ? std::min<double>(threads, memory_speed_up) : threads);
}

MachineRoofs measure_roofs(const MachineRates& rates) {
  MachineRoofs roofs{.memory_speed_up = rates.memory_speed_up};
  for (const FmaVariant& variant : fma_variants()) {
    double flops = variant.is_present() ? measure_fma_peak(kFmaSeconds, variant.bits) : 0;
    if (flops > 0) roofs.peaks.push_back({variant.bits, flops});
  }
  std::ranges::sort(roofs.peaks, {}, &MachineRoofs::Peak::vector_bits);
  for (i64 bytes : kLevelBytes) {
    double seconds = measure_stream_seconds(bytes, 0, /*vector_bits=*/512, kStreamSeconds);
    if (seconds > 0) roofs.levels.push_back({static_cast<double>(bytes), static_cast<double>(bytes) / seconds});
  }
  return roofs;
}

std::string to_text(const MachineRoofs& roofs) {
  std::ostringstream text;
  text.precision(10);
  text << "speed_up " << roofs.memory_speed_up;
  for (const MachineRoofs::Peak& peak : roofs.peaks) text << " peak " << peak.vector_bits << " " << peak.flops;
  for (const MachineRoofs::Level& level : roofs.levels) text << " level " << level.bytes << " " << level.bandwidth;
  return text.str();
}

std::optional<MachineRoofs> parse_roofs(const std::string& text) {
  std::istringstream words(text);
  MachineRoofs roofs;
  std::string word;
  if (!(words >> word >> roofs.memory_speed_up) || word != "speed_up") return {};
  if (!(roofs.memory_speed_up >= 1 && roofs.memory_speed_up <= 1024)) return {};
  while (words >> word) {
    double first = 0, rate = 0;
    if (!(words >> first >> rate) || !(first >= 1 && first <= 1e15) || !is_rate(rate)) return {};
    if (word == "peak" && first <= 4096)
      roofs.peaks.push_back({static_cast<int>(first), rate});
    else if (word == "level")
      roofs.levels.push_back({first, rate});
    else
      return {};
  }
  return roofs;
}

DatabaseStatus keep_roofs(Database& database, const MachineRates& rates) {
  std::string machine = machine_of(host_description());
  auto stored = stored_roofs(database, machine);
  if (!stored) return DatabaseError{stored.error()};
  if (stored->has_value()) return Done{};
  return database.save_model(kName, machine, kVersion, to_text(measure_roofs(rates)));
}

DatabaseResult<std::optional<MachineRoofs>> stored_roofs(Database& database, const std::string& machine) {
  auto stored = database.load_model(kName, machine, kVersion);
  if (!stored) return DatabaseError{stored.error()};
  return parse_roofs(stored->data);
}

}  // namespace tw
