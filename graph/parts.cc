#include "graph/parts.h"

#include <algorithm>

#include "backends/kernel_abi.h"
#include "dsl/base/check.h"
#include "dsl/ir/walk.h"

namespace tw::graph {
namespace {

// A move takes a time with the members of a memory, and a chain of concatenations moves them again and again.
constexpr std::size_t kMostMembers = 4096;

// One row has no pitch, and rows without gaps are one row.
Part normal(Part part, i64 elements) {
  if (part.rows == 1 || part.pitch * part.rows == elements) part.rows = 1, part.pitch = 0;
  return part;
}

// Calls copy(place in the value, place in the memory, bytes) for each row; places are bytes.
template <class Copy>
void for_each_row(const HostArray& value, const HostArray& memory, const Part& part, Copy&& copy) {
  i64 row = value.elements() / part.rows, bytes = bytes_of(value.dtype);
  TW_CHECK(part.offset + (part.rows - 1) * part.pitch + row <= memory.elements(), "a part that is not inside");
  for (i64 r = 0; r < part.rows; ++r) copy(r * row * bytes, (part.offset + r * part.pitch) * bytes, row * bytes);
}

}  // namespace

HostArray read_part(const HostArray& memory, const Part& part, const OperandType& type) {
  HostArray value = HostArray::zeros(type.dtype, type.shape);
  for_each_row(value, memory, part, [&](i64 own, i64 there, i64 bytes) {
    std::copy_n(memory.bytes.begin() + there, bytes, value.bytes.begin() + own);
  });
  return value;
}

void write_part(HostArray& memory, const Part& part, const HostArray& value) {
  for_each_row(value, memory, part, [&](i64 own, i64 there, i64 bytes) {
    std::copy_n(value.bytes.begin() + own, bytes, memory.bytes.begin() + there);
  });
}

std::optional<Part> part_of_slice(const Graph& graph, const Node& slice) {
  const std::vector<i64>& shape = graph.values[slice.inputs[0]].type.shape;
  const std::vector<i64>&start = *integers(slice.arguments, "start"), &step = *integers(slice.arguments, "step"),
        &result = *integers(slice.arguments, "R");
  struct Extent {
    i64 count, stride;
  };
  std::vector<Extent> extents;  // the innermost first; those that follow each other without a gap are one
  i64 stride = 1, offset = 0;
  for (std::size_t d = shape.size(); d-- > 0; stride *= shape[d]) {
    offset += start[d] * stride;
    if (result[d] == 1) continue;
    i64 own = stride * step[d];
    if (own <= 0) return std::nullopt;
    if (!extents.empty() && own == extents.back().count * extents.back().stride)
      extents.back().count *= result[d];
    else
      extents.push_back({result[d], own});
  }
  if (!extents.empty() && extents[0].stride != 1) extents.insert(extents.begin(), {1, 1});
  if (extents.size() > 2) return std::nullopt;
  Part part{slice.inputs[0], offset, 1, 0};
  if (extents.size() == 2) part.rows = extents[1].count, part.pitch = extents[1].stride;
  return part;
}

Part part_of_concat(const Graph& graph, const Node& concat, std::size_t index) {
  i64 axis = integer(concat.arguments, "axis");
  const OperandType& type = graph.values[concat.outputs[0]].type;
  i64 rows = 1, before = index == 0 ? 0 : elements_of(graph.values[concat.inputs[0]].type);
  for (i64 d = 0; d < axis; ++d) rows *= type.shape[static_cast<std::size_t>(d)];
  return normal({concat.outputs[0], before / rows, rows, elements_of(type) / rows},
                elements_of(graph.values[concat.inputs[index]].type));
}

std::optional<Part> composed(const Part& outer, i64 outer_elements, const Part& inner, i64 elements) {
  if (elements == 0 || outer_elements == 0) return std::nullopt;
  Part part{outer.memory, outer.offset + inner.offset, inner.rows, inner.pitch};
  if (outer.rows == 1) return part;
  i64 row = outer_elements / outer.rows, own_row = elements / inner.rows;
  part.offset = outer.offset + inner.offset / row * outer.pitch + inner.offset % row;
  auto is_within = [&](i64 span) { return inner.offset % row + span <= row; };
  if (is_within((inner.rows - 1) * inner.pitch + own_row)) return part;
  if (inner.rows == 1) {
    if (inner.offset % row != 0 || elements % row != 0) return std::nullopt;
    part.rows = elements / row, part.pitch = outer.pitch;
    return part;
  }
  if (!is_within(own_row) || inner.pitch % row != 0) return std::nullopt;
  part.pitch = inner.pitch / row * outer.pitch;
  return normal(part, elements);
}

std::optional<i64> axis_of_rows(const std::vector<i64>& shape, i64 rows) {
  i64 counted = 1;
  for (std::size_t d = 0; d < shape.size() && counted <= rows; ++d) {
    counted *= shape[d];
    if (counted == rows) return static_cast<i64>(d);
  }
  return std::nullopt;
}

OwnedProgram with_pitches(const Program& program, const std::vector<Pitch>& pitches) {
  OwnedProgram made = clone(program);
  for (const Pitch& pitch : pitches) {
    const Buffer* from = made.program.params[pitch.parameter].buffer;
    Buffer* to = made.arena->make<Buffer>(*from);
    to->stride_rules = made.arena->list<StrideRule>({{pitch.axis, pitch.elements, 0}});
    std::vector<Param> params(made.program.params.begin(), made.program.params.end());
    params[pitch.parameter].buffer = to;
    made.program.params = made.arena->copy(params);
    made.program.body = replace_buffer(*made.arena, made.program.body, from, to);
  }
  return made;
}

Parts::Parts(const Graph& graph) : graph_(graph), is_output_(graph.values.size()) {
  for (ValueId value = 0; value < graph.values.size(); ++value) {
    parts_.push_back({.memory = value});
    members_.push_back({value});
  }
  for (ValueId output : graph.outputs) is_output_[output] = true;
}

bool Parts::is_whole(ValueId value) const {
  const Part& part = parts_[value];
  return part.offset == 0 && part.rows == 1 && elements(value) == elements(part.memory);
}

bool Parts::is_place_for(const Part& part, const OperandType& type) {
  if (part.offset * bytes_of(type.dtype) % TW_ALIGNMENT != 0) return false;
  return part.rows == 1 || axis_of_rows(type.shape, part.rows).has_value();
}

bool Parts::can_be(ValueId value, const Part& part) const {
  const OperandType& type = graph_.values[value].type;
  bool is_whole = part.offset == 0 && part.rows == 1 && elements(value) == elements(part.memory);
  if (is_whole) return true;
  if (is_output_[value] || graph_.values[part.memory].data) return false;
  return is_place_for(part, type);
}

bool Parts::add(ValueId value, const Part& part) {
  if (!can_be(value, part)) return false;
  parts_[value] = part;
  members_[part.memory].push_back(value);
  return true;
}

bool Parts::move(ValueId value, const Part& part) {
  ValueId from = parts_[value].memory;
  if (members_[from].size() > kMostMembers) return false;
  std::vector<std::pair<ValueId, Part>> moved;
  for (ValueId member : members_[from]) {
    std::optional<Part> now = composed(part, elements(value), parts_[member], elements(member));
    if (!now || !can_be(member, *now)) return false;
    moved.push_back({member, *now});
  }
  for (const auto& [member, now] : moved) {
    parts_[member] = now;
    members_[part.memory].push_back(member);
  }
  members_[from].clear();
  return true;
}

}  // namespace tw::graph
