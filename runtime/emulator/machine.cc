#include "runtime/emulator/machine.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "dsl/base/clock.h"
#include "dsl/base/text.h"

namespace tw::emulator {
namespace {

constexpr int kWarp = 32;

i64 product(const std::array<i64, 3>& extents) { return extents[0] * extents[1] * extents[2]; }

std::array<unsigned, 3> index_in(const std::array<i64, 3>& extents, i64 linear) {
  return {static_cast<unsigned>(linear % extents[0]), static_cast<unsigned>(linear / extents[0] % extents[1]),
          static_cast<unsigned>(linear / extents[0] / extents[1])};
}

std::string text_of(const std::array<unsigned, 3>& index) {
  return cat("(", index[0], ", ", index[1], ", ", index[2], ")");
}

std::string lanes_of(u32 mask) {
  std::vector<int> lanes;
  for (int i = 0; i < kWarp; ++i) {
    if (mask >> i & 1) lanes.push_back(i);
  }
  return join(lanes, ", ");
}

}  // namespace

Machine* machine = nullptr;

Machine::Machine(Memory& memory, const EmulationOptions& options, u64 seed, EmulationReport& report)
    : memory_(memory),
      rng_(seed, 0x656d75),
      max_groups_(options.max_groups),
      chain_seconds_(options.chain_seconds),
      report_(report) {}

bool Machine::run(const Launch& launch) {
  auto threads = static_cast<int>(product(launch.threads));
  if (fibers_ == nullptr || threads != static_cast<int>(threads_.size())) {
    fibers_ = std::make_unique<Fibers>(
        threads, [](void* self, int fiber) { static_cast<Machine*>(self)->body(fiber); }, this);
    threads_.assign(static_cast<std::size_t>(threads), {});
  }
  launch_ = &launch;
  if (!fibers_->is_mapped()) {
    record(EmulationStatus::Unavailable, "there is no memory for the stacks of its threads");
    return false;
  }
  for (int t = 0; t < threads; ++t) threads_[static_cast<std::size_t>(t)].index = index_in(launch.threads, t);
  launch_epoch_ = epoch_ + 1;
  groups_of_launch_.clear();
  ++report_.launches;
  counts_banks_ = true;
  i64 count = product(launch.groups);
  std::vector<i64> chosen = chosen_groups(count);
  double begin = processor_seconds();
  for (i64 group : chosen) {
    if (!run_group(group)) return false;
  }
  bool is_whole = static_cast<i64>(chosen.size()) == count || (!launch.is_last && run_others(chosen, count, begin));
  report_.is_complete = report_.is_complete && is_whole;
  report_.is_chain_complete = report_.is_chain_complete && (is_whole || launch.is_last);
  if (!is_whole) memory_.allow_unwritten();
  return !has_finding_;
}

// The groups that were not chosen, if there is time for all. False: some have not run.
bool Machine::run_others(const std::vector<i64>& chosen, i64 count, double begin) {
  double each = (processor_seconds() - begin) / static_cast<double>(chosen.size());
  if (each * static_cast<double>(count) > chain_seconds_) return false;
  for (i64 group : other_groups(chosen, count)) {
    // That was an estimate, and some clocks are coarse.
    if (processor_seconds() - begin >= chain_seconds_ || !run_group(group)) return false;
  }
  chain_seconds_ -= processor_seconds() - begin;
  return true;
}

std::vector<i64> Machine::chosen_groups(i64 count) {
  std::vector<i64> out;
  if (max_groups_ == 0 || count <= max_groups_) {
    for (i64 g = 0; g < count; ++g) out.push_back(g);
  } else {
    std::set<i64> some = {count - 1};
    if (max_groups_ > 1) some.insert(0);
    while (static_cast<i64>(some.size()) < max_groups_) some.insert(rng_.below(count));
    out.assign(some.begin(), some.end());
  }
  shuffle(out);
  return out;
}

std::vector<i64> Machine::other_groups(const std::vector<i64>& chosen, i64 count) {
  std::vector<i64> out;
  for (i64 g = 0; g < count; ++g) {
    if (std::find(chosen.begin(), chosen.end(), g) == chosen.end()) out.push_back(g);
  }
  shuffle(out);
  return out;
}

void Machine::shuffle(std::vector<i64>& groups) {
  for (std::size_t i = groups.size(); i > 1; --i)
    std::swap(groups[i - 1], groups[static_cast<std::size_t>(rng_.below(static_cast<i64>(i)))]);
}

bool Machine::run_group(i64 group) {
  int count = static_cast<int>(threads_.size()), warps = (count + kWarp - 1) / kWarp;
  group_ = index_in(launch_->groups, group);
  group_epoch_ = ++epoch_;
  memory_.clear_shared();
  warp_steps_.assign(static_cast<std::size_t>(warps), 0);
  ended_ = at_barrier_ = 0;
  ++report_.groups;
  groups_of_launch_.push_back(group);
  if (counts_banks_) banks_.begin(warps);
  ready_.clear();
  for (int t = 0; t < count; ++t) {
    Thread& thread = threads_[static_cast<std::size_t>(t)];
    thread.copies.assign(1, {});
    wake(t);
  }
  while (!ready_.empty() && !has_finding_) {
    std::size_t pick = static_cast<std::size_t>(rng_.below(static_cast<i64>(ready_.size())));
    running_ = std::exchange(ready_[pick], ready_.back());
    ready_.pop_back();
    fibers_->enter(running_);
  }
  if (!has_finding_ && ended_ < count) explain_standstill();
  if (counts_banks_) {
    banks_.end();
    counts_banks_ = false;
    report_.warp_accesses = banks_.accesses(), report_.bank_conflicts = banks_.conflicts();
  }
  running_ = -1;
  return !has_finding_;
}

void Machine::body(int fiber) {
  launch_->call(launch_->pointers.data());
  threads_[static_cast<std::size_t>(fiber)].state = State::Ended;
  ++ended_;
}

void Machine::wait_in(State state, int line) {
  Thread& thread = threads_[static_cast<std::size_t>(running_)];
  thread.state = state, thread.line = line;
}

void Machine::wake(int thread) {
  threads_[static_cast<std::size_t>(thread)].state = State::Ready;
  ready_.push_back(thread);
}

Moment Machine::now() const {
  return {epoch_, group_epoch_, launch_epoch_, static_cast<u16>(running_),
          warp_steps_[static_cast<std::size_t>(running_ / kWarp)]};
}

void Machine::touch(u64 address, u64 bytes, Access access, u64 instruction) {
  if (running_ < 0 || fibers_->is_on_stack(address, running_)) return;
  bool is_shared = memory_.is_shared(address);
  if (!is_shared && access == Access::Read && memory_.is_in_image(address)) return;
  if (std::optional<Finding> finding = memory_.touch(address, bytes, access, now()))
    fail(finding->status, finding->text);
  if (is_shared)
    count_shared(address, bytes, instruction);
  else
    ++report_.global_accesses;
}

void Machine::count_shared(u64 address, u64 bytes, u64 instruction) {
  ++report_.shared_accesses;
  if (counts_banks_) banks_.add(running_ / kWarp, running_ % kWarp, instruction, address, bytes);
}

// ---- waiting

void Machine::need_shared(i64 bytes) {
  if (launch_->dynamic_shared_bytes < bytes)
    fail(EmulationStatus::Launch, cat("the launch gives ", launch_->dynamic_shared_bytes,
                                      " bytes of shared memory, and the kernel uses ", bytes));
}

void Machine::barrier(int line) {
  wait_in(State::AtBarrier, line);
  if (++at_barrier_ == static_cast<int>(threads_.size())) end_barrier();
  fibers_->leave();
}

void Machine::end_barrier() {
  for (std::size_t t = 1; t < threads_.size(); ++t) {
    if (threads_[t].line == threads_[0].line) continue;
    fail(EmulationStatus::Barrier, cat("thread 0 waits at the barrier on line ", threads_[0].line, ", thread ", t,
                                       " at the one on line ", threads_[t].line));
  }
  ++epoch_, ++report_.barriers;
  at_barrier_ = 0;
  if (counts_banks_) banks_.barrier();
  for (std::size_t t = 0; t < threads_.size(); ++t) wake(static_cast<int>(t));
}

u32 Machine::existing_lanes(int warp) const {
  int lanes = std::min(kWarp, static_cast<int>(threads_.size()) - warp * kWarp);
  return lanes == kWarp ? ~u32{0} : (u32{1} << lanes) - 1;
}

void Machine::exchange(u32 mask, const void* mine, u64 bytes, char* all, bool orders, int line) {
  int warp = running_ / kWarp;
  if (!(mask >> lane() & 1))
    fail(EmulationStatus::Barrier,
         cat("is not in the mask of its own exchange on line ", line, " (lanes ", lanes_of(mask), ")"));
  Thread& self = threads_[static_cast<std::size_t>(running_)];
  self.mask = mask & existing_lanes(warp), self.orders = orders;
  self.brought.assign(static_cast<const char*>(mine), bytes);
  wait_in(State::InExchange, line);
  try_exchange(warp);
  fibers_->leave();
  std::memcpy(all, self.given.data(), self.given.size());
}

// If all lanes of the mask are there, each gets what the others brought, and may go on.
void Machine::try_exchange(int warp) {
  auto thread_at = [&](int lane) -> Thread& { return threads_[static_cast<std::size_t>(warp * kWarp + lane)]; };
  const Thread& last = threads_[static_cast<std::size_t>(running_)];
  const u32 mask = last.mask;
  const u64 bytes = last.brought.size();
  std::string all(bytes * kWarp, 0);
  for (int lane = 0; lane < kWarp; ++lane) {
    if (!(mask >> lane & 1)) continue;
    const Thread& thread = thread_at(lane);
    if (thread.state != State::InExchange) return;
    if (thread.line != last.line || thread.mask != mask || thread.brought.size() != bytes)
      fail(EmulationStatus::Barrier,
           cat("is on line ", last.line, " with lanes ", lanes_of(mask), " of its warp, but lane ", lane, " on line ",
               thread.line, " with lanes ", lanes_of(thread.mask)));
    all.replace(static_cast<std::size_t>(lane) * bytes, bytes, thread.brought);
  }
  if (last.orders && mask == existing_lanes(warp)) ++warp_steps_[static_cast<std::size_t>(warp)];
  for (int lane = 0; lane < kWarp; ++lane) {
    if (!(mask >> lane & 1)) continue;
    thread_at(lane).given = all;
    wake(warp * kWarp + lane);
  }
}

int Machine::lane_of(u32 mask, int lane, int line) {
  if (mask >> lane & existing_lanes(running_ / kWarp) >> lane & 1) return lane;
  fail(EmulationStatus::Uninitialised,
       cat("takes a value from lane ", lane, " on line ", line, ", which does not take part"));
}

void Machine::explain_standstill() {
  int waiting = -1, ended = -1, in_exchange = -1;
  for (std::size_t t = 0; t < threads_.size(); ++t) {
    State state = threads_[t].state;
    (state == State::AtBarrier ? waiting : state == State::Ended ? ended : in_exchange) = static_cast<int>(t);
  }
  running_ = waiting >= 0 ? waiting : in_exchange;
  const Thread& thread = threads_[static_cast<std::size_t>(running_)];
  if (in_exchange >= 0 && waiting >= 0) {
    record(EmulationStatus::Deadlock,
           cat("waits at the barrier on line ", thread.line, ", thread ", in_exchange,
               " for lanes of its warp on line ", threads_[static_cast<std::size_t>(in_exchange)].line));
  } else if (in_exchange >= 0) {
    record(EmulationStatus::Barrier,
           cat("waits on line ", thread.line, " for lanes ", lanes_of(thread.mask), ", not all of which come"));
  } else {
    record(EmulationStatus::Barrier,
           cat("waits at the barrier on line ", thread.line, ", but thread ", ended, " has ended"));
  }
}

// ---- asynchronous copies: they arrive when they must, and not earlier

void Machine::copy_async(void* to, const void* from, u64 bytes, u64 valid, int line, u64 instruction) {
  if (bytes != 4 && bytes != 8 && bytes != 16)
    fail(EmulationStatus::Misaligned, cat("copies ", bytes, " bytes asynchronously on line ", line));
  if (reinterpret_cast<u64>(to) % bytes != 0 || (valid > 0 && reinterpret_cast<u64>(from) % bytes != 0))
    fail(EmulationStatus::Misaligned,
         cat("copies ", bytes, " bytes asynchronously from or to an address that is no multiple of that, on line ",
             line));
  if (!memory_.is_shared(reinterpret_cast<u64>(to)))
    fail(EmulationStatus::OutOfBounds, cat("copies asynchronously to memory that is not shared, on line ", line));
  if (valid > 0) touch(reinterpret_cast<u64>(from), valid, Access::Read, 0);
  if (auto finding = memory_.begin_copy(reinterpret_cast<u64>(to), bytes, now())) fail(finding->status, finding->text);
  count_shared(reinterpret_cast<u64>(to), bytes,
               instruction);  // lanes issue together; when each one waits is its own affair
  threads_[static_cast<std::size_t>(running_)].copies.back().push_back(
      {static_cast<char*>(to), static_cast<const char*>(from), bytes, valid});
}

void Machine::copy_commit() { threads_[static_cast<std::size_t>(running_)].copies.emplace_back(); }

void Machine::copy_wait(int groups) {
  auto& copies = threads_[static_cast<std::size_t>(running_)].copies;
  while (static_cast<int>(copies.size()) - 1 > groups) {
    for (const Copy& copy : copies.front()) {
      std::memcpy(copy.to, copy.from, copy.valid);
      std::memset(copy.to + copy.valid, 0, copy.bytes - copy.valid);
      memory_.end_copy(reinterpret_cast<u64>(copy.to), copy.bytes, now());
    }
    copies.erase(copies.begin());
  }
}

// ---- findings

std::string Machine::where() const {
  if (!launch_) return "";
  std::string out = cat("kernel `", launch_->name, "`");
  if (running_ < 0) return out;
  return cat(out, ", group ", text_of(group_), ", thread ", running_, " ",
             text_of(threads_[static_cast<std::size_t>(running_)].index));
}

void Machine::record(EmulationStatus status, const std::string& text) {
  if (has_finding_) return;
  has_finding_ = true;
  report_.status = status;
  report_.message = cat(where(), ": ", text);
}

void Machine::fail(EmulationStatus status, const std::string& text) {
  record(status, text);
  fibers_->abandon();
}

}  // namespace tw::emulator
