// Regions: which part of a buffer a block, or everything below a loop, reads or writes, as a box. Used by all
// primitives that move or copy data and by features. A box may be larger than what is touched (`exact` says when it is
// not); it is never smaller. Guards inside a block's body do not shrink boxes; bounds of the buffer do where the box is
// constant.
#pragma once
#include "dsl/analysis/affine.h"
#include "dsl/ir/nodes.h"

namespace tw {

// [min, min + extent). min is an expression over variables that are held fixed.
struct Range {
  const Expr* min;
  i64 extent;
};
struct Region {
  const Buffer* buffer = nullptr;
  List<Range> dims;
  bool exact = false;  // every element of the box that lies in the domains of the blocks is touched
};

enum class AccessKind : u8 { Read, Write };
struct Access {
  const Buffer* buffer;
  Array<const Expr*> indices;  // over the iters of the block and the variables of loops inside it
  AccessKind kind;
};

// The loops inside a block (blockize), in its init and its body: they run over their whole range in each of its points.
List<const For*> loops_inside(const Block* block);
void add_ranges(VarRanges& ranges, const List<const For*>& loops);

// All accesses in the init and body of a block, in program order, reads of a statement before its writes. A block that
// accumulates (it has R iters or an init) does not count as a reader of what it writes. Reads of buffers whose names
// stand in the block's annotation kHiddenMark (separated by spaces; parameters that nobody writes) do not count either.
inline constexpr std::string_view kHiddenMark = "hidden";
List<Access> accesses_of(const Block* block);
bool is_hidden(const Block* block, const Buffer* buffer);
bool accumulates(const Block* block);
bool reads_buffer(const Block* block, const Buffer* buffer);
bool writes_buffer(const Block* block, const Buffer* buffer);
// Each buffer once, in order of first appearance: what `read_index` and `write_index` of primitives count.
List<const Buffer*> buffers_read(const Block* block);
List<const Buffer*> buffers_written(const Block* block);

// One region per buffer, over the block's iters.
List<Region> reads(Arena& arena, const Block* block);
List<Region> writes(Arena& arena, const Block* block);

// What the blocks in `subtree` (or only one or some of them) touch of a buffer. The loops in the subtree run over their
// whole range; the variables of loops around it stay symbols, `around` says how far they reach. Nothing if the buffer
// is not touched that way.
std::optional<Region> region_of(Arena& arena, const Stmt* subtree, const Buffer* buffer, AccessKind kind,
                                const VarRanges& around, const Block* only = nullptr);
std::optional<Region> region_of(Arena& arena, const Stmt* subtree, const Buffer* buffer, AccessKind kind,
                                const VarRanges& around, const List<const Block*>& only);

// Is every element of `part` in `whole`? Both over variables with these ranges. false = not proved.
bool contains(const Region& whole, const Region& part, const VarRanges& ranges);
bool is_whole_dimension(const Range& range, i64 extent);

// The part of a value that an expression shows: (source // lower) % count, where source takes the values [0, total). A
// source is a variable, or a sum of variables that takes each of these values.
struct Digit {
  const Expr* source;
  i64 lower, count, total;
};
// Understands x, x // c, x % c and combinations.
std::optional<Digit> digit_of(const Expr* expr, const VarRanges& ranges);

}  // namespace tw
