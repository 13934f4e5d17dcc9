// All lanes of an expression, in a language that has vectors.
#include <algorithm>

#include "backends/gpu_source/printer.h"
#include "dsl/base/text.h"
#include "dsl/ir/walk.h"

namespace tw::gpu {
namespace {

bool is_arithmetic(BinaryOp op) { return op <= BinaryOp::Div || op == BinaryOp::Min || op == BinaryOp::Max; }
bool is_comparison(BinaryOp op) { return op >= BinaryOp::Lt && op <= BinaryOp::Ne; }
bool is_word(DType type) { return type == DType::F32 || type == DType::I32; }

// May evaluating it do harm where its value is not wanted?
bool reads_memory(const Expr* e) {
  bool found = false;
  for_each<Load>(e, [&](const Load* load) { found |= load->buffer->scope != Scope::Register; });
  return found;
}

bool has_register_width(int lanes) { return lanes == 2 || lanes == 4 || lanes == 8 || lanes == 16; }

}  // namespace

std::string KernelPrinter::type(DType dtype, int lanes) const {
  const char* name = type_name(language_, dtype);
  return lanes == 1 ? name : cat(name, lanes);
}

bool KernelPrinter::has_mask_form(const Expr* e) const {
  if (const Unary* unary = as<Unary>(e)) return has_mask_form(unary->value);
  const Binary* op = as<Binary>(e);
  if (!op) return false;
  if (op->op == BinaryOp::And || op->op == BinaryOp::Or) return has_mask_form(op->a) && has_mask_form(op->b);
  return is_comparison(op->op) && is_word(op->a->type.dtype) && has_vector_form(op->a) && has_vector_form(op->b);
}

bool KernelPrinter::has_vector_form(const Expr* e) const {
  if (!has_register_width(e->type.lanes)) return false;
  DType dtype = e->type.dtype;
  switch (e->kind) {
    case Kind::IntImm:
    case Kind::FloatImm:
    case Kind::Broadcast:
      return dtype != DType::I64 && dtype != DType::Bool;
    case Kind::Load:
      return dtype != DType::Bool && dtype != DType::I64;
    case Kind::Unary:
      return as<Unary>(e)->op == UnaryOp::Neg && dtype != DType::I64 && has_vector_form(as<Unary>(e)->value);
    case Kind::Binary: {
      const Binary* op = as<Binary>(e);
      bool fits = is_arithmetic(op->op) && dtype != DType::I64 &&
                  (is_word(dtype) || is_half(dtype) || (op->op != BinaryOp::Min && op->op != BinaryOp::Max));
      return fits && has_vector_form(op->a) && has_vector_form(op->b);
    }
    case Kind::Select: {
      const Select* select = as<Select>(e);
      if (!is_word(dtype) || reads_memory(select->then) || reads_memory(select->otherwise)) return false;
      return has_mask_form(select->condition) && has_vector_form(select->then) && has_vector_form(select->otherwise);
    }
    case Kind::Cast: {
      DType from = as<Cast>(e)->value->type.dtype;
      bool widens = (is_word(dtype) || dtype == DType::F64) &&
                    (from == DType::I8 || from == DType::U8 || is_word(from) || from == DType::F64);
      bool is_of_half = (is_half(from) && dtype == DType::F32) || (is_half(dtype) && from == DType::F32);
      return (is_of_half || (widens && !(dtype == DType::I32 && is_float(from)))) &&
             has_vector_form(as<Cast>(e)->value);
    }
    case Kind::Call: {
      const Call* call = as<Call>(e);
      return is_float(dtype) && std::all_of(call->arguments.begin(), call->arguments.end(),
                                            [&](const Expr* a) { return has_vector_form(a); });
    }
    default:
      return false;
  }
}

std::string KernelPrinter::by_lanes(const Expr* e) {
  std::vector<std::string> lanes;
  for (int i = 0; i < e->type.lanes; ++i) lanes.push_back(bare(scalar(e, i)));
  return cat("(", type(e->type.dtype, e->type.lanes), ")(", join(lanes, ", "), ")");
}

std::string KernelPrinter::vector(const Expr* e) {
  if (e->type.lanes == 1) return scalar(e);
  // Comparisons inside of a Select are masks, all others are put together.
  if (e->type.dtype == DType::Bool) {
    if (const Unary* unary = as<Unary>(e)) return cat("(~", vector(unary->value), ")");
    const Binary* op = as<Binary>(e);
    const char* joined = op->op == BinaryOp::And ? " & " : op->op == BinaryOp::Or ? " | " : nullptr;
    return cat("(", vector(op->a), joined ? std::string(joined) : cat(" ", name_of(op->op), " "), vector(op->b), ")");
  }
  if (!has_vector_form(e)) return by_lanes(e);
  std::string t = type(e->type.dtype, e->type.lanes);
  auto in_type = [&](const std::string& computed) {
    return is_half(e->type.dtype) ? narrowed(e->type.dtype, e->type.lanes, computed) : computed;
  };
  switch (e->kind) {
    case Kind::IntImm:
    case Kind::FloatImm:
      return cat("(", t, ")(", bare(number(e)), ")");
    case Kind::Broadcast:
      return cat("(", t, ")(", bare(scalar(as<Broadcast>(e)->value)), ")");
    case Kind::Load:
      return vector_load(as<Load>(e));
    case Kind::Unary:
      return in_type(cat("(-", wide_vector(as<Unary>(e)->value), ")"));
    case Kind::Binary: {
      const Binary* op = as<Binary>(e);
      std::string a = wide_vector(op->a), b = wide_vector(op->b);
      DType computed = is_half(e->type.dtype) ? DType::F32 : e->type.dtype;
      if (op->op == BinaryOp::Min || op->op == BinaryOp::Max)
        return in_type(cat(pick(op->op, computed, e->type.lanes), "(", bare(a), ", ", bare(b), ")"));
      return in_type(cat("(", a, " ", name_of(op->op), " ", b, ")"));
    }
    case Kind::Select: {
      const Select* select = as<Select>(e);
      return cat("select(", bare(vector(select->otherwise)), ", ", bare(vector(select->then)), ", ",
                 bare(vector(select->condition)), ")");
    }
    case Kind::Cast: {
      const Expr* value = as<Cast>(e)->value;
      if (is_half(e->type.dtype) || is_half(value->type.dtype)) return in_type(wide_vector(value));
      return cat("convert_", t, "(", bare(vector(value)), ")");
    }
    default:
      return vector_call(as<Call>(e));
  }
}

std::string KernelPrinter::vector_call(const Call* e) {
  std::vector<std::string> arguments;
  for (const Expr* argument : e->arguments) arguments.push_back(bare(wide_vector(argument)));
  DType computed = is_half(e->type.dtype) ? DType::F32 : e->type.dtype;
  std::string name = e->function == Function::Sigmoid ? sigmoid(computed, e->type.lanes)
                                                      : function_name(language_, e->function, computed);
  std::string text = cat(name, "(", join(arguments, ", "), ")");
  return is_half(e->type.dtype) ? narrowed(e->type.dtype, e->type.lanes, text) : text;
}

std::string KernelPrinter::address(const Buffer* buffer, const Expr* index, int lane) {
  Place& found = place(buffer);
  return cat(found.name, " + ", in_memory(found, buffer->dtype, index, lane));
}

// `name + base`, and whether that is a multiple of the vector's size.
std::string KernelPrinter::pointer(const Buffer* buffer, const Expr* base, int lanes, bool& is_aligned) {
  Place& found = place(buffer);
  i64 divisor = known_divisor(base);
  is_aligned =
      found.is_aligned && divisor % lanes == 0 && (!found.layout || lanes * bytes_of(buffer->dtype) <= kXorBytes);
  return is_constant(base, 0) ? found.name : cat(found.name, " + ", in_memory(found, buffer->dtype, base));
}

std::string KernelPrinter::vector_load(const Load* e) {
  const Expr* first = first_index(e->indices[0]);
  if (!first) return by_lanes(e);
  int lanes = e->type.lanes;
  Place& found = place(e->buffer);
  if (!found.pieces.empty()) {
    std::optional<Piece> piece = piece_at(e->buffer, *constant_of(first));
    bool whole = piece && piece->offset == *constant_of(first) && piece->lanes == lanes;
    return whole ? piece->name : by_lanes(e);
  }
  bool is_aligned = false;
  std::string at = pointer(e->buffer, first, lanes, is_aligned);
  if (!is_aligned && found.layout) return by_lanes(e);
  if (!is_aligned) return cat("vload", lanes, "(0, ", at, ")");
  return cat("*(const ", found.space, type(e->buffer->dtype, lanes), "*)(", at, ")");
}

}  // namespace tw::gpu
