// The folder that `tune --compile-only` writes and `run-manifest` reads: for each finalist its source, PTX, machine
// code and trace, and one manifest.json with everything that is needed to launch it on a machine with a GPU. Nothing is
// compiled or run here.
#pragma once
#include <map>
#include <optional>

#include "runtime/export/export.h"

namespace tw {

// What the compiler and the model say of one kernel of a finalist.
struct FinalistKernel {
  std::string name;
  int registers = 0;
  i64 stack_bytes = 0, shared_bytes = 0;
  int blocks_per_multiprocessor = 0;
  std::optional<double> predicted_seconds;  // none for prepack, which is outside of the time
  std::map<std::string, int> opcodes;
  int register_conflicts = 0;  // FFMAs that read three registers of one bank
};

struct FinalistFile {
  std::string task;
  int rank = 1;                // from 1, best first
  std::string workload;        // hash of the unscheduled program
  std::string program;         // normalized hash of the scheduled one
  std::string target, device;  // canonical text; name of the description that it was ranked for
  std::string nvrtc;           // version of what compiled it, "13.0"; "" of older manifests
  std::string object;          // object_hash of its source; "" of older manifests
  u64 seed = 0;
  double predicted_seconds = 0;
  std::string emulation;                // "right", or why the emulator could not run it
  Kernel kernel;                        // machine code and launches
  std::string source, ptx, trace_file;  // texts; read_finalists leaves the first two empty
  std::vector<FinalistKernel> kernels;
};

// Makes the folder if it is not there; files of the same names are replaced.
ExportResult write_finalists(const std::vector<FinalistFile>& finalists, const std::string& folder);

// nullopt with the file, the place in it and what was expected in `error`. Machine code whose digest is not that of the
// manifest is refused.
std::optional<std::vector<FinalistFile>> read_finalists(const std::string& folder, std::string& error);

}  // namespace tw
