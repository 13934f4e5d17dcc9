// Copies, and copies that fill with zeros: if c then (if d then X[..] else 0) else 0. Who makes copies asynchronous and
// who prints them must see the same ones.
#pragma once
#include "dsl/base/list.h"
#include "dsl/ir/nodes.h"

namespace tw {

// What a stored value reads. `load` is null where the value is something else, `inside` are the conditions without
// which it is zero: none where it is always read. A negative zero is no zero.
struct CopiedLoad {
  const Load* load;
  List<const Expr*> inside;
};
CopiedLoad copied_load(const Expr* value);

}  // namespace tw
