#include "backends/kernel_arguments.h"

namespace tw {

std::vector<KernelArgument> kernel_arguments(Array<LoweredArgument> arguments) {
  std::vector<KernelArgument> out;
  for (const LoweredArgument& argument : arguments) {
    ArgumentRole role = argument.is_packed     ? ArgumentRole::Packed
                        : argument.is_output   ? ArgumentRole::Output
                        : argument.is_constant ? ArgumentRole::Constant
                                               : ArgumentRole::Input;
    i64 bytes = bytes_of(argument.dtype);
    for (i64 extent : argument.shape) bytes *= extent;
    out.push_back(
        {std::string(argument.name), role, argument.dtype, {argument.shape.begin(), argument.shape.end()}, bytes});
  }
  return out;
}

}  // namespace tw
