// From an ONNX file to a folder with its library: what `compile` does, and what `run` and `bench` begin with where they
// are given a model.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "runtime/export/export.h"
#include "sampler/tasks/model_tasks.h"

namespace tw::cli {

struct CompileChoices {
  std::string file;       // the model
  std::string name;       // of the library; "" = that of the file
  std::string database;   // of tuned kernels; "" = none
  std::string target;     // "opencl", "cuda -device=h100"; "" = this processor
  std::string precision;  // of values between kernels and of weights: "bf16", "f16"; "" = as they are
  std::vector<std::string> shapes, rewrites;
  int threads = 0;  // that one inference uses: inference_threads
  u64 seed = 0;     // of the search
};

// What --precision says: bf16, f16, or f32 for values as they are. nullopt after a message.
std::optional<DType> parse_precision(const std::string& text);

// What --threads says; 0 = all that this process may use.
int inference_threads(int said);

struct OpenedModel {
  graph::Graph imported, graph;  // as the file has it; simplified
  DType precision;               // of values between kernels
  Target target;
  ModelTasks tasks;  // of `graph`
};
// With one shape for an input. nullopt after messages: the exit code is Usage.
std::optional<OpenedModel> open_to_compile(const CompileChoices& choices);
// With several: a model for each entry of the library (cli/model_shapes.h).
std::optional<std::vector<OpenedModel>> open_entries_to_compile(const CompileChoices& choices);

struct CompiledFolder {
  ExportPlan plan;
  bool has_library = false;  // false, after a message, where there is no C compiler
};
// Compiles and writes one library for all entries. Ctrl-C is caught from here on. Ok, or another exit code after a
// message.
int compile_to(std::span<const OpenedModel> entries, const CompileChoices& choices, const std::string& folder,
               CompiledFolder& out);

}  // namespace tw::cli
