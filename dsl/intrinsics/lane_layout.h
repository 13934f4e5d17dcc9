// Which element of an operand each lane of a warp holds, as PTX describes the fragments of its matrix instructions:
//   (t, i) -> (t // 4 + i // 2 * 8, t % 4 * 2 + i % 2)
// Lane t holds several elements, counted by i; each index is a sum over the bits of t and i, so a layout is one number
// for each bit and each index.
#pragma once
#include <string>
#include <vector>

#include "dsl/base/result.h"
#include "dsl/text/ast.h"

namespace tw {

struct LaneLayout {
  using Index = std::vector<i64>;          // one number for each dimension of the operand
  std::vector<Index> lane_bits, own_bits;  // what each bit of t, and of i, adds

  // Bits that follow each other in one dimension: bits [first, first + count) of t or i are a number, times `step`.
  struct Digit {
    std::size_t first, count;
    i64 step;
  };
  static std::vector<Digit> digits(const std::vector<Index>& bits, std::size_t dimension);

  bool is_empty() const { return lane_bits.empty(); }
  i64 held() const { return i64{1} << own_bits.size(); }  // elements of a lane
  Index at(i64 t, i64 i) const;
  // The same as an expression of C for one dimension, of variables with these names.
  std::string text(std::size_t dimension, std::string_view t, std::string_view i) const;

  bool operator==(const LaneLayout&) const = default;
};

// The layout of an operand of this shape that `lanes` lanes share; none holds what another one does. A message where
// the expression is no such layout.
struct ParsedLayout {
  LaneLayout layout;
  std::string error;  // "" = none
};
ParsedLayout read_lane_layout(const ast::Expr* map, const std::vector<i64>& shape, i64 lanes);

}  // namespace tw
