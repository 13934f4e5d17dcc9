// Stores the buffer that a block writes with another element type; blocks compute as before.
//   B: i8[8]; B[i] = A[i] + A[i]; C[i] = B[i]     set_dtype(B, 0, "i32")
//   ->   B: i32[8]; B[i] = i32(A[i] + A[i]); C[i] = i8(B[i])
// Applies to local buffers if the new type holds everything that is stored: every value of the old type, or values that
// were converted from a narrower one, chosen from such, or are small integers. So results stay the same bit for bit.
// Source: UnsafeSetDType of TVM, which also narrows.
#include <cmath>

#include "dsl/analysis/block_info.h"
#include "dsl/schedule/copy.h"
#include "dsl/schedule/primitive.h"

using namespace tw;

PRIMITIVE(set_dtype, Unit(BlockId block, i64 write_index, Str dtype))

// Integers of magnitude up to 2^exact (unsigned: below) are values of the type; floats also say how far they reach.
struct Reach {
  int exact;      // bits of an integer that are kept
  int exponent;   // largest power of two, 0 for integers
  bool negative;  // are there negative values?
};

static Reach reach_of(DType type) {
  // In the order of DType.
  constexpr Reach reaches[kDTypes] = {{1, 0, false},  {7, 0, true},   {8, 0, false},   {31, 0, true},   {63, 0, true},
                                      {11, 15, true}, {8, 127, true}, {24, 127, true}, {53, 1023, true}};
  return reaches[static_cast<int>(type)];
}

static bool holds(DType type, DType every_value_of) {
  if (type == every_value_of) return true;
  Reach wide = reach_of(type), narrow = reach_of(every_value_of);
  bool from_float = is_float(every_value_of);
  if (from_float && is_int(type)) return false;
  return wide.exact >= narrow.exact && wide.exponent >= narrow.exponent && (wide.negative || !narrow.negative);
}

static bool holds_value(DType type, const Expr* value) {
  if (holds(type, value->type.dtype)) return true;
  if (const Cast* cast = as<Cast>(value)) {
    return holds(cast->type.dtype, cast->value->type.dtype) && holds_value(type, cast->value);
  }
  if (const Select* select = as<Select>(value))
    return holds_value(type, select->then) && holds_value(type, select->otherwise);
  const Binary* binary = as<Binary>(value);
  if (binary && (binary->op == BinaryOp::Min || binary->op == BinaryOp::Max))
    return holds_value(type, binary->a) && holds_value(type, binary->b);
  const FloatImm* real = as<FloatImm>(value);
  const IntImm* integer = as<IntImm>(value);
  if (!real && !integer) return false;
  double number = real ? real->value : static_cast<double>(integer->value);
  bool is_zero_with_sign = number == 0 && std::signbit(number) && is_int(type);
  return !is_zero_with_sign && number == std::floor(number) && number >= (reach_of(type).negative ? -64 : 0) &&
         number <= (type == DType::Bool ? 1 : 64);
}

static Status all_stores_fit(const State& state, const Buffer* buffer, DType type) {
  if (holds(type, buffer->dtype)) return ok();
  Status status = ok();
  for (const Block* writer : writers_of(state.program().body, buffer)) {
    for_each<Store>(writer, [&](const Store* store) {
      for (std::size_t t = 0; t < store->targets.size(); ++t) {
        if (!status || store->targets[t].buffer != buffer || holds_value(type, store->values[t])) continue;
        status =
            reject("block `{a}` may store values to `{b}` that the new type does not hold", writer->name, buffer->name)
                .about_block(writer->id.value);
      }
    });
  }
  return status;
}

static Result<Unit> apply(State& state, BlockId id, i64 write_index, Str dtype) {
  TW_TRY(const Block* block, state.block(id));
  std::optional<DType> type = parse_dtype(dtype);
  if (!type)
    return reject("`{a}` is no type; expected bool, i8, u8, i32, i64, f16, bf16, f32 or f64",
                  state.arena().text(dtype));
  TW_TRY(const Buffer* buffer, local_written_by(state, block, write_index));
  TW_TRY_STATUS(all_stores_fit(state, buffer, *type));

  Build build = state.build();
  Buffer* to = state.arena().make<Buffer>(*buffer);
  to->dtype = *type;
  auto change = [&](auto* n) {
    if constexpr (std::is_convertible_v<decltype(n), const Expr*>) {
      const Load* load = as<Load>(n);
      const Expr* e = n;
      return load && load->buffer == buffer ? build.cast(buffer->dtype, build.load(to, load->indices)) : e;
    } else {
      const Stmt* s = n;
      const Store* store = as<Store>(n);
      if (!store) return s;
      List<const Expr*> values(store->values.begin(), store->values.end());
      List<StoreTarget> targets(store->targets.begin(), store->targets.end());
      for (std::size_t t = 0; t < targets.size(); ++t) {
        if (targets[t].buffer != buffer) continue;
        targets[t].buffer = to;
        values[t] = build.cast(*type, values[t]);
      }
      return build.store(state.arena().copy(targets), state.arena().copy(values));
    }
  };
  state.set_body(rewrite(state.arena(), state.program().body, change));
  state.replace_buffer_everywhere(buffer, to);
  return Unit{};
}

REGISTER(set_dtype, "Stores the buffer that a block writes with another element type.")
