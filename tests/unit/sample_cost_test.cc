// What a sample costs is known before it is computed: an upper bound, and not far from what it really takes.
#include "sampler/search/sample_cost.h"

#include <gtest/gtest.h>

#include <cmath>

#include "backends/element_values.h"
#include "backends/kernel.h"
#include "dsl/base/text.h"
#include "dsl/text/workload.h"
#include "runtime/measure/elements.h"
#include "sampler/search/sampled_reference.h"
#include "sampler/search/trial.h"
#include "support/parsed.h"
#include "support/support.h"
#include "tests/unit/transformer.h"

namespace tw {
namespace {

constexpr i64 kColumns = 8;

OwnedProgram of_library(const char* name, const std::vector<std::pair<const char*, i64>>& extents,
                        const std::vector<std::string>& epilogues = {}) {
  WorkloadArguments arguments;
  for (auto [extent, value] : extents) arguments.push_back({extent, value});
  Diagnostics diagnostics(*operator_library().source);
  std::optional<OwnedProgram> made = instantiate(operator_library(), name, arguments, epilogues, diagnostics);
  EXPECT_TRUE(made) << name << diagnostics.render();
  return *made;
}

OwnedProgram transformer(i64 s, i64 d) { return test::workload(test::kTransformer, "block", {{"S", s}, {"D", d}}); }

// Are `columns` elements in the middle of the first output known after so many steps, and their variances?
bool is_enough(const Program& judged, i64 columns, double steps) {
  std::vector<HostArray> inputs(judged.params.size());
  std::vector<const HostArray*> pointers(judged.params.size());
  const Buffer *output = nullptr, *variance = nullptr;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Param& param = judged.params[i];
    if (param.role == Role::Output) {
      (std::string_view(param.buffer->name).ends_with(kVarianceSuffix) ? variance : output) = param.buffer;
      continue;
    }
    inputs[i] = HostArray::like(param.buffer);
    pointers[i] = &inputs[i];
    fill_input(1, param.buffer->name, 0, inputs[i].dtype, inputs[i].elements(),
               reinterpret_cast<char*>(inputs[i].bytes.data()), {});
  }
  i64 position = 0;
  for (i64 extent : output->shape) position = position * extent + extent / 2;
  position += (output->shape.back() - columns) / 2 - output->shape.back() / 2;
  ElementValues values(judged, pointers, static_cast<i64>(std::ceil(steps)));
  for (i64 column = 0; column < columns; ++column) {
    if (!values.at(output, position + column) || (variance && !values.at(variance, position + column))) return false;
  }
  return true;
}

TEST(SampleCost, ItIsAnUpperBoundAndNotFarFromWhatASampleTakes) {
  std::vector<std::pair<const char*, OwnedProgram>> programs{
      {"matmul", of_library("matmul", {{"M", 33}, {"N", 40}, {"K", 50}})},
      {"dense with an epilogue", of_library("dense", {{"M", 33}, {"N", 40}, {"K", 50}}, {"bias", "gelu"})},
      {"conv2d", of_library("conv2d", {{"N", 2}, {"H", 14}, {"W", 14}, {"CI", 8}, {"CO", 16}, {"K", 3}, {"padding", 1}},
                            {"bn", "relu"})},
      {"softmax", of_library("softmax", {{"M", 10}, {"N", 200}})},
      {"layernorm", of_library("layernorm", {{"M", 10}, {"N", 200}})},
      {"transformer", transformer(12, 8)},
  };
  for (const auto& [name, owned] : programs) {
    SCOPED_TRACE(name);
    Arena arena;
    Program judged = judged_program(arena, owned.program);
    SampleCost cost = cost_of_sample(judged, kColumns);
    EXPECT_TRUE(is_enough(judged, kColumns, cost.steps));
    EXPECT_FALSE(is_enough(judged, kColumns, cost.steps / 4));
    EXPECT_GE(cost.kept, kColumns);
  }
}

TEST(SampleCost, WhereAnElementDependsOnNearlyEverythingNoSampleIsTried) {
  for (auto [s, is_sampled] : {std::pair(16, true), std::pair(4096, false)}) {
    Arena arena;
    OwnedProgram owned = transformer(s, s);
    EXPECT_EQ(memory_of_sample(judged_program(arena, owned.program)).has_value(), is_sampled) << s;
  }
}

// A row of a product needs a row and some columns of the inputs, however large the whole is.
TEST(SampleCost, OfLargeProductsASampleIsTried) {
  Arena arena;
  OwnedProgram owned = of_library("dense", {{"M", 65536}, {"N", 65536}, {"K", 65536}}, {"bias", "gelu"});
  EXPECT_TRUE(memory_of_sample(judged_program(arena, owned.program)));
}

}  // namespace
}  // namespace tw
