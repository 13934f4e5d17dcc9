// Where values lie in memory: a value may be a part of another one, as a slice is of what it is cut from, and as what a
// concatenation joins is of its result. Then nothing is copied: kernels read and write rows that lie apart.
#pragma once
#include "graph/graph.h"

namespace tw::graph {

// Rows of consecutive elements in the memory of a value.
struct Part {
  ValueId memory = 0;
  i64 offset = 0;  // elements before the first row
  i64 rows = 1;
  i64 pitch = 0;  // elements from the begin of a row to that of the next one; 0 of one row
};

// What a slice takes of its operand. Nothing if that is more than rows, as with gaps between its elements.
std::optional<Part> part_of_slice(const Graph& graph, const Node& slice);
// Where operand `index` of a concatenation, which has elements, lies in the result.
Part part_of_concat(const Graph& graph, const Node& concat, std::size_t index);

// What a part of a memory holds, as one piece of this type, and a value that is put there.
HostArray read_part(const HostArray& memory, const Part& part, const OperandType& type);
void write_part(HostArray& memory, const Part& part, const HostArray& value);

// A value of so many elements as a part of what `outer`, with so many elements, is a part of. Nothing if its rows do
// not stay rows at one distance.
std::optional<Part> composed(const Part& outer, i64 outer_elements, const Part& inner, i64 elements);

// A parameter of a kernel whose rows lie apart: the stride of its dimension `axis`.
struct Pitch {
  std::size_t parameter;
  i64 axis, elements;
  auto operator<=>(const Pitch&) const = default;
};
// The dimension whose stride is the pitch of these rows: those before it and itself count the rows. Nothing if no
// dimensions do.
std::optional<i64> axis_of_rows(const std::vector<i64>& shape, i64 rows);
// The same program on such parameters.
OwnedProgram with_pitches(const Program& program, const std::vector<Pitch>& pitches);

// The parts of all values of a graph. At first each is its own memory.
class Parts {
 public:
  explicit Parts(const Graph& graph);

  const Part& of(ValueId value) const { return parts_[value]; }
  // Is it a memory of its own, or another name of one?
  bool is_whole(ValueId value) const;
  // Can a kernel write a value of this type to the part: does it begin at an aligned address, and are its rows some of
  // the value's?
  static bool is_place_for(const Part& part, const OperandType& type);
  // A value without parts becomes a part of another one's memory. False, and nothing has changed, if kernels could not
  // use it there (is_place_for), or it is an output and not whole.
  bool add(ValueId value, const Part& part);
  // A whole value, with all that is a part of its memory, becomes a part of another value's memory. False as before.
  bool move(ValueId value, const Part& part);

 private:
  i64 elements(ValueId value) const { return elements_of(graph_.values[value].type); }
  bool can_be(ValueId value, const Part& part) const;

  const Graph& graph_;
  std::vector<Part> parts_;
  std::vector<std::vector<ValueId>> members_;  // of a memory, itself too
  std::vector<bool> is_output_;
};

}  // namespace tw::graph
