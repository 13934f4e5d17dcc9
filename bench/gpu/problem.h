// One operator of a task list with random data on a device: the arrays, single results computed in f64 on the
// processor, and the check of an output against these. For the GPU benchmark and clblast_bench; layouts are those of
// bench/peers/operators.h.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backends/device.h"
#include "bench/peers/operators.h"
#include "dsl/ir/program.h"
#include "runtime/lists/task_list.h"

namespace tw::gpu_bench {

// An array of the operator, in the order of the program's parameters.
struct Array {
  std::string name;
  DType dtype = DType::F32;
  bool is_output = false;
  std::vector<float> values;  // as the device sees them, rounded to the type; of outputs none
  std::unique_ptr<device::Memory> memory;
};

class Problem {
 public:
  // Inputs are normal random numbers. Null with why in `error`: an operator that is not known, no memory, an element
  // type that is no float.
  static std::unique_ptr<Problem> make(device::Device& device, const std::string& op,
                                       const std::map<std::string, peers::i64>& args,
                                       const std::vector<std::string>& epilogue, const Program& program,
                                       std::string& error);

  // The same for the entry of a task list that `program` came from.
  static std::unique_ptr<Problem> make(device::Device& device, const TaskEntry& entry, const Program& program,
                                       std::string& error);

  const peers::Operator& shape() const { return shape_; }
  Array& input(std::size_t index) { return arrays_[index]; }
  Array& output() { return arrays_.back(); }
  std::vector<Array>& arrays() { return arrays_; }
  double bytes() const;  // of all arrays, each once
  bool poison_output() { return output().memory->fill(0xff); }
  // What the operator gives at a flat position, in f64.
  double expected(i64 position) const;
  // Looks at the output on the device: "" or what is wrong. Some places are compared with expected(), and all with
  // `other`, the output that a library gave, if it is not empty. `error`: relative Frobenius norm of the difference at
  // these places.
  std::string check(const std::vector<float>& other, double& error);
  // The output on the device as floats; empty if it cannot be read.
  std::vector<float> read_output();

 private:
  peers::Operator shape_;
  std::vector<Array> arrays_;
};

// Normal random floats into all of the memory: a GPU moves and multiplies zeros faster.
bool write_noise(device::Memory& memory);

// `count` elements of a float type to floats, and back.
std::vector<float> decode(const std::vector<u8>& bytes, DType dtype);
std::vector<u8> encode(const std::vector<float>& values, DType dtype);

}  // namespace tw::gpu_bench
