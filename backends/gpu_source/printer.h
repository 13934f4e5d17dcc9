// Prints one kernel. Private to this folder. Expressions become text of one lane (`scalar`), or of all lanes where the
// language has vectors (`vector`); what has no vector form is put together from its lanes.
// Copies (print_copies.h), matrix instructions (print_mma.h) and reductions over a group (print_combine.h) are classes
// of their own, which see only what kernel_text.h has.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>

#include "backends/gpu_source/kernel_text.h"
#include "backends/gpu_source/language.h"
#include "backends/gpu_source/print_copies.h"
#include "backends/gpu_source/print_mma.h"
#include "dsl/analysis/affine.h"
#include "dsl/base/result.h"
#include "dsl/passes/lower_gpu.h"
#include "dsl/passes/share_storage.h"
#include "dsl/passes/thread_axes.h"

namespace tw::gpu {

// Functions that the kernels of one source text need: name and definition, those that others call first.
using Helpers = std::vector<std::pair<std::string, std::string>>;

class KernelPrinter : private KernelText {
 public:
  KernelPrinter(const Language& language, const GpuKernel& kernel, std::string name, Helpers& helpers);
  // The kernel as a function definition.
  std::string print();
  // Once it is printed: shared memory with what alignment adds, and what its launch must give (KernelLaunch).
  i64 shared_bytes() const;
  i64 dynamic_shared_bytes() const;

 private:
  // What a buffer is in the text. A Register buffer whose accesses fit together is a set of variables, one per piece.
  struct Place {
    std::string name;
    const char* space = "";           // for pointers into it
    bool is_aligned = false;          // its start, for every vector
    std::map<i64, int> pieces;        // offset -> lanes; empty = an array
    std::optional<XorLayout> layout;  // of what a group shares
  };
  struct SharedArray {
    std::string type, name;
    i64 elements, bytes;
    bool is_aligned;  // for vectors
    i64 at = -1;      // in bytes, of those that lie over each other; -1: an array of its own
    i64 alignment = kSharedAlignment;
  };
  struct Piece {
    std::string name;
    i64 offset;
    int lanes;
  };

  // ---- names (printer.cc)
  std::string fresh(Str wanted) override;
  void release(const std::string& name) override;
  std::string temporary() override;
  const std::string& name(const Var* var) override;
  const std::string& name(const Buffer* buffer) override;
  Place& place(const Buffer* buffer);
  void find_pieces();
  std::optional<Piece> piece_at(const Buffer* buffer, i64 position);
  std::string signature();

  // ---- one lane (print_scalar.cc)
  std::string scalar(const Expr* e, int lane = 0) override;
  std::string scalar_with(const Expr* e, const std::map<const Load*, std::string>& values) override;
  std::string scalar_binary(const Binary* e, int lane);
  std::string scalar_call(const Call* e, int lane);
  std::string divide(const Binary* e, int lane);
  bool divides_fast(const Binary* e) const;
  std::string quotient(const std::string& a, const std::string& b);
  std::string element(const Buffer* buffer, const Expr* index, int lane) override;
  // A half as a float, which it is computed with; anything else as it is (print_halves.cc).
  std::string wide(const Expr* e, int lane);
  std::string wide_vector(const Expr* e);
  std::string widened(DType type, int lanes, const std::string& value);
  std::string narrowed(DType type, int lanes, const std::string& value);
  std::string combined(BinaryOp op, DType type, const std::string& a, const std::string& b);
  std::string float_text(double value, DType type = DType::F32) const;
  std::string number(const Expr* e);
  std::string reduce(const Call* e);
  bool is_nonnegative(const Expr* e) const;
  void define(const std::string& name, const std::string& text) override;
  // The same of a function. Returns its name.
  std::string helper(const std::string& name, const std::string& definition);
  std::string pick(BinaryOp op, DType type, int lanes);
  std::string sigmoid(DType type, int lanes);

  // ---- all lanes (print_vector.cc)
  std::string vector(const Expr* e);
  std::string by_lanes(const Expr* e);
  bool has_vector_form(const Expr* e) const;
  bool has_mask_form(const Expr* e) const;
  std::string vector_call(const Call* e);
  std::string vector_load(const Load* e);
  std::string pointer(const Buffer* buffer, const Expr* base, int lanes, bool& is_aligned) override;
  std::string address(const Buffer* buffer, const Expr* index, int lane) override;
  // The index where one lane's element lies, which its layout says (print_layout.cc).
  std::string in_memory(const Place& place, DType type, const Expr* index, int lane = 0);
  std::string exchanged(const XorLayout& layout, DType type, const std::string& index);
  std::string type(DType dtype, int lanes) const override;

  // ---- statements (print_stmt.cc)
  void stmt(const Stmt* s);
  void barrier();
  void sequence(Array<const Stmt*> stmts);
  void loop(const For* loop);
  void step(const Stmt* s);
  void alloc(const Alloc* alloc);
  // Arrays of shared memory (print_shared.cc).
  std::string shared_array(Str wanted, DType dtype, i64 elements) override;
  i64 place_of(const Buffer* buffer) const;
  i64 shared_alignment() const;
  i64 placed_bytes() const;
  std::string shared_arrays() const;
  std::string pointers_into(const std::string& bytes, i64 first, bool is_placed) const;
  std::string declare_shared() const;
  void store(const Store* s);
  void write(const StoreTarget& target, const Expr* value);
  void write_lanes(const StoreTarget& target, const std::vector<std::string>& lanes);
  // Where only loads and stores are wide: the wide loads of an expression as variables, and whether an access can be
  // one.
  void load_ahead(const Expr* e);
  std::string lane_of(const Expr* loaded, const std::string& name, int lane);
  std::string packed(DType type, const std::vector<std::string>& lanes);
  bool is_wide_access(const Buffer* buffer, const Expr* index, std::string& at);
  void line(const std::string& text) override;
  void open(const std::string& head) override;
  void close() override;
  void directive(const std::string& text) override;

  const Language& language_;
  const GpuKernel& kernel_;
  std::string name_;
  Helpers& helpers_;
  std::set<std::string> taken_;
  std::map<const Var*, std::string> vars_;
  std::map<const Buffer*, Place> places_;
  std::map<const Expr*, std::string>
      loaded_;  // by load_ahead, for the statement at hand: loads, and those with zeros beside
  std::map<const Load*, std::string> given_;  // by scalar_with, for the expression at hand
  VarRanges ranges_;
  std::string index_type_;
  std::vector<SharedArray> shared_;  // declared at the top
  std::string text_;                 // the statements
  int indent_ = 1, temporaries_ = 0;
  bool in_step_ = false, copies_ahead_ = false;  // and in one that copies for later iterations
  bool has_warpgroup_mma_ = false;
  CopyPrinter copies_{language_, kernel_, *this};
  MmaPrinter mma_{language_, kernel_, *this};
  int conditions_ = 0;            // around the statement at hand, inside of its step
  const For* threads_ = nullptr;  // the innermost threadIdx loop around
  Array<const Stmt*> behind_;     // the statements behind the one at hand
};

}  // namespace tw::gpu
