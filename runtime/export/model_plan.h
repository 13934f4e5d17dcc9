// A whole model as a plan for its kernels: which run, in which order, on which memory; and the C text of it. A part of
// an export (export.h).
#pragma once
#include <boost/json/object.hpp>
#include <string>
#include <vector>

#include "backends/kernel.h"

namespace tw {

struct ExportPlan;

// Where a buffer is while a model runs.
struct ModelPlace {
  // Of devices only, Packed: what is packed there when a model is created; Sources: weights that serve for that alone.
  enum class Where : u8 { Input, Output, Memory, Weights, Packed, Sources };
  Where where = Where::Memory;
  i64 at = 0;      // index of the input or output, else an offset in bytes
  i64 offset = 0;  // in bytes, from the begin of the input or output
};
const char* name_of(ModelPlace::Where where);  // "input", "output", "memory", "weights", "packed", "sources"

struct ModelStep {
  std::string name;                 // of what is computed, for people
  std::size_t task = 0;             // of the export
  std::vector<ModelPlace> buffers;  // one for each argument of the task's run entry point
};

// Does the step write this output over this input? Its kernel has to allow the pair.
inline bool is_in_place(const ModelStep& step, const Overwrite& pair) {
  const ModelPlace &to = step.buffers[pair.output], &from = step.buffers[pair.input];
  return to.where == ModelPlace::Where::Memory && from.where == to.where && from.at == to.at;
}

// An output that nothing computes: an input, a constant, or another output again.
struct ModelCopy {
  ModelPlace from;
  std::size_t output = 0;
};

// What runs for one combination of input shapes.
struct ModelEntry {
  std::vector<KernelArgument> inputs, outputs;
  std::vector<ModelStep> steps;
  std::vector<ModelCopy> copies;  // after all steps
  i64 memory_bytes = 0;           // of what steps hand on
  // The most that is needed at one time, where an operand and the result that is written over it count once.
  i64 least_memory_bytes = 0;
};

// The first entry, and those of other shapes. All have the same inputs and outputs but for their extents.
struct ModelPlan : ModelEntry {
  std::vector<ModelEntry> further;
  std::string weights;  // of all entries, as kernels want them, at their offsets
  // Of devices: prepack entry points that run once, with a buffer for each argument, and what they write. The weights
  // are then as the model has them, and end with those that are read here only.
  std::vector<ModelStep> packings = {};
  i64 packed_bytes = 0, source_bytes = 0;
};
std::vector<const ModelEntry*> entries_of(const ModelPlan& plan);  // in order

// In front of the constants in the file of weights, so that a library knows its own.
inline constexpr i64 kWeightsHeaderBytes = 64;
// The header of a file of these weights, without it.
std::string weights_header(std::string_view weights);

// Lines of a comment: a tensor each. `what`: the name of the array.
std::string tensor_lines(const std::vector<KernelArgument>& tensors, const char* what);

// Declarations for the header of an export, definitions for its source, and the manifest's entry.
std::string model_declarations(const ExportPlan& plan);
std::string model_definitions(const ExportPlan& plan);
boost::json::object model_manifest(const ExportPlan& plan);

}  // namespace tw
