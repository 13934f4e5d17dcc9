#include "costmodel/gpu/requests.h"

#include <algorithm>

namespace tw {
namespace {

constexpr double kBanks = 32;
constexpr i64 kSectorsOfLine = 4;          // of L1
constexpr double kPartSector = 6;          // how much more L2 has to do for a sector that is written in part
constexpr i64 kWord = 4;                   // bytes of a bank
constexpr i64 kMmaRow = 16, kMmaRows = 8;  // bytes of a row of a piece of an operand, and its rows
constexpr i64 kLdmatrix = 4;               // pieces that come at once

// The stride of a dimension, in elements, with the padding of its buffer.
i64 padded(const Buffer* buffer, u32 axis, i64 stride) {
  for (const StrideRule& rule : buffer->stride_rules) {
    if (rule.axis == static_cast<i64>(axis))
      stride += ((rule.offset - stride) % rule.factor + rule.factor) % rule.factor;
  }
  return stride;
}

// Of what is left of a buffer with rows of so many elements.
std::optional<XorLayout> layout_of(const FlatBuffer& buffer, i64 row) {
  std::optional<XorLayout> layout = buffer.buffer->layout.empty() ? std::nullopt : xor_layout(buffer.buffer);
  if (layout) layout->span = xor_span(row * static_cast<i64>(buffer.element_bytes));
  return layout;
}

template <class T>
void keep_different(std::vector<T>& values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

double words_of_fullest_bank(std::vector<i64>& words) {
  keep_different(words);
  int used[static_cast<int>(kBanks)] = {}, most = 0;
  for (i64 word : words)
    most = std::max(most, ++used[static_cast<std::size_t>(word) % static_cast<std::size_t>(kBanks)]);
  return most;
}

// Do lanes in pairs of neighbours, or of next but one neighbours, name the same?
bool are_pairs(const Lanes& offsets) {
  auto are = [&](std::size_t apart) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      if (offsets[lane] != offsets[lane ^ apart]) return false;
    }
    return true;
  };
  return are(1) || are(2);
}

// The number of different lines that the sorted sectors lie in.
double lines_of(const std::vector<i64>& sectors) {
  double lines = 0;
  for (std::size_t i = 0; i < sectors.size(); ++i)
    lines += i == 0 || sectors[i] / kSectorsOfLine != sectors[i - 1] / kSectorsOfLine;
  return lines;
}

// By whole lines: elements of padding lie before the first one of their buffer, and division rounds towards zero.
void move_behind_zero(Lanes& offsets, i64 line) {
  i64 first = *std::min_element(offsets.begin(), offsets.end());
  i64 lines = first < 0 ? (line - 1 - first) / line : 0;
  for (i64& offset : offsets) offset += lines * line;
}

}  // namespace

void Requests::add(const StoreLoops& store, u32 variables, KernelEstimate& kernel, double& instructions) {
  stored_bytes_ = 0;
  split_ = 1;
  lanes_.start(store.program, store.flat, kernel.threads, variables);
  for (const FlatAccess& access : store.accesses()) {
    if (is_in_registers(store.program, access)) continue;
    const FlatAccess* before = store.same_before(access);
    bool is_repeated = before && !before->is_write;
    if (!is_repeated) instructions += add_access(store, access, kernel);
  }
}

// Returns the instructions of one thread.
double Requests::add_access(const StoreLoops& store, const FlatAccess& access, KernelEstimate& kernel) {
  const FlatProgram& program = store.program;
  if (store.is_warpgroup_mma) return add_matrix(store, access, kernel);
  i64 width = store.async_width > 0 ? store.async_width : store.width_of(access);
  double each = program.buffers[access.buffer].element_bytes;
  double requests = elements_in(program, store.flat, access, store.body());
  // Of the operands of matrix instructions, pieces: what all lanes name, each once.
  double piece = static_cast<double>(kMmaRow * kMmaRows) / each;
  requests /= store.is_mma ? piece / lanes_apart(program, access) : static_cast<double>(width);
  // Loops of a thread inside of all that move the access do not repeat it.
  double repeated = 1;
  for (u32 p = store.flat.depth; p-- > 0 && !moves(program, access, p);) {
    if (store.roles[p] == LoopRole::Inner) repeated *= store.extent(p);
  }
  requests *= store.runs / repeated * store.outer * store.flat.share;
  if (store.is_mma) {
    kernel.shared += requests * store.warps * wavefronts_of_piece(store, access);
    return requests / (scope_of(program, access) == Scope::Shared ? kLdmatrix : 1);
  }
  double turns = wavefronts(store, access, width);
  if (store.is_past_l1() && access.is_write) turns = 0;  // it is counted where it is read
  if (store.is_past_l1() && !access.is_write) turns = copy_wavefronts(store, access);
  kernel.shared += requests * store.warps * turns;
  if (access.is_write && scope_of(program, access) == Scope::Global && store.flat.share > 0) {
    double sectors = static_cast<double>(words_.size()) + kPartSector * partial_sectors(store, access, width);
    stored_bytes_ += requests / store.flat.share * store.warps * sectors * kSector;
  }
  return requests;
}

// An operand of instructions of four warps. Lanes in groups of 4 name a row of sums, and each of the warps has others.
double Requests::add_matrix(const StoreLoops& store, const FlatAccess& access, KernelEstimate& kernel) {
  constexpr double kWarps = 4, kRowsOfWarp = 8, kBanksWide = kBanks * kWord;
  const FlatProgram& program = store.program;
  double lanes = lanes_apart(program, access),
         elements = elements_in(program, store.flat, access, loops_from(store.first_mma));
  if (lanes == kRowsOfWarp) lanes *= kWarps;
  double bytes = elements * lanes * program.buffers[access.buffer].element_bytes;
  kernel.shared += store.mma_count() * store.warps / kWarps * bytes / kBanksWide;
  return store.mma_count();  // its descriptor
}

// Where each lane's element lies, in elements. Returns the stride of a row. After lanes_.start().
i64 Requests::find_offsets(const StoreLoops& store, const FlatAccess& access, Lanes& offsets) const {
  const FlatBuffer& buffer = store.program.buffers[access.buffer];
  const FlatDim* dims = store.program.dims_of(access);
  bool is_shared = buffer.buffer->scope == Scope::Shared;
  double extents[kMostDims];
  box_of(store.program, access, loops_from(store.program.home_depth(buffer)), extents);
  Lanes index;
  i64 stride = 1, row = 0;
  for (u32 d = access.rank; d-- > 0;) {
    lanes_.evaluate(access.indices[d], index);
    for (std::size_t l = 0; l < kLanes; ++l) offsets[l] += index[l] * stride;
    stride *= static_cast<i64>(is_shared ? extents[d] : dims[d].extent);
    if (is_shared && d > 0) stride = padded(buffer.buffer, d - 1, stride);
    if (d + 1 == access.rank) row = stride;
  }
  if (!is_shared)
    move_behind_zero(offsets, static_cast<i64>(kSector) * kSectorsOfLine / static_cast<i64>(buffer.element_bytes));
  return row;
}

// Wavefronts of the first warp's request: for shared memory the words of the fullest bank, for global memory the lines.
// After lanes_.start().
double Requests::wavefronts(const StoreLoops& store, const FlatAccess& access, i64 width) {
  const FlatBuffer& buffer = store.program.buffers[access.buffer];
  bool is_shared = buffer.buffer->scope == Scope::Shared;
  Lanes offsets{};
  i64 row = find_offsets(store, access, offsets);
  i64 each = static_cast<i64>(buffer.element_bytes), unit = is_shared ? kWord : static_cast<i64>(kSector);
  std::optional<XorLayout> layout = is_shared ? layout_of(buffer, row) : std::nullopt;
  i64 at_once = is_shared ? std::max<i64>(1, kLanes * unit / std::max(unit, width * each)) : kLanes;
  if (is_shared && !access.is_write && at_once < kLanes && are_pairs(offsets)) at_once *= 2;
  double rounds = 0;
  words_.clear();
  for (int lane = 0; lane < kLanes; ++lane) {
    if (lane > 0 && lane % at_once == 0) rounds += words_of_fullest_bank(words_), words_.clear();
    if (!lanes_.is_active(lane)) continue;
    i64 first = offsets[static_cast<std::size_t>(lane)] * each;
    if (layout && first >= 0) first = layout->place(first);
    for (i64 word = first / unit; word <= (first + width * each - 1) / unit; ++word) words_.push_back(word);
  }
  if (is_shared) return std::max(1.0, rounds + words_of_fullest_bank(words_));
  keep_different(words_);
  return std::max(1.0, lines_of(words_));
}

// Wavefronts of the first warp's request where an asynchronous copy goes around L1; sets split_. After lanes_.start().
double Requests::copy_wavefronts(const StoreLoops& store, const FlatAccess& from) {
  const FlatAccess& to = store.target();
  Lanes source{}, target{};
  find_offsets(store, from, source);
  i64 row = find_offsets(store, to, target);
  const FlatBuffer& buffer = store.program.buffers[to.buffer];
  i64 each = static_cast<i64>(buffer.element_bytes), sector = static_cast<i64>(kSector), line = sector * kSectorsOfLine;
  std::optional<XorLayout> layout = layout_of(buffer, row);
  words_.clear(), pieces_.clear(), lines_.clear();
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    if (!lanes_.is_active(static_cast<int>(lane))) continue;
    i64 out = target[lane] * each, in = source[lane] * each;
    if (layout && out >= 0) out = layout->place(out);
    words_.push_back(in / sector);
    pieces_.emplace_back(in / sector, out / sector), lines_.emplace_back(in / line, out / line);
  }
  keep_different(words_), keep_different(pieces_), keep_different(lines_);
  split_ = static_cast<double>(pieces_.size()) / static_cast<double>(std::max<std::size_t>(1, words_.size()));
  return static_cast<double>(lines_.size()) * split_;
}

// How many sectors of global memory the first warp's request writes in part. After lanes_.start().
double Requests::partial_sectors(const StoreLoops& store, const FlatAccess& access, i64 width) {
  Lanes offsets{};
  find_offsets(store, access, offsets);
  i64 each = static_cast<i64>(store.program.buffers[access.buffer].element_bytes), sector = static_cast<i64>(kSector);
  pieces_.clear();  // sectors, and bytes of them
  for (int lane = 0; lane < kLanes; ++lane) {
    if (!lanes_.is_active(lane)) continue;
    i64 at = offsets[static_cast<std::size_t>(lane)] * each;
    for (i64 end = at + width * each; at < end;) {
      i64 next = std::min(end, (at / sector + 1) * sector);
      pieces_.emplace_back(at / sector, next - at);
      at = next;
    }
  }
  std::sort(pieces_.begin(), pieces_.end());
  double partial = 0;
  for (std::size_t i = 0, next = 0; i < pieces_.size(); i = next) {
    i64 written = 0;
    for (; next < pieces_.size() && pieces_[next].first == pieces_[i].first; ++next) written += pieces_[next].second;
    partial += written < sector;
  }
  return partial;
}

// Of 8 rows by 16 bytes, which ldmatrix brings at once: rows of the buffer, be they turned or not.
double Requests::wavefronts_of_piece(const StoreLoops& store, const FlatAccess& access) {
  const FlatBuffer& buffer = store.program.buffers[access.buffer];
  if (buffer.buffer->scope != Scope::Shared || access.rank < 2) return 1;
  double extents[kMostDims];
  box_of(store.program, access, loops_from(store.program.home_depth(buffer)), extents);
  i64 row = padded(buffer.buffer, access.rank - 2, static_cast<i64>(extents[access.rank - 1]));
  std::optional<XorLayout> layout = layout_of(buffer, row);
  words_.clear();
  for (i64 r = 0; r < kMmaRows; ++r) {
    i64 first = r * row * static_cast<i64>(buffer.element_bytes);
    if (layout) first = layout->place(first);
    for (i64 word = 0; word < kMmaRow / kWord; ++word) words_.push_back(first / kWord + word);
  }
  return words_of_fullest_bank(words_);
}

// How many different elements the lanes of a warp name. After lanes_.start().
double Requests::lanes_apart(const FlatProgram& program, const FlatAccess& access) {
  const FlatDim* dims = program.dims_of(access);
  Lanes offsets{}, index;
  for (u32 d = 0; d < access.rank; ++d) {
    lanes_.evaluate(access.indices[d], index);
    for (std::size_t l = 0; l < kLanes; ++l) offsets[l] = offsets[l] * static_cast<i64>(dims[d].extent) + index[l];
  }
  words_.assign(offsets.begin(), offsets.end());
  keep_different(words_);
  return static_cast<double>(words_.size());
}

}  // namespace tw
