#include "costmodel/cache_traffic.h"

#include <algorithm>
#include <cmath>

namespace tw {
namespace {

// Cycles for a line of 64 bytes from L2, L3 and memory: with hardware prefetching (from memory: MachineRates), and
// without.
constexpr double kStreamedFromL2 = 2.0, kStreamedFromL3 = 2.7;
constexpr std::array<double, 3> kStridedLine = {7.0, 14.0, 44.0};
// A cache keeps data that is used again if it takes up to kAllKept of its size, and nothing of it beyond kNothingKept.
constexpr double kAllKept = 0.8, kNothingKept = 1.4;
constexpr double kFromL2 = 0.3;       // share of the waiting for a far line that one costs which L2 has and L1 has lost
constexpr double kSeenWaiting = 0.7;  // for single lines from far caches
// Bytes; the hardware does not read ahead over steps as large: into L2, into L1.
constexpr double kFarStep = 1024, kFarStepFromL2 = 4096;
constexpr double kL1Sets = 64;        // L1 has as many sets as a page has lines, whatever its size
constexpr double kManyOfASet = 1.25;  // more lines of one set than this many times its ways are lost
constexpr double kFewRows = 64;       // as many far rows are within reach of the first address cache

// As std::ceil, of what is not negative; without a call.
double round_up(double value) {
  auto whole = static_cast<double>(static_cast<i64>(value));
  return whole < value ? whole + 1 : whole;
}

bool keeps_all(double bytes, double cache_bytes) { return bytes / cache_bytes <= kAllKept; }

// The share of data of this size that is no longer in a cache when it is used again.
double missing_share(double bytes, double cache_bytes) {
  return std::clamp((bytes / cache_bytes - kAllKept) / (kNothingKept - kAllKept), 0.0, 1.0);
}

// The first position from which on a cache keeps what the loops touch. What is read ahead takes as much room again.
u32 kept_from(const std::vector<double>& touched, double cache_bytes) {
  u32 kept = 0;
  while (kept + 1 < touched.size() && !keeps_all(2 * touched[kept], cache_bytes)) ++kept;
  return kept;
}

// Lines of runs that begin with lines.
double lines_of_runs(const Use& use, u32 level, double element_bytes, double line) {
  return use.elements[level] / use.run[level] * round_up(use.run[level] * element_bytes / line);
}

// The hardware does not read the first line of a run ahead, only those that follow. What share of the lines that the
// loops from `level` on touch are first ones; 0 if they are all one run.
double first_lines(const Use& use, u32 level, double element_bytes, double line) {
  bool are_several = use.elements[level] > use.run[level];
  return are_several ? 1 / round_up(use.run[level] * element_bytes / line) : 0;
}

}  // namespace

double CacheLines::streamed(const MachineRates& rates) const {
  return streamed_lines[0] * kStreamedFromL2 + streamed_lines[1] * kStreamedFromL3 +
         streamed_lines[2] * rates.memory_line;
}

// Single lines do not come faster than streamed ones.
double CacheLines::strided(const MachineRates& rates) const {
  return strided_from_l2() + strided_lines[1] * std::max(kStridedLine[1], kStreamedFromL3) +
         strided_lines[2] * std::max(kStridedLine[2], rates.memory_line);
}

double CacheLines::strided_from_l2() const { return strided_lines[0] * std::max(kStridedLine[0], kStreamedFromL2); }

double CacheLines::waiting_for_near(const MachineRates& rates) const { return streamed(rates) + strided_from_l2(); }

double CacheLines::waiting_for_far(const MachineRates& rates) const {
  return kSeenWaiting * (strided(rates) - strided_from_l2());
}

CacheTraffic::CacheTraffic(const FeatureTarget& target)
    : sizes_{static_cast<double>(target.l1_bytes), static_cast<double>(target.l2_bytes),
             static_cast<double>(target.l3_bytes)},
      line_(target.cache_line) {}

void CacheTraffic::start(const FlatProgram& program) {
  program_bytes_ = 0;
  is_counted_.assign(program.buffers.size(), false);
  for (const FlatStore& store : program.stores) {
    for (u32 a = store.first_access; a < store.first_access + store.accesses; ++a) {
      u32 index = program.accesses[a].buffer;
      if (!program.buffers[index].is_param || is_counted_[index]) continue;
      is_counted_[index] = true;
      program_bytes_ += static_cast<double>(bytes_of(program.buffers[index].buffer));
    }
  }
}

// For each cache, from the innermost loop outwards: the share of a loop's data that the cache has lost, and that it had
// not lost further in, comes from beyond each time that the loop runs.
CacheLines CacheTraffic::of(const FlatProgram& program, const FlatStore& store, const std::vector<Use>& uses,
                            const std::vector<BodyRole>& roles, int inner) {
  depth_ = store.depth;
  extents_.resize(depth_);
  for (u32 p = 0; p < depth_; ++p) extents_[p] = static_cast<double>(program.loop_of(store, p).extent);
  find_operands(program, store, uses, roles);
  measure_sets();
  CacheLines out;
  for (int i = 0; i < 4; ++i)
    out.working_set[static_cast<std::size_t>(i)] = set_bytes_[static_cast<std::size_t>(std::max(0, inner + 1 - i))];
  const u32 kept_in_l1 = kept_from(set_bytes_, sizes_[0]);
  for (std::size_t cache = 0; cache < 3; ++cache) {
    double bytes = sizes_[cache];
    if (bytes <= 0) continue;
    const u32 kept = kept_from(set_bytes_, bytes);
    for (const Operand& operand : operands_) {
      double missing = 0;
      for (u32 p = depth_ + 1; p-- > 0 && missing < 1;) {
        double needed = cache == 0 ? set_bytes_[p] + crowding(operand, p) : set_bytes_[p];
        if (p == 0) needed = std::max(needed, program_bytes_);
        if (keeps_all(needed, bytes)) continue;
        double more = missing_share(needed, bytes) - missing;
        if (more <= 0) continue;
        missing += more;
        add(operand, {cache, bytes, p, more, kept, kept_in_l1}, out);
      }
    }
  }
  return out;
}

// Vector loads that move with a loop marked `prefetch` ask for what they read later.
bool CacheTraffic::is_prefetched(const FlatProgram& program, const FlatStore& store, const Use& use,
                                 const std::vector<BodyRole>& roles) const {
  bool asks_ahead = false, is_vector = false;
  for (u32 p = 0; p < depth_; ++p) {
    if (!use.moved[p]) continue;
    asks_ahead |= program.loop_of(store, p).prefetch > 0;
    is_vector |= roles[p] == BodyRole::Vector;
  }
  return use.is_read && asks_ahead && is_vector;
}

void CacheTraffic::find_operands(const FlatProgram& program, const FlatStore& store, const std::vector<Use>& uses,
                                 const std::vector<BodyRole>& roles) {
  operands_.clear();
  lines_.clear();
  for (const Use& use : uses) {
    const FlatBuffer& buffer = program.buffers[use.buffer];
    if (buffer.buffer->scope == Scope::Register) continue;
    Operand operand{&use,  buffer.element_bytes, program.home_depth(buffer), buffer.is_param, false,
                    false, lines_.size()};
    bool is_read_ahead = is_prefetched(program, store, use, roles);
    operand.is_far = !is_read_ahead && is_far_apart(operand, roles, true);
    operand.is_near = !is_read_ahead && is_far_apart(operand, roles, false);
    measure_lines(operand);
    operands_.push_back(operand);
  }
}

// Cache lines that the loops from each position on touch. Where the loops that go from run to run do not move by whole
// lines, a run begins anywhere and touches a part of one more, on average.
void CacheTraffic::measure_lines(const Operand& operand) {
  const Use& use = *operand.use;
  broken_.clear();
  for (u32 p = 0; p < depth_; ++p) {
    if (use.moved[p] && extent(p) != 1 && !is_multiple(use.stride[p] * operand.element_bytes, line_))
      broken_.push_back(p);
  }
  for (u32 level = 0; level <= depth_; ++level) {
    double run = use.run[level], runs = use.elements[level] / run;
    auto goes_from_run_to_run = [&](u32 p) { return p < level || use.stride[p] >= run; };
    bool begins_anywhere = runs > 1 && std::any_of(broken_.begin(), broken_.end(), goes_from_run_to_run);
    lines_.push_back(begins_anywhere ? runs * ((run - 1) * operand.element_bytes / line_ + 1)
                                     : lines_of_runs(use, level, operand.element_bytes, line_));
  }
}

void CacheTraffic::measure_sets() {
  set_bytes_.assign(depth_ + 1, 0);
  crowding_.resize(lines_.size());
  for (const Operand& operand : operands_) {
    for (u32 p = 0; p <= depth_; ++p) {
      u32 level = std::max(p, operand.home);
      set_bytes_[p] += lines(operand, level) * line_;
      crowding_[operand.lines + p] = room_in_l1(operand, level) - lines(operand, level) * line_;
    }
  }
}

// The position behind that of the innermost loop that stays a loop and moves the access; 0 = there is none.
u32 CacheTraffic::behind_mover(const Use& use, const std::vector<BodyRole>& roles) const {
  u32 position = depth_;
  while (position > 0 && !(roles[position - 1] == BodyRole::Outer && use.moved[position - 1])) --position;
  return position;
}

// Does that loop go on in far steps, over many rows, with little to read at each? `is_far`: the lines come from beyond
// L2. From L2 the hardware reads ahead over longer steps if rows begin with lines; there unrolled rows count as steps.
bool CacheTraffic::is_far_apart(const Operand& operand, const std::vector<BodyRole>& roles, bool is_far) const {
  const Use& use = *operand.use;
  u32 behind = behind_mover(use, roles);
  if (behind == 0) return false;
  double rows = use.elements[behind - 1] / use.run[behind - 1], step = use.stride[behind - 1];
  for (u32 p = behind; p < depth_; ++p) {
    if (!is_far && roles[p] == BodyRole::Unrolled && use.moved[p]) step = std::min(step, use.stride[p]);
  }
  step *= operand.element_bytes;
  bool begins_lines = is_multiple(step, line_);
  return step >= (is_far || !begins_lines ? kFarStep : kFarStepFromL2) &&
         use.run[behind] * operand.element_bytes < kFarStep / 2 && rows > kFewRows;
}

// Bytes of L1 that the lines of an operand take. Rows that lie a multiple of a large power of two apart share few sets:
// more of them than there are ways take the room of all sets.
double CacheTraffic::room_in_l1(const Operand& operand, u32 level) const {
  const Use& use = *operand.use;
  double all = lines(operand, level), ways = sizes_[0] / (kL1Sets * line_);
  double of_a_row = round_up(use.run[level] * operand.element_bytes / line_);
  double of_a_set = 0, most_rows = 1, apart = kL1Sets;  // as many sets lie between two rows
  for (u32 p = depth_; p-- > level;) {
    if (!use.moved[p] || use.stride[p] < use.run[level]) continue;
    double step = use.stride[p] * operand.element_bytes / line_;
    if (!is_multiple(step, 1)) break;
    i64 lines_apart = static_cast<i64>(step), power_of_two = lines_apart & -lines_apart;
    apart = std::min(apart, static_cast<double>(power_of_two));
    most_rows *= extent(p);  // boxes of strided elements have more
    double rows = std::min(most_rows, use.elements[p] / use.run[p]);
    of_a_set = std::max(of_a_set, round_up(rows * apart / kL1Sets) * round_up(of_a_row / apart));
  }
  return of_a_set > kManyOfASet * ways ? std::max(all, of_a_set * kL1Sets) * line_ : all * line_;
}

// The share of lines that the hardware does not read ahead in time.
double CacheTraffic::single_share(const Operand& operand, const Refill& refill) const {
  const Use& use = *operand.use;
  bool is_far = refill.cache > 0;
  if (use.is_irregular || (use.is_read && (is_far ? operand.is_far : operand.is_near))) {
    // All, but for the second line of a run that begins in the middle of one: it comes with the first.
    u32 level = std::max(refill.from, operand.home);
    return std::min(1.0, lines_of_runs(use, level, operand.element_bytes, line_) / lines(operand, level));
  }
  if (!is_far || use.is_write) return 0;
  auto first = [&](u32 kept) { return first_lines(use, std::max(kept, operand.home), operand.element_bytes, line_); };
  return std::max(first(refill.kept), kFromL2 * first(refill.kept_in_l1));
}

void CacheTraffic::add(const Operand& operand, const Refill& refill, CacheLines& out) const {
  const Use& use = *operand.use;
  bool fits = lines(operand, operand.home) * line_ <= refill.cache_bytes * kAllKept / 2;
  if (!operand.is_param && fits) return;
  double moved_lines = lines(operand, std::max(refill.from, operand.home)) * refill.share * (use.is_write ? 2 : 1);
  // A chain of loops that stand still for this operand does not bring it again while its part fits.
  bool brings = !fits;
  for (u32 p = refill.from; p-- > 0;) {
    brings |= use.moved[p] != 0;
    if (brings) moved_lines *= extent(p);
  }
  out.traffic[refill.cache] += moved_lines * line_;
  double single = single_share(operand, refill);
  out.strided_lines[refill.cache] += moved_lines * single;
  out.streamed_lines[refill.cache] += moved_lines * (1 - single);
}

}  // namespace tw
