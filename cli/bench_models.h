// The part of the subcommand bench that compiles ONNX models and times each in turn with other libraries.
#pragma once
#include <string>
#include <vector>

namespace tw::cli {

struct BenchModels {
  std::vector<std::string> files, shapes, rewrites;
  std::string against, database, precision;
  int threads = 0;      // 0 = all that this process may use
  double seconds = 30;  // of the rounds of one model
  double limit = 600;   // seconds that a library may take to start, and to load a model
  bool json = false;
};

// What --against may name: model_libraries(), and `torch` for both ways of PyTorch.
std::vector<std::string> model_library_names();

// An exit code, after the table or JSON.
int bench_models(const BenchModels& options);

}  // namespace tw::cli
