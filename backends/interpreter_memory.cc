#include "backends/interpreter_memory.h"

#include <algorithm>

namespace tw {

bool ConcurrentPlaces::concurrent(Place a, Place b) const {
  if (a == b || a == kNone || b == kNone) return false;
  while (nodes_[a].depth > nodes_[b].depth) a = nodes_[a].around;
  while (nodes_[b].depth > nodes_[a].depth) b = nodes_[b].around;
  if (a == b) return false;
  while (nodes_[a].around != nodes_[b].around) {
    a = nodes_[a].around;
    b = nodes_[b].around;
  }
  return nodes_[a].run == nodes_[b].run && nodes_[a].iteration != nodes_[b].iteration;
}

i64 Memory::first_uninitialised() const {
  auto at = std::find_if(marks_.begin(), marks_.end(), [](const Mark& mark) { return !mark.initialised; });
  return at == marks_.end() ? -1 : at - marks_.begin();
}

Conflict Memory::note_read(i64 offset, i64 count, ConcurrentPlaces::Place place, const ConcurrentPlaces& places) {
  for (i64 i = offset; i < offset + count; ++i) {
    Mark& mark = marks_[static_cast<std::size_t>(i)];
    if (!mark.initialised) return Conflict::Uninitialised;
    if (places.concurrent(mark.writer, place)) return Conflict::ReadWrite;
    bool both = places.concurrent(mark.reader, place);
    if (!both)
      mark.reader = place;
    else
      mark.second_reader = place;
  }
  return Conflict::None;
}

Conflict Memory::note_write(i64 offset, i64 count, ConcurrentPlaces::Place place, const ConcurrentPlaces& places) {
  for (i64 i = offset; i < offset + count; ++i) {
    Mark& mark = marks_[static_cast<std::size_t>(i)];
    if (places.concurrent(mark.writer, place)) return Conflict::WriteWrite;
    if (places.concurrent(mark.reader, place) || places.concurrent(mark.second_reader, place))
      return Conflict::ReadWrite;
    mark.writer = place;
    mark.initialised = true;
  }
  return Conflict::None;
}

}  // namespace tw
