#include "dsl/analysis/index_map.h"

#include <algorithm>

namespace tw {
namespace {

// (param // lower) % count; count 0 = all the rest.
struct Part {
  std::size_t param;
  i64 lower, count;
  std::size_t result;
};

std::optional<Part> part_of(const Expr* e, Array<const Var*> params) {
  auto param = std::find(params.begin(), params.end(), e);
  if (param != params.end()) return Part{static_cast<std::size_t>(param - params.begin()), 1, 0, 0};
  const Binary* binary = as<Binary>(e);
  std::optional<i64> c = binary ? constant_of(binary->b) : std::nullopt;
  if (!c || *c <= 0) return std::nullopt;
  std::optional<Part> of = part_of(binary->a, params);
  if (!of || (of->count != 0 && of->count % *c != 0)) return std::nullopt;
  if (binary->op == BinaryOp::FloorDiv) return Part{of->param, of->lower * *c, of->count / *c, 0};
  if (binary->op == BinaryOp::FloorMod) return Part{of->param, of->lower, *c, 0};
  return std::nullopt;
}

}  // namespace

bool TiledMap::pads() const { return std::find(padded.begin(), padded.end(), true) != padded.end(); }

std::optional<TiledMap> tiled_map(Arena& arena, Array<const Var*> params, Array<const Expr*> results,
                                  Array<i64> extents, const std::vector<const Var*>& coordinates) {
  Build build{arena};
  TiledMap map{{}, {results.begin(), results.end()}, coordinates, {}, {}};
  std::vector<Part> parts;
  for (std::size_t r = 0; r < results.size(); ++r) {
    map.shape.push_back(1);
    if (is_constant(results[r], 0)) continue;
    std::optional<Part> part = part_of(results[r], params);
    if (!part) return std::nullopt;
    part->result = r;
    parts.push_back(*part);
  }
  std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) {
    return a.lower < b.lower || (a.lower == b.lower && a.count > b.count);
  });
  for (std::size_t p = 0; p < params.size(); ++p) {
    i64 covered = 1;  // of the values of the parameter
    bool open = true;
    const Expr* value = nullptr;
    for (const Part& part : parts) {
      if (part.param != p) continue;
      if (part.lower != covered || !open) return std::nullopt;
      i64 count = part.count != 0 ? part.count : (extents[p] + covered - 1) / covered;
      open = part.count != 0;
      map.shape[part.result] = count;
      const Expr* term = build.mul(coordinates[part.result], part.lower);
      value = value ? build.add(term, value) : term;
      covered *= count;
    }
    if (covered < extents[p]) return std::nullopt;
    map.inverse.push_back(value ? value : build.integer(0));
    map.padded.push_back(covered > extents[p]);
  }
  return map;
}

}  // namespace tw
