// FlatProgram: what features and the draft model need of a scheduled program, as plain arrays: loops, stores with the
// loops around them, and for every access how each loop moves it. Read once per candidate; a FlatReader keeps its
// memory, so that reading allocates nothing after some calls. Not a general analysis: // and % are estimated
// (linear_index.h).
#pragma once
#include <array>
#include <bitset>
#include <vector>

#include "costmodel/linear_index.h"
#include "costmodel/machine_rates.h"
#include "dsl/ir/program.h"

namespace tw {

// The machine that features and drafts are made for: a CPU. Sizes in bytes, of what one core can use.
struct FeatureTarget {
  int threads = 1;
  int vector_bits = 256;
  int vector_registers = 16;
  i64 l1_bytes = 32 << 10;
  i64 l2_bytes = 512 << 10;
  i64 l3_bytes = 16 << 20;  // 0 = none
  int cache_line = 64;
  bool has_lane_masks = false;  // has_lane_masks(target)
  MachineRates rates = {};
};

struct FlatLoop {
  const Var* var;
  i64 extent;
  LoopKind kind;
  int parent;       // index of the loop around, or -1
  int depth;        // number of loops around
  i64 auto_unroll;  // "auto_unroll_max_step" annotation of it or of a loop around; 0 = none
  i64 stages =
      1;  // by the marks "stages" or "software_pipeline_stage": copies into shared memory run stages - 1 passes ahead
  bool is_async =
      false;  // copies in it are asynchronous ("async" mark), or it is a pipeline of the reference, where all are
  bool is_mma = false;            // it and what is inside is a warp's part of a matrix instruction
  bool is_warpgroup_mma = false;  // of one of four warps
  bool is_ahead =
      false;  // whose operands come before the instructions of the step before ("operands_ahead" annotation)
  bool is_horizontal = false;  // "horizontal" annotation: it sums the lanes of vectors, in a tree
  int axis = -1;               // of a device's grid: 0, 1, 2 = blockIdx.x, .y, .z; 3, 4, 5 = threadIdx; -1 = none
  // Do threads of a processor share its iterations?
  bool is_shared() const { return kind == LoopKind::Parallel || (axis >= 0 && axis < 3); }
  i64 prefetch =
      0;  // "prefetch" annotation: vector loads that move with it ask for what lies so many bytes ahead; 0 = none
};

struct FlatBuffer {
  const Buffer* buffer;
  double element_bytes;
  bool is_param;  // a parameter, or made from one by a prepack block: it exists before the kernel is called
  bool is_prepacked;
  // The innermost loop around all accesses, or -1: outside of it the buffer need not exist. -2 = no access yet.
  int home = -2;
};

// One dimension of an access.
struct FlatDim {
  double constant;
  double extent;          // of the buffer
  u32 first_term, terms;  // of the loops that move it: FlatProgram::terms
};

struct FlatAccess {
  u32 buffer;
  bool is_write, is_irregular;
  u32 first_dim, rank;
  Array<const Expr*> indices;
};

// A condition around a store: a block's predicate, or one on a remainder, as of the phases of a transposed convolution.
struct FlatCondition {
  double share = 1;                  // of the iterations that it lets through
  std::bitset<kMaxLoopDepth> moves;  // by loops of the chain
};

// An iter of a block, of whichever kind.
struct FlatIter {
  double extent;
  std::bitset<kMaxLoopDepth> moves;  // by loops of the chain
};

// One store statement and the loops around it, outermost first. Serial loops of extent 1 are left out, and so are the
// stores of `prepack` blocks, which run before the call.
struct FlatStore {
  const Store* node;
  u32 first_loop, depth;       // FlatProgram::chain
  u32 first_block, blocks;     // FlatProgram::blocks: those around it, outermost first
  u32 first_iter, iters;       // FlatProgram::iters: of the innermost block
  u32 first_access, accesses;  // grouped by buffer, in order of first appearance: writes come first
  OpCounts ops;                // per execution, on values
  OpCounts index_ops;          // per execution, in indices of loads
  double math_ops;             // per execution: function calls, in simple vector operations
  double iterations;           // product of the extents
  double share;                // of the iterations that predicates and conditions let through, estimated
  // Those of the predicates that index a loop of the chain; their shares are part of `share`.
  std::array<FlatCondition, 4> predicates;
  u32 predicate_count;
  // Of a condition that lowering for processors takes out of the body (skip_identity_terms.h): its part of `ops`, the
  // iterations that its bounds let through, and its remainders.
  OpCounts skip_ops;
  double skip_bounds;
  std::array<FlatCondition, 4> skip_remainders;
  u32 remainders;
  std::bitset<kMaxLoopDepth> reduces;  // the loops of the chain that move a reduction iter of the block
  bool is_constant;                    // stores literals only
  bool is_init;
};

struct FlatProgram {
  std::vector<FlatLoop> loops;      // pre-order
  std::vector<FlatBuffer> buffers;  // in order of first access
  std::vector<FlatStore> stores;    // program order
  std::vector<FlatAccess> accesses;
  std::vector<FlatDim> dims;
  std::vector<u32> chain;
  std::vector<const Block*> blocks;
  std::vector<FlatIter> iters;
  std::vector<LinearIndex::Term> terms;

  const FlatLoop& loop_of(const FlatStore& store, u32 position) const {
    return loops[chain[store.first_loop + position]];
  }
  std::span<const LinearIndex::Term> terms_of(const FlatDim& dim) const {
    return {terms.data() + dim.first_term, dim.terms};
  }
  // How the loop at a position of the chain moves it.
  LinearIndex::Term term_of(const FlatDim& dim, u32 position) const {
    for (const LinearIndex::Term& term : terms_of(dim))
      if (term.loop == static_cast<int>(position)) return term;
    return {static_cast<int>(position), 0, 0};
  }
  const FlatDim* dims_of(const FlatAccess& access) const { return dims.data() + access.first_dim; }
  // The number of loops of the store's chain outside of which the buffer need not exist; 0 for parameters.
  u32 home_depth(const FlatBuffer& buffer) const {
    return buffer.is_param || buffer.home < 0
               ? 0
               : static_cast<u32>(loops[static_cast<std::size_t>(buffer.home)].depth) + 1;
  }
};

class FlatReader {
 public:
  // The result is valid until the next call.
  const FlatProgram& read(const Program& program);

 private:
  struct Surroundings {
    double share = 1;
    bool is_init = false;
    std::array<FlatCondition, 4> predicates = {};
    u32 predicate_count = 0;
  };
  void visit(const Stmt* stmt, const Surroundings& around);
  void visit_loop(const For* loop, const Surroundings& around);
  void visit_block(const Block* block, const Surroundings& around);
  void visit_store(const Store* store, const Surroundings& around);
  void visit_value(const Expr* value, FlatStore& store);
  void note_prepacked(const Block* block);
  void note_predicate(const Expr* predicate, Surroundings& inside);
  void note_skipped(const Select* select, FlatStore& store);
  void add_access(const Buffer* buffer, Array<const Expr*> indices, bool is_write, FlatStore& store);
  void group_by_buffer(const FlatStore& store);
  u32 buffer_index(const Buffer* buffer);
  void widen_home(FlatBuffer& buffer);

  FlatProgram flat_;
  const Program* program_ = nullptr;
  LinearScope scope_;
  LinearIndex scratch_;
  std::vector<u32> open_;                // loops around
  std::bitset<kMaxLoopDepth> reducing_;  // beside open_
  const Select* skipped_ = nullptr;      // of the store at hand
  std::vector<const Block*> open_blocks_;
  u32 first_iter_ = 0, iters_ = 0;    // of the innermost of these
  std::vector<int> index_of_buffer_;  // by id; -1 = not met
};

}  // namespace tw
