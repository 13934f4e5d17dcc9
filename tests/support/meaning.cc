#include "support/meaning.h"

#include <map>

#include "backends/interpreter.h"
#include "dsl/analysis/verify.h"
#include "dsl/base/rng.h"
#include "dsl/base/text.h"

namespace tw::test {
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

std::string compare(const Program& program, const std::vector<HostArray>& want, const std::vector<HostArray>& got) {
  for (std::size_t p = 0; p < program.params.size(); ++p) {
    for (i64 i = 0; i < want[p].elements(); ++i) {
      if (want[p].get(i) != got[p].get(i)) {
        return cat("element ", i, " of `", program.params[p].buffer->name, "`: expected ", want[p].get(i), ", found ",
                   got[p].get(i));
      }
    }
  }
  return "";
}

// Runs one entry point; arrays are found by name, outputs are added.
std::string run(const LoweredProgram& program, EntryPoint entry, Array<LoweredArgument> arguments, Arrays& arrays,
                u64 seed) {
  std::vector<HostArray> list;
  for (const LoweredArgument& argument : arguments) {
    auto known = arrays.find(std::string_view(argument.name));
    bool given = known != arrays.end() && !argument.is_output;
    list.push_back(given ? known->second
                         : HostArray::zeros(argument.dtype, {argument.shape.begin(), argument.shape.end()}));
  }
  std::string error = interpret(program, entry, list, {.seed = seed});
  for (std::size_t i = 0; i < arguments.size(); ++i) arrays[std::string(arguments[i].name)] = list[i];
  return error;
}

}  // namespace

std::string difference(const Program& before, const Program& after, u64 seed) {
  if (std::vector<Illegal> problems = verify(after); !problems.empty())
    return "illegal IR:\n" + render(after, problems);
  std::vector<HostArray> want = arguments_of(before, seed), got = want;
  if (std::string error = interpret(before, want, {.seed = seed}); !error.empty())
    return "the program before: " + error;
  if (std::string error = interpret(after, got, {.seed = seed}); !error.empty()) return error;
  return compare(before, want, got);
}

std::string difference(const Program& before, const LoweredProgram& after, u64 seed) {
  std::vector<HostArray> want = arguments_of(before, seed);
  Arrays arrays;
  for (std::size_t p = 0; p < want.size(); ++p) arrays[std::string(before.params[p].buffer->name)] = want[p];
  if (std::string error = interpret(before, want, {.seed = seed}); !error.empty())
    return "the program before: " + error;
  std::string error = after.prepack.body ? run(after, EntryPoint::Prepack, after.prepack_arguments, arrays, seed) : "";
  if (error.empty()) error = run(after, EntryPoint::Run, after.run_arguments, arrays, seed);
  if (!error.empty()) return "lowered: " + error;
  std::vector<HostArray> got;
  for (const Param& param : before.params) {
    auto known = arrays.find(std::string_view(param.buffer->name));
    got.push_back(known == arrays.end() ? HostArray::like(param.buffer) : known->second);
  }
  std::string wrong = compare(before, want, got);
  return wrong.empty() ? wrong : "lowered: " + wrong;
}

}  // namespace tw::test
