// Statements.
#include <algorithm>

#include "backends/gpu_source/matrix_functions.h"
#include "backends/gpu_source/print_combine.h"
#include "backends/gpu_source/printer.h"
#include "dsl/analysis/reducer.h"
#include "dsl/base/check.h"
#include "dsl/base/text.h"
#include "dsl/ir/walk.h"
#include "dsl/passes/stage_copies.h"

namespace tw::gpu {
namespace {

// Types without vectors of their own: several are words together.
bool is_narrow(DType type) { return is_half(type) || type == DType::I8 || type == DType::U8; }

// Is what it writes seen by its work-item only?
bool stores_own(const Store* store) {
  return std::all_of(store->targets.begin(), store->targets.end(), [](const StoreTarget& target) {
    return target.buffer->scope == Scope::Local || target.buffer->scope == Scope::Register;
  });
}

}  // namespace

void KernelPrinter::line(const std::string& text) {
  text_ += cat(std::string(static_cast<std::size_t>(2 * indent_), ' '), text, "\n");
}
void KernelPrinter::open(const std::string& head) {
  line(head + "{"), ++indent_;
  mma_.begin_scope();
}
void KernelPrinter::close() {
  --indent_, line("}");
  mma_.end_scope();
}

void KernelPrinter::directive(const std::string& text) { text_ += text + "\n"; }

void KernelPrinter::barrier() {
  mma_.await();
  if (has_warpgroup_mma_) {
    DeviceFunction fence = shared_fence_function();
    define(fence.name, fence.definition);
    line(cat(fence.name, "();"));
  }
  line(language_.barrier);
}

void KernelPrinter::stmt(const Stmt* s) {
  if (!in_step_ && std::find(kernel_.barriers.begin(), kernel_.barriers.end(), s) != kernel_.barriers.end()) barrier();
  const For* loop = as<For>(s);
  bool has_threads = kernel_.extents.threads_of_group() > 1;
  if (has_threads && !in_step_ && is_step(s)) return step(s);
  switch (s->kind) {
    case Kind::Seq:
      return sequence(as<Seq>(s)->stmts);
    case Kind::If: {
      const If* branch = as<If>(s);
      bool holds_copies = !in_step_ && copies_.begin_condition(s);
      open(cat("if (", bare(scalar(branch->condition)), ") "));
      conditions_ += in_step_;
      stmt(branch->then);
      if (branch->otherwise) {
        --indent_, line("} else {"), ++indent_;
        stmt(branch->otherwise);
      }
      conditions_ -= in_step_;
      close();
      if (holds_copies) copies_.end_condition(s);
      return;
    }
    case Kind::For:
      return this->loop(loop);
    case Kind::Alloc:
      return alloc(as<Alloc>(s));
    case Kind::Store:
      return store(as<Store>(s));
    default:
      break;
  }
  TW_CHECK(false, "a statement that lowering does not make");
}

void KernelPrinter::sequence(Array<const Stmt*> stmts) {
  Array<const Stmt*> around = behind_;
  for (std::size_t i = 0; i < stmts.size(); ++i) {
    behind_ = {stmts.begin() + i + 1, stmts.size() - i - 1};
    stmt(stmts[i]);
  }
  behind_ = around;
}

// Along axes of the group that it does not use, one work-item takes it; all of them where the result is their own.
void KernelPrinter::step(const Stmt* s) {
  bool used[3] = {};
  for_each<For>(s, [&](const For* loop) {
    if (is_thread_loop(loop)) used[axis_of(loop)->dimension] = true;
  });
  const Store* store = as<Store>(s);
  bool is_own = store && stores_own(store);
  std::vector<std::string> conditions;
  for (std::size_t d = 0; d < 3; ++d) {
    if (!used[d] && !is_own && kernel_.extents.threads[d] > 1) conditions.push_back(cat(language_.thread[d], " == 0"));
  }
  in_step_ = true;
  copies_ahead_ = makes_staged_copies(s);
  if (!copies_ahead_) mma_.await();
  mma_.forget();
  copies_.begin_step(s);
  if (!conditions.empty()) open(cat("if (", join(conditions, " && "), ") "));
  stmt(s);
  if (!conditions.empty()) close();
  in_step_ = copies_ahead_ = false;
  copies_.end_step(s);
}

void KernelPrinter::loop(const For* loop) {
  if (mma_.print(loop, {threads_, ranges_, behind_, conditions_ > 0})) return;
  std::size_t known = ranges_.size();
  ranges_.set_extent(loop->var, loop->extent);
  std::string var = vars_[loop->var] = fresh(loop->var->name);
  std::optional<ThreadAxis> axis = axis_of(loop);
  if (axis) {
    auto d = static_cast<std::size_t>(axis->dimension);
    i64 extent = (axis->is_thread ? kernel_.extents.threads : kernel_.extents.groups)[d];
    open("");
    line(cat("const ", index_type_, " ", var, " = ", axis->is_thread ? language_.thread[d] : language_.group[d], ";"));
    const For* around = std::exchange(threads_, axis->is_thread ? loop : threads_);
    conditions_ += loop->extent < extent;
    if (loop->extent < extent) open(cat("if (", var, " < ", loop->extent, ") "));
    if (combines_work_items(loop))
      CombinePrinter(language_, kernel_.extents, *this, loop).print();
    else
      stmt(loop->body);
    if (loop->extent < extent) close();
    conditions_ -= loop->extent < extent;
    threads_ = around;
  } else {
    CopyPrinter::Counting versions = copies_.begin_loop(loop);
    open(cat("for (", index_type_, " ", var, " = 0", versions.declared, "; ", var, " < ", loop->extent, "; ++", var,
             versions.counted, ") "));
    mma_.forget();
    copies_.await(loop);
    stmt(loop->body);
    if (!in_step_) mma_.await();
    copies_.end_loop(loop);
  }
  close();
  taken_.erase(var);
  ranges_.shrink(known);
}

void KernelPrinter::alloc(const Alloc* alloc) {
  const Buffer* buffer = alloc->buffer;
  bool is_new = places_.count(buffer) == 0;
  Place& found = place(buffer);
  std::string declaration = cat(type(buffer->dtype, 1), " ", found.name, "[", elements_of(buffer), "]");
  if (buffer->scope == Scope::Shared) {
    if (is_new)
      shared_.push_back({type(buffer->dtype, 1), found.name, elements_of(buffer), bytes_of(buffer), true,
                         place_of(buffer), tw::shared_alignment(buffer)});
    return stmt(alloc->body);
  }
  open("");
  if (found.pieces.empty()) line(declaration + ";");
  for (const auto& [offset, lanes] : found.pieces)
    line(cat(type(buffer->dtype, lanes), " ", found.name, "_", offset, ";"));
  stmt(alloc->body);
  close();
}

// All values are computed before any target is written.
void KernelPrinter::store(const Store* s) {
  if (!stores_own(s)) mma_.forget();
  if (!copies_ahead_) mma_.await();
  if (copies_.print(s)) return;
  if (s->targets.size() == 1 && language_.has_vectors) return write(s->targets[0], s->values[0]);
  if (s->targets.size() == 1 && s->targets[0].indices[0]->type.lanes == 1)
    return write_lanes(s->targets[0], {bare(scalar(s->values[0]))});
  open("");
  if (!language_.has_vectors) {
    for (const Expr* value : s->values) load_ahead(value);
  }
  std::vector<std::vector<std::string>> values;
  for (std::size_t t = 0; t < s->targets.size(); ++t) {
    const Expr* value = s->values[t];
    values.emplace_back();
    for (int i = 0; i < s->targets[t].indices[0]->type.lanes; ++i) {
      values.back().push_back(temporary());
      line(cat("const ", type(value->type.dtype, 1), " ", values.back().back(), " = ", bare(scalar(value, i)), ";"));
    }
  }
  for (std::size_t t = 0; t < s->targets.size(); ++t) write_lanes(s->targets[t], values[t]);
  close();
  loaded_.clear();
}

bool KernelPrinter::is_wide_access(const Buffer* buffer, const Expr* index, std::string& at) {
  int lanes = index->type.lanes;
  const Expr* first = first_index(index);
  bool has_type = buffer->dtype == DType::F32 || buffer->dtype == DType::I32 || buffer->dtype == DType::F64;
  i64 bytes = lanes * bytes_of(buffer->dtype);
  bool has_width = is_narrow(buffer->dtype) ? bytes == 4 || bytes == 8 || bytes == 16
                                            : has_type && (lanes == 2 || lanes == 4) && bytes <= 16;
  if (!first || !has_width) return false;
  bool is_aligned = false;
  at = pointer(buffer, first, lanes, is_aligned);
  return is_aligned;
}

void KernelPrinter::load_ahead(const Expr* e) {
  auto [load, inside] = same_for_all_lanes(e);
  // Of other conditions not all is evaluated.
  if (e->kind != Kind::Select)
    for_each_child(e, [&](const Node* child) { load_ahead(static_cast<const Expr*>(child)); });
  std::string at;
  if (!load || load->type.lanes == 1 || !is_wide_access(load->buffer, load->indices[0], at)) return;
  DType dtype = load->type.dtype;
  std::string wide = is_narrow(dtype) ? words_type(load->type.lanes * bytes_of(dtype)) : type(dtype, load->type.lanes);
  std::string name = cat("w", temporaries_++), value = cat("*(const ", wide, "*)(", at, ")");
  line(cat("const ", wide, " ", name, " = ",
           !inside.empty() ? cat(all_of(inside), " ? ", value, " : ", wide, "()") : value, ";"));
  loaded_[e] = name;
}

// One lane of what load_ahead has loaded.
std::string KernelPrinter::lane_of(const Expr* loaded, const std::string& name, int lane) {
  DType dtype = loaded->type.dtype;
  if (!is_narrow(dtype)) return cat(name, ".", "xyzw"[lane]);
  i64 at = lane * bytes_of(dtype);
  std::string word = loaded->type.lanes * bytes_of(dtype) == 4 ? name : cat(name, ".", "xyzw"[at / 4]);
  std::string bits = at % 4 == 0 ? word : cat("(", word, " >> ", at % 4 * 8, ")");
  return is_half(dtype) ? cat(type(dtype, 1), "{(unsigned short)", bits, "}") : cat("(", type(dtype, 1), ")", bits);
}

// Lanes of a narrow type as words.
std::string KernelPrinter::packed(DType dtype, const std::vector<std::string>& lanes) {
  DeviceFunction pack = pack_function(dtype);
  define(pack.name, pack.definition);
  std::size_t each = static_cast<std::size_t>(4 / bytes_of(dtype));
  std::vector<std::string> words;
  for (std::size_t first = 0; first < lanes.size(); first += each) {
    std::vector<std::string> parts;
    for (std::size_t i = first; i < first + each; ++i)
      parts.push_back(is_half(dtype) ? cat(lanes[i], ".bits") : cat("(unsigned char)", lanes[i]));
    words.push_back(cat("(int)", pack.name, "(", join(parts, ", "), ")"));
  }
  return words.size() == 1 ? words[0] : cat("make_int", words.size(), "(", join(words, ", "), ")");
}

void KernelPrinter::write_lanes(const StoreTarget& target, const std::vector<std::string>& lanes) {
  std::string at;
  if (!language_.has_vectors && lanes.size() > 1 && is_wide_access(target.buffer, target.indices[0], at)) {
    DType dtype = target.buffer->dtype;
    i64 bytes = static_cast<i64>(lanes.size()) * bytes_of(dtype);
    if (is_narrow(dtype)) return line(cat("*(", words_type(bytes), "*)(", at, ") = ", packed(dtype, lanes), ";"));
    std::string wide = type(dtype, static_cast<int>(lanes.size()));
    return line(cat("*(", wide, "*)(", at, ") = make_", wide, "(", join(lanes, ", "), ");"));
  }
  for (std::size_t i = 0; i < lanes.size(); ++i)
    line(cat(element(target.buffer, target.indices[0], static_cast<int>(i)), " = ", lanes[i], ";"));
}

void KernelPrinter::write(const StoreTarget& target, const Expr* value) {
  const Expr* index = target.indices[0];
  int lanes = index->type.lanes;
  if (lanes == 1) return write_lanes(target, {bare(scalar(value))});
  DType dtype = target.buffer->dtype;
  const Expr* first = first_index(index);
  bool has_width = lanes == 2 || lanes == 4 || lanes == 8 || lanes == 16;
  std::string text = value->type.dtype == DType::Bool ? "" : bare(vector(value));
  Place& found = place(target.buffer);
  std::optional<Piece> piece =
      found.pieces.empty() || !first ? std::nullopt : piece_at(target.buffer, *constant_of(first));
  if (piece && piece->offset == *constant_of(first) && piece->lanes == lanes && !text.empty())
    return line(cat(piece->name, " = ", text, ";"));
  bool is_aligned = false;
  std::string at = first ? pointer(target.buffer, first, lanes, is_aligned) : "";
  bool is_apart = !first || (found.layout && !is_aligned);
  if (is_apart || !found.pieces.empty() || !has_width || text.empty()) {
    open("");
    std::vector<std::string> values;
    for (int i = 0; i < lanes; ++i) {
      values.push_back(temporary());
      line(cat("const ", type(dtype, 1), " ", values.back(), " = ", bare(scalar(value, i)), ";"));
    }
    write_lanes(target, values);
    return close();
  }
  if (is_aligned) return line(cat("*(", found.space, type(dtype, lanes), "*)(", at, ") = ", text, ";"));
  line(cat("vstore", lanes, "(", text, ", 0, ", at, ");"));
}

}  // namespace tw::gpu
