// Runs programs and lowered programs in the interpreter, for the tests of the passes: same inputs by buffer id, outputs
// as doubles.
#pragma once
#include <gtest/gtest.h>

#include <map>

#include "backends/interpreter.h"
#include "dsl/base/rng.h"

namespace tw {

using OutputValues = std::vector<std::vector<double>>;

// Small integers, so that sums are exact in any order.
inline HostArray test_data(const Buffer* buffer, const std::vector<i64>& shape, u64 seed) {
  Rng rng(seed, buffer->id.value);
  HostArray array = HostArray::zeros(buffer->dtype, shape);
  for (i64 i = 0; i < array.elements(); ++i) array.set(i, static_cast<double>(rng.below(9) - 4));
  return array;
}

inline std::vector<double> values_of(const HostArray& array) {
  std::vector<double> out;
  for (i64 i = 0; i < array.elements(); ++i) out.push_back(array.get(i));
  return out;
}

// One array per parameter, with data for inputs.
inline std::vector<HostArray> arguments_of(const Program& program, u64 seed) {
  std::vector<HostArray> arguments;
  for (const Param& param : program.params) {
    bool is_output = param.role == Role::Output;
    std::vector<i64> shape(param.buffer->shape.begin(), param.buffer->shape.end());
    arguments.push_back(is_output ? HostArray::like(param.buffer) : test_data(param.buffer, shape, seed));
  }
  return arguments;
}

// The outputs of a program, in order.
inline OutputValues outputs_of(const Program& program, u64 seed) {
  std::vector<HostArray> arguments = arguments_of(program, seed);
  EXPECT_EQ(interpret(program, arguments), "");
  OutputValues out;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (program.params[i].role == Role::Output) out.push_back(values_of(arguments[i]));
  }
  return out;
}

// The same of a lowered program: prepack first, its outputs passed on by name.
inline OutputValues outputs_of(const LoweredProgram& program, u64 seed) {
  std::map<Str, HostArray> packed;
  OutputValues out;
  auto call = [&](EntryPoint entry, const LoweredFunction& function, Array<LoweredArgument> declared) {
    std::vector<HostArray> arguments;
    for (std::size_t i = 0; i < declared.size(); ++i) {
      std::vector<i64> shape(declared[i].shape.begin(), declared[i].shape.end());
      if (declared[i].is_output)
        arguments.push_back(HostArray::zeros(declared[i].dtype, shape));
      else if (declared[i].is_packed)
        arguments.push_back(packed.at(declared[i].name));
      else
        arguments.push_back(test_data(function.arguments[i].buffer, shape, seed));
    }
    EXPECT_EQ(interpret(program, entry, arguments), "");
    for (std::size_t i = 0; i < declared.size(); ++i) {
      if (!declared[i].is_output) continue;
      if (declared[i].is_packed)
        packed[declared[i].name] = arguments[i];
      else
        out.push_back(values_of(arguments[i]));
    }
  };
  if (program.prepack.body) call(EntryPoint::Prepack, program.prepack, program.prepack_arguments);
  call(EntryPoint::Run, program.run, program.run_arguments);
  return out;
}

}  // namespace tw
