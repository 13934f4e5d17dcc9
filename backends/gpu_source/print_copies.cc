// Staged copies: asynchronous where the language has such copies and the store is a plain one, else like any other store.

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
  i64 groups = loop && find_annotation(loop->annotations, kCopiesMark);
  for_each_child(node, [&](const Node* child) { groups += groups_in(child); });
  return groups;
}

}  // namespace

i64 copies_mark(const Stmt* step) {
  i64 out = 0;
  for_each<For>(step, [&](const For* loop) {
    const Annotation* mark = find_annotation(loop->annotations, kCopiesMark);
    if (mark) out = mark->value.integer;
  });
  return out;
}

void KernelPrinter::use_async_copies() {
  define("tw_copy_async", language_.async_copies);
}

void KernelPrinter::end_copies(const Stmt* step) {
  if (!language_.async_copies || copies_mark(step) == 0) return;
  use_async_copies();
  line("tw_copy_async_commit();");
}

void KernelPrinter::await_copies(const For* loop) {
  const Annotation* staged = find_annotation(loop->annotations, kStagedMark);
  if (!language_.async_copies || !staged) return;
  use_async_copies();
  // All but those of later iterations, if each iteration so far has made all its copies; at the end, where some have
  // nothing to copy, all.
  i64 copies = copies_mark(loop->body), ahead = staged->value.integer - 1;
  bool is_whole = groups_in(kernel_.body) == ahead * copies && groups_in(loop->body) == copies;
  line(cat("tw_copy_async_wait<", is_whole ? (ahead - 1) * copies : 0, ">();"));
}

// Both sides as pointers, if the store copies 4, 8 or 16 bytes that lie together on both.
std::optional<KernelPrinter::WordCopy> KernelPrinter::word_copy(const Store* s) {
  const Load* load = s->targets.size() == 1 ? as<Load>(s->values[0]) : nullptr;
  if (!load) return std::nullopt;
  const Buffer *to = s->targets[0].buffer, *from = load->buffer;
  const Expr *to_first = first_index(s->targets[0].indices[0]), *from_first = first_index(load->indices[0]);
  int lanes = load->type.lanes;
  i64 bytes = lanes * bytes_of(to->dtype);
  if (!to_first || !from_first || to->dtype != from->dtype || (bytes != 4 && bytes != 8 && bytes != 16)) return std::nullopt;
  bool is_to_aligned = false, is_from_aligned = false;
  WordCopy out{bytes, pointer(to, to_first, lanes, is_to_aligned), pointer(from, from_first, lanes, is_from_aligned)};
  return lanes == 1 || (is_to_aligned && is_from_aligned) ? std::optional(out) : std::nullopt;
}

bool KernelPrinter::copy_async(const Store* s) {
  const Load* load = as<Load>(s->values[0]);
  if (!language_.async_copies || !load || load->buffer->scope != Scope::Global || s->targets[0].buffer->scope != Scope::Shared)
    return false;
  std::optional<WordCopy> copy = word_copy(s);
  if (!copy) return false;
  use_async_copies();
  line(cat("tw_copy_async_", copy->bytes, "(", copy->to, ", ", copy->from, ");"));
  return true;
}

// Types without vectors of their own.
bool KernelPrinter::copy_words(const Store* s) {
  bool has_vectors = language_.has_vectors || bytes_of(s->targets[0].buffer->dtype) > 2;
  const Load* load = as<Load>(s->values[0]);
  bool is_in_registers = load && (load->buffer->scope == Scope::Register || s->targets[0].buffer->scope == Scope::Register);
  if (has_vectors || !load || load->type.lanes == 1 || is_in_registers) return false;
  std::optional<WordCopy> copy = word_copy(s);
  if (!copy) return false;
  const char* words = copy->bytes == 4 ? "int" : copy->bytes == 8 ? "int2" : "int4";
  line(cat("*(", words, "*)(", copy->to, ") = *(const ", words, "*)(", copy->from, ");"));
  return true;
}

}  // namespace tw::gpu
