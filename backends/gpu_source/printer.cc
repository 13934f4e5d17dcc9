#include "backends/gpu_source/printer.h"

#include <algorithm>

#include "backends/gpu_source/index_width.h"
#include "dsl/base/check.h"
#include "dsl/base/text.h"
#include "dsl/ir/walk.h"

namespace tw::gpu {
namespace {

constexpr const char* kReserved[] = {
    "auto",   "bool",     "break",    "case",      "char",     "const",   "constant", "continue", "default",  "do",
    "double", "else",     "enum",     "extern",    "float",    "for",     "global",   "goto",     "half",     "if",
    "inline", "int",      "kernel",   "local",     "long",     "private", "region",   "register", "restrict", "return",
    "short",  "signed",   "sizeof",   "static",    "struct",   "switch",  "typedef",  "uchar",    "uint",     "ulong",
    "union",  "unsigned", "ushort",   "void",      "volatile", "while",   "size_t",   "barrier",  "select",   "convert",
    "exp",    "expf",     "log",      "logf",      "sqrt",     "sqrtf",   "rsqrt",    "rsqrtf",   "tanh",     "tanhf",
    "erf",    "erff",     "fabs",     "fabsf",     "floor",    "floorf",  "ceil",     "ceilf",    "rint",     "rintf",
    "pow",    "powf",     "blockIdx", "threadIdx", "blockDim", "gridDim", "class",    "template", "new",      "delete",
    "this",   "y0",       "y1",       "j0",        "j1",       "yn",      "jn",       "gamma",    "INFINITY", "NAN",
    "event_t"};

bool fits_int(const Buffer* buffer) { return elements_of(buffer) < (i64{1} << 31); }

const char* space_of(const Language& language, Scope scope) {
  if (!language.has_vectors) return "";
  return scope == Scope::Shared ? "__local " : scope == Scope::Global ? "__global " : "__private ";
}

bool is_power_of_two(int lanes) { return lanes > 0 && lanes <= 16 && (lanes & (lanes - 1)) == 0; }

// The accesses of one Register buffer, as far as they are contiguous.
struct Accesses {
  bool fit = true;                    // every place is a constant
  std::set<std::pair<i64, int>> all;  // first element, lanes
};

void add_access(Accesses& accesses, const Expr* index) {
  int lanes = index->type.lanes;
  if (const Expr* first = first_index(index)) {
    std::optional<i64> at = constant_of(first);
    if (!at)
      accesses.fit = false;
    else
      accesses.all.emplace(*at, lanes);
    return;
  }
  const Ramp* ramp = as<Ramp>(index);
  std::optional<i64> base = ramp ? constant_of(ramp->base) : std::nullopt,
                     stride = ramp ? constant_of(ramp->stride) : std::nullopt;
  if (!base || !stride) {
    accesses.fit = false;
    return;
  }
  for (int i = 0; i < lanes; ++i) accesses.all.emplace(*base + i * *stride, 1);
}

// Widest first, so that narrower accesses become components; none if two overlap in part.
std::map<i64, int> pieces_of(const Accesses& accesses, bool only_scalars) {
  std::map<i64, int> out;
  if (!accesses.fit) return out;
  std::vector<std::pair<int, i64>> by_lanes;
  for (const auto& [at, lanes] : accesses.all) {
    if (!only_scalars && is_power_of_two(lanes))
      by_lanes.emplace_back(lanes, at);
    else
      for (int i = 0; i < lanes; ++i) by_lanes.emplace_back(1, at + i);
  }
  std::sort(by_lanes.begin(), by_lanes.end(), [](const auto& a, const auto& b) {
    return a.first > b.first || (a.first == b.first && a.second < b.second);
  });
  for (const auto& [lanes, at] : by_lanes) {
    auto after = out.upper_bound(at);
    bool inside = after != out.begin() && std::prev(after)->first + std::prev(after)->second >= at + lanes;
    if (inside) continue;
    bool meets_before = after != out.begin() && std::prev(after)->first + std::prev(after)->second > at;
    bool meets_after = after != out.end() && after->first < at + lanes;
    if (meets_before || meets_after) return {};
    out[at] = lanes;
  }
  return out;
}

}  // namespace

KernelPrinter::KernelPrinter(const Language& language, const GpuKernel& kernel, std::string name, Helpers& helpers)
    : language_(language),
      kernel_(kernel),
      name_(std::move(name)),
      helpers_(helpers),
      taken_(std::begin(kReserved), std::end(kReserved)) {
  bool is_narrow = std::all_of(kernel.params.begin(), kernel.params.end(),
                               [](const KernelParam& param) { return fits_int(param.buffer); });
  for_each<For>(kernel.body, [&](const For* loop) {
    has_warpgroup_mma_ |= find_annotation(loop->annotations, kWarpgroupMmaMark) != nullptr;
  });
  has_warpgroup_mma_ &= language.has_matrix_instructions;
  index_type_ = is_narrow && fits_int32(kernel) ? "int" : language.wide_int;
}

std::string KernelPrinter::print() {
  find_pieces();
  std::string head = signature();
  stmt(kernel_.body);
  return cat(head, " {\n", declare_shared(), text_, "}\n");
}

std::string KernelPrinter::fresh(Str wanted) {
  std::string base;
  for (char c : wanted) base += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  if (base.empty() || std::isdigit(static_cast<unsigned char>(base[0]))) base = "x" + base;
  std::string out = base;
  for (int i = 1; !taken_.insert(out).second; ++i) out = cat(base, "_", i);
  return out;
}

void KernelPrinter::release(const std::string& name) { taken_.erase(name); }
std::string KernelPrinter::temporary() { return cat("t", temporaries_++); }

const std::string& KernelPrinter::name(const Buffer* buffer) { return place(buffer).name; }

const std::string& KernelPrinter::name(const Var* var) {
  auto found = vars_.find(var);
  TW_CHECK(found != vars_.end(), "a variable without a loop");
  return found->second;
}

KernelPrinter::Place& KernelPrinter::place(const Buffer* buffer) {
  auto [found, is_new] = places_.try_emplace(buffer);
  if (is_new) {
    found->second.name = fresh(buffer->name);
    found->second.space = space_of(language_, buffer->scope);
    found->second.is_aligned = buffer->scope == Scope::Shared || buffer->scope == Scope::Global;
    if (buffer->scope == Scope::Shared) found->second.layout = xor_layout(buffer);
  }
  return found->second;
}

void KernelPrinter::find_pieces() {
  std::map<const Buffer*, Accesses> registers;
  auto look = [&](const Buffer* buffer, const Expr* index) {
    if (buffer->scope == Scope::Register) add_access(registers[buffer], index);
  };
  for_each<Load>(kernel_.body, [&](const Load* load) { look(load->buffer, load->indices[0]); });
  for_each<Store>(kernel_.body, [&](const Store* store) {
    for (const StoreTarget& target : store->targets) look(target.buffer, target.indices[0]);
  });
  for (const auto& [buffer, accesses] : registers) {
    Place& found = place(buffer);
    found.pieces = pieces_of(accesses, !language_.has_vectors);
    for (const auto& [offset, lanes] : found.pieces) taken_.insert(cat(found.name, "_", offset));
  }
}

std::optional<KernelPrinter::Piece> KernelPrinter::piece_at(const Buffer* buffer, i64 position) {
  Place& found = place(buffer);
  auto after = found.pieces.upper_bound(position);
  if (after == found.pieces.begin()) return std::nullopt;
  auto [offset, lanes] = *std::prev(after);
  return Piece{cat(found.name, "_", offset), offset, lanes};
}

std::string KernelPrinter::signature() {
  std::string prefix = language_.kernel_prefix;
  auto fill = [&](const char* hole, const std::string& value) {
    if (std::size_t at = prefix.find(hole); at != std::string::npos) prefix.replace(at, 2, value);
  };
  const std::array<i64, 3>& threads = kernel_.extents.threads;
  i64 min_blocks = 0;
  for_each<For>(kernel_.body, [&](const For* loop) {
    if (const Annotation* mark = find_annotation(loop->annotations, kMinBlocksMark))
      min_blocks = std::max(min_blocks, mark->value.integer);
  });
  fill("%x", std::to_string(threads[0])), fill("%y", std::to_string(threads[1])),
      fill("%z", std::to_string(threads[2]));
  fill("%b", cat(kernel_.extents.threads_of_group(), min_blocks > 0 ? cat(", ", min_blocks) : ""));
  std::vector<std::string> params;
  for (const KernelParam& param : kernel_.params) {
    params.push_back(cat(language_.pointer, param.is_written ? "" : "const ", type(param.buffer->dtype, 1), "* ",
                         language_.restrict_word, " ", place(param.buffer).name));
  }
  return cat(prefix, name_, "(", join(params, ", "), ")");
}

}  // namespace tw::gpu
