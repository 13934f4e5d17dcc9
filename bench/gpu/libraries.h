// NVIDIA's libraries doing what one of our kernels does, found at run time (dlopen), so that nothing needs them to
// build or start: cuBLASLt for products, cuDNN for convolutions and softmax. For the GPU benchmark. Declared here as
// far as they are used, by NVIDIA's documented interfaces of CUDA 12 and 13 and cuDNN 9; gpu_bench_test compares the
// numbers with NVIDIA's headers where these are installed.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/gpu/problem.h"
#include "bench/gpu/timing.h"

namespace tw::gpu_bench {

// What a product of floats is made with.
enum class Precision : u8 {
  Full,
  Default,
  Tf32
};  // of f32 operands: cuBLAS's pedantic mode, what it does by itself, TF32; halves are always summed in f32

namespace lt {
enum Type : int { F32 = 0, F16 = 2, BF16 = 14 };                                    // cudaDataType
enum Compute : int { Compute32F = 68, Compute32FPedantic = 69, ComputeTf32 = 77 };  // cublasComputeType_t
enum LayoutAttribute : int { BatchCount = 5, BatchStride = 6 };
enum DescriptionAttribute : int { TransposeA = 3, TransposeB = 4 };
enum PreferenceAttribute : int { WorkspaceBytes = 1 };
struct Algorithm {
  std::uint64_t data[8];
};
struct Heuristic {
  Algorithm algorithm;
  std::size_t workspace_bytes;
  int state;
  float waves;
  int reserved[4];
};
}  // namespace lt

namespace dnn {
enum : int {
  Float = 0,
  Nhwc = 1,
  Half = 2,
  BFloat16 = 9,
  CrossCorrelation = 1,
  TensorOpMath = 1,
  FmaMath = 3,
  SoftmaxAccurate = 1,
  SoftmaxInstance = 0
};
struct Found {
  int algorithm, status;
  float milliseconds;
  std::size_t bytes;
  int determinism, math_type;
  int reserved[3];
};
}  // namespace dnn

// What a library does the problem with, the best of its ways; the output goes to problem.output(). nullopt with why in
// `error`: not installed, not a problem for it. Contestants use what belongs to the library object, which must outlive
// them.
class Cublas {
 public:
  Cublas(device::Device& device, std::string& error);
  ~Cublas();
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;
  // The fastest of its 16 first heuristics with a workspace of 32 MiB.
  std::optional<Contestant> best_of(Problem& problem, Precision precision, Clock& clock, std::string& error);

  struct State;

 private:
  std::unique_ptr<State> state_;
};

class Cudnn {
 public:
  Cudnn(device::Device& device, std::string& error);
  ~Cudnn();
  Cudnn(const Cudnn&) = delete;
  Cudnn& operator=(const Cudnn&) = delete;
  // Convolutions: the fastest that cudnnFindConvolutionForwardAlgorithmEx measures, summed in f32: of f32 operands
  // without tensor cores, of halves with them.
  std::optional<Contestant> best_of(Problem& problem, std::string& error);

  struct State;

 private:
  std::unique_ptr<State> state_;
};

// Functions of a library that is open: the first name that it lacks is told.
class Symbols {
 public:
  Symbols(void* library, std::string& error) : library_(library), error_(error) {}
  template <class Function>
  void load(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(find(name));
  }

 private:
  void* find(const char* name);
  void* library_;
  std::string& error_;
};

}  // namespace tw::gpu_bench
