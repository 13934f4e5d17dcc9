// Memory: the global and shared memory of an emulated device, and what is known about each element of it: who wrote and
// read it last, and when. Time is counted in epochs: a new one begins with each group and at each barrier of a group.
// Two accesses to one element by different threads in one epoch are unordered, as are those by different groups of one
// launch. It runs nothing and stops nothing: a finding is a value.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/measure/emulation_report.h"

namespace tw::emulator {

using u16 = std::uint16_t;

struct Finding {
  EmulationStatus status = EmulationStatus::Ok;
  std::string text;
};

// What is known about an element: 0 = never.
struct Cell {
  u32 written = 0, read = 0;             // epochs
  u16 writer = 0, reader = 0;            // threads, or see memory.cc
  u16 writer_step = 0, reader_step = 0;  // of the thread's warp (__syncwarp), then
};

enum class Access : u8 { Read, Write };

struct Region {
  std::string name;
  char* data = nullptr;
  u64 bytes = 0, element_bytes = 0;  // element_bytes: for messages; 0 = not known
  bool is_input = false;             // may not be written, and is written whole from the beginning
  bool is_shared = false;
  bool is_used = false;  // since clear()
  u64 grain = 4;         // bytes that share a Cell; 1 from the first narrow access on
  std::vector<Cell> cells;
};

// The thread that accesses memory, and when.
struct Moment {
  u32 epoch = 0;         // now
  u32 group_epoch = 0;   // the first one of this group
  u32 launch_epoch = 0;  // of this launch
  u16 thread = 0;        // in its group
  u16 warp_step = 0;
};

class Memory {
 public:
  Memory() = default;
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // Global regions lie far apart, between pages that are not there. False: there was no memory.
  bool map_global(std::vector<Region> regions);
  // The arrays of shared memory between two addresses, with untouchable zones around them.
  void set_shared(char* begin, char* end, std::vector<Region> arrays);
  // Read-only data of the kernels' library.
  void set_image(u64 begin, u64 end) { image_begin_ = begin, image_end_ = end; }

  Region& global(std::size_t index) { return global_[index]; }
  // For each element of a region, who wrote it (WrittenBy). `last_launch` is the first epoch of the last launch.
  std::string writers_of(std::size_t index, u32 last_launch) const;
  // The parts of a region from byte `begin` to `end` that nothing has written since an epoch, as pairs of bytes; no
  // more than `most`.
  std::vector<std::pair<i64, i64>> unwritten_since(std::size_t index, i64 begin, i64 end, u32 epoch,
                                                   std::size_t most) const;
  // Shared arrays hold patterns again, written by nobody.
  void clear_shared();
  // After a launch of which only some groups ran: reading what was never written is no finding any more.
  void allow_unwritten() { unwritten_allowed_ = true; }

  // Where an address lies; null in none of the kernel's memory.
  Region* find(u64 address, std::string* near = nullptr);
  bool is_shared(u64 address) const {
    return address >= reinterpret_cast<u64>(shared_begin_) && address < reinterpret_cast<u64>(shared_end_);
  }
  bool is_in_image(u64 address) const { return address >= image_begin_ && address < image_end_; }

  std::optional<Finding> touch(u64 address, u64 bytes, Access access, const Moment& now);
  // An asynchronous copy to these elements begins, and has arrived. Between these, touching them is a finding.
  std::optional<Finding> begin_copy(u64 address, u64 bytes, const Moment& now);
  void end_copy(u64 address, u64 bytes, const Moment& now);

 private:
  std::optional<Finding> check(Region& region, Cell& cell, u64 offset, Access access, const Moment& now) const;
  Finding outside(u64 address, u64 bytes, Access access);
  void refine(Region& region);

  std::vector<Region> global_, shared_;
  char* arena_ = nullptr;
  u64 slot_bytes_ = 0;
  char *shared_begin_ = nullptr, *shared_end_ = nullptr;
  std::vector<int> shared_at_;  // by line of 64 bytes: index of the array, -1 = none
  u64 image_begin_ = 0, image_end_ = 0;
  bool unwritten_allowed_ = false;
};

}  // namespace tw::emulator
