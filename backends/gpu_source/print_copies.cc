#include "backends/gpu_source/print_copies.h"

#include <algorithm>
#include <bit>

#include "dsl/analysis/affine.h"
#include "dsl/analysis/sum.h"
#include "dsl/base/text.h"
#include "dsl/ir/walk.h"
#include "dsl/passes/stage_copies.h"
#include "dsl/passes/thread_axes.h"

namespace tw::gpu {
namespace {

// Copies in a statement, those of loops inside whose copies are staged apart.
i64 copies_in(const Node* node) {
  const For* loop = as<For>(node);
  if (loop && find_annotation(loop->annotations, kStagedMark)) return 0;
  i64 copies = loop && find_annotation(loop->annotations, kAsyncCopiesMark);
  for_each_child(node, [&](const Node* child) { copies += copies_in(child); });
  return copies;
}

// Of `(loop + ahead) % versions`.
std::optional<i64> iterations_ahead(const Binary* e, const Var* loop, i64 versions) {
  if (e->op != BinaryOp::FloorMod || !is_constant(e->b, versions)) return std::nullopt;
  Sum sum = sum_of(e->a);
  bool is_it = sum.exact && sum.terms.size() == 1 && sum.terms[0].atom == loop && sum.terms[0].coefficient == 1;
  return is_it ? std::optional(sum.constant) : std::nullopt;
}

// The mark of what makes asynchronous copies (dsl/passes/stage_copies.h); 0 = it makes none.
i64 async_copies_in(const Stmt* s) {
  i64 out = 0;
  for_each<For>(s, [&](const For* loop) {
    const Annotation* mark = find_annotation(loop->annotations, kAsyncCopiesMark);
    if (mark) out = mark->value.integer;
  });
  return out;
}

// Are there asynchronous copies in the statement, and no loop that copies ahead?
bool copies_for_a_loop_around(const Stmt* s) {
  bool holds_loop = false;
  for_each<For>(s, [&](const For* loop) { holds_loop |= find_annotation(loop->annotations, kStagedMark) != nullptr; });
  return !holds_loop && async_copies_in(s) > 0;
}

}  // namespace

CopiedLoad same_for_all_lanes(const Expr* value) {
  CopiedLoad out = copied_load(value);
  bool is_same = std::all_of(out.inside.begin(), out.inside.end(),
                             [](const Expr* condition) { return condition->type.lanes == 1; });
  if (!is_same) out.load = nullptr;
  return out;
}

CopyPrinter::CopyPrinter(const Language& language, const GpuKernel& kernel, KernelText& text)
    : language_(language),
      kernel_(kernel),
      text_(text),
      groups_are_whole_(language.async_copies && has_whole_groups()) {}

void CopyPrinter::use_async_copies() { text_.define("tw_copy_async", language_.async_copies); }

void CopyPrinter::begin_step(const Stmt* step) { in_copies_ = copies_for_a_loop_around(step); }

void CopyPrinter::end_step(const Stmt* step) {
  in_copies_ = false;
  if (!in_copies_of_iteration_) end_copies(step);
}

bool CopyPrinter::begin_condition(const Stmt* condition) {
  if (in_copies_of_iteration_ || !copies_for_a_loop_around(condition)) return false;
  return in_copies_of_iteration_ = true;
}

void CopyPrinter::end_condition(const Stmt* condition) {
  in_copies_of_iteration_ = false;
  end_copies(condition);
}

// A group ends behind the copies of an iteration, or behind each statement that copies.
void CopyPrinter::end_copies(const Stmt* s) {
  if (!language_.async_copies || async_copies_in(s) == 0) return;
  use_async_copies();
  ungrouped_copies_ += copies_in(s);
  if (groups_are_whole_ && ungrouped_copies_ < async_copies_in(s)) return;
  text_.line("tw_copy_async_commit();");
  ungrouped_copies_ = 0;
}

void CopyPrinter::await(const For* loop) {
  const Annotation* staged = find_annotation(loop->annotations, kStagedMark);
  if (!language_.async_copies || !staged || async_copies_in(kernel_.body) == 0) return;
  use_async_copies();
  // All but those of later iterations, if each iteration so far has made all its copies; at the end, where none are
  // left, all.
  bool is_whole = async_copies_in(loop) > 0 && groups_are_whole_;
  text_.line(cat("tw_copy_async_wait<", is_whole ? staged->value.integer - 2 : 0, ">();"));
}

// Does one loop copy ahead, and does each of its iterations make all its copies? Of the pieces that lowering has cut it
// into, the last one makes none. In a loop that is a step (one work-item takes all of it) nothing is copied
// asynchronously.
bool CopyPrinter::has_whole_groups() const {
  std::vector<const For*> pieces;
  for_each<For>(kernel_.body, [&](const For* loop) {
    if (find_annotation(loop->annotations, kStagedMark) && async_copies_in(loop) > 0) pieces.push_back(loop);
  });
  if (pieces.empty()) return false;
  i64 copies = async_copies_in(pieces[0]),
      ahead = find_annotation(pieces[0]->annotations, kStagedMark)->value.integer - 1;
  bool are_whole = std::all_of(pieces.begin(), pieces.end(), [&](const For* piece) {
    return piece->var == pieces[0]->var && copies_in(piece->body) == copies && !is_step(piece);
  });
  return are_whole && copies_in(kernel_.body) == ahead * copies;
}

// Which version of a staged buffer an iteration fills or reads is counted: a remainder by 3 or 5 is worth a dozen
// instructions. By a power of two it is one, and by anything with a known iteration none.
std::vector<CopyPrinter::VersionCounter> CopyPrinter::version_counters(const For* loop) {
  const Annotation* staged = find_annotation(loop->annotations, kStagedMark);
  std::vector<VersionCounter> out;
  if (!staged || std::has_single_bit(static_cast<u64>(staged->value.integer))) return out;
  for_each<Binary>(loop->body, [&](const Binary* e) {
    std::optional<i64> ahead = iterations_ahead(e, loop->var, staged->value.integer);
    bool is_known =
        std::any_of(out.begin(), out.end(), [&](const VersionCounter& known) { return known.ahead == ahead; });
    if (ahead && !is_known) out.push_back({loop->var, *ahead, staged->value.integer, text_.fresh("version")});
  });
  return out;
}

CopyPrinter::Counting CopyPrinter::begin_loop(const For* loop) {
  Counting out;
  for (const VersionCounter& counter : version_counters(loop)) {
    const std::string& name = counter.name;
    out.declared += cat(", ", name, " = ", floor_mod(counter.ahead, counter.versions));
    out.counted += cat(", ", name, " = ", name, " == ", counter.versions - 1, " ? 0 : ", name, " + 1");
    counters_.push_back(counter);
  }
  return out;
}

void CopyPrinter::end_loop(const For* loop) {
  for (; !counters_.empty() && counters_.back().loop == loop->var; counters_.pop_back())
    text_.release(counters_.back().name);
}

const std::string* CopyPrinter::counted_version(const Binary* e) const {
  for (const VersionCounter& counter : counters_) {
    if (iterations_ahead(e, counter.loop, counter.versions) == counter.ahead) return &counter.name;
  }
  return nullptr;
}

// Both sides as pointers, if the store copies 4, 8 or 16 bytes that lie together on both, or zeros.
std::optional<CopyPrinter::WordCopy> CopyPrinter::word_copy(const Store* s) {
  auto [load, inside] = same_for_all_lanes(s->values[0]);
  if (s->targets.size() != 1 || !load) return std::nullopt;
  const Buffer *to = s->targets[0].buffer, *from = load->buffer;
  const Expr *to_first = first_index(s->targets[0].indices[0]), *from_first = first_index(load->indices[0]);
  int lanes = load->type.lanes;
  i64 bytes = lanes * bytes_of(to->dtype);
  if (!to_first || !from_first || to->dtype != from->dtype || (bytes != 4 && bytes != 8 && bytes != 16))
    return std::nullopt;
  bool is_to_aligned = false, is_from_aligned = false;
  WordCopy out{bytes, text_.pointer(to, to_first, lanes, is_to_aligned),
               text_.pointer(from, from_first, lanes, is_from_aligned), text_.all_of(inside)};
  return lanes == 1 || (is_to_aligned && is_from_aligned) ? std::optional(out) : std::nullopt;
}

void CopyPrinter::print_async(const WordCopy& copy) {
  use_async_copies();
  bool is_whole = copy.inside.empty();
  if (!is_whole) text_.define("tw_copy_async_or_zeros", language_.async_fills);
  text_.line(cat("tw_copy_async_", is_whole ? "" : "or_zeros_", copy.bytes, "(", copy.to, ", ", copy.from,
                 is_whole ? "" : ", ", bare(copy.inside), ");"));
}

// Other than loads, asynchronous copies have a few bits only for a constant offset in memory: beyond them, each copy
// would add it to 64 bits.
std::string CopyPrinter::in_one_sum(const Buffer* buffer, const Expr* index, int lane) {
  return cat(text_.name(buffer), " + ", text_.scalar(index, lane));
}

bool CopyPrinter::copy_async(const Store* s) {
  auto [load, inside] = copied_load(s->values[0]);
  if (!language_.async_copies || !load || load->buffer->scope != Scope::Global || s->targets.size() != 1) return false;
  const StoreTarget& to = s->targets[0];
  if (to.buffer->scope != Scope::Shared || to.buffer->dtype != load->buffer->dtype) return false;
  if (std::optional<WordCopy> copy = word_copy(s)) {
    copy->from = in_one_sum(load->buffer, first_index(load->indices[0]), 0);
    return print_async(*copy), true;
  }
  if (bytes_of(to.buffer->dtype) != 4) return false;
  // Lanes that lie apart on one side, as those of an operand that is turned: each by itself.
  for (int lane = 0; lane < load->type.lanes; ++lane) {
    print_async({4, text_.address(to.buffer, to.indices[0], lane), in_one_sum(load->buffer, load->indices[0], lane),
                 text_.all_of(inside, lane)});
  }
  return true;
}

bool CopyPrinter::print(const Store* s) { return (in_copies_ && copy_async(s)) || copy_words(s); }

// Types without vectors of their own, and zeros beyond the end of a matrix: of other values each lane has a condition.
bool CopyPrinter::copy_words(const Store* s) {
  auto [load, inside] = same_for_all_lanes(s->values[0]);
  bool has_vectors = language_.has_vectors || (bytes_of(s->targets[0].buffer->dtype) > 2 && inside.empty());
  bool is_in_registers =
      load && (load->buffer->scope == Scope::Register || s->targets[0].buffer->scope == Scope::Register);
  if (has_vectors || !load || load->type.lanes == 1 || is_in_registers) return false;
  std::optional<WordCopy> copy = word_copy(s);
  if (!copy) return false;
  const char* words = words_type(copy->bytes);
  std::string value = cat("*(const ", words, "*)(", copy->from, ")");
  if (!inside.empty()) value = cat(copy->inside, " ? ", value, " : ", words, "()");
  text_.line(cat("*(", words, "*)(", copy->to, ") = ", value, ";"));
  return true;
}

}  // namespace tw::gpu
