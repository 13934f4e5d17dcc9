// Pass share_storage: buffers in shared memory that are not needed at the same time become one, or lie over each other.
// Input: a flat kernel, and which of its buffers may take turns (device_scopes has planned and counted that). Output:
// each set of one element type is one buffer, as large as its largest; an Alloc of it inside of another is gone. Serial
// execution means the same; that nobody writes what others still read follows, as between all steps, from the barriers,
// which are found afterwards: they see one buffer. What is left of several types (operands, and sums that leave through
// shared memory when no operand is needed any more) keeps its name and gets a place (SharedPlace) by first fit: only
// barriers, the printer and, by the addresses, the emulator know of that.
#pragma once
#include "dsl/passes/lifetimes.h"
#include "dsl/passes/lower_gpu.h"

namespace tw {

// Buffers by their ids, which flattening keeps.
struct SharedRoom {
  DType dtype;
  i64 bytes = 0;  // of the largest
  std::vector<BufferId> buffers;
  std::vector<Lifetime> lifetimes;
  Lifetime span;  // of all of them; from the first step to the last where it must lie alone
  i64 alignment;
};

// Where an array begins in the shared memory of a group. What instructions of four warps read by a descriptor
// (is_swizzled_matrix) is swizzled by the bits of its address up to this number.
inline constexpr i64 kSharedAlignment = 128, kMatrixAlignment = 1024;  // bytes
i64 shared_alignment(const Buffer* buffer);
inline i64 aligned_shared(i64 bytes, i64 alignment = kSharedAlignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}
// Has the buffer rows of 128 bytes, whose pieces of 16 bytes are exchanged by the number of the row (`xor 3`)?
bool is_swizzled_matrix(const Buffer* buffer);

// Rooms of one kernel, filled greedily in the order of Allocs. Bytes are counted with what alignment adds.
class SharedRooms {
 public:
  // `taken`: bytes that the kernel needs beside its buffers.
  SharedRooms(const Stmt* kernel, i64 taken);
  // Bytes of all rooms once the buffer has its place, which is not taken.
  i64 bytes_with(const Buffer* buffer) const;
  // Takes the place; the bytes of all rooms.
  i64 add(const Buffer* buffer);
  const std::vector<SharedRoom>& rooms() const { return rooms_; }
  // Of each buffer, if some lie over each other; else nothing.
  std::vector<SharedPlace> places() const;

 private:
  // A room of the same type where nothing lives at that time; rooms_.size() = a new one.
  std::size_t room_for(const Buffer* buffer) const;
  std::vector<SharedRoom> rooms_with(const Buffer* buffer) const;

  std::map<const Buffer*, Lifetime> lifetimes_;  // of those that may become one with others
  std::map<const Buffer*, Lifetime> spans_;      // of those that others may lie over
  std::vector<SharedRoom> rooms_;
  i64 taken_;
};

Program share_storage(Arena& arena, Program program, const std::vector<SharedRoom>& rooms);

}  // namespace tw
