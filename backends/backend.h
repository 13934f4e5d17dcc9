// The LLVM backend as the rest of the program sees it: a lowered program in, machine code or text out. Used by search,
// replay and export. No LLVM type appears here; nothing is executed here (see runtime/).
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backends/kernel.h"
#include "dsl/base/result.h"
#include "dsl/passes/lower.h"

namespace tw {

// What code generation has to know about the machine. Empty triple and cpu mean this machine.
struct CodegenTarget {
  std::string triple;    // "x86_64-pc-linux-gnu"
  std::string cpu;       // LLVM's name, "znver5"
  std::string features;  // "+avx2,-avx512f": beyond those of the cpu
  int vector_bits = 256;
};

// Name and feature list of this machine's processor as LLVM knows it ("znver5", "+avx,+avx2,...").
std::string host_cpu_name();
std::string host_features();
std::string host_triple();
// Names of the features that code for a target may use ("avx2", "fma", ...), sorted; empty if LLVM does not know the
// triple.
std::vector<std::string> enabled_features(const CodegenTarget& target);
// Does LLVM know this cpu for this triple ("" = host)? In the form that set_cpu_check() of target.h takes.
bool is_llvm_cpu(const std::string& triple, const std::string& cpu);

// What `replay --emit` prints. Ir: as emitted; OptimizedIr: after our passes.
enum class Emit : u8 { Ir, OptimizedIr, Assembly, Object };

struct CompileTimes {
  double build_ms = 0, passes_ms = 0, codegen_ms = 0;
  double total_ms() const { return build_ms + passes_ms + codegen_ms; }
};

// The manifest of a lowered program: what the caller of its entry points must pass.
KernelManifest manifest_of(const LoweredProgram& program, std::string_view symbol);

// Compiles lowered programs. One per thread; several at once are fine. Makes LLVM's target machine once.
// Rejects carry LLVM's text, which lives until the next call on the same compiler.
class LlvmCompiler {
 public:
  static Result<LlvmCompiler> create(const CodegenTarget& target);
  LlvmCompiler(LlvmCompiler&&) noexcept;
  LlvmCompiler& operator=(LlvmCompiler&&) noexcept;
  ~LlvmCompiler();

  // Entry points are <symbol>_run and, if there is something to pack, <symbol>_prepack (backends/kernel_abi.h). The
  // code is an ELF object, position independent; it may call memcpy, memset and libm functions by name, nothing else.
  Result<Kernel> compile(const LoweredProgram& program, std::string_view symbol);
  Result<std::string> emit(const LoweredProgram& program, std::string_view symbol, Emit what);

  // Cycles that a core takes for one call of <symbol>_run, with what it calls, estimated from the machine code: what
  // lowering and LLVM made of the program (tests, partial vectors, saved registers) is in it, waiting for caches is
  // not. It ranks kernels of one task and takes about as long as compile().
  Result<double> cycles(const LoweredProgram& program, std::string_view symbol);

  // Run LLVM's verifier on every module: for tests.
  void set_verify(bool verify);
  const CompileTimes& last_times() const;  // of the latest compile() or emit()

 private:
  struct Impl;
  explicit LlvmCompiler(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tw
