#include "costmodel/features.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "costmodel/log_scale.h"
#include "dsl/base/check.h"

namespace tw {
namespace {

constexpr int kBuffers = 5, kBufferColumns = 18, kIntensitySamples = 10;

const char* const kOpNames[kOps] = {"float_mad",   "float_add_sub", "float_mul",   "float_div_mod",
                                    "float_cmp",   "float_math",    "float_other", "int_mad",
                                    "int_add_sub", "int_mul",       "int_div_mod", "int_cmp",
                                    "int_math",    "int_other",     "bool_op",     "select_op"};
const char* const kMarkNames[] = {"num",     "prod",    "len",      "none",    "inner_s", "middle_s",
                                  "outer_s", "inner_r", "middle_r", "outer_r", "mixed"};
const char* const kThreadNames[] = {"is_gpu",   "block_x",  "block_y",  "block_z",
                                    "thread_x", "thread_y", "thread_z", "vthread"};
const char* const kBufferNames[kBufferColumns] = {"read",
                                                  "write",
                                                  "read_write",
                                                  "bytes",
                                                  "unique_bytes",
                                                  "lines",
                                                  "unique_lines",
                                                  "loop_reuse",
                                                  "serial_reuse",
                                                  "no_reuse",
                                                  "reuse_iterations",
                                                  "reuse_bytes",
                                                  "reuse_count",
                                                  "bytes_per_reuse",
                                                  "unique_bytes_per_reuse",
                                                  "lines_per_reuse",
                                                  "unique_lines_per_reuse",
                                                  "stride"};
const char* const kSurroundingNames[] = {
    "alloc_bytes", "alloc_elements_all", "alloc_outer", "alloc_inner", "outer_prod", "loops", "auto_unroll_max_step"};

// 0 where both are equal, negative where a is smaller; in powers of two.
float ratio(double a, double b) { return std::clamp(std::log2(static_cast<float>((a + 1) / (b + 1))), -30.0f, 30.0f); }
float flag(bool value) { return value ? 1.0f : 0.0f; }

// Our own columns.
struct Own {
  const FlatStore& store;
  const StoreProfile& profile;
  const FeatureTarget& target;
  double arithmetic() const { return std::max(1.0, profile.fma + profile.other); }
  double loads() const { return profile.vector_loads + profile.broadcasts + profile.element_loads; }
};
struct OwnColumn {
  const char* name;
  float (*value)(const Own&);
};
template <int level, int cache>
float set_in_cache(const Own& own) {
  const i64 sizes[] = {own.target.l1_bytes, own.target.l2_bytes, own.target.l3_bytes};
  return ratio(own.profile.working_set[level], static_cast<double>(sizes[cache]));
}
// Rows do not depend on how fast the caches of a machine are: models learn that.
constexpr MachineRates kUsualRates;
const OwnColumn kOwn[] = {
    // The body.
    {"lanes", [](const Own& o) { return slog(o.profile.lanes); }},
    {"vectors", [](const Own& o) { return slog(o.profile.vectors); }},
    {"lane_use", [](const Own& o) { return static_cast<float>(o.profile.lane_use); }},
    {"body_instances", [](const Own& o) { return slog(o.profile.instances); }},
    {"body_operations", [](const Own& o) { return slog(o.arithmetic() + o.loads() + o.profile.stores); }},
    {"body_runs", [](const Own& o) { return slog(o.profile.body_runs); }},
    {"trip_count", [](const Own& o) { return slog(o.profile.trip_count); }},
    {"fma_all", [](const Own& o) { return slog(o.profile.fma * o.profile.body_runs); }},
    {"other_all", [](const Own& o) { return slog(o.profile.other * o.profile.body_runs); }},
    {"waste", [](const Own& o) { return static_cast<float>(o.profile.waste); }},
    {"is_init", [](const Own& o) { return flag(o.store.is_init); }},
    // Registers.
    {"accumulates", [](const Own& o) { return flag(o.profile.accumulates); }},
    {"in_registers", [](const Own& o) { return flag(o.profile.in_registers); }},
    {"accumulators", [](const Own& o) { return slog(o.profile.accumulators); }},
    {"operands", [](const Own& o) { return slog(o.profile.operands); }},
    {"registers_wanted",
     [](const Own& o) { return ratio(o.profile.accumulators + o.profile.operands, o.target.vector_registers); }},
    {"registers_over", [](const Own& o) { return slog(o.profile.registers_over); }},
    // Operands.
    {"loads_per_operation", [](const Own& o) { return ratio(o.loads(), o.arithmetic()); }},
    {"stores_per_operation", [](const Own& o) { return ratio(o.profile.stores, o.arithmetic()); }},
    {"vector_loads", [](const Own& o) { return slog(o.profile.vector_loads); }},
    {"broadcast_loads", [](const Own& o) { return slog(o.profile.broadcasts); }},
    {"element_loads", [](const Own& o) { return slog(o.profile.element_loads); }},
    {"reads_contiguous", [](const Own& o) { return slog(o.profile.contiguous); }},
    {"reads_broadcast", [](const Own& o) { return slog(o.profile.broadcast); }},
    {"reads_stepping", [](const Own& o) { return slog(o.profile.stepping); }},
    {"reads_by_data", [](const Own& o) { return slog(o.profile.by_data); }},
    {"reads_prepacked", [](const Own& o) { return slog(o.profile.prepacked); }},
    // Caches: what the body, the innermost loop and the two around it touch.
    {"body_in_l1", set_in_cache<0, 0>},
    {"inner_in_l1", set_in_cache<1, 0>},
    {"inner_in_l2", set_in_cache<1, 1>},
    {"middle_in_l1", set_in_cache<2, 0>},
    {"middle_in_l2", set_in_cache<2, 1>},
    {"middle_in_l3", set_in_cache<2, 2>},
    {"outer_in_l1", set_in_cache<3, 0>},
    {"outer_in_l2", set_in_cache<3, 1>},
    {"outer_in_l3", set_in_cache<3, 2>},
    {"traffic_l1", [](const Own& o) { return slog(o.profile.traffic[0]); }},
    {"traffic_l2", [](const Own& o) { return slog(o.profile.traffic[1]); }},
    {"traffic_l3", [](const Own& o) { return slog(o.profile.traffic[2]); }},
    // Time, in cycles of one core.
    {"cycles_compute", [](const Own& o) { return slog(o.profile.compute); }},
    {"cycles_latency", [](const Own& o) { return slog(o.profile.latency); }},
    {"cycles_overhead", [](const Own& o) { return slog(o.profile.overhead); }},
    {"cycles_streamed", [](const Own& o) { return slog(o.profile.streamed(kUsualRates)); }},
    {"cycles_strided", [](const Own& o) { return slog(o.profile.strided(kUsualRates)); }},
    {"cycles", [](const Own& o) { return slog(o.profile.cycles(kUsualRates) / o.profile.speed_up); }},
    // Threads.
    {"chunks", [](const Own& o) { return slog(o.profile.chunks); }},
    {"chunks_per_thread", [](const Own& o) { return slog(o.profile.chunks / o.target.threads); }},
    {"idle_threads", [](const Own& o) { return static_cast<float>(1 - o.profile.speed_up / o.target.threads); }},
    {"parallel_starts", [](const Own& o) { return slog(o.profile.starts); }},
    // Devices; and what processors are told to fetch early.
    {"groups", [](const Own& o) { return slog(o.profile.is_bound ? o.profile.groups : 0); }},
    {"group_threads", [](const Own& o) { return slog(o.profile.is_bound ? o.profile.group_threads : 0); }},
    {"points_each",
     [](const Own& o) {
       return slog(o.profile.is_bound ? o.store.iterations / (o.profile.groups * o.profile.group_threads) : 0);
     }},
    {"is_shared_copy", [](const Own& o) { return flag(o.profile.is_shared_copy); }},
    {"shared_reads", [](const Own& o) { return slog(o.profile.shared_reads); }},
    {"stages", [](const Own& o) { return slog(o.profile.stages - 1); }},
    {"is_async", [](const Own& o) { return flag(o.profile.is_async && o.profile.is_shared_copy); }},
    {"is_mma", [](const Own& o) { return flag(o.profile.is_mma); }},
    {"prefetch", [](const Own& o) { return slog(o.profile.prefetch); }},
};
constexpr int kOwnColumns = sizeof(kOwn) / sizeof(kOwn[0]);

std::vector<std::string> make_names() {
  std::vector<std::string> names;
  for (const char* op : kOpNames) names.push_back(op);
  for (const char* mark : {"vectorize", "unroll", "parallel"}) {
    for (const char* name : kMarkNames) names.push_back(std::string(mark) + "." + name);
  }
  for (const char* name : kThreadNames) names.push_back(name);
  for (int buffer = 0; buffer < kBuffers; ++buffer) {
    for (const char* name : kBufferNames) names.push_back("B" + std::to_string(buffer) + "." + name);
  }
  for (int i = 0; i < kIntensitySamples; ++i) names.push_back("intensity_" + std::to_string(i));
  for (const char* name : kSurroundingNames) names.push_back(name);
  for (const OwnColumn& column : kOwn) names.push_back(column.name);
  return names;
}

}  // namespace

int feature_columns() { return kReferenceColumns + kOwnColumns; }

const std::vector<std::string>& feature_names() {
  static const std::vector<std::string> names = make_names();
  return names;
}

void FeatureExtractor::extract(const Program& program, std::vector<float>& rows) {
  const FlatProgram& flat = reader_.read(program);
  profiler_.start(flat);
  touched_.assign(flat.loops.size() * flat.buffers.size(), {});
  touched_bytes_.assign(flat.loops.size(), 0);
  auto has_row = [](const FlatStore& store) { return !store.is_constant; };
  auto count = std::count_if(flat.stores.begin(), flat.stores.end(), has_row);
  rows.resize(static_cast<std::size_t>(count) * static_cast<std::size_t>(feature_columns()));
  out_ = rows.data();
  draft_.start();
  for (const FlatStore& store : flat.stores) {
    const std::vector<Use>& uses = footprints_.of(flat, store);
    StoreProfile profile = profiler_.profile(flat, store, uses);
    draft_.add(flat, store, profile);
    if (!has_row(store)) continue;
    remember(flat, store, uses);
    add_counts(flat, store);
    add_buffers(flat, store, uses);
    add_intensity(flat, store, uses);
    add_surroundings(flat, store, uses);
    add_profile(store, profile);
  }
  TW_CHECK(out_ == rows.data() + rows.size(), "a row of features is not complete");
}

void FeatureExtractor::pad(float value, int count) {
  for (int i = 0; i < count; ++i) add(value);
}

void FeatureExtractor::remember(const FlatProgram& program, const FlatStore& store, const std::vector<Use>& uses) {
  for (u32 p = 0; p < store.depth; ++p) {
    u32 loop = program.chain[store.first_loop + p];
    for (const Use& use : uses) {
      Touched& touched = touched_[loop * program.buffers.size() + use.buffer];
      touched.least = touched.count == 0 ? use.elements[p] : std::min(touched.least, use.elements[p]);
      touched.count += 1;
      touched_bytes_[loop] += use.elements[p] * program.buffers[use.buffer].element_bytes;
    }
  }
}

void FeatureExtractor::add_counts(const FlatProgram& program, const FlatStore& store) {
  for (int op = 0; op < kOps; ++op) {
    double each = static_cast<double>(store.ops[op]) + static_cast<double>(store.index_ops[op]);
    add(slog(each * store.iterations));
  }
  for (LoopKind kind : {LoopKind::Vectorize, LoopKind::Unroll, LoopKind::Parallel}) add_marks(program, store, kind);
  add_grid(program, store);
}

// An axis without a loop has one iteration.
void FeatureExtractor::add_grid(const FlatProgram& program, const FlatStore& store) {
  double extents[7] = {1, 1, 1, 1, 1, 1, 1};  // blockIdx, threadIdx, virtual threads
  bool is_bound = false;
  for (u32 p = 0; p < store.depth; ++p) {
    const FlatLoop& loop = program.loop_of(store, p);
    if (loop.kind != LoopKind::Bind) continue;
    is_bound = true;
    extents[loop.axis < 0 ? 6 : loop.axis] *= static_cast<double>(loop.extent);
  }
  add(flag(is_bound));
  for (double extent : extents) add(slog(extent));
}

void FeatureExtractor::add_marks(const FlatProgram& program, const FlatStore& store, LoopKind kind) {
  double count = 0, product = 1, last = 0;
  for (u32 p = 0; p < store.depth; ++p) {
    const FlatLoop& loop = program.loop_of(store, p);
    if (loop.kind != kind) continue;
    ++count;
    last = static_cast<double>(loop.extent);
    product *= last;
  }
  add(slog(count));
  add(slog(count > 0 ? product : 0));
  add(slog(last));
  // Of the positions, the reference tells only "none" and "mixed" apart.
  add(flag(count == 0));
  pad(0, 6);
  add(flag(count > 0));
}

FeatureExtractor::BufferRow FeatureExtractor::describe(const FlatProgram& program, const FlatStore& store,
                                                       const std::vector<Use>& uses, const Use& use) const {
  auto extent = [&](u32 p) { return static_cast<double>(program.loop_of(store, p).extent); };
  const FlatBuffer& buffer = program.buffers[use.buffer];
  u32 depth = store.depth;
  double each = buffer.element_bytes, line = target_.cache_line;

  // 1. The loops inside the first one that moves the access.
  u32 mover = depth;
  double still = 1;
  while (mover > 0 && use.stride[mover - 1] == 0) still *= extent(--mover);
  double least_stride = mover > 0 ? use.stride[mover - 1] : 0, stride = mover == depth ? least_stride : 0;

  // 2. The first loop from the inside that comes back to the same elements, or that touches the buffer in several
  // statements.
  double reuse_count = 0, reuse_iterations = 0, reuse_bytes = 0, inner = 1;
  bool by_loop = false, by_statements = false;
  for (u32 p = depth; p-- > 0 && !by_loop && !by_statements; inner *= extent(p)) {
    u32 loop = program.chain[store.first_loop + p];
    const Touched& touched = touched_[loop * program.buffers.size() + use.buffer];
    if (!use.moved[p]) {
      by_loop = true;
      reuse_count = extent(p);
      reuse_iterations = inner;
      if (p + 1 < depth)
        reuse_bytes = touched_bytes_[program.chain[store.first_loop + p + 1]];
      else
        for (const Use& other : uses) reuse_bytes += program.buffers[other.buffer].element_bytes;
    } else if (touched.count >= 2) {
      by_statements = true;
      reuse_count = touched.count - 1;
      reuse_iterations = touched.least / extent(p);
      reuse_bytes = touched_bytes_[loop] / extent(p);
    }
  }

  // 3. Bytes and cache lines, in all and different ones.
  double bytes = each * store.iterations, unique_bytes = 1, lines = 1, unique_lines = 1;
  if (depth > 0) {
    double side_by_side = 1;
    const FlatDim* dims = program.dims_of(program.accesses[use.first_access]);
    for (u32 i = use.rank; i-- > 0;) {
      if (use.extents[i] != dims[i].extent) continue;
      side_by_side = dims[i].extent * each;
      break;
    }
    unique_bytes = use.elements[0] * each;
    lines = std::max(1.0, store.iterations / still * std::min(1.0, least_stride * each / line));
    unique_lines = std::max(1.0, unique_bytes / std::min(line, side_by_side));
  }
  double divisor = reuse_count > 0 ? reuse_count : 0.5;
  return {lines,
          bytes,
          use.is_write ? 1u : 0u,
          {flag(use.is_read && !use.is_write), flag(!use.is_read && use.is_write), flag(use.is_read && use.is_write),
           slog(bytes), slog(unique_bytes), slog(lines), slog(unique_lines), flag(by_loop), flag(by_statements),
           flag(!by_loop && !by_statements), slog(reuse_iterations), slog(reuse_bytes), slog(reuse_count),
           slog(bytes / divisor), slog(unique_bytes / divisor), slog(lines / divisor), slog(unique_lines / divisor),
           slog(stride)}};
}

// Most cache lines first; of equal ones those that are only read (the reference goes by name, which must not count
// here).
void FeatureExtractor::add_buffers(const FlatProgram& program, const FlatStore& store, const std::vector<Use>& uses) {
  buffer_rows_.clear();
  for (const Use& use : uses) buffer_rows_.push_back(describe(program, store, uses, use));
  std::stable_sort(buffer_rows_.begin(), buffer_rows_.end(), [](const BufferRow& a, const BufferRow& b) {
    return std::tuple(-a.lines, -a.bytes, a.order) < std::tuple(-b.lines, -b.bytes, b.order);
  });
  for (std::size_t i = 0; i < kBuffers; ++i) {
    if (i >= buffer_rows_.size())
      pad(0, kBufferColumns);
    else
      for (float value : buffer_rows_[i].columns) add(value);
  }
}

// Arithmetic operations per byte touched, of loop nests from the innermost to all loops, at equal steps of operations.
void FeatureExtractor::add_intensity(const FlatProgram& program, const FlatStore& store, const std::vector<Use>& uses) {
  double operations = 0;
  for (int op = 0; op <= static_cast<int>(Op::FloatOther); ++op) operations += store.ops[op];
  if (operations <= 0 || store.depth == 0) return pad(0, kIntensitySamples);
  operations_.clear(), bytes_.clear();
  for (u32 p = store.depth; p-- > 0;) {
    operations *= static_cast<double>(program.loop_of(store, p).extent);
    double bytes = 0;
    for (const Use& use : uses) bytes += use.elements[p] * program.buffers[use.buffer].element_bytes;
    operations_.push_back(operations), bytes_.push_back(bytes);
  }
  std::size_t nest = 0;
  for (int i = 1; i <= kIntensitySamples; ++i) {
    double wanted = operations * i / kIntensitySamples;
    while (nest + 1 < operations_.size() && operations_[nest] < wanted - 1e-4) ++nest;
    double intensity = operations_[nest] / bytes_[nest];
    if (nest > 0 && operations_[nest] > operations_[nest - 1]) {
      double inner = operations_[nest - 1] / bytes_[nest - 1];
      intensity =
          inner + (intensity - inner) * (wanted - operations_[nest - 1]) / (operations_[nest] - operations_[nest - 1]);
    }
    add(slog(intensity));
  }
}

void FeatureExtractor::add_surroundings(const FlatProgram& program, const FlatStore& store,
                                        const std::vector<Use>& uses) {
  const Use& target = uses.front();
  const FlatBuffer& buffer = program.buffers[target.buffer];
  u32 home = program.home_depth(buffer);
  double outer = 1;
  for (u32 p = 0; p < home; ++p) outer *= static_cast<double>(program.loop_of(store, p).extent);
  double elements = buffer.is_param ? static_cast<double>(elements_of(buffer.buffer)) : target.elements[home];
  add(slog(elements * buffer.element_bytes));
  add(slog(elements * outer));
  add(slog(outer));
  add(slog(store.iterations / outer));
  add(slog(store.iterations));
  add(slog(store.depth));
  add(slog(store.depth > 0 ? static_cast<double>(program.loop_of(store, store.depth - 1).auto_unroll) : 0));
}

void FeatureExtractor::add_profile(const FlatStore& store, const StoreProfile& profile) {
  Own own{store, profile, target_};
  for (const OwnColumn& column : kOwn) add(column.value(own));
}

void extract_features(const Program& program, const FeatureTarget& target, std::vector<float>& rows) {
  FeatureExtractor(target).extract(program, rows);
}

}  // namespace tw
