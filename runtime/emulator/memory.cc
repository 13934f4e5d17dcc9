#include "runtime/emulator/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "dsl/base/text.h"

namespace tw::emulator {
namespace {

constexpr u16 kCopy = 0xffff;      // writer: an asynchronous copy that has not arrived
constexpr u16 kSeveral = 0xfffe;   // reader: threads of several warps
constexpr u16 kWarpBase = 0x8000;  // reader: several threads of warp (reader - kWarpBase)
constexpr u64 kLine = 64;
constexpr int kPoison = 0xff;  // of every byte: a NaN, and -1

u16 warp_of(u16 who) { return who >= kWarpBase ? static_cast<u16>(who - kWarpBase) : static_cast<u16>(who / 32); }

std::string place(const Region& region, i64 offset) {
  std::string kind = region.is_shared ? "shared array `" : "`";
  i64 size = static_cast<i64>(region.element_bytes);
  if (size > 0 && offset % size == 0) return cat(kind, region.name, "`[", offset / size, "]");
  return cat("byte ", offset, " of ", kind, region.name, "`");
}

std::string extent(const Region& region) {
  if (region.element_bytes > 0) return cat(region.bytes / region.element_bytes, " elements");
  return cat(region.bytes, " bytes");
}

const char* verb(Access access) { return access == Access::Read ? "reads " : "writes "; }

std::string reader_name(u16 reader) {
  if (reader == kSeveral) return "several threads";
  return reader >= kWarpBase ? cat("threads of warp ", reader - kWarpBase) : cat("thread ", reader);
}

}  // namespace

Memory::~Memory() {
  if (arena_) munmap(arena_, slot_bytes_ * global_.size());
}

bool Memory::map_global(std::vector<Region> regions) {
  constexpr u64 kPage = 4096;
  global_ = std::move(regions);
  u64 largest = 0;
  for (const Region& region : global_) largest = std::max(largest, region.bytes);
  for (slot_bytes_ = u64{64} << 20; slot_bytes_ < 4 * largest; slot_bytes_ *= 2) {
  }
  void* memory =
      mmap(nullptr, slot_bytes_ * global_.size(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return false;
  arena_ = static_cast<char*>(memory);
  for (std::size_t i = 0; i < global_.size(); ++i) {
    Region& region = global_[i];
    char* pages = arena_ + i * slot_bytes_ + slot_bytes_ / 2;
    u64 bytes = (region.bytes + kLine + kPage - 1) / kPage * kPage;
    if (mprotect(pages, bytes, PROT_READ | PROT_WRITE) != 0) return false;
    region.data = pages + kLine;  // aligned to 64 bytes and no more
    std::memset(region.data, kPoison, region.bytes);
    if (!region.is_input) region.cells.resize((region.bytes + 3) / 4);
  }
  return true;
}

std::string Memory::writers_of(std::size_t index, u32 last_launch) const {
  const Region& region = global_[index];
  u64 size = std::max<u64>(region.element_bytes, 1);
  std::string out(region.bytes / size, static_cast<char>(WrittenBy::None));
  for (u64 i = 0; i < out.size(); ++i) {
    u32 oldest = ~u32{0};  // an element is written when all of its bytes are
    for (u64 byte = i * size; byte < (i + 1) * size; byte += std::min(size, region.grain))
      oldest = std::min(oldest, region.cells[byte / region.grain].written);
    if (oldest > 0)
      out[i] = static_cast<char>(oldest >= last_launch ? WrittenBy::LastLaunch : WrittenBy::EarlierLaunch);
  }
  return out;
}

std::vector<std::pair<i64, i64>> Memory::unwritten_since(std::size_t index, i64 begin, i64 end, u32 epoch,
                                                         std::size_t most) const {
  const Region& region = global_[index];
  auto grain = static_cast<i64>(region.grain);
  std::vector<std::pair<i64, i64>> out;
  for (i64 byte = begin; byte < end; byte += grain) {
    if (region.cells[static_cast<u64>(byte / grain)].written >= epoch) continue;
    i64 behind = std::min(byte + grain, end);
    if (!out.empty() && out.back().second == byte)
      out.back().second = behind;
    else if (out.size() == most)
      break;
    else
      out.push_back({byte, behind});
  }
  return out;
}

void Memory::set_shared(char* begin, char* end, std::vector<Region> arrays) {
  shared_ = std::move(arrays);
  shared_begin_ = begin, shared_end_ = end;
  shared_at_.assign((static_cast<u64>(end - begin) + kLine - 1) / kLine, -1);
  for (std::size_t i = 0; i < shared_.size(); ++i) {
    Region& array = shared_[i];
    array.cells.resize((array.bytes + 3) / 4);
    std::memset(array.data, kPoison, array.bytes);
    auto first = static_cast<u64>(array.data - begin) / kLine,
         last = (static_cast<u64>(array.data - begin) + array.bytes - 1) / kLine;
    for (u64 line = first; line <= last; ++line) shared_at_[line] = static_cast<int>(i);
  }
}

void Memory::clear_shared() {
  for (Region& array : shared_) {
    if (!array.is_used) continue;
    std::memset(array.data, kPoison, array.bytes);
    std::fill(array.cells.begin(), array.cells.end(), Cell{});
    array.is_used = false;
  }
}

Region* Memory::find(u64 address, std::string* near) {
  const char* at = reinterpret_cast<const char*>(address);
  if (at >= shared_begin_ && at < shared_end_) {
    u64 line = static_cast<u64>(at - shared_begin_) / kLine;
    int index = shared_at_[line];
    if (index >= 0) return &shared_[static_cast<std::size_t>(index)];
    for (; near && line < shared_at_.size(); --line) {
      if (shared_at_[line] < 0) continue;
      const Region& before = shared_[static_cast<std::size_t>(shared_at_[line])];
      *near =
          cat(place(before, at - before.data), ", which has ", extent(before), ", or an element before the next array");
      break;
    }
    return nullptr;
  }
  if (!arena_ || at < arena_) return nullptr;
  u64 slot = static_cast<u64>(at - arena_) / slot_bytes_;
  return slot < global_.size() ? &global_[slot] : nullptr;
}

Finding Memory::outside(u64 address, u64 bytes, Access access) {
  std::string near = "memory that is none of the kernel's";
  if (const Region* region = find(address, &near)) {
    i64 offset = static_cast<i64>(address) - reinterpret_cast<i64>(region->data);
    near = cat(place(*region, offset), ", which has ", extent(*region));
  }
  return {EmulationStatus::OutOfBounds, cat(verb(access), bytes, " bytes at ", near)};
}

// Two threads may write two bytes of a word: from now on each byte is looked at on its own.
void Memory::refine(Region& region) {
  std::vector<Cell> fine(region.bytes);
  for (u64 i = 0; i < region.bytes; ++i) fine[i] = region.cells[i / 4];
  region.cells = std::move(fine);
  region.grain = 1;
}

std::optional<Finding> Memory::check(Region& region, Cell& cell, u64 offset, Access access, const Moment& now) const {
  auto race = [&](const std::string& other, bool other_wrote) {
    std::string how = other_wrote ? " wrote" : " read";
    return Finding{EmulationStatus::Race, cat(verb(access), place(region, static_cast<i64>(offset)), ", which ", other,
                                              how, " with no barrier between")};
  };
  auto is_other_group = [&](u32 epoch) { return epoch >= now.launch_epoch && epoch < now.group_epoch; };
  auto is_ordered_in_warp = [&](u16 who, u16 step) { return warp_of(who) == now.thread / 32 && step != now.warp_step; };
  if (cell.writer == kCopy)
    return Finding{EmulationStatus::Async, cat(verb(access), place(region, static_cast<i64>(offset)),
                                               " while an asynchronous copy to it has not been waited for")};
  if (is_other_group(cell.written)) return race("another group", true);
  if (cell.written == now.epoch && cell.writer != now.thread && !is_ordered_in_warp(cell.writer, cell.writer_step))
    return race(cat("thread ", cell.writer), true);
  if (access == Access::Read) {
    if (cell.written == 0 && !(unwritten_allowed_ && !region.is_shared))
      return Finding{EmulationStatus::Uninitialised,
                     cat("reads ", place(region, static_cast<i64>(offset)), ", which nothing has written")};
    return std::nullopt;
  }
  if (is_other_group(cell.read)) return race("another group", false);
  bool is_own =
      cell.reader == now.thread || (cell.reader != kSeveral && is_ordered_in_warp(cell.reader, cell.reader_step));
  if (cell.read == now.epoch && !is_own) return race(reader_name(cell.reader), false);
  return std::nullopt;
}

std::optional<Finding> Memory::touch(u64 address, u64 bytes, Access access, const Moment& now) {
  Region* region = find(address);
  u64 offset = region ? address - reinterpret_cast<u64>(region->data) : 0;
  if (!region || offset > region->bytes || bytes > region->bytes - offset) return outside(address, bytes, access);
  if (region->is_input) {
    if (access == Access::Read) return std::nullopt;
    return Finding{EmulationStatus::OutOfBounds,
                   cat("writes ", place(*region, static_cast<i64>(offset)), ", an input")};
  }
  region->is_used = true;
  if (region->grain > 1 && (bytes % 4 != 0 || offset % 4 != 0)) refine(*region);
  for (u64 i = offset / region->grain; i <= (offset + bytes - 1) / region->grain; ++i) {
    Cell& cell = region->cells[i];
    if (auto finding = check(*region, cell, i * region->grain, access, now)) return finding;
    if (access == Access::Write) {
      cell.written = now.epoch, cell.writer = now.thread, cell.writer_step = now.warp_step;
      continue;
    }
    bool is_same_warp = cell.reader != kSeveral && warp_of(cell.reader) == now.thread / 32;
    bool is_alone =
        cell.read != now.epoch || cell.reader == now.thread || (is_same_warp && cell.reader_step != now.warp_step);
    cell.reader = is_alone ? now.thread : is_same_warp ? static_cast<u16>(kWarpBase + now.thread / 32) : kSeveral;
    cell.read = now.epoch, cell.reader_step = now.warp_step;
  }
  return std::nullopt;
}

std::optional<Finding> Memory::begin_copy(u64 address, u64 bytes, const Moment& now) {
  if (auto finding = touch(address, bytes, Access::Write, now)) return finding;
  Region& region = *find(address);
  u64 offset = address - reinterpret_cast<u64>(region.data);
  std::memset(region.data + offset, kPoison, bytes);
  for (u64 i = offset / region.grain; i <= (offset + bytes - 1) / region.grain; ++i) region.cells[i].writer = kCopy;
  return std::nullopt;
}

void Memory::end_copy(u64 address, u64 bytes, const Moment& now) {
  Region& region = *find(address);
  u64 offset = address - reinterpret_cast<u64>(region.data);
  for (u64 i = offset / region.grain; i <= (offset + bytes - 1) / region.grain; ++i) {
    Cell& cell = region.cells[i];
    cell.written = now.epoch, cell.writer = now.thread, cell.writer_step = now.warp_step;
  }
}

}  // namespace tw::emulator
