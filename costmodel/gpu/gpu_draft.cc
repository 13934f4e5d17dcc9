#include "costmodel/gpu/gpu_draft.h"

#include <algorithm>
#include <cmath>

#include "costmodel/access_box.h"

namespace tw {
namespace {

constexpr double kBanks = 32;
constexpr double kSector = 32, kSectorsPerWavefront = 4;  // bytes; 128 bytes of L1 a cycle
constexpr double kBaseRegisters = 24;                     // addresses, counters
constexpr double kLoadedAhead = 32;                       // registers of unrolled code
constexpr double kLoopInstructions = 3;                   // of each pass of a loop that is not unrolled
constexpr double kBarrier = 25, kArithmeticLatency = 4;   // cycles
constexpr double kAhead = 4;                              // loads of a serial loop that are under way at once
constexpr i64 kMmaRow = 16, kMmaRows = 8, kLdmatrix = 4;  // bytes and rows of a piece of an operand; pieces that come at once
constexpr double kLeastL1 = 16 << 10;
constexpr double kWidest = 16;          // bytes of one load
constexpr double kMostUnrolled = 1024;  // statements

const FlatDim* dims_of(const FlatProgram& program, const FlatAccess& access) { return program.dims_of(access); }

// Bytes in whole sectors.
template <class Part>
double bytes_in(const FlatProgram& program, const FlatStore& store, const FlatAccess& access, Part part) {
  double extents[32], rows = 1;
  double each = program.buffers[access.buffer].element_bytes;
  if (access.rank == 0) return kSector;
  box_of(program, store, access, part, extents);
  for (u32 d = 0; d + 1 < access.rank; ++d) rows *= extents[d];
  return rows * std::ceil(extents[access.rank - 1] * each / kSector) * kSector;
}

// The stride of a dimension, in elements, with the padding of its buffer.
i64 padded(const Buffer* buffer, u32 axis, i64 stride) {
  for (const StrideRule& rule : buffer->stride_rules) {
    if (rule.axis == static_cast<i64>(axis)) stride += ((rule.offset - stride) % rule.factor + rule.factor) % rule.factor;
  }
  return stride;
}

// Of what is left of a buffer with rows of so many elements.
std::optional<XorLayout> layout_of(const FlatBuffer& buffer, i64 row) {
  std::optional<XorLayout> layout = buffer.buffer->layout.empty() ? std::nullopt : xor_layout(buffer.buffer);
  if (layout) layout->span = xor_span(row * static_cast<i64>(buffer.element_bytes));
  return layout;
}

double words_of_fullest_bank(const std::vector<i64>& words) {
  int used[static_cast<int>(kBanks)] = {}, most = 0;
  for (i64 word : words) most = std::max(most, ++used[static_cast<std::size_t>(word) % static_cast<std::size_t>(kBanks)]);
  return most;
}

bool is_same(const FlatProgram& program, const FlatStore& store, const FlatAccess& a, const FlatAccess& b) {
  if (a.buffer != b.buffer) return false;
  const FlatDim *x = dims_of(program, a), *y = dims_of(program, b);
  for (u32 d = 0; d < a.rank; ++d) {
    if (x[d].constant != y[d].constant ||
        !std::equal(x[d].coefficient, x[d].coefficient + store.depth, y[d].coefficient))
      return false;
  }
  return true;
}

Scope scope_of(const FlatProgram& program, const FlatAccess& access) {
  return program.buffers[access.buffer].buffer->scope;
}

// The widest load that the alignment of the last dimension allows where a run of it is unrolled, in elements.
i64 width_of(const FlatProgram& program, const FlatStore& store, const FlatAccess& access, u32 first_unrolled) {
  if (access.rank == 0) return 1;
  const FlatDim& last = dims_of(program, access)[access.rank - 1];
  double each = program.buffers[access.buffer].element_bytes;
  for (i64 width = static_cast<i64>(kWidest / each); width > 1; width /= 2) {
    auto divides = [&](double value) { return std::fmod(value, static_cast<double>(width)) == 0; };
    bool has_run = false, is_aligned = divides(last.constant) && divides(last.extent);
    for (u32 p = 0; p < store.depth && is_aligned; ++p) {
      bool is_run = p >= first_unrolled && last.coefficient[p] == 1 &&
                    divides(static_cast<double>(program.loop_of(store, p).extent));
      has_run |= is_run;
      is_aligned = is_run || divides(last.coefficient[p]);
    }
    if (has_run && is_aligned) return width;
  }
  return 1;
}

// What one test of a copy takes. Its divisions see the work-item or the pass alone, so compilers move them out of the loop or to the whole
// warp, and comparisons take others in; in machine code of an implicit product there are 4 to 5 instructions for each padded copy.
double test_of(const OpCounts& ops) { return at(ops, Op::IntAddSub) + at(ops, Op::IntCmp) + at(ops, Op::Select); }

// Does a store carry elements as they are, or zeros where tests say so?
bool is_copy(const Expr* value) {
  if (auto* select = as<Select>(value)) return is_copy(select->then) && is_copy(select->otherwise);
  return as<Load>(value) || as<IntImm>(value) || as<FloatImm>(value);
}

}  // namespace

double GpuDraft::seconds(const Program& program, const std::vector<int>& known_registers) {
  const FlatProgram& flat = reader_.read(program);
  variables_ = program.next_var;
  kernels_.assign(find_kernels(flat), {});
  operands_.assign(kernels_.size(), 0);
  is_counted_.assign(flat.buffers.size(), 0);
  shared_of_.assign(flat.buffers.size(), 0);
  shared_.clear();
  find_steps(flat);
  for (std::size_t i = 0; i < flat.stores.size(); ++i) {
    const FlatStore& store = flat.stores[i];
    if (store.is_prepack) continue;
    KernelEstimate& kernel = kernels_[kernel_of_[i]];
    for (u32 p = 0; p < store.depth; ++p) {
      const FlatLoop& loop = flat.loop_of(store, p);
      if (loop.axis < 0) continue;
      i64& extent = (loop.axis < 3 ? kernel.grid : kernel.threads)[static_cast<std::size_t>(loop.axis % 3)];
      extent = std::max(extent, loop.extent);
    }
    add_storage(flat, store, kernel, operands_[kernel_of_[i]]);
  }
  for (std::size_t k = 0; k < kernels_.size(); ++k) {
    kernels_[k].registers += kBaseRegisters + operands_[k];
    kernels_[k].shared_bytes = most_shared(static_cast<u32>(k));
    if (known_registers.size() == kernels_.size()) kernels_[k].registers = known_registers[k];
    i64 registers = std::min<i64>(static_cast<i64>(kernels_[k].registers), device_.registers_per_thread);
    kernels_[k].occupancy =
        occupancy(device_, {kernels_[k].block_threads(), registers, static_cast<i64>(kernels_[k].shared_bytes)});
  }
  for (std::size_t i = 0; i < flat.stores.size(); ++i) {
    if (!flat.stores[i].is_prepack) add_store(flat, flat.stores[i], kernels_[kernel_of_[i]]);
  }
  double sum = 1e-9;
  for (KernelEstimate& kernel : kernels_) set_seconds(kernel, device_), sum += kernel.seconds;
  return sum;
}

// Stores of one top-level loop belong together.
std::size_t GpuDraft::find_kernels(const FlatProgram& program) {
  kernel_of_.assign(program.stores.size(), 0);
  std::size_t count = 0;
  i64 last_root = -1;
  for (std::size_t i = 0; i < program.stores.size(); ++i) {
    const FlatStore& store = program.stores[i];
    if (store.is_prepack) continue;
    i64 root = store.depth > 0 ? static_cast<i64>(program.chain[store.first_loop]) : -1;
    if (root < 0 || root != last_root) ++count;
    last_root = root;
    kernel_of_[i] = static_cast<u32>(count - 1);
  }
  return count;
}

bool GpuDraft::is_in_registers(const FlatProgram& program, const FlatAccess& access) {
  Scope scope = scope_of(program, access);
  return scope == Scope::Register || scope == Scope::Local;
}

void GpuDraft::read_roles(const FlatProgram& program, const FlatStore& store) {
  roles_.assign(store.depth, Role::Inner);
  u32 first_thread = store.depth;
  for (u32 p = 0; p < store.depth; ++p) {
    int axis = program.loop_of(store, p).axis;
    if (axis >= 0) roles_[p] = axis < 3 ? Role::Block : Role::Thread;
    if (axis >= 3) first_thread = std::min(first_thread, p);
  }
  for (u32 p = 0; p < first_thread && first_thread < store.depth; ++p) {
    if (roles_[p] == Role::Inner) roles_[p] = Role::Outer;
  }
  auto is_unrolled = [&](u32 p) {
    LoopKind kind = program.loop_of(store, p).kind;
    if (kind != LoopKind::Serial) return true;  // vthread, too
    // Lowering or the compiler unrolls what selects a register.
    return std::any_of(
        program.accesses.begin() + store.first_access, program.accesses.begin() + store.first_access + store.accesses,
        [&](const FlatAccess& access) { return is_in_registers(program, access) && moves(program, access, p); });
  };
  // The outermost loop that is unrolled, with all that is inside of it as far as compilers go. A matrix instruction is one statement.
  first_unrolled_ = store.depth;
  u32 first_mma = 0;
  while (first_mma < store.depth && !program.loop_of(store, first_mma).is_mma) ++first_mma;
  double instances = 1;
  for (u32 p = store.depth; p-- > 0;) {
    if (roles_[p] == Role::Thread) continue;
    if (p < first_mma) instances *= static_cast<double>(program.loop_of(store, p).extent);
    if (roles_[p] != Role::Inner || instances > kMostUnrolled) break;
    if (is_unrolled(p)) first_unrolled_ = p;
  }
  for (u32 p = first_unrolled_; p < store.depth; ++p) {
    if (roles_[p] == Role::Inner) roles_[p] = Role::Body;
  }
}

// How many passes of the loop around it a copy into shared memory is ahead, plus one.
double GpuDraft::stages_of(const FlatProgram& program, const FlatStore& store, const FlatAccess& access) {
  double stages = 1;
  if (scope_of(program, access) != Scope::Shared) return stages;
  u32 home = program.home_depth(program.buffers[access.buffer]);
  if (home > 0 && home <= store.depth) stages = static_cast<double>(program.loop_of(store, home - 1).stages);
  return std::max(1.0, stages);
}

// Of what is written to shared memory ahead.
bool GpuDraft::is_async(const FlatProgram& program, const FlatStore& store) {
  bool found = false;
  if (stages_of(program, store, program.accesses[store.first_access]) < 2) return false;
  for (u32 p = 0; p < store.depth; ++p) found |= program.loop_of(store, p).is_async;
  return found;
}

GpuDraft::Body GpuDraft::body_of(const FlatProgram& program, const FlatStore& store) const {
  Body body;
  for (u32 p = 0; p < store.depth; ++p) {
    double extent = static_cast<double>(program.loop_of(store, p).extent);
    if (roles_[p] == Role::Thread) body.threads *= extent;
    if (roles_[p] == Role::Outer) body.outer *= extent;
    if (roles_[p] == Role::Inner) body.runs *= extent;
    if (roles_[p] == Role::Body) body.instances *= extent;
  }
  for (u32 p = 0; p < store.depth; ++p) {
    body.is_mma |= program.loop_of(store, p).is_mma;
    body.is_ahead |= program.loop_of(store, p).is_ahead;
    if (body.is_mma) body.mma_points *= static_cast<double>(program.loop_of(store, p).extent);
  }
  body.warps = std::ceil(body.threads / kWarp);
  return body;
}

void GpuDraft::add_storage(const FlatProgram& program, const FlatStore& store, KernelEstimate& kernel,
                           double& operands) {
  read_roles(program, store);
  const FlatAccess& target = program.accesses[store.first_access];
  double loaded = 0, all = 0;
  for (u32 a = store.first_access; a < store.first_access + store.accesses; ++a) {
    const FlatAccess& access = program.accesses[a];
    const FlatBuffer& buffer = program.buffers[access.buffer];
    double words = buffer.element_bytes / 4;
    Scope scope = scope_of(program, access);
    // Operands of one step of a reduction are held at once, and of later steps what compilers load ahead.
    if (!is_in_registers(program, access) && !access.is_write) {
      loaded += words * elements_in(program, store, access, [&](u32 p) {
                  return roles_[p] == Role::Body && moves(program, target, p) ? 1.0 : 0.0;
                });
      all += words * elements_in(program, store, access, [&](u32 p) { return roles_[p] == Role::Body ? 1.0 : 0.0; });
    }
    if (scope == Scope::Shared) add_shared(program, store, access, static_cast<u32>(&kernel - kernels_.data()));
    if (scope == Scope::Global || scope == Scope::Shared || is_counted_[access.buffer]) continue;
    is_counted_[access.buffer] = 1;
    u32 home = program.home_depth(buffer);
    double elements = elements_in(program, store, access, [&](u32 p) { return p >= home ? 1.0 : 0.0; });
    double threads = 1;
    for (u32 p = home; p < store.depth; ++p) {
      if (roles_[p] == Role::Thread) threads *= static_cast<double>(program.loop_of(store, p).extent);
    }
    kernel.registers += words * std::max(1.0, elements / threads);
  }
  operands = std::max({operands, loaded, std::min(all, kLoadedAhead)});
}

void GpuDraft::find_steps(const FlatProgram& program) {
  steps_.assign(program.loops.size(), {0, 0});
  for (u32 i = static_cast<u32>(program.stores.size()); i-- > 0;) {
    const FlatStore& store = program.stores[i];
    for (u32 p = 0; p < store.depth; ++p) {
      Steps& steps = steps_[program.chain[store.first_loop + p]];
      steps = {i, std::max(i, steps.last)};
    }
  }
}

// A buffer is needed from its first access to the last one, and as long as loops run that have one inside and do not make it anew.
void GpuDraft::add_shared(const FlatProgram& program, const FlatStore& store, const FlatAccess& access, u32 kernel) {
  const FlatBuffer& buffer = program.buffers[access.buffer];
  u32 home = program.home_depth(buffer), now = static_cast<u32>(&store - program.stores.data());
  Steps steps = home < store.depth ? steps_[program.chain[store.first_loop + home]] : Steps{now, now};
  u32& known = shared_of_[access.buffer];
  if (known == 0) {
    double elements = elements_in(program, store, access, [&](u32 p) { return p >= home ? 1.0 : 0.0; });
    shared_.push_back({kernel, elements * buffer.element_bytes * stages_of(program, store, access), steps});
    known = static_cast<u32>(shared_.size());
  }
  Steps& needed = shared_[known - 1].needed;
  needed = {std::min(needed.first, steps.first), std::max(needed.last, steps.last)};
}

double GpuDraft::most_shared(u32 kernel) const {
  double most = 0;
  for (const SharedBuffer& at : shared_) {  // most is needed when one begins to be
    double sum = 0;
    for (const SharedBuffer& other : shared_) {
      bool is_needed = other.needed.first <= at.needed.first && at.needed.first <= other.needed.last;
      sum += other.kernel == kernel && is_needed ? other.bytes : 0;
    }
    most = at.kernel == kernel ? std::max(most, sum) : most;
  }
  return most;
}

// The first warp's request, counted: for shared memory the words of the fullest bank, for global memory its sectors. What is written in 8 or
// 16 bytes goes by halves or quarters of the warp; of what is read, equal words are brought once. After lanes_.start().
double GpuDraft::wavefronts(const FlatProgram& program, const FlatStore& store, const FlatAccess& access, i64 width) {
  const FlatBuffer& buffer = program.buffers[access.buffer];
  bool is_shared = buffer.buffer->scope == Scope::Shared;
  const FlatDim* dims = dims_of(program, access);
  double extents[32];
  u32 home = program.home_depth(buffer);
  box_of(
      program, store, access, [&](u32 p) { return p >= home ? 1.0 : 0.0; }, extents);
  // 1. Where each lane's element lies.
  Lanes offsets{}, index;
  i64 stride = 1, row = 0;
  for (u32 d = access.rank; d-- > 0;) {
    lanes_.evaluate(access.indices[d], index);
    for (std::size_t l = 0; l < kLanes; ++l) offsets[l] += index[l] * stride;
    stride *= static_cast<i64>(is_shared ? extents[d] : dims[d].extent);
    if (is_shared && d > 0) stride = padded(buffer.buffer, d - 1, stride);
    if (d + 1 == access.rank) row = stride;
  }
  // 2. Different words or sectors of these.
  i64 each = static_cast<i64>(buffer.element_bytes), unit = is_shared ? 4 : static_cast<i64>(kSector);
  std::optional<XorLayout> layout = is_shared ? layout_of(buffer, row) : std::nullopt;
  i64 at_once = is_shared && access.is_write ? std::max<i64>(1, kLanes * unit / std::max(unit, width * each)) : kLanes;
  double rounds = 0;
  words_.clear();
  for (int lane = 0; lane < kLanes; ++lane) {
    if (lane > 0 && lane % at_once == 0) rounds += words_of_fullest_bank(words_), words_.clear();
    if (!lanes_.is_active(lane)) continue;
    i64 first = offsets[static_cast<std::size_t>(lane)] * each;
    if (layout && first >= 0) first = layout->place(first);
    for (i64 word = first / unit; word <= (first + width * each - 1) / unit; ++word) words_.push_back(word);
  }
  std::sort(words_.begin(), words_.end());
  words_.erase(std::unique(words_.begin(), words_.end()), words_.end());
  if (!is_shared) return std::max(1.0, static_cast<double>(words_.size()) / kSectorsPerWavefront);
  return std::max(1.0, rounds + words_of_fullest_bank(words_));
}

// How many different elements the lanes of a warp name. After lanes_.start().
double GpuDraft::lanes_apart(const FlatProgram& program, const FlatAccess& access) {
  const FlatDim* dims = dims_of(program, access);
  Lanes offsets{}, index;
  for (u32 d = 0; d < access.rank; ++d) {
    lanes_.evaluate(access.indices[d], index);
    for (std::size_t l = 0; l < kLanes; ++l) offsets[l] = offsets[l] * static_cast<i64>(dims[d].extent) + index[l];
  }
  words_.assign(offsets.begin(), offsets.end());
  std::sort(words_.begin(), words_.end());
  return static_cast<double>(std::unique(words_.begin(), words_.end()) - words_.begin());
}

// Of 8 rows by 16 bytes, which ldmatrix brings at once: rows of the buffer, be they turned or not.
double GpuDraft::wavefronts_of_piece(const FlatProgram& program, const FlatStore& store, const FlatAccess& access) {
  const FlatBuffer& buffer = program.buffers[access.buffer];
  if (buffer.buffer->scope != Scope::Shared || access.rank < 2) return 1;
  double extents[32];
  u32 home = program.home_depth(buffer);
  box_of(
      program, store, access, [&](u32 p) { return p >= home ? 1.0 : 0.0; }, extents);
  i64 row = padded(buffer.buffer, access.rank - 2, static_cast<i64>(extents[access.rank - 1]));
  std::optional<XorLayout> layout = layout_of(buffer, row);
  words_.clear();
  for (i64 r = 0; r < kMmaRows; ++r) {
    i64 first = r * row * static_cast<i64>(buffer.element_bytes);
    if (layout) first = layout->place(first);
    for (i64 word = 0; word < kMmaRow / 4; ++word) words_.push_back(first / 4 + word);
  }
  return words_of_fullest_bank(words_);
}

// What a thread computes. A copy has one test for all that one load brings, of which padding has all or none.
double GpuDraft::arithmetic_of(const FlatProgram& program, const FlatStore& store, const Body& body) {
  if (!std::all_of(store.node->values.begin(), store.node->values.end(), is_copy)) {
    thread_loops_.clear();
    for (u32 p = 0; p < store.depth; ++p) {
      bool is_own = roles_[p] == Role::Outer || roles_[p] == Role::Inner || roles_[p] == Role::Body;
      thread_loops_.push_back({is_own ? static_cast<double>(program.loop_of(store, p).extent) : 1.0, roles_[p] == Role::Body});
    }
    return thread_work(program, store, thread_loops_, body.is_mma);
  }
  std::optional<i64> width;  // of the narrowest load; registers are not loaded
  for (u32 a = store.first_access; a < store.first_access + store.accesses; ++a) {
    const FlatAccess& access = program.accesses[a];
    if (access.is_write || is_in_registers(program, access)) continue;
    i64 here = width_of(program, store, access, first_unrolled_);
    width = std::min(width.value_or(here), here);
  }
  return body.outer * body.runs * body.instances * test_of(store.ops) / static_cast<double>(width.value_or(1));
}

// Returns the requests of one thread.
double GpuDraft::add_requests(const FlatProgram& program, const FlatStore& store, const FlatAccess& access,
                              const Body& body, KernelEstimate& kernel) {
  i64 width = narrowest_ > 0 ? narrowest_ : width_of(program, store, access, first_unrolled_);
  double requests = elements_in(program, store, access, [&](u32 p) { return roles_[p] == Role::Body ? 1.0 : 0.0; });
  // Of the operands of matrix instructions, pieces: what all lanes name, each once.
  double piece = static_cast<double>(kMmaRow * kMmaRows) / program.buffers[access.buffer].element_bytes;
  requests /= body.is_mma ? piece / lanes_apart(program, access) : static_cast<double>(width);
  // Loops of a thread inside of all that move the access do not repeat it.
  double repeated = 1;
  for (u32 p = store.depth; p-- > 0 && !moves(program, access, p);) {
    if (roles_[p] == Role::Inner) repeated *= static_cast<double>(program.loop_of(store, p).extent);
  }
  requests *= body.runs / repeated * body.outer * store.share;
  if (!body.is_mma) {
    // Copies of 16 bytes pass L1 by on their way.
    double turns = wavefronts(program, store, access, width);
    bool is_past_l1 = narrowest_ > 0 && !access.is_write && static_cast<double>(width) * program.buffers[access.buffer].element_bytes >= kWidest;
    kernel.shared += is_past_l1 ? 0 : requests * body.warps * turns;
    if (access.is_write && scope_of(program, access) == Scope::Global && store.share > 0)
      stored_bytes_ += requests / store.share * body.warps * static_cast<double>(words_.size()) * kSector;
    return requests;
  }
  kernel.shared += requests * body.warps * wavefronts_of_piece(program, store, access);
  return requests / (scope_of(program, access) == Scope::Shared ? kLdmatrix : 1);
}

void GpuDraft::add_store(const FlatProgram& program, const FlatStore& store, KernelEstimate& kernel) {
  read_roles(program, store);
  Body body = body_of(program, store);
  const Store* node = store.node;
  double lanes =
      static_cast<double>(node->targets[0].buffer->dtype == DType::F64 ? device_.f64_per_cycle : device_.f32_per_cycle);
  // Operands of half the size are multiplied twice as fast.
  if (body.is_mma && device_.tensor_f16_per_cycle > 0 && store.accesses > 1) {
    double bytes = program.buffers[program.accesses[store.first_access + store.accesses - 1].buffer].element_bytes;
    lanes = 2 * static_cast<double>(device_.tensor_f16_per_cycle) / bytes;
  }
  double arithmetic = store.share * arithmetic_of(program, store, body);
  double instructions = arithmetic / body.mma_points + kLoopInstructions * body.outer * body.runs;
  bool reads_memory = false, reads_shared = false;
  stored_bytes_ = 0;
  // An asynchronous copy moves what lies together on both sides.
  narrowest_ = 0;
  bool copies_async = is_async(program, store);
  for (u32 a = store.first_access; copies_async && a < store.first_access + store.accesses; ++a) {
    i64 width = width_of(program, store, program.accesses[a], first_unrolled_);
    narrowest_ = narrowest_ > 0 ? std::min(narrowest_, width) : width;
  }
  lanes_.start(program, store, kernel.threads, variables_);
  for (u32 a = store.first_access; a < store.first_access + store.accesses; ++a) {
    const FlatAccess& access = program.accesses[a];
    if (is_in_registers(program, access)) continue;
    bool is_repeated = a > store.first_access && !access.is_write &&
                       is_same(program, store, program.accesses[a - 1], access) && !program.accesses[a - 1].is_write;
    if (!is_repeated) instructions += add_requests(program, store, access, body, kernel);
    bool is_shared = scope_of(program, access) == Scope::Shared;
    reads_memory |= !access.is_write && !is_shared;
    reads_shared |= !access.is_write && is_shared;
  }
  kernel.fma += arithmetic * body.warps * kWarp / lanes;
  kernel.issue += instructions * body.warps / kSchedulers;
  double latency = reads_memory   ? static_cast<double>(device_.memory_latency)
                   : reads_shared ? static_cast<double>(device_.shared_latency)
                                  : 0;
  double stages = stages_of(program, store, program.accesses[store.first_access]);
  if (reads_memory && narrowest_ > 0) latency /= stages * stages;  // what is copied ahead has mostly arrived
  double loads = body.runs > 1 ? std::max(1.0, body.runs / kAhead) : 1;
  if (body.is_mma && !body.is_ahead) loads *= steps_of_sum(program, store);
  // Behind a barrier all warps wait for what they load first. Later they are apart.
  kernel.wait += body.outer * (latency + kBarrier);
  double computes = std::max(arithmetic * kWarp / lanes * kSchedulers, instructions);
  kernel.warp_wait += body.outer * latency * (loads - 1) + std::max(0.0, chain_of(program, store, body) - computes);
  kernel.warp_instructions += instructions;
  add_traffic(program, store, kernel);
}

// Of matrix instructions whose code is written out: how many follow each other for one tile of sums.
double GpuDraft::steps_of_sum(const FlatProgram& program, const FlatStore& store) const {
  const FlatAccess& target = program.accesses[store.first_access];
  double steps = 1;
  for (u32 p = 0; p < store.depth && !program.loop_of(store, p).is_mma; ++p) {
    if (roles_[p] == Role::Body && !moves(program, target, p)) steps *= static_cast<double>(program.loop_of(store, p).extent);
  }
  return steps;
}

// Cycles that a thread's sums take at least: those of one result follow each other.
double GpuDraft::chain_of(const FlatProgram& program, const FlatStore& store, const Body& body) const {
  const FlatAccess& target = program.accesses[store.first_access];
  double results = elements_in(program, store, target, [&](u32 p) { return roles_[p] == Role::Body ? 1.0 : 0.0; });
  return body.outer * body.runs * body.instances / results * kArithmeticLatency * store.share;
}

double GpuDraft::l1_bytes(const KernelEstimate& kernel) const {
  double blocks = std::max(1, kernel.occupancy);
  return std::max(kLeastL1, static_cast<double>(device_.shared_per_multiprocessor) - blocks * kernel.shared_bytes) /
         blocks;
}

// Bytes that one block gets through L2 for each of the store's accesses to global memory, into `traffic_`.
void GpuDraft::measure_block(const FlatProgram& program, const FlatStore& store, const KernelEstimate& kernel) {
  traffic_.clear();
  for (u32 a = store.first_access; a < store.first_access + store.accesses; ++a) {
    const FlatAccess& access = program.accesses[a];
    bool is_repeated =
        a > store.first_access && !access.is_write && is_same(program, store, program.accesses[a - 1], access);
    if (scope_of(program, access) == Scope::Global && !is_repeated) traffic_.push_back({&access, 0});
  }
  // 1. The outermost serial loop inside of which all that the block touches fits into L1.
  auto inside = [&](u32 from) {
    return [this, from](u32 p) {
      return roles_[p] == Role::Thread || (roles_[p] != Role::Block && p >= from) ? 1.0 : 0.0;
    };
  };
  u32 fitting = store.depth;
  for (u32 from = store.depth; from-- > 0;) {
    double bytes = 0;
    for (const Traffic& one : traffic_) bytes += bytes_in(program, store, *one.access, inside(from));
    if (bytes > l1_bytes(kernel)) break;
    fitting = from;
  }
  // 2. Loops outside of it come back to what they do not move; what they move, they go through once.
  for (Traffic& one : traffic_) {
    double passes = 1, repeats = 1;
    for (u32 p = 0; p < fitting; ++p) {
      if (roles_[p] == Role::Block || roles_[p] == Role::Thread) continue;
      double extent = static_cast<double>(program.loop_of(store, p).extent);
      passes *= extent;
      if (!moves(program, *one.access, p)) repeats *= extent;
    }
    one.bytes = std::min(passes * bytes_in(program, store, *one.access, inside(fitting)),
                         repeats * bytes_in(program, store, *one.access, inside(0)));
  }
}

void GpuDraft::add_traffic(const FlatProgram& program, const FlatStore& store, KernelEstimate& kernel) {
  measure_block(program, store, kernel);
  // What the blocks of a wave share is read from memory once.
  double at_once = static_cast<double>(device_.multiprocessors) * std::max(1, kernel.occupancy), part[3];
  double blocks = static_cast<double>(kernel.blocks()), waves = std::ceil(blocks / at_once);
  for (std::size_t d = 0; d < 3; ++d) {
    double extent = static_cast<double>(kernel.grid[d]);
    part[d] = std::clamp(at_once, 1.0, extent) / extent;
    at_once /= extent;
  }
  auto of_wave = [&](u32 p) { return roles_[p] == Role::Block ? part[program.loop_of(store, p).axis] : 1.0; };
  double unique = 0, by_waves = 0, through_l2 = 0, boxes_stored = 0;
  for (const Traffic& one : traffic_) {
    boxes_stored += one.access->is_write ? one.bytes : 0;
    unique += bytes_in(program, store, *one.access, [](u32) { return 1.0; });
    by_waves += waves * bytes_in(program, store, *one.access, of_wave);
    through_l2 += one.bytes * blocks;
  }
  through_l2 = std::max(through_l2 + std::max(0.0, stored_bytes_ - boxes_stored) * blocks, unique);
  bool fits = unique <= static_cast<double>(device_.l2_bytes);
  kernel.l2_bytes += store.share * through_l2;
  kernel.dram_bytes += store.share * (fits ? unique : std::clamp(by_waves, unique, through_l2));
}

}  // namespace tw
