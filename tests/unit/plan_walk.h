// Plans of compiled models in tests: made, run, and followed.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "backends/kernel_abi.h"
#include "runtime/export/model_library.h"
#include "sampler/models/check_model.h"
#include "sampler/models/compile_model.h"
#include "support/support.h"

namespace tw::test {

using graph::Graph;
using graph::ValueId;

inline Target target_with(int threads) {
  Target target = host_target();
  target.threads = threads;
  return target;
}

inline ExportPlan compiled(const Graph& graph, int threads = 1) {
  Target target = target_with(threads);
  std::string error;
  auto plan = compile_model(graph, model_tasks(graph, target), {.library = "net", .target = target}, error);
  EXPECT_TRUE(plan) << error;
  return plan ? std::move(*plan) : ExportPlan{};
}

inline std::vector<HostArray> outputs_of(const ExportPlan& plan, const std::vector<HostArray>& inputs,
                                         int threads = 1) {
  TemporaryDirectory folder;
  ExportResult written = write_export(plan, folder.path());
  EXPECT_EQ(written.error + written.note, "");
  std::string error;
  std::optional<ModelLibrary> library = open_model(folder.path(), error);
  EXPECT_TRUE(library) << error;
  if (!library) return {};
  ModelRun run = run_model(*library, inputs, threads);
  EXPECT_EQ(run.error, "");
  return std::move(run.outputs);
}

inline bool are_same(const std::vector<HostArray>& expected, const std::vector<HostArray>& found) {
  if (expected.size() != found.size()) return false;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ModelDifference off = difference(expected[i], found[i]);
    if (off.different > 0 || (off.largest > 1e-5 && off.is_wrong(1e-3))) return false;
  }
  return true;
}

// Follows the elements of values through the steps of a plan: each that a group makes has a number, which is written to
// where the plan has it and must be there when it is read.
class PlanWalk {
 public:
  PlanWalk(const ExportPlan& plan, const Graph& graph, const ModelTasks& tasks)
      : plan_(plan), model_(*plan.model), graph_(graph), tasks_(tasks) {}

  // At each read all elements of the value are in its buffer, and buffers lie inside of what they are parts of,
  // aligned.
  void expect_sound() {
    ASSERT_EQ(model_.steps.size(), tasks_.fused.groups.size());
    for (std::size_t i = 0; i < model_.inputs.size(); ++i) {
      numbers_[graph_.inputs[i]] = fresh(graph_.inputs[i]);
      write({ModelPlace::Where::Input, static_cast<i64>(i)}, {}, numbers_[graph_.inputs[i]]);
    }
    for (std::size_t g = 0; g < model_.steps.size(); ++g) step(g);
    for (const ModelCopy& copy : model_.copies) {
      const HostArray& numbers = numbers_of(graph_.outputs[copy.output]);
      if (copy.from.where != ModelPlace::Where::Weights) expect_there(copy.from, {}, numbers, "a copied output");
      write({ModelPlace::Where::Output, static_cast<i64>(copy.output)}, {}, numbers);
    }
    for (std::size_t i = 0; i < model_.outputs.size(); ++i)
      expect_there({ModelPlace::Where::Output, static_cast<i64>(i)}, {}, numbers_of(graph_.outputs[i]), "an output");
  }

 private:
  HostArray fresh(ValueId value) {
    HostArray array = HostArray::zeros(DType::F32, graph_.values[value].type.shape);
    for (i64 e = 0; e < array.elements(); ++e) array.set(e, static_cast<double>(next_++));
    return array;
  }
  // Of values that no step makes, by what the node does to the elements of its operands.
  const HostArray& numbers_of(ValueId value) {
    auto known = numbers_.find(value);
    if (known != numbers_.end()) return known->second;
    const graph::Node* maker = graph::makers_of(graph_)[value];
    if (!maker) return numbers_[value] = fresh(value);
    std::vector<HostArray> arrays;
    for (ValueId input : maker->inputs) arrays.push_back(numbers_of(input));
    arrays.push_back(HostArray::zeros(DType::F32, graph_.values[value].type.shape));
    std::string error;
    std::optional<OwnedProgram> program = graph::program_of(graph_, *maker, error);
    EXPECT_EQ(interpret(program->program, arrays), "");
    return numbers_[value] = arrays.back();
  }

  // The bytes of the memory, of an input, or of an output, and where the place is among them. A byte has the number of
  // its element; -1 = nobody wrote there.
  std::pair<std::vector<float>*, i64> range(const ModelPlace& place) {
    bool is_memory = place.where == ModelPlace::Where::Memory;
    const std::vector<KernelArgument>& ends = place.where == ModelPlace::Where::Input ? model_.inputs : model_.outputs;
    i64 size = is_memory ? model_.memory_bytes : ends.at(static_cast<std::size_t>(place.at)).bytes;
    auto made = bytes_.try_emplace({place.where, is_memory ? 0 : place.at}, static_cast<std::size_t>(size), -1.0F);
    return {&made.first->second, is_memory ? place.at : place.offset};
  }
  // Visits the bytes of each element of an array of f32 that lies in rows; false if it leaves what it is a part of.
  bool each(const ModelPlace& place, const graph::Part& part, const HostArray& array,
            const std::function<bool(float&, float)>& visit) {
    auto [bytes, begin] = range(place);
    i64 row = array.elements() / part.rows;
    EXPECT_EQ(begin % TW_ALIGNMENT, 0);
    for (i64 e = 0; e < array.elements(); ++e) {
      i64 at = begin + 4 * (e / row * part.pitch + e % row);
      if (at < 0 || at + 4 > std::ssize(*bytes)) return false;
      for (i64 b = at; b < at + 4; ++b) {
        if (!visit((*bytes)[static_cast<std::size_t>(b)], static_cast<float>(array.get(e)))) return false;
      }
    }
    return true;
  }
  void write(const ModelPlace& place, const graph::Part& part, const HostArray& numbers) {
    EXPECT_TRUE(each(place, part, numbers, [](float& byte, float number) { return byte = number, true; }));
  }
  void expect_there(const ModelPlace& place, const graph::Part& part, const HostArray& numbers,
                    const std::string& what) {
    EXPECT_TRUE(each(place, part, numbers, [](float& byte, float number) { return byte == number; })) << what;
  }

  void step(std::size_t g) {
    const graph::Group& group = tasks_.fused.groups[g];
    const ModelStep& step = model_.steps[g];
    const std::vector<KernelArgument>& arguments = plan_.tasks[step.task].kernel.manifest.run;
    ASSERT_EQ(step.buffers.size(), arguments.size());
    std::size_t next = group.inputs.size() + group.constants.size();
    std::vector<std::pair<std::size_t, std::size_t>> written;  // argument, place
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if (arguments[i].role == ArgumentRole::Output) written.push_back({i, next++});
      if (arguments[i].role != ArgumentRole::Input) continue;
      std::size_t index = std::stoul(arguments[i].name.substr(1));
      expect_there(step.buffers[i], group.places[index], numbers_of(group.inputs[index]), step.name);
    }
    for (const auto& [i, index] : written) {
      ValueId value = group.outputs[index - group.inputs.size() - group.constants.size()];
      if (group.copied) value = graph_.nodes[group.nodes.back()].inputs[*group.copied];
      HostArray numbers = group.copied ? numbers_of(value) : numbers_[value] = fresh(value);
      const graph::Part& part = group.places[index];
      i64 row = numbers.elements() / part.rows;
      EXPECT_EQ(arguments[i].bytes, 4 * ((part.rows - 1) * part.pitch + row)) << step.name;
      write(step.buffers[i], part, numbers);
    }
    // Nothing that the step reads is overwritten, unless its kernel allows that.
    for (std::size_t j = 0; j < arguments.size(); ++j) {
      if (arguments[j].role != ArgumentRole::Input) continue;
      auto is_over_it = [&](const auto& output) { return is_overwritten(step, output.first, j); };
      if (std::ranges::any_of(written, is_over_it)) continue;
      std::size_t read = std::stoul(arguments[j].name.substr(1));
      expect_there(step.buffers[j], group.places[read], numbers_of(group.inputs[read]), step.name + ", behind it");
    }
  }

  // Does a step write this output over this input, as its kernel may?
  bool is_overwritten(const ModelStep& step, std::size_t output, std::size_t input) const {
    const std::vector<Overwrite>& allowed = plan_.tasks[step.task].kernel.manifest.overwrites;
    const Overwrite pair{output, input};
    return std::ranges::count(allowed, pair) > 0 && is_in_place(step, pair);
  }

  const ExportPlan& plan_;
  const ModelPlan& model_;
  const Graph& graph_;
  const ModelTasks& tasks_;
  std::map<ValueId, HostArray> numbers_;
  int next_ = 0;
  std::map<std::pair<ModelPlace::Where, i64>, std::vector<float>> bytes_;
};

inline void expect_sound(const ExportPlan& plan, const Graph& graph, int threads = 1) {
  ModelTasks tasks = model_tasks(graph, target_with(threads));
  PlanWalk(plan, graph, tasks).expect_sound();
  EXPECT_GE(plan.model->memory_bytes, plan.model->least_memory_bytes);
  EXPECT_GE(plan.tasks.size(), tasks.tasks.size());
}

}  // namespace tw::test
