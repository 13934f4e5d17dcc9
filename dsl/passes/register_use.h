// The elements of Register buffers that a program reads or writes. Used by vectorize_loops.
#pragma once
#include <map>
#include <vector>

#include "dsl/analysis/affine.h"
#include "dsl/ir/nodes.h"

namespace tw {

class RegisterUse {
 public:
  // `body`: of flat buffers, before its loops become vectors.
  explicit RegisterUse(const Stmt* body);

  // Is none of the elements first + begin ... first + end - 1 used, whatever the variables of `first` are in `ranges`?
  bool is_unused(const Buffer* buffer, const Expr* first, i64 begin, i64 end, const VarRanges& ranges) const;

 private:
  void visit(const Node* node, VarRanges& ranges);
  void note(const Buffer* buffer, const Expr* index, const VarRanges& ranges);

  std::map<const Buffer*, std::vector<bool>> used_;  // by element
};

}  // namespace tw
