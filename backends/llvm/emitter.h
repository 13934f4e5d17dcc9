// Lowered programs to LLVM IR. Internal to backends/llvm: everybody else sees backends/backend.h.
// ModuleEmitter makes the entry points and the tasks of parallel loops; FunctionEmitter the body of one function.
#pragma once
#include <llvm/ADT/DenseMap.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <optional>
#include <vector>

#include "backends/kernel.h"
#include "backends/llvm/vector_functions.h"
#include "dsl/analysis/affine.h"
#include "dsl/intrinsics/intrinsic.h"
#include "dsl/passes/lower.h"

namespace llvm {
class TargetMachine;
}

namespace tw::codegen {

// An index as constant + sum of coefficient * term + lane * stride, in elements. A term is any scalar I64 expression.
struct Address {
  i64 constant = 0;
  i64 stride = 0;
  std::vector<std::pair<const Expr*, i64>> terms;
  bool operator==(const Address&) const = default;
};
// Nothing if the lanes are not evenly spaced.
std::optional<Address> split_index(const Expr* index);

// A buffer within one function.
struct BoundBuffer {
  const Buffer* buffer;
  llvm::Value* pointer;
  u64 alignment = 64;        // of the pointer, in bytes
  bool is_noalias = true;    // no other buffer of the function shares its memory
  bool keeps_lanes = false;  // of a Register buffer: a store under a mask must keep the lanes outside of it
};
struct BoundVar {
  const Var* var;
  llvm::Value* value;
  Interval range;
};

// The names that a statement uses but does not define.
struct LiveIns {
  std::vector<const Buffer*> buffers;
  std::vector<const Var*> vars;
};
LiveIns live_ins(const Stmt* stmt);

class FunctionEmitter;

// Can the target do all intrinsics of the program? The types in calls of LLVM's intrinsics are checked too. Uses the
// module for declarations. The result is the width of their widest vector in bits, 0 if there is none: LLVM must know
// it beforehand.
Result<int> check_intrinsics(const LoweredProgram& program, const llvm::TargetMachine& machine, llvm::Module& module);

// One module: <symbol>_run, <symbol>_prepack, and internal functions.
class ModuleEmitter {
 public:
  ModuleEmitter(llvm::Module& module, const LoweredProgram& program, std::string_view symbol, int vector_bits,
                const std::string& cpu, const std::string& features, bool has_table);
  void emit();

  llvm::Module& module() { return module_; }
  Arena& arena() { return arena_; }              // for expressions made on the way
  bool has_table() const { return has_table_; }  // of VectorFunctions
  llvm::Function* make_function(llvm::FunctionType* type, const std::string& name, bool is_entry);
  // The task function of a parallel loop: (context, index, worker). The context is a struct of the live-ins in order,
  // with the scratch pointer first.
  llvm::Function* make_task(const For& loop, const LiveIns& ins, const std::vector<BoundBuffer>& outer,
                            const VarRanges& ranges);
  std::string symbol_for(const char* suffix);
  llvm::StructType* context_type(const LiveIns& ins);
  const Placement* worker_placement(const Buffer* buffer) const;

 private:
  void emit_entry(const LoweredFunction& function, bool is_run);
  std::vector<BoundBuffer> entry_buffers(llvm::IRBuilder<>& builder, const LoweredFunction& function,
                                         llvm::Function* entry);
  llvm::Value* worker_pointer(llvm::IRBuilder<>& builder, llvm::Value* scratch, llvm::Value* worker,
                              const Placement& placement);
  bool overlaps_other(const Placement& placement) const;
  // Is it an output that may be written over an input, or such an input?
  bool may_be_overwritten(const Placement& argument) const;
  // An internal function whose arguments are the buffers (noalias where they share no memory), the variables, and what
  // a parallel loop needs; the body is `stmt`.
  void call_body(llvm::IRBuilder<>& builder, const std::string& name, const std::vector<BoundBuffer>& buffers,
                 const std::vector<BoundVar>& vars, const Stmt* stmt, llvm::Value* parallel_for, llvm::Value* pool,
                 llvm::Value* scratch);

  llvm::Module& module_;
  Arena arena_;
  const LoweredProgram& program_;
  std::string symbol_;
  int vector_bits_;
  std::string cpu_, features_;
  bool has_table_;
  std::vector<Overwrite> overwrites_;
  int functions_ = 0;
};

class FunctionEmitter {
 public:
  FunctionEmitter(ModuleEmitter& module, llvm::Function* function);
  void bind(const BoundBuffer& buffer) { buffers_.push_back(buffer); }
  void bind(const BoundVar& var);
  // Null in a task: parallel loops inside parallel loops are serial.
  void allow_parallel(llvm::Value* parallel_for, llvm::Value* pool, llvm::Value* scratch) {
    parallel_for_ = parallel_for, pool_ = pool, scratch_ = scratch;
  }
  void run(const Stmt* body);

 private:
  // A loop body (or the function): what is computed once per iteration sits in `head`, before the statements.
  struct Level {
    llvm::BasicBlock* head;
    struct CachedPointer {
      llvm::Value* base;
      std::vector<std::pair<const Expr*, i64>> terms;
      llvm::Value* pointer;
    };
    std::vector<CachedPointer> pointers;
    std::vector<std::pair<llvm::Value*, llvm::Value*>> hidden;  // pointer, and the same behind an empty asm
    llvm::DenseMap<const Expr*, llvm::Value*> indices;
  };
  struct VarSlot {
    const Var* var = nullptr;
    llvm::Value* value = nullptr;
    int depth = 0;
  };

  // The innermost loop marked `prefetch`.
  struct Prefetching {
    const Var* var = nullptr;
    i64 bytes = 0;                                        // how far ahead; 0 = nothing is asked for
    std::vector<std::pair<const Buffer*, Address>> done;  // in one iteration
  };

  // Statements: emit_stmt.cc
  void stmt(const Stmt* stmt);
  void store(const Store& store);
  void store_to(const StoreTarget& target, llvm::Value* value);
  void branch(const If& branch);
  bool holds_for_first_lane(const Expr* condition) const;
  void loop(const For& loop);
  void counted_loop(const For& loop);
  void parallel_loop(const For& loop);
  void alloc(const Alloc& alloc);
  llvm::AllocaInst* local(llvm::Type* type);  // in the entry block
  void enter_scope(bool hides_addresses);
  void leave_scope(bool hides_addresses);

  // Tensorized loop nests: emit_intrinsic.cc
  void intrinsic(const For& nest, const Intrinsic& intrinsic);
  llvm::Value* intrinsic_step(const IntrinsicStep& step, const std::vector<IntrinsicOperand>& operands,
                              const std::vector<llvm::Value*>& values);

  // Memory: emit_memory.cc
  llvm::Value* load(const Load& load);
  llvm::Value* load_contiguous(llvm::Type* type, llvm::Value* pointer, llvm::Align align);
  llvm::Value* load_strided(const Load& load, const Address& address);
  void prefetch(const Buffer* buffer, const Address& address, llvm::Value* pointer);
  llvm::Value* gather_pointers(const Buffer* buffer, const Expr* index);
  llvm::Value* pointer_to(const Buffer* buffer, const Address& address, bool may_hide);
  llvm::Value* offset_by_terms(llvm::Value* base, const std::vector<std::pair<const Expr*, i64>>& terms, int depth,
                               int bytes);
  llvm::Value* hide(llvm::Value* pointer, int depth);
  llvm::Align align_of(const Buffer* buffer, const Address& address) const;
  llvm::Value* from_memory(llvm::Value* value, DType dtype);
  llvm::Value* to_memory(llvm::Value* value, DType dtype);
  const BoundBuffer& find(const Buffer* buffer) const;
  bool needs_mask(const Load& load) const;
  bool is_mask_known() const;
  bool may_be_active(int lane) const;

  // Expressions: emit_expr.cc
  llvm::Value* value(const Expr* expr);
  llvm::Value* compute(const Expr* expr);
  llvm::Value* index_value(const Expr* expr, int depth);
  llvm::Value* joined(const Binary& node);
  llvm::Value* binary(const Binary& node);
  llvm::Value* combine(BinaryOp op, DType dtype, llvm::Value* a, llvm::Value* b);
  llvm::Value* combine_lanes(BinaryOp op, DType dtype, llvm::Value* vector);
  llvm::Value* float_binary(BinaryOp op, llvm::Value* a, llvm::Value* b);
  llvm::Value* int_binary(BinaryOp op, DType dtype, llvm::Value* a, llvm::Value* b);
  llvm::Value* divide(const Binary& node);
  llvm::Value* cast(const Cast& node);
  llvm::Value* convert(llvm::Value* value, DType from, DType to);
  llvm::Value* call(const Call& node);
  llvm::Value* select(const Expr* condition, const Expr* then, const Expr* otherwise, Type type);
  llvm::Value* branch_select(llvm::Value* condition, const Expr* then, const Expr* otherwise, int lanes);
  llvm::Value* constant(const Expr* expr);
  const VarSlot& slot_of(const Var* var) const;
  std::optional<Interval> range_of(const Expr* expr) const;  // of any lane
  int depth_of(const Expr* expr) const;  // of the innermost loop that it depends on; -1 = it reads memory

  llvm::Type* memory_type(DType dtype);
  llvm::Type* value_type(DType dtype);
  llvm::Type* with_lanes(llvm::Type* type, int lanes);
  llvm::Value* splat(llvm::Value* value, int lanes);
  int lanes_of(llvm::Value* value) const;
  llvm::BasicBlock* block(const char* name);

  ModuleEmitter& module_;
  llvm::Function* function_;
  llvm::IRBuilder<> builder_;
  VectorFunctions math_;
  std::vector<BoundBuffer> buffers_;
  std::vector<VarSlot> vars_;  // by Var::id
  VarRanges ranges_;
  std::vector<Level> levels_;
  std::vector<int> hiding_;  // depths of the scopes that hide addresses
  Prefetching prefetching_;
  llvm::DenseMap<const Expr*, llvm::Value*> memo_;  // within one Store
  llvm::Value* mask_ = nullptr;                     // lanes that are active; null = all
  bool is_first_active_ = true;                     // is the first lane surely active?
  llvm::Value *parallel_for_ = nullptr, *pool_ = nullptr, *scratch_ = nullptr;
  int hidden_count_ = 0;
};

}  // namespace tw::codegen
