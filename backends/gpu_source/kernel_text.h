// KernelText: what those parts of the kernel printer that are classes of their own (print_copies.h, print_mma.h,
// print_combine.h) use of it: lines, names, and the text of expressions. The printer (printer.h) implements it. Private
// to this folder.
#pragma once
#include <map>
#include <string>

#include "dsl/base/list.h"
#include "dsl/ir/nodes.h"

namespace tw::gpu {

class KernelText {
 public:
  KernelText() = default;
  KernelText(const KernelText&) = delete;
  KernelText& operator=(const KernelText&) = delete;

  // Add a line; a line with an opening brace behind it; the closing brace of the last such line.
  virtual void line(const std::string& text) = 0;
  virtual void open(const std::string& head) = 0;
  virtual void close() = 0;
  // Adds a line for the preprocessor.
  virtual void directive(const std::string& text) = 0;

  // A name that nothing else has, like `wanted`; from release() on it may be given again.
  virtual std::string fresh(Str wanted) = 0;
  virtual void release(const std::string& name) = 0;
  // The name of a new variable.
  virtual std::string temporary() = 0;
  virtual const std::string& name(const Var* var) = 0;
  virtual const std::string& name(const Buffer* buffer) = 0;
  // A part of the prelude, made when it is first needed.
  virtual void define(const std::string& name, const std::string& text) = 0;
  // The name of a new array in shared memory, like `wanted`.
  virtual std::string shared_array(Str wanted, DType dtype, i64 elements) = 0;

  virtual std::string type(DType dtype, int lanes) const = 0;
  // One lane of an expression.
  virtual std::string scalar(const Expr* e, int lane) = 0;
  // An expression of one lane in which these loads are values of variables.
  virtual std::string scalar_with(const Expr* e, const std::map<const Load*, std::string>& values) = 0;
  // One lane's element of a buffer, and a pointer to it in memory.
  virtual std::string element(const Buffer* buffer, const Expr* index, int lane) = 0;
  virtual std::string address(const Buffer* buffer, const Expr* index, int lane) = 0;
  // Where the elements at `base` lie; if these lanes are aligned there, they lie behind each other.
  virtual std::string pointer(const Buffer* buffer, const Expr* base, int lanes, bool& is_aligned) = 0;
  // Do all conditions hold in a lane? "" for none of them.
  std::string all_of(const List<const Expr*>& conditions, int lane = 0);

 protected:
  ~KernelText() = default;
};

// "(x)" without the parentheses that enclose all of it.
std::string bare(std::string text);
// The place of a contiguous or scalar access: its first index; null if lanes lie apart.
const Expr* first_index(const Expr* index);
// The type of 4, 8 or 16 bytes as words.
const char* words_type(i64 bytes);

}  // namespace tw::gpu
