#include "costmodel/store_profile.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

#include "dsl/passes/cost.h"

namespace tw {
namespace {

constexpr double kFmaLatency = 4,
                 kMemoryChainLatency = 11;  // of a sum in a register; of one that is stored and loaded again
// The loads of real tiles: tiles that need 1.1 loads per multiply-add reach 70 % of the peak.
constexpr double kLoadsPerCycle = 1.5;
constexpr double kReload = 0.4;      // cost of one that a multiplication does, by that of a load of its own; on x86
constexpr double kReloading = 1.07;  // what a body takes longer then
constexpr double kFmaPerCycle = 2, kStoresPerCycle = 1, kIssuePerCycle = 5;
constexpr double kScatteredStore = 4;  // of one element, in cycles, where vectors are stored element by element
constexpr double kTreeStep = 2;        // instructions: a shuffle and a sum
constexpr double kDivision = 8;        // in simple vector operations
constexpr double kLoopStep = 3;        // instructions of one step of a loop
constexpr double kLoopEntry = 4;       // cycles around a run of the innermost loop
constexpr double kLargeBody = 300;     // vector operations

double extent_of(const FlatProgram& program, const FlatStore& store, u32 position) {
  return static_cast<double>(program.loop_of(store, position).extent);
}

// What the iter of the innermost block counts that the vectorized loops move; 0 = none, or several do.
double columns_of(const FlatProgram& program, const FlatStore& store, const std::vector<BodyRole>& roles) {
  std::bitset<kMaxLoopDepth> vectorized;
  for (u32 p = 0; p < store.depth; ++p) vectorized.set(p, roles[p] == BodyRole::Vector);
  double columns = 0;
  for (u32 i = store.first_iter; i < store.first_iter + store.iters; ++i) {
    if ((program.iters[i].moves & vectorized).none()) continue;
    if (columns > 0) return 0;
    columns = program.iters[i].extent;
  }
  return columns;
}

// Addresses that loops reach together: all combinations, or fewer where a window slides, as x + kx. Loops are added in
// any order; each has a step in elements.
class DistinctAddresses {
 public:
  void add(double step, double extent) { loops_[used_++] = {std::abs(step), extent}; }
  double count() {
    auto is_before = [](const Loop& a, const Loop& b) {
      return std::tie(a.step, a.extent) < std::tie(b.step, b.extent);
    };
    std::sort(loops_.begin(), loops_.begin() + used_, is_before);
    double count = 1, step = 0, span = 1;  // of the loops that slide together, from the smallest step on
    for (auto [next, extent] : std::span(loops_.data(), used_)) {
      double times = step > 0 ? next / step : 0;
      if (times >= 1 && times <= span && times == std::floor(times)) {
        span += times * (extent - 1);
      } else {
        count *= span;
        step = next, span = extent;
      }
    }
    return count * span;
  }

 private:
  struct Loop {
    double step, extent;
  };
  std::array<Loop, kMaxLoopDepth> loops_;  // the first used_ of them
  std::size_t used_ = 0;
};

// How many vectors a tile is wide, on average over all tiles: the last one may have fewer columns. `row` is that of
// vectors_in().
double vectors_of(double lanes, double columns, double full, i64 row) {
  auto vectors = [&](double n) {
    return static_cast<double>(vectors_in(static_cast<i64>(n), static_cast<i64>(full), row));
  };
  double tiles = columns > 0 ? std::ceil(columns / lanes) : 1;
  return columns > 0 ? ((tiles - 1) * vectors(lanes) + vectors(columns - (tiles - 1) * lanes)) / tiles : vectors(lanes);
}

// The `row` of vectors_in() for this store: 1 where it writes to memory, else the length of the rows that it reads.
i64 row_of(const FlatProgram& program, const FlatStore& store, const std::vector<Use>& uses,
           const std::vector<BodyRole>& roles) {
  i64 row = 0;
  for (const Use& use : uses) {
    const Buffer* buffer = program.buffers[use.buffer].buffer;
    if (buffer->scope == Scope::Register) continue;
    if (use.is_write) return 1;
    for (u32 p = 0; p < store.depth; ++p) {
      if (roles[p] == BodyRole::Vector && use.moved[p])
        row = std::gcd(row, use.stride[p] == 1 ? buffer->shape.back() : 1);
    }
  }
  return row;
}

// What is converted first cannot be loaded by the multiplication itself.
bool is_of_one_width(const FlatProgram& program, const std::vector<Use>& uses) {
  auto bytes = [&](const Use& use) { return bytes_of(program.buffers[use.buffer].buffer->dtype); };
  return bytes(uses.front()) >= 4 &&
         std::ranges::all_of(uses, [&](const Use& use) { return bytes(use) == bytes(uses.front()); });
}

}  // namespace

double StoreProfile::cycles(const MachineRates& rates) const {
  double issued = std::max(compute, latency);
  return issued + overhead + seen_waiting(issued, waiting_for_near(rates)) + waiting_for_far(rates);
}

double seen_waiting(double issued, double near) { return 0.2 * std::min(issued, near) + std::max(0.0, near - issued); }

StoreProfile StoreProfiler::profile(const FlatProgram& program, const FlatStore& store, const std::vector<Use>& uses) {
  find_roles(program, store, uses);
  StoreProfile out{traffic_.of(program, store, uses, roles_, inner_)};
  count_grid(program, store, uses, out);
  shape_body(program, store, uses, out);
  count_operands(program, store, uses, out);
  count_instructions(program, store, out);
  count_cycles(program, store, uses.front(), out);
  share_between_threads(program, store, out);
  return out;
}

void StoreProfiler::count_grid(const FlatProgram& program, const FlatStore& store, const std::vector<Use>& uses,
                               StoreProfile& out) const {
  for (u32 p = 0; p < store.depth; ++p) {
    const FlatLoop& loop = program.loop_of(store, p);
    out.is_bound |= loop.kind == LoopKind::Bind;
    if (loop.axis >= 0) (loop.axis < 3 ? out.groups : out.group_threads) *= static_cast<double>(loop.extent);
    out.stages = std::max(out.stages, static_cast<double>(loop.stages));
    out.is_async |= loop.is_async;
    out.is_mma |= loop.is_mma;
    out.prefetch = std::max(out.prefetch, static_cast<double>(loop.prefetch));
  }
  for (const Use& use : uses) {
    bool is_shared = program.buffers[use.buffer].buffer->scope == Scope::Shared;
    out.shared_reads += is_shared && use.is_read;
  }
  out.is_shared_copy = program.buffers[uses.front().buffer].buffer->scope == Scope::Shared;
}

// Loops over a register buffer are unrolled by lowering whether they are marked or not.
void StoreProfiler::find_roles(const FlatProgram& program, const FlatStore& store, const std::vector<Use>& uses) {
  roles_.assign(store.depth, BodyRole::Outer);
  inner_ = -1;
  for (u32 p = store.depth; p-- > 0;) {
    LoopKind kind = program.loop_of(store, p).kind;
    auto is_over_registers = [&](const Use& use) {
      const FlatBuffer& buffer = program.buffers[use.buffer];
      return use.moved[p] && buffer.buffer->scope == Scope::Register && p >= program.home_depth(buffer);
    };
    bool is_tree = program.loop_of(store, p).is_horizontal && inner_ < 0;
    if (kind == LoopKind::Vectorize || is_tree)
      roles_[p] = BodyRole::Vector;
    else if (inner_ < 0 && (kind == LoopKind::Unroll || std::ranges::any_of(uses, is_over_registers)))
      roles_[p] = BodyRole::Unrolled;
    else if (inner_ < 0)
      inner_ = static_cast<int>(p);
  }
}

void StoreProfiler::shape_body(const FlatProgram& program, const FlatStore& store, const std::vector<Use>& uses,
                               StoreProfile& out) const {
  const Use& target = uses.front();
  const Buffer* buffer = program.buffers[target.buffer].buffer;
  out.in_registers = buffer->scope == Scope::Register;
  out.accumulates = target.is_read;
  out.waste = 1 - store.share;
  bool target_moves_in_vector = false;
  double lanes = 1, instances = 1, body_runs = 1, spatial = 1;
  bool is_tree = false;
  for (u32 p = 0; p < store.depth; ++p) {
    double extent = extent_of(program, store, p);
    if (roles_[p] == BodyRole::Vector) {
      lanes *= extent;
      is_tree |= program.loop_of(store, p).is_horizontal;
      target_moves_in_vector |= target.moved[p] != 0;
    } else if (roles_[p] == BodyRole::Unrolled) {
      instances *= extent;
      if (target.moved[p]) spatial *= extent;
    } else {
      body_runs *= extent;
    }
  }
  out.lanes = lanes, out.body_runs = body_runs;
  if (inner_ >= 0) out.trip_count = extent_of(program, store, static_cast<u32>(inner_));
  double value_bytes = std::max(bytes_of(store.node->values[0]->type.dtype), bytes_of(buffer->dtype));
  double full = target_.vector_bits / (8 * value_bytes);
  if (out.lanes > 1) {
    double columns = columns_of(program, store, roles_);
    double of_a_tile = columns > 0 ? columns / std::ceil(columns / out.lanes) : out.lanes;
    i64 row = target_.has_lane_masks ? 0 : out.is_bound ? 1 : row_of(program, store, uses, roles_);
    // A sum over the lanes themselves is done one by one, if not in a tree.
    bool are_vectors = target_moves_in_vector || is_tree;
    out.vectors = are_vectors ? vectors_of(out.lanes, columns, full, row) : out.lanes;
    if (is_tree) out.tree = kTreeStep * std::log2(std::max(2.0, std::min(out.lanes, full)));
    out.lane_use = of_a_tile / (out.vectors * full);
  } else {
    out.lane_use = 1 / full;
  }
  out.instances = instances * out.vectors;
  out.accumulators = out.accumulates ? spatial * (target_moves_in_vector || is_tree ? out.vectors : 1) : 0;
}

// How each operand reaches the body: instructions, and registers that it holds on to.
void StoreProfiler::count_operands(const FlatProgram& program, const FlatStore& store, const std::vector<Use>& uses,
                                   StoreProfile& out) const {
  const Use& target = uses.front();
  double reused = 0, largest_reused = 0, streaming = 0;
  for (const Use& use : uses) {
    const FlatBuffer& buffer = program.buffers[use.buffer];
    bool in_register = buffer.buffer->scope == Scope::Register;
    out.prepacked += buffer.is_prepacked;
    double all = 1, distinct_spatial = 1, vector_stride = 0;
    DistinctAddresses addresses;
    bool is_reused = false;
    for (u32 p = 0; p < store.depth; ++p) {
      double extent = extent_of(program, store, p);
      if (roles_[p] == BodyRole::Vector && use.moved[p]) vector_stride = use.stride[p];
      if (roles_[p] != BodyRole::Unrolled) continue;
      if (use.moved[p]) addresses.add(use.stride[p], extent), all *= extent;
      if (use.moved[p] && target.moved[p]) distinct_spatial *= extent;
      is_reused |= !use.moved[p] && target.moved[p];
    }
    // What a sliding window loads again stays in registers where these hold all of it.
    double once = use.is_irregular || use.is_write ? all : addresses.count();
    bool fits = out.accumulators + once * out.vectors < target_.vector_registers;
    double distinct = fits ? once : all;
    bool is_scalar = out.lanes == 1, is_contiguous = vector_stride == 1, is_single = is_scalar || vector_stride == 0;
    if (is_scalar && inner_ >= 0) is_contiguous = use.stride[inner_] == 1;
    double accesses = use.accesses - (use.is_write && use.is_read ? 1 : 0);
    double vectors = use.is_irregular ? out.lanes : is_single ? 1 : is_contiguous ? out.vectors : out.lanes;
    bool is_scattered = use.is_irregular || (!is_single && !is_contiguous);
    if (use.is_write && !in_register) out.stores += distinct * vectors * (is_scattered ? kScatteredStore : 1);
    if (use.is_read && !use.is_write) {
      if (use.is_irregular)
        ++out.by_data;
      else if (is_contiguous && !(is_scalar && !use.moved[inner_]))
        ++out.contiguous;
      else if (is_scalar ? inner_ < 0 || !use.moved[inner_] : is_single)
        ++out.broadcast;
      else
        ++out.stepping;
    }
    if (!use.is_read || in_register) continue;
    bool is_hoisted = !use.is_write && inner_ >= 0 && !use.moved[inner_];
    double loads = is_hoisted ? 0 : distinct * vectors * std::max(1.0, accesses);
    if (is_scattered)
      out.element_loads += loads;
    else if (is_single && !is_scalar)
      out.broadcasts += loads;
    else
      out.vector_loads += loads;
    if (use.is_write) continue;
    double held = is_single ? 1 : distinct_spatial * std::min(vectors, out.vectors);
    if (is_hoisted) held = distinct_spatial * std::min(vectors, out.vectors);
    if (!is_reused && !is_hoisted) {
      streaming = 1;
    } else {
      reused += held;
      largest_reused = std::max(largest_reused, is_hoisted ? 0 : held);
    }
  }
  // Of several operands that are used again, the largest can be streamed while the others stay.
  out.operands =
      std::max(1.0, reused + streaming - (streaming == 0 && reused > largest_reused ? largest_reused - 1 : 0));
  if (!out.in_registers || !out.accumulates) return;
  out.registers_over = std::max(0.0, out.accumulators + out.operands - target_.vector_registers);
  if (!out.is_bound && is_of_one_width(program, uses)) reload_operands(largest_reused, out);
}

// Code generation on processors gives up the registers of all but one vector that rows use again: each row loads it.
void StoreProfiler::reload_operands(double reused, StoreProfile& out) const {
  double reloaded = std::clamp(reused - 1, 0.0, out.registers_over);
  if (reloaded == 0) return;
  out.registers_over -= reloaded, out.reloads = true;
  double rows = out.accumulators / reused, steps = out.instances / out.accumulators;
  out.vector_loads += kReload * reloaded * (rows - 1) * steps;
}

void StoreProfiler::count_instructions(const FlatProgram& program, const FlatStore& store, StoreProfile& out) const {
  OpCounts ops = store.ops;
  if (!out.is_bound) {
    // Lowering moves the test outwards and cuts loops at its bounds; only a remainder that tells the rows of a body
    // apart stays in it.
    double tested = 0;
    for (int op = 0; op < kOps; ++op) ops[op] -= store.skip_ops[op], tested += store.skip_ops[op];
    if (has_tests(program, store)) out.tests = tested * out.instances / out.vectors;
  }
  double sums = at(ops, Op::FloatAddSub), products = at(ops, Op::FloatMul), fma = std::min(sums, products);
  double simple = sums + products - 2 * fma + at(ops, Op::FloatCmp) + at(ops, Op::IntAddSub) + at(ops, Op::IntMul) +
                  at(ops, Op::IntCmp) + at(ops, Op::Bool) + at(ops, Op::Select);
  double divisions = at(ops, Op::FloatDivMod) + at(ops, Op::IntDivMod);
  out.fma = fma * out.instances;
  out.other =
      (simple + kDivision * divisions + store.math_ops) * out.instances + out.tree * out.instances / out.vectors;
  // Addresses with // and % are worked out one by one.
  out.element_loads += at(store.index_ops, Op::IntDivMod) > 0 && out.lanes == 1 ? 2 * out.instances : 0;
}

bool StoreProfiler::moves(const FlatCondition& condition, BodyRole role) const {
  for (std::size_t p = 0; p < roles_.size(); ++p) {
    if (roles_[p] == role && condition.moves[p]) return true;
  }
  return false;
}

// The part of the runs of a body that predicates leave. Those on unrolled loops alone vanish, with the iterations that
// they keep out; those on vectorized loops leave out lanes. Tails become code of their own, which runs fewer
// iterations, but less well.
double StoreProfiler::share_of_runs(const FlatStore& store) const {
  double vanishing = 1, known = 1, tails = 1;
  for (u32 i = 0; i < store.predicate_count; ++i) {
    const FlatCondition& predicate = store.predicates[i];
    known *= predicate.share;
    if (moves(predicate, BodyRole::Vector)) continue;
    (moves(predicate, BodyRole::Outer) ? tails : vanishing) *= predicate.share;
  }
  double others = known > 0 ? store.share / known : 0;
  return vanishing * (0.5 + 0.5 * tails * others * store.skip_bounds);
}

// Is it known when code is made, since nothing but unrolled loops moves it?
bool StoreProfiler::is_known(const FlatProgram& program, const FlatStore& store, const FlatCondition& condition) const {
  for (u32 p = 0; p < store.depth; ++p) {
    bool is_unrolled = roles_[p] == BodyRole::Unrolled || program.loop_of(store, p).kind == LoopKind::Unroll;
    if (condition.moves[p] && !is_unrolled) return false;
  }
  return true;
}

bool StoreProfiler::has_tests(const FlatProgram& program, const FlatStore& store) const {
  return std::any_of(
      store.skip_remainders.begin(), store.skip_remainders.begin() + store.remainders,
      [&](const FlatCondition& r) { return moves(r, BodyRole::Unrolled) && !is_known(program, store, r); });
}

void StoreProfiler::count_cycles(const FlatProgram& program, const FlatStore& store, const Use& target,
                                 StoreProfile& out) const {
  double runs = out.body_runs * (out.is_bound ? 0.5 + 0.5 * store.share : share_of_runs(store));
  double left = 1;  // share of a body's instances that are left where it is known which ones are kept out
  for (u32 i = 0; i < store.remainders && !out.is_bound; ++i) {
    const FlatCondition& remainder = store.skip_remainders[i];
    if (!moves(remainder, BodyRole::Unrolled))
      runs *= remainder.share;
    else if (is_known(program, store, remainder))
      left *= remainder.share;
    else
      runs *= 0.5 + 0.5 * remainder.share;
  }
  if (store.is_init) runs = out.body_runs * store.share;
  double loads = out.vector_loads + out.broadcasts + 1.5 * out.element_loads;
  double arithmetic = (out.fma + out.other) / kFmaPerCycle;
  double all = (out.fma + out.other + loads + out.stores + out.tests + kLoopStep) / kIssuePerCycle;
  double body = std::max({arithmetic, loads / kLoadsPerCycle, out.stores / kStoresPerCycle, all});
  if (out.reloads) body *= kReloading;
  if (out.registers_over > 0) body *= 1.65 + 0.08 * std::min(out.registers_over, 20.0);
  double operations = out.fma + out.other + loads + out.stores;
  if (operations > kLargeBody) body *= 1 + 0.15 * std::log2(operations / kLargeBody);
  out.compute = runs * left * body;
  if (out.accumulators > 0) {
    double steps = out.instances / out.accumulators;  // that wait for each other, in one body
    bool is_chained = steps > 1 || (inner_ >= 0 && !target.moved[inner_]);
    out.latency = is_chained ? runs * steps * (out.in_registers ? kFmaLatency : kMemoryChainLatency) : 0;
  }
  out.overhead = runs / out.trip_count * kLoopEntry;
}

void StoreProfiler::share_between_threads(const FlatProgram& program, const FlatStore& store, StoreProfile& out) const {
  u32 p = 0;
  double entered = 1;
  while (p < store.depth && !program.loop_of(store, p).is_shared()) entered *= extent_of(program, store, p++);
  if (p == store.depth || target_.threads <= 1) return;
  out.starts = entered;
  while (p < store.depth && program.loop_of(store, p).is_shared()) out.chunks *= extent_of(program, store, p++);
  out.speed_up = out.chunks / std::ceil(out.chunks / target_.threads);
}

}  // namespace tw
