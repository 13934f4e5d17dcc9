// Reducers: which associative operation does a reduction block apply? Recognised from its init and update: sum,
// product, max and min, also several side by side, and pairs (index, value) that keep the largest or smallest value
// (argmax, argmin). Used by rfactor, and by what lets the work-items of a group reduce together.
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

// Does the loop run on work-items of a group that combine what they have: is it bound to threadIdx and the loop of a
// reduction? In a program with blocks, and in a lowered one, where it is directly around its store.
bool combines_work_items(const For* loop);

// How the update of such a store puts two values together: for each target the load of what is combined with it.
// Nothing if a term is no load.
std::optional<List<const Load*>> combined_loads(const Store* update);

}  // namespace tw
