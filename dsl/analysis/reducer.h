// Reducers: which associative operation does a reduction block apply? Recognised from its init and update: sum,
// product, max and min, also several side by side, and pairs (index, value) that keep the largest or smallest value
// (argmax, argmin). Used by rfactor.
#pragma once
#include "dsl/ir/build.h"

namespace tw {

// One component per target of the update, in order.
struct Reducer {
  List<StoreTarget> targets;
  List<const Expr*> identities;  // constants, from the init
  List<const Expr*> terms;       // what is combined with the targets' values in each step
  List<const Expr*> values;      // the update: the combination of loads of the targets and the terms
};

// Nothing if the block has no init, its init is not the identity, or the operation is not one of the known ones.
std::optional<Reducer> reducer_of(const Block* block);

// The update with other operands in place of the loads of the targets and of the terms.
List<const Expr*> combine(Arena& arena, const Reducer& reducer, const List<const Expr*>& accumulated,
                                 const List<const Expr*>& terms);

}  // namespace tw
