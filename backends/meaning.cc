#include "backends/meaning.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "dsl/analysis/verify.h"
#include "dsl/base/rng.h"
#include "dsl/base/text.h"
#include "dsl/ir/walk.h"

namespace tw {
namespace {

using Arrays = std::map<std::string, HostArray, std::less<>>;

HostArray small_integers(const Buffer* buffer, Rng rng) {
  HostArray array = HostArray::like(buffer);
  bool is_unsigned = buffer->dtype == DType::U8 || buffer->dtype == DType::Bool;
  for (i64 i = 0; i < array.elements(); ++i)
    array.set(i, static_cast<double>(is_unsigned ? rng.below(2) : rng.below(9) - 4));
  return array;
}

std::vector<HostArray> arguments_of(const Program& program, u64 seed) {
  std::vector<HostArray> arrays;
  for (const Param& param : program.params) {
    bool is_output = param.role == Role::Output;
    arrays.push_back(is_output ? HostArray::like(param.buffer)
                               : small_integers(param.buffer, Rng(seed, arrays.size())));
  }
  return arrays;
}

// Runs one entry point; arrays are found by name, outputs are added.
std::string run(const LoweredProgram& program, EntryPoint entry, Array<LoweredArgument> arguments, Arrays& arrays,
                const InterpretOptions& options) {
  std::vector<HostArray> list;
  for (const LoweredArgument& argument : arguments) {
    auto known = arrays.find(std::string_view(argument.name));
    bool given = known != arrays.end() && !argument.is_output;
    list.push_back(given ? known->second
                         : HostArray::zeros(argument.dtype, {argument.shape.begin(), argument.shape.end()}));
  }
  std::string error = interpret(program, entry, list, options);
  for (std::size_t i = 0; i < arguments.size(); ++i) arrays[std::string(arguments[i].name)] = list[i];
  return error;
}

bool is_near(double want, double got, double tolerance) {
  if (want == got || (std::isnan(want) && std::isnan(got))) return true;
  return std::abs(want - got) <= tolerance * (1 + std::abs(want));
}

}  // namespace

Judge::Judge(const Program& before, u64 seed, double tolerance)
    : before_(before), seed_(seed), tolerance_(tolerance), problem_(too_large(bytes_of(before))) {
  if (!problem_.empty()) return;
  inputs_ = arguments_of(before, seed);
  want_ = inputs_;
  i64 steps = 0;
  problem_ = interpret(before_, want_, {.seed = seed_, .steps_taken = &steps});
  constexpr i64 kTimes = 100, kLeast = 5'000'000;
  max_steps_ = std::clamp(kTimes * steps, kLeast, InterpretOptions{}.max_steps);
}

std::string Judge::compare(const std::vector<HostArray>& got) const {
  for (std::size_t p = 0; p < before_.params.size(); ++p) {
    for (i64 i = 0; i < want_[p].elements(); ++i) {
      if (is_near(want_[p].get(i), got[p].get(i), tolerance_)) continue;
      return cat("element ", i, " of `", before_.params[p].buffer->name, "`: expected ", want_[p].get(i), ", found ",
                 got[p].get(i));
    }
  }
  return "";
}

std::string Judge::difference(const Program& after) const {
  if (!problem_.empty()) return "the program before: " + problem_;
  if (std::vector<Illegal> problems = verify(after); !problems.empty())
    return "illegal IR:\n" + render(after, problems);
  std::vector<HostArray> got = inputs_;
  if (std::string error = interpret(after, got, {.seed = seed_, .max_steps = max_steps_}); !error.empty()) return error;
  return compare(got);
}

std::string Judge::difference(const LoweredProgram& after) const {
  if (!problem_.empty()) return "the program before: " + problem_;
  Arrays arrays;
  for (std::size_t p = 0; p < inputs_.size(); ++p) arrays[std::string(before_.params[p].buffer->name)] = inputs_[p];
  const InterpretOptions options{.seed = seed_, .max_steps = max_steps_};
  std::string error =
      after.prepack.body ? run(after, EntryPoint::Prepack, after.prepack_arguments, arrays, options) : "";
  if (error.empty()) error = run(after, EntryPoint::Run, after.run_arguments, arrays, options);
  if (!error.empty()) return "lowered: " + error;
  std::vector<HostArray> got;
  for (const Param& param : before_.params) {
    auto known = arrays.find(std::string_view(param.buffer->name));
    got.push_back(known == arrays.end() ? HostArray::like(param.buffer) : known->second);
  }
  std::string wrong = compare(got);
  return wrong.empty() ? wrong : "lowered: " + wrong;
}

double tolerance_for_small_integers(const Program& program) {
  bool is_exact = true;
  for_each<Call>(program.body, [&](const Call* call) { is_exact &= call->function == Function::Abs; });
  for_each<Binary>(program.body, [&](const Binary* op) { is_exact &= op->op != BinaryOp::Div; });
  for_each<FloatImm>(program.body,
                     [&](const FloatImm* number) { is_exact &= number->value == std::floor(number->value); });
  return is_exact ? 0 : 1e-4;
}

}  // namespace tw
