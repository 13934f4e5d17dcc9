#include "costmodel/gpu/store_loops.h"

#include <algorithm>
#include <cmath>

#include "costmodel/gpu/kernel_estimate.h"
#include "dsl/intrinsics/intrinsic.h"

namespace tw {
namespace {

// Statements up to which NVRTC unrolled loops: those with constant bounds, and such inside of others that are unrolled
// (it unrolled 256, by halves 320, and not 384).
constexpr double kMostUnrolled = 1024, kMostUnrolledWithin = 256;

bool is_same(const StoreLoops& store, const FlatAccess& a, const FlatAccess& b) {
  if (a.buffer != b.buffer) return false;
  const FlatDim *x = store.program.dims_of(a), *y = store.program.dims_of(b);
  for (u32 d = 0; d < a.rank; ++d) {
    if (x[d].constant != y[d].constant) return false;
    for (u32 p = 0; p < store.flat.depth; ++p) {
      if (store.program.term_of(x[d], p).coefficient != store.program.term_of(y[d], p).coefficient) return false;
    }
  }
  return true;
}

}  // namespace

bool is_in_registers(const FlatProgram& program, const FlatAccess& access) {
  Scope scope = scope_of(program, access);
  return scope == Scope::Register || scope == Scope::Local;
}

StoreLoops::StoreLoops(const FlatProgram& in_program, const FlatStore& of_store, u32 of_kernel)
    : program(in_program), flat(of_store), kernel(of_kernel) {
  find_roles();
  find_unrolled();
  count_runs();
  if (!is_async()) return;
  // An asynchronous copy moves what lies together on both sides.
  async_width = width_of(target());
  for (const FlatAccess& access : accesses()) async_width = std::min(async_width, width_of(access));
}

void StoreLoops::find_roles() {
  roles.assign(flat.depth, LoopRole::Inner);
  u32 first_thread = flat.depth;
  for (u32 p = 0; p < flat.depth; ++p) {
    int axis = program.loop_of(flat, p).axis;
    if (axis >= 0) roles[p] = axis < 3 ? LoopRole::Block : LoopRole::Thread;
    if (axis >= 3) first_thread = std::min(first_thread, p);
  }
  for (u32 p = 0; p < first_thread && first_thread < flat.depth; ++p) {
    if (roles[p] == LoopRole::Inner) roles[p] = LoopRole::Outer;
  }
}

bool StoreLoops::is_unrolled(u32 p) const {
  if (program.loop_of(flat, p).kind != LoopKind::Serial) return true;  // vthread, too
  return std::any_of(accesses().begin(), accesses().end(), [&](const FlatAccess& access) {
    return is_in_registers(program, access) && moves(program, access, p);
  });
}

// The outermost loop that is unrolled, with all that is inside of it as far as compilers go. A matrix instruction is
// one statement.
void StoreLoops::find_unrolled() {
  first_unrolled = flat.depth;
  first_mma = 0;
  while (first_mma < flat.depth && !program.loop_of(flat, first_mma).is_mma) ++first_mma;
  double statements = 1;
  for (u32 p = flat.depth; p-- > 0;) {
    if (roles[p] == LoopRole::Thread) continue;
    if (p < first_mma) statements *= extent(p);
    if (roles[p] != LoopRole::Inner) break;
    // The schedule writes out as much as it says; compilers do not.
    bool is_written_out = program.loop_of(flat, p).kind != LoopKind::Serial;
    if (!is_written_out && statements > kMostUnrolled) break;
    if (is_unrolled(p)) first_unrolled = p;
    // Such a loop stays one in the code, and what is around it is repeated as a whole.
    else if (p < first_mma && extent(p) > 1 && statements > kMostUnrolledWithin)
      break;
  }
  for (u32 p = first_unrolled; p < flat.depth; ++p) {
    if (roles[p] == LoopRole::Inner) roles[p] = LoopRole::Body;
  }
}

void StoreLoops::count_runs() {
  for (u32 p = 0; p < flat.depth; ++p) {
    const FlatLoop& loop = program.loop_of(flat, p);
    if (roles[p] == LoopRole::Thread) threads *= extent(p);
    if (roles[p] == LoopRole::Outer) outer *= extent(p);
    if (roles[p] == LoopRole::Inner) runs *= extent(p);
    if (roles[p] == LoopRole::Body) points *= extent(p);
    is_mma |= loop.is_mma;
    is_warpgroup_mma |= loop.is_warpgroup_mma;
    is_ahead |= loop.is_ahead;
    if (is_mma) mma_points *= extent(p);
  }
  warps = std::ceil(threads / kWarpLanes);
}

bool StoreLoops::is_async() const {
  bool found = false;
  for (u32 p = 0; p < flat.depth; ++p) found |= program.loop_of(flat, p).is_async;
  return found && stages_of(target()) >= 2;
}

const FlatAccess* StoreLoops::same_before(const FlatAccess& access) const {
  if (&access == &target() || access.is_write) return nullptr;
  const FlatAccess* before = &access - 1;
  return is_same(*this, *before, access) ? before : nullptr;
}

i64 StoreLoops::width_of(const FlatAccess& access) const {
  if (access.rank == 0) return 1;
  const FlatDim& last = program.dims_of(access)[access.rank - 1];
  double each = program.buffers[access.buffer].element_bytes;
  for (i64 width = static_cast<i64>(kWidestLoad / each); width > 1; width /= 2) {
    auto divides = [&](double value) { return std::fmod(value, static_cast<double>(width)) == 0; };
    bool has_run = false, is_aligned = divides(last.constant) && divides(last.extent);
    for (u32 p = 0; p < flat.depth && is_aligned; ++p) {
      double step = program.term_of(last, p).coefficient;
      bool is_run = p >= first_unrolled && step == 1 && divides(extent(p));
      has_run |= is_run;
      // Where a thread's number is taken apart by // and %, its coefficient is an average, which says nothing of this.
      is_aligned = is_run || roles[p] == LoopRole::Thread || divides(step);
    }
    if (has_run && is_aligned) return width;
  }
  return 1;
}

double StoreLoops::stages_of(const FlatAccess& access) const {
  double stages = 1;
  if (scope_of(program, access) != Scope::Shared) return stages;
  u32 home = program.home_depth(program.buffers[access.buffer]);
  if (home > 0 && home <= flat.depth) stages = static_cast<double>(program.loop_of(flat, home - 1).stages);
  return std::max(1.0, stages);
}

}  // namespace tw
