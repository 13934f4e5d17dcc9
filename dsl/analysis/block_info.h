// What kind of block is this, and who feeds whom: the words in which primitives state their preconditions (the classes
// of TensorIR). All functions look at the whole program (`root`); programs have tens of blocks, so nothing is cached.
//
// Predicates of blocks only take away points that a loop nest has too many: every block runs on each point of its
// domain that somebody needs. Conditions that belong to the computation are in its body.
#pragma once
#include "dsl/base/result.h"
#include "dsl/ir/program.h"
#include "dsl/ir/walk.h"

namespace tw {

// All blocks below a statement, in program order.
List<const Block*> blocks_in(const Stmt* root);
List<const Block*> writers_of(const Stmt* root, const Buffer* buffer);
List<const Block*> readers_of(const Stmt* root, const Buffer* buffer);
// Blocks that write what it reads; blocks that read what it writes. In program order, each once, itself not included.
List<const Block*> producers(const Stmt* root, const Block* block);
List<const Block*> consumers(const Stmt* root, const Block* block);
bool is_inside(const Stmt* root, const Block* block);

bool is_spatial(const Block* block);                               // all iters are S
bool is_output_block(const Program& program, const Block* block);  // writes a parameter
// Each binding is a loop variable of its own, or 0 for an iter of extent 1.
bool has_trivial_bindings(const Block* block);
// Several statements that the block runs one after the other, none of which goes on with what the block did before:
// made by blockize. It may read what it has just written.
bool is_composite(const Block* block);
// The only statement of the block, if it is a Store to one target; else null.
const Store* single_store(const Block* block);
// For each index the position of the iter that it is; -1 for the constant 0. Nothing if an index is anything else or an
// iter occurs twice.
std::optional<List<int>> iters_as_indices(const Block* block, Array<const Expr*> indices);

// Complete: all iters S, the only writer of what it writes, reads nothing that it writes.
Status is_complete(const Stmt* root, const Block* block);
// Reduction: has an init, the only writer of what it writes, no R iter in an index that it writes to.
Status is_reduction(const Stmt* root, const Block* block);
Status is_complete_or_reduction(const Stmt* root, const Block* block);

}  // namespace tw
