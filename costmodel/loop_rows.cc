#include "costmodel/loop_rows.h"

#include <algorithm>

#include "costmodel/log_scale.h"
#include "dsl/base/check.h"

namespace tw {
namespace {

constexpr int kTouched = 4;  // buffers of a node that have columns
constexpr int kLoopKinds = 5, kAxes = 6;

const char* const kNodeNames[] = {"is_loop", "is_store", "is_root"};
const char* const kLoopNames[] = {"extent",      "serial",   "parallel", "vectorize", "unroll",
                                  "bind",        "block_x",  "block_y",  "block_z",   "thread_x",
                                  "thread_y",    "thread_z", "top_down", "bottom_up", "reduces",
                                  "auto_unroll", "stages",   "is_async", "is_mma",    "prefetch"};
const char* const kTouchNames[] = {"read",  "write",  "param", "prepacked", "bytes_accessed",
                                   "bytes", "stride", "stays", "reuse"};
const char* const kStoreNames[] = {"executions", "share", "is_init"};
constexpr int kNodeColumns = std::size(kNodeNames), kLoopColumns = std::size(kLoopNames),
              kTouchColumns = std::size(kTouchNames), kStoreColumns = std::size(kStoreNames);
constexpr int kFirstTouch = kNodeColumns + kLoopColumns, kFirstStore = kFirstTouch + kTouched * kTouchColumns,
              kFirstOp = kFirstStore + kStoreColumns, kParent = kFirstOp + kOps;

float flag(bool value) { return value ? 1.0f : 0.0f; }

std::vector<std::string> make_names() {
  std::vector<std::string> names(std::begin(kNodeNames), std::end(kNodeNames));
  names.insert(names.end(), std::begin(kLoopNames), std::end(kLoopNames));
  for (int buffer = 0; buffer < kTouched; ++buffer) {
    for (const char* name : kTouchNames) names.push_back("B" + std::to_string(buffer) + "." + name);
  }
  names.insert(names.end(), std::begin(kStoreNames), std::end(kStoreNames));
  for (int op = 0; op < kOps; ++op) names.push_back("op_" + std::to_string(op));
  names.emplace_back("parent");
  return names;
}

}  // namespace

int loop_columns() { return kParent + 1; }

const std::vector<std::string>& loop_column_names() {
  static const std::vector<std::string> names = make_names();
  return names;
}

void LoopRows::extract(const Program& program, std::vector<float>& rows) {
  const FlatProgram& flat = contexts_.read(program);
  rows.clear();
  waiting_.assign(1, {});
  std::vector<u32> open;  // loops around the last store
  for (const FlatStore* store : contexts_.stores()) {
    auto chain = flat.chain.begin() + store->first_loop;
    auto same = static_cast<std::size_t>(std::mismatch(open.begin(), open.end(), chain, chain + store->depth).first -
                                         open.begin());
    for (; open.size() > same; open.pop_back()) add_loop(flat, open.back(), rows);
    open.insert(open.end(), chain + static_cast<std::ptrdiff_t>(same), chain + store->depth);
    waiting_.resize(open.size() + 1);
    add_store(flat, *store, rows);
  }
  for (; !open.empty(); open.pop_back()) add_loop(flat, open.back(), rows);
  add_row(rows)[2] = 1;
  close(0, rows);
}

float* LoopRows::add_row(std::vector<float>& rows) {
  rows.resize(rows.size() + static_cast<std::size_t>(loop_columns()));
  return rows.data() + rows.size() - loop_columns();
}

// The last row is the parent of all that wait at this depth, and waits itself for the parent one higher.
void LoopRows::close(int depth, std::vector<float>& rows) {
  int last = static_cast<int>(rows.size()) / loop_columns() - 1;
  for (int child : waiting_[depth]) rows[child * loop_columns() + kParent] = static_cast<float>(last - child);
  waiting_.resize(depth);
  if (depth > 0) waiting_.back().push_back(last);
}

void LoopRows::add_loop(const FlatProgram& flat, u32 number, std::vector<float>& rows) {
  const FlatLoop& loop = flat.loops[number];
  const LoopContext& context = contexts_.of(number);
  float* row = add_row(rows);
  row[0] = 1;
  float* out = row + kNodeColumns;
  *out++ = slog(static_cast<double>(loop.extent));
  out[static_cast<int>(loop.kind)] = 1;
  out += kLoopKinds;
  if (loop.axis >= 0) out[loop.axis] = 1;
  out += kAxes;
  for (float value : {slog(context.top_down), slog(context.bottom_up), flag(context.reduces),
                      slog(static_cast<double>(loop.auto_unroll)), slog(static_cast<double>(loop.stages - 1)),
                      flag(loop.is_async), flag(loop.is_mma), slog(static_cast<double>(loop.prefetch))})
    *out++ = value;
  TW_CHECK(out == row + kFirstTouch, "a row of loops is not complete");
  add_touches(flat, contexts_.touches_of(number), row);
  close(loop.depth + 1, rows);
}

void LoopRows::add_store(const FlatProgram& flat, const FlatStore& store, std::vector<float>& rows) {
  float* row = add_row(rows);
  row[1] = 1;
  add_touches(flat, contexts_.touches_of(store), row);
  float* out = row + kFirstStore;
  *out++ = slog(store.iterations);
  *out++ = static_cast<float>(store.share);
  *out++ = flag(store.is_init);
  for (int op = 0; op < kOps; ++op) *out++ = slog(static_cast<double>(store.ops[op]) + store.index_ops[op]);
  waiting_[store.depth].push_back(static_cast<int>(rows.size()) / loop_columns() - 1);
}

// Most bytes accessed first; of equal ones those that are written, then in order of first access.
void LoopRows::add_touches(const FlatProgram& flat, std::span<const BufferTouch> touches, float* row) {
  auto bytes = [&](const BufferTouch& touch, double elements) {
    return elements * flat.buffers[touch.buffer].element_bytes;
  };
  largest_.clear();
  std::copy_if(touches.begin(), touches.end(), std::back_inserter(largest_),
               [](const BufferTouch& touch) { return touch.accesses > 0; });
  std::stable_sort(largest_.begin(), largest_.end(), [&](const BufferTouch& a, const BufferTouch& b) {
    return std::pair(bytes(a, a.accesses), a.is_write) > std::pair(bytes(b, b.accesses), b.is_write);
  });
  float* out = row + kFirstTouch;
  for (const BufferTouch& touch : std::span(largest_).first(std::min<std::size_t>(kTouched, largest_.size()))) {
    const FlatBuffer& buffer = flat.buffers[touch.buffer];
    for (float value : {flag(touch.is_read), flag(touch.is_write), flag(buffer.is_param), flag(buffer.is_prepacked),
                        slog(bytes(touch, touch.accesses)), slog(bytes(touch, touch.elements)), slog(touch.stride),
                        flag(touch.stride == 0), slog(touch.reuse())})
      *out++ = value;
  }
}

}  // namespace tw
