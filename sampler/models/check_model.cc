#include "sampler/models/check_model.h"

#include <algorithm>
#include <cmath>

#include "dsl/base/text.h"
#include "dsl/passes/widen.h"
#include "graph/input_ranges.h"
#include "runtime/export/model_library.h"
#include "sampler/models/reference_runner.h"
#include "sampler/search/reference.h"
#include "sampler/search/trial.h"

namespace tw {
namespace {

// The outputs of a node's program, computed in f64 and rounded to its types.
std::optional<std::vector<HostArray>> results_of(ReferenceRunner& runner, const Program& program,
                                                 const std::vector<const HostArray*>& operands, std::string& error) {
  Arena arena(1 << 18);
  Schedule schedule = reference_schedule(widen_to_f64(arena, program));
  BuiltKernel built = build_kernel(schedule.program(), host_target(), runner.compiler());
  if (!built.kernel) return error = built.problem, std::nullopt;
  std::optional<ReferenceRunner::Results> results = runner.run(*built.kernel, operands, error);
  if (!results) return std::nullopt;
  std::vector<HostArray> out;
  for (const Param& param : program.params) {
    if (param.role != Role::Output) continue;
    HostArray& wide = results->find(param.buffer->name)->second;
    if (wide.dtype == param.buffer->dtype) {
      out.push_back(std::move(wide));
      continue;
    }
    out.push_back(HostArray::zeros(param.buffer->dtype, wide.shape));
    for (i64 e = 0; e < wide.elements(); ++e) out.back().set(e, wide.get(e));
  }
  return out;
}

}  // namespace

std::vector<HostArray> random_inputs(const graph::Graph& graph, u64 seed) {
  return random_inputs(graph::input_arguments(graph), seed);
}

std::optional<std::vector<HostArray>> reference_outputs(const graph::Graph& graph, const std::vector<HostArray>& inputs,
                                                        std::string& error, const OnMade& on_made,
                                                        const std::function<bool()>& stop) {
  std::unique_ptr<ReferenceRunner> runner = ReferenceRunner::create(error);
  if (!runner) return std::nullopt;
  std::vector<const HostArray*> given(graph.values.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) given[graph.inputs[i]] = &inputs[i];
  std::vector<std::optional<HostArray>> made(graph.values.size());
  auto array_of = [&](graph::ValueId value) {
    return graph.values[value].data ? graph.values[value].data.get() : given[value] ? given[value] : &*made[value];
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
        program ? results_of(*runner, program->program, operands, error) : std::nullopt;
    if (!results) return error = cat(graph.values[node.outputs[0]].name, ": ", error), std::nullopt;
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (on_made) on_made(node.outputs[i], (*results)[i]);
      if (readers[node.outputs[i]] > 0) made[node.outputs[i]] = std::move((*results)[i]);
    }
    for (graph::ValueId input : node.inputs) {
      if (--readers[input] == 0) made[input].reset();
    }
  }
  std::vector<HostArray> out;
  for (graph::ValueId output : graph.outputs) out.push_back(*array_of(output));
  return out;
}

bool is_quantized(const graph::Graph& graph) {
  return std::ranges::any_of(graph.nodes, [](const graph::Node& node) { return node.op == "rounded"; });
}

ModelDifference difference(const HostArray& expected, const HostArray& found, bool is_quantized) {
  ModelDifference out;
  const bool is_index = expected.dtype == DType::I64 || expected.dtype == DType::Bool;
  const bool is_number = is_float(expected.dtype) || (is_quantized && !is_index);
  double squares = 0, found_squares = 0, product = 0, errors = 0;
  for (i64 i = 0; i < expected.elements(); ++i) {
    double a = expected.get(i), b = found.get(i);
    out.compared += std::isfinite(a);
    if (a == b || (std::isnan(a) && std::isnan(b))) {
      if (std::isfinite(a)) squares += a * a, found_squares += a * a, product += a * a;
      continue;
    }
    if (!is_number || !std::isfinite(a) || !std::isfinite(b)) {
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
