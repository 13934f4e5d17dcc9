#include "sampler/models/check_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backends/backend.h"
#include "dsl/base/text.h"
#include "dsl/passes/widen.h"
#include "graph/input_ranges.h"
#include "runtime/export/model_library.h"
#include "runtime/measure/aligned_bytes.h"
#include "runtime/measure/object_loader.h"
#include "runtime/measure/thread_pool.h"
#include "sampler/search/reference.h"
#include "sampler/search/trial.h"

namespace tw {
namespace {

// Runs the programs of nodes on all cores.
class ReferenceRunner {
 public:
  explicit ReferenceRunner(LlvmCompiler compiler)
      : compiler_(std::move(compiler)), pool_(tw_pool_create(host_target().threads, nullptr)) {}
  ~ReferenceRunner() { tw_pool_destroy(pool_); }
  ReferenceRunner(const ReferenceRunner&) = delete;

  std::optional<std::vector<HostArray>> run(const Program& program, const std::vector<const HostArray*>& operands,
                                            std::string& error) {
    Arena arena(1 << 18);
    Schedule schedule = reference_schedule(widen_to_f64(arena, program));
    BuiltKernel built = build_kernel(schedule.program(), host_target(), compiler_);
    if (!built.kernel) return error = built.problem, std::nullopt;
    LoadedObject object = load_object(built.kernel->code, error);
    if (!error.empty()) return std::nullopt;
    const KernelManifest& manifest = built.kernel->manifest;
    std::vector<AlignedBytes> memory;
    std::vector<void*> buffers;
    std::size_t next = 0;
    for (const KernelArgument& argument : manifest.run) {
      memory.emplace_back(argument.bytes);
      buffers.push_back(memory.back().get());
      if (!buffers.back()) return error = "there is not enough memory", std::nullopt;
      if (argument.role != ArgumentRole::Output)
        std::memcpy(buffers.back(), operands[next]->bytes.data(), operands[next]->bytes.size()), ++next;
    }
    AlignedBytes scratch(manifest.scratch_bytes(host_target().threads));
    if (!scratch.get()) return error = "there is not enough memory", std::nullopt;
    if (object.run(manifest.symbol)(buffers.data(), scratch.get(), pool_ ? tw_pool_run : nullptr, pool_) != 0)
      return error = "its reference kernel failed", std::nullopt;
    return results(program, manifest, buffers);
  }

 private:
  // Rounded to the types of the program.
  static std::vector<HostArray> results(const Program& program, const KernelManifest& manifest,
                                        const std::vector<void*>& buffers) {
    std::vector<HostArray> out;
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      const KernelArgument& argument = manifest.run[i];
      if (argument.role != ArgumentRole::Output) continue;
      HostArray wide = HostArray::zeros(argument.dtype, argument.shape);
      std::memcpy(wide.bytes.data(), buffers[i], wide.bytes.size());
      DType type = output_type(program, out.size());
      if (type == argument.dtype) {
        out.push_back(std::move(wide));
        continue;
      }
      HostArray narrow = HostArray::zeros(type, argument.shape);
      for (i64 e = 0; e < wide.elements(); ++e) narrow.set(e, wide.get(e));
      out.push_back(std::move(narrow));
    }
    return out;
  }
  static DType output_type(const Program& program, std::size_t index) {
    for (const Param& param : program.params) {
      if (param.role == Role::Output && index-- == 0) return param.buffer->dtype;
    }
    return DType::F32;
  }

  LlvmCompiler compiler_;
  tw_pool* pool_;
};

}  // namespace

std::vector<HostArray> random_inputs(const graph::Graph& graph, u64 seed) {
  return random_inputs(graph::input_arguments(graph), seed);
}

std::optional<std::vector<HostArray>> reference_outputs(const graph::Graph& graph, const std::vector<HostArray>& inputs,
                                                        std::string& error, const OnMade& on_made,
                                                        const std::function<bool()>& stop) {
  Result<LlvmCompiler> compiler = LlvmCompiler::create(codegen_target(host_target()));
  if (!compiler) return error = to_string(compiler.rejected()), std::nullopt;
  ReferenceRunner runner(std::move(*compiler));
  std::vector<std::optional<HostArray>> made(graph.values.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) made[graph.inputs[i]] = inputs[i];
  auto array_of = [&](graph::ValueId value) {
    return graph.values[value].data ? graph.values[value].data.get() : &*made[value];
  };
  std::vector<std::size_t> readers(graph.values.size());
  for (const graph::Node& node : graph.nodes) {
    for (graph::ValueId input : node.inputs) ++readers[input];
  }
  for (graph::ValueId output : graph.outputs) ++readers[output];
  for (const graph::Node& node : graph.nodes) {
    if (stop && stop()) return error = "it was interrupted", std::nullopt;
    std::vector<const HostArray*> operands;
    for (graph::ValueId input : node.inputs) operands.push_back(array_of(input));
    std::optional<OwnedProgram> program = graph::program_of(graph, node, error);
    std::optional<std::vector<HostArray>> results =
        program ? runner.run(program->program, operands, error) : std::nullopt;
    if (!results) return error = cat(graph.values[node.outputs[0]].name, ": ", error), std::nullopt;
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (on_made) on_made(node.outputs[i], (*results)[i]);
      made[node.outputs[i]] = std::move((*results)[i]);
    }
    for (graph::ValueId input : node.inputs) {
      if (--readers[input] == 0) made[input].reset();
    }
  }
  std::vector<HostArray> out;
  for (graph::ValueId output : graph.outputs) out.push_back(*array_of(output));
  return out;
}

ModelDifference difference(const HostArray& expected, const HostArray& found) {
  ModelDifference out;
  double squares = 0, found_squares = 0, product = 0, errors = 0;
  for (i64 i = 0; i < expected.elements(); ++i) {
    double a = expected.get(i), b = found.get(i);
    out.compared += std::isfinite(a);
    if (a == b || (std::isnan(a) && std::isnan(b))) {
      if (std::isfinite(a)) squares += a * a, found_squares += a * a, product += a * a;
      continue;
    }
    if (!is_float(expected.dtype) || !std::isfinite(a) || !std::isfinite(b)) {
      if (is_float(expected.dtype)) out.largest = INFINITY;
      ++out.different;
      continue;
    }
    out.largest = std::max(out.largest, std::abs(a - b));
    squares += a * a, found_squares += b * b, product += a * b, errors += (a - b) * (a - b);
  }
  out.relative = squares > 0 ? std::sqrt(errors / squares) : errors > 0 ? INFINITY : 0;
  out.cosine = squares > 0 && found_squares > 0 ? product / std::sqrt(squares * found_squares) : 1;
  return out;
}

TopOne top_one(const HostArray& expected, const HostArray& found) {
  i64 length = expected.shape.empty() ? 1 : expected.shape.back();
  TopOne out;
  auto place_of_largest = [&](const HostArray& array, i64 row) {
    i64 best = row;
    for (i64 i = row; i < row + length; ++i) {
      if (array.get(i) > array.get(best)) best = i;
    }
    return best;
  };
  for (i64 row = 0; row < expected.elements(); row += length) {
    ++out.rows;
    out.same += place_of_largest(expected, row) == place_of_largest(found, row);
  }
  return out;
}

double most_relative(DType type) { return type == DType::F64 ? 1e-10 : type == DType::F32 ? 1e-4 : 3e-2; }

}  // namespace tw
