// Memory of the interpreter: bytes, and for each byte whether it was ever written and by which iterations of concurrent
// loops it was written and read last. Reports reads of uninitialised bytes and conflicts between iterations that may
// run at the same time.
#pragma once
#include <vector>

#include "dsl/base/arena.h"

namespace tw {

// Where a program stands with respect to its concurrent loops (parallel, vectorize, bind): a path of (run of a loop,
// iteration). Two places are concurrent if their paths part at the same run of a loop in different iterations.
class ConcurrentPlaces {
 public:
  using Place = u32;
  static constexpr Place kNone = 0, kRoot = 1;

  ConcurrentPlaces() : nodes_(2) {}
  u32 new_run() { return ++runs_; }
  Place enter(Place around, u32 run, i64 iteration) {
    nodes_.push_back({around, run, iteration, nodes_[around].depth + 1});
    return static_cast<Place>(nodes_.size() - 1);
  }
  bool concurrent(Place a, Place b) const;

 private:
  struct Node {
    Place around = 0;
    u32 run = 0;
    i64 iteration = 0;
    int depth = 0;
  };
  std::vector<Node> nodes_;
  u32 runs_ = 0;
};

enum class Conflict : u8 { None, Uninitialised, WriteWrite, ReadWrite };

class Memory {
 public:
  explicit Memory(i64 bytes, bool initialised = false)
      : bytes_(static_cast<std::size_t>(bytes)), marks_(static_cast<std::size_t>(bytes)) {
    for (Mark& mark : marks_) mark.initialised = initialised;
  }
  i64 size() const { return static_cast<i64>(bytes_.size()); }
  u8* data() { return bytes_.data(); }
  // Everything is uninitialised and untouched again.
  void forget() { marks_.assign(marks_.size(), Mark{}); }

  // The first byte that was never written; -1 if there is none.
  i64 first_uninitialised() const;

  // Notes an access to [offset, offset + count) at `place` and tells what is wrong with it.
  Conflict note_read(i64 offset, i64 count, ConcurrentPlaces::Place place, const ConcurrentPlaces& places);
  Conflict note_write(i64 offset, i64 count, ConcurrentPlaces::Place place, const ConcurrentPlaces& places);

 private:
  // Two readers are enough: if both are concurrent with each other, any writer in that loop conflicts with one of them.
  struct Mark {
    ConcurrentPlaces::Place writer = 0, reader = 0, second_reader = 0;
    bool initialised = false;
  };
  std::vector<u8> bytes_;
  std::vector<Mark> marks_;
};

}  // namespace tw
