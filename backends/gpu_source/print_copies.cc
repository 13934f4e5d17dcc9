// Copies that a schedule wants to be asynchronous (make_async): they are where the language has such copies and the store is a plain
// one, or one that fills with zeros beyond the end of a matrix; else like any other store.

#include <algorithm>

#include "backends/gpu_source/printer.h"
#include "dsl/base/text.h"
#include "dsl/ir/walk.h"
#include "dsl/passes/stage_copies.h"

namespace tw::gpu {
namespace {

// Groups of copies in a statement, those of loops inside whose copies are staged apart.
i64 groups_in(const Node* node) {
  const For* loop = as<For>(node);
  if (loop && find_annotation(loop->annotations, kStagedMark)) return 0;
  i64 groups = loop && find_annotation(loop->annotations, kAsyncCopiesMark);
  for_each_child(node, [&](const Node* child) { groups += groups_in(child); });
  return groups;
}

}  // namespace

CopiedLoad same_for_all_lanes(const Expr* value) {
  CopiedLoad out = copied_load(value);
  bool is_same = std::all_of(out.inside.begin(), out.inside.end(), [](const Expr* condition) { return condition->type.lanes == 1; });
  if (!is_same) out.load = nullptr;
  return out;
}

std::string KernelPrinter::all_of(const List<const Expr*>& conditions, int lane) {
  std::vector<std::string> texts;
  for (const Expr* condition : conditions) texts.push_back(scalar(condition, lane));
  return texts.size() > 1 ? cat("(", join(texts, " && "), ")") : join(texts, "");
}

i64 async_copies_in(const Stmt* step) {
  i64 out = 0;
  for_each<For>(step, [&](const For* loop) {
    const Annotation* mark = find_annotation(loop->annotations, kAsyncCopiesMark);
    if (mark) out = mark->value.integer;
  });
  return out;
}

void KernelPrinter::use_async_copies() {
  define("tw_copy_async", language_.async_copies);
}

void KernelPrinter::end_copies(const Stmt* step) {
  if (!language_.async_copies || async_copies_in(step) == 0) return;
  use_async_copies();
  line("tw_copy_async_commit();");
}

void KernelPrinter::await_copies(const For* loop) {
  const Annotation* staged = find_annotation(loop->annotations, kStagedMark);
  // At the end, where lowering has cut copies away, an iteration reads what earlier ones have copied.
  if (!language_.async_copies || !staged || async_copies_in(kernel_.body) == 0) return;
  use_async_copies();
  // All but those of later iterations, if each iteration so far has made all its copies; at the end, where some have
  // nothing to copy, all.
  i64 copies = async_copies_in(loop->body), ahead = staged->value.integer - 1;
  bool is_whole = groups_in(kernel_.body) == ahead * copies && groups_in(loop->body) == copies;
  line(cat("tw_copy_async_wait<", is_whole ? (ahead - 1) * copies : 0, ">();"));
}

// Both sides as pointers, if the store copies 4, 8 or 16 bytes that lie together on both, or zeros.
std::optional<KernelPrinter::WordCopy> KernelPrinter::word_copy(const Store* s) {
  auto [load, inside] = same_for_all_lanes(s->values[0]);
  if (s->targets.size() != 1 || !load) return std::nullopt;
  const Buffer *to = s->targets[0].buffer, *from = load->buffer;
  const Expr *to_first = first_index(s->targets[0].indices[0]), *from_first = first_index(load->indices[0]);
  int lanes = load->type.lanes;
  i64 bytes = lanes * bytes_of(to->dtype);
  if (!to_first || !from_first || to->dtype != from->dtype || (bytes != 4 && bytes != 8 && bytes != 16)) return std::nullopt;
  bool is_to_aligned = false, is_from_aligned = false;
  WordCopy out{bytes, pointer(to, to_first, lanes, is_to_aligned), pointer(from, from_first, lanes, is_from_aligned),
               all_of(inside)};
  return lanes == 1 || (is_to_aligned && is_from_aligned) ? std::optional(out) : std::nullopt;
}

void KernelPrinter::print_async(const WordCopy& copy) {
  use_async_copies();
  bool is_whole = copy.inside.empty();
  if (!is_whole) define("tw_copy_async_or_zeros", language_.async_fills);
  line(cat("tw_copy_async_", is_whole ? "" : "or_zeros_", copy.bytes, "(", copy.to, ", ", copy.from, is_whole ? "" : ", ", bare(copy.inside), ");"));
}

bool KernelPrinter::copy_async(const Store* s) {
  auto [load, inside] = copied_load(s->values[0]);
  if (!language_.async_copies || !load || load->buffer->scope != Scope::Global || s->targets.size() != 1) return false;
  const StoreTarget& to = s->targets[0];
  if (to.buffer->scope != Scope::Shared || to.buffer->dtype != load->buffer->dtype) return false;
  if (std::optional<WordCopy> copy = word_copy(s)) return print_async(*copy), true;
  if (bytes_of(to.buffer->dtype) != 4) return false;
  // Lanes that lie apart on one side, as those of an operand that is turned: each by itself.
  for (int lane = 0; lane < load->type.lanes; ++lane) {
    print_async({4, address(to.buffer, to.indices[0], lane), address(load->buffer, load->indices[0], lane), all_of(inside, lane)});
  }
  return true;
}

// Types without vectors of their own, and zeros beyond the end of a matrix: of other values each lane has a condition.
bool KernelPrinter::copy_words(const Store* s) {
  auto [load, inside] = same_for_all_lanes(s->values[0]);
  bool has_vectors = language_.has_vectors || (bytes_of(s->targets[0].buffer->dtype) > 2 && inside.empty());
  bool is_in_registers = load && (load->buffer->scope == Scope::Register || s->targets[0].buffer->scope == Scope::Register);
  if (has_vectors || !load || load->type.lanes == 1 || is_in_registers) return false;
  std::optional<WordCopy> copy = word_copy(s);
  if (!copy) return false;
  const char* words = copy->bytes == 4 ? "int" : copy->bytes == 8 ? "int2" : "int4";
  std::string value = cat("*(const ", words, "*)(", copy->from, ")");
  if (!inside.empty()) value = cat(copy->inside, " ? ", value, " : ", words, "()");
  line(cat("*(", words, "*)(", copy->to, ") = ", value, ";"));
  return true;
}

}  // namespace tw::gpu
