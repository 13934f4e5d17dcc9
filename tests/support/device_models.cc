#include "support/device_models.h"

#include <gtest/gtest.h>

#include "graph/passes/passes.h"
#include "sampler/models/check_model.h"

namespace tw::test {

Target target_for(TargetKind kind) {
  Target target;
  std::string text = kind == TargetKind::Cuda ? "cuda -device=a100" : "opencl";
  Source source{"target", text};
  Diagnostics diagnostics(source);
  std::optional<Target> parsed = parse_target(text, 0, diagnostics);
  EXPECT_TRUE(parsed) << diagnostics.render();
  return parsed.value_or(target);
}

graph::ValueId DeviceGraphKit::random(const Ints& shape) {
  HostArray array = HostArray::zeros(DType::F32, shape);
  for (i64 i = 0; i < array.elements(); ++i) array.set(i, rng_.uniform() - 0.5);
  return builder.constant("c", std::move(array));
}

Compiled compiled(graph::Graph graph, TargetKind kind) {
  Compiled out{std::move(graph), {}, {}, {}, {}};
  Target target = target_for(kind);
  graph::Graph simple = graph::simplified(out.imported);
  out.tasks = model_tasks(simple, target);
  std::string error;
  auto plan = compile_model(simple, out.tasks, {.library = "net", .target = target}, error);
  EXPECT_TRUE(plan) << error;
  if (plan) out.plan = std::move(*plan);
  out.inputs = random_inputs(out.imported, 3);
  auto expected = graph::evaluate(out.imported, out.inputs, error);
  EXPECT_TRUE(expected) << error;
  if (expected) out.expected = std::move(*expected);
  return out;
}

Written::Written(const ExportPlan& plan, TargetKind kind) {
  ExportResult written = write_device_model(plan, target_for(kind), folder.path());
  EXPECT_EQ(written.error + written.note, "");
}

ModelRun Written::run(const std::vector<HostArray>& inputs) const {
  std::string error;
  std::optional<ModelLibrary> library = open_model(folder.path(), error);
  EXPECT_TRUE(library) << error;
  return library ? run_model(*library, inputs, 1) : ModelRun{};
}

bool is_wrong(const std::vector<HostArray>& expected, const std::vector<HostArray>& found) {
  if (expected.size() != found.size()) return true;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ModelDifference off = difference(expected[i], found[i]);
    if (off.largest > 1e-5 && off.is_wrong(most_relative(expected[i].dtype))) return true;
  }
  return false;
}

}  // namespace tw::test
