#include "dsl/analysis/index_map.h"

#include <algorithm>
#include <tuple>

#include "dsl/analysis/sum.h"

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
                                  Array<i64> extents, const List<const Var*>& coordinates) {
  Build build{arena};
  TiledMap map{{}, {results.begin(), results.end()}, coordinates, {}, {}};
  List<Part> parts;
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

namespace {

// A part with its place among the digits of its result: (coordinate // stride) % count.
struct FusedPart {
  Part part;
  i64 stride;
};

// The parts of one result; their strides are what the parts behind count to.
std::optional<List<FusedPart>> fused_parts(const Expr* result, Array<const Var*> params, Array<i64> extents) {
  Sum sum = sum_of(result);
  if (!sum.exact || sum.constant != 0) return std::nullopt;
  List<FusedPart> parts;
  for (const Sum::Term& term : sum.terms) {
    std::optional<Part> part = part_of(term.atom, params);
    if (!part || term.coefficient < 1) return std::nullopt;
    i64 rest = (extents[part->param] + part->lower - 1) / part->lower;
    part->count = part->count == 0 ? rest : std::min(part->count, rest);
    parts.push_back({*part, term.coefficient});
  }
  std::sort(parts.begin(), parts.end(), [](const FusedPart& a, const FusedPart& b) {
    return a.stride < b.stride || (a.stride == b.stride && a.part.count < b.part.count);
  });
  i64 reach = 1;
  for (FusedPart& fused : parts) {
    if (fused.part.count == 1) fused.stride = reach;
    if (fused.stride != reach) return std::nullopt;
    reach *= fused.part.count;
  }
  return parts;
}

const Expr* digit(Build build, const Expr* coordinate, const FusedPart& fused, i64 extent) {
  const Expr* above = build.floor_div(coordinate, build.integer(fused.stride));
  bool is_top = fused.stride * fused.part.count == extent;
  return is_top ? above : build.floor_mod(above, build.integer(fused.part.count));
}

}  // namespace

std::optional<FusedMap> fused_map(Arena& arena, Array<const Var*> params, Array<const Expr*> results, Array<i64> extents,
                                  const List<const Var*>& coordinates) {
  Build build{arena};
  FusedMap map;
  List<FusedPart> all;
  for (std::size_t r = 0; r < results.size(); ++r) {
    std::optional<List<FusedPart>> parts = fused_parts(results[r], params, extents);
    if (!parts) return std::nullopt;
    map.shape.push_back(1);
    for (FusedPart& fused : *parts) {
      map.shape.back() *= fused.part.count;
      fused.part.result = r;
      all.push_back(fused);
    }
  }
  // A stable sort would ask the heap for memory.
  std::sort(all.begin(), all.end(), [](const FusedPart& a, const FusedPart& b) {
    return std::tie(a.part.lower, a.part.count, a.part.result) < std::tie(b.part.lower, b.part.count, b.part.result);
  });
  for (std::size_t p = 0; p < params.size(); ++p) {
    i64 covered = 1;
    const Expr* value = nullptr;
    for (const FusedPart& fused : all) {
      if (fused.part.param != p) continue;
      if (fused.part.lower != covered && fused.part.count != 1) return std::nullopt;
      const Expr* own = digit(build, coordinates[fused.part.result], fused, map.shape[fused.part.result]);
      const Expr* term = build.mul(own, fused.part.lower);
      value = value ? build.add(term, value) : term;
      covered *= fused.part.count;
    }
    if (!value || covered != extents[p]) return std::nullopt;
    map.inverse.push_back(value);
  }
  return map;
}

}  // namespace tw
