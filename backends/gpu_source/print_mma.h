// MmaPrinter: the matrix instructions of one kernel's warps. Private to this folder.
//
// What they multiply comes by ldmatrix where it lies in shared memory as that wants it, else each lane loads its own
// part. It stays in variables, which later instructions use again, until other memory may have changed.
// Instructions of four warps (wgmma) read shared memory themselves. They go on while other statements run: await() ends
// that.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "backends/gpu_source/kernel_text.h"
#include "backends/gpu_source/language.h"
#include "backends/gpu_source/matrix_functions.h"
#include "dsl/analysis/affine.h"
#include "dsl/analysis/sum.h"
#include "dsl/passes/lower_gpu.h"
#include "dsl/passes/warp_mma.h"

namespace tw::gpu {

class MmaPrinter {
 public:
  // `text` receives what is printed here.
  MmaPrinter(const Language& language, const GpuKernel& kernel, KernelText& text)
      : language_(language), kernel_(kernel), text_(text) {}

  // Where a statement stands.
  struct Around {
    const For* threads;           // the innermost threadIdx loop around; null = none
    const VarRanges& ranges;      // of the loops around
    Array<const Stmt*> behind;    // the statements behind it, in its sequence
    bool is_conditional = false;  // inside of its step
  };
  // Prints a nest that a warp does by a matrix instruction; false: it is none, and nothing is printed.
  bool print(const For* nest, const Around& around);

  // Before what may use sums, and before a barrier: instructions of four warps have ended.
  void await();
  // Other memory may have changed.
  void forget() { fragments_.clear(); }
  // Behind each opening and each closing brace: variables live in their scope.
  void begin_scope() { ++depth_; }
  void end_scope();

 private:
  // A warp's operand that is in variables; they are declared in the scope of that depth.
  struct Fragment {
    std::string key;
    int depth;
    std::vector<std::string> registers;
  };
  // An operand in shared memory as wgmma reads it.
  struct SharedMatrix {
    Sum index;        // where it begins
    bool is_across;   // memory runs across the sum
    i64 block_bytes;  // from 64 rows to the next ones
  };
  static std::optional<SharedMatrix> shared_matrix(const MmaOperand& operand);
  bool is_warpgroup_mma(const Stmt* s, const Around& around);
  bool print_warpgroup(const WarpMma& mma, const Around& around);
  void call(const DeviceFunction& function);
  std::optional<WarpMma> match(const Stmt* s, const Around& around);
  std::vector<std::string> sums(const WarpMma& mma, const Around& around);
  std::vector<std::string> fragments(const WarpMma& mma, const Around& around);
  std::vector<std::string> fragment(const MmaOperand& operand, bool may_have_partner, const Around& around);
  // Loads the operands of a later instruction; the mark kOperandsAheadMark says how many statements behind it stands.
  void load_operands_ahead(const For* nest, const Around& around);
  std::optional<MmaOperand> fragment_behind(const MmaOperand& operand, const Around& around, i64& distance);
  bool load_by_warp(const MmaOperand& operand, const MmaOperand* partner, i64 distance, const Var* lane);
  std::vector<std::string> load_by_lanes(const MmaOperand& operand, const Var* lane);
  std::string packed_elements(const MmaOperand& operand, const Sum& index, const std::vector<i64>& distances);
  std::string rounded(const std::string& bits);
  std::string fragment_key(const MmaOperand& operand);
  const Fragment* find_fragment(const std::string& key) const;

  const Language& language_;
  const GpuKernel& kernel_;
  KernelText& text_;
  Arena arena_;  // of matches
  std::vector<Fragment> fragments_;
  int depth_ = 0, registers_ = 0;
  // wgmma: the next statement is another such instruction; those before may still run.
  bool is_multiplying_ = false, must_wait_ = false;
};

}  // namespace tw::gpu
