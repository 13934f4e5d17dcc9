// Program: a tensor program: parameters, intermediate buffers, and the statement that computes. A small value that
// points into arenas; OwnedProgram keeps its arena alive.
#pragma once
#include <memory>
#include <string>

#include "dsl/ir/nodes.h"

namespace tw {

enum class Role : u8 { Input, Constant, Output };
const char* name_of(Role role);  // "input", "const", "output"

struct Param {
  const Buffer* buffer;
  Role role;
  static constexpr std::tuple fields{&Param::buffer, &Param::role};
};

struct Program {
  Str name;
  Array<Param> params;
  Array<const Buffer*> locals;  // intermediate buffers, in order of first definition
  const Stmt* body = nullptr;
  Array<Annotation> annotations;
  Tolerance tolerance;
  // The next free ids. Ids start at 1.
  u32 next_loop = 1, next_block = 1, next_buffer = 1, next_var = 1;
};

struct OwnedProgram {
  std::shared_ptr<Arena> arena;
  Program program;
};

const Param* find_param(const Program& program, const Buffer* buffer);
inline bool is_param(const Program& program, const Buffer* buffer) { return find_param(program, buffer) != nullptr; }
bool is_constant_param(const Program& program, const Buffer* buffer);
bool is_output(const Program& program, const Buffer* buffer);
// An input of a program that is marked `layout_free = 1`: its layout is the kernel's choice, so that copying it into
// another one happens before the kernel runs.
bool has_free_layout(const Program& program, const Buffer* buffer);
void mark_free_layout(OwnedProgram& owned);
// May it be laid out before the kernel runs: is it constant, or its layout free?
bool is_prepackable(const Program& program, const Buffer* buffer);

// The layout "ring d": along dimension d only what one iteration of a loop touches is kept when the program is lowered,
// and index i is stored at the remainder of i (rolling_buffer). Nothing for other layouts.
inline constexpr std::string_view kRingLayout = "ring ";
std::optional<std::size_t> ring_axis(const Buffer* buffer);

// The layout "xor n" (set_layout): of a buffer that a group shares, byte o lies at o ^ o // span % 2^n * 16, where the
// span is that of a row, or 128, which all banks together have, if rows are shorter. So pieces of 16 bytes that lie
// below each other come into different banks. Nothing for other layouts. `flatten_buffers`, behind which there are no
// rows, writes the span down.
inline constexpr std::string_view kXorLayout = "xor ";
inline constexpr i64 kMostXorBits = 3, kXorBytes = 16;
struct XorLayout {
  i64 bits, span;  // in bytes, a power of two
  i64 place(i64 byte) const { return byte ^ (byte / span % (i64{1} << bits) * kXorBytes); }
};
std::optional<XorLayout> xor_layout(const Buffer* buffer);
i64 xor_span(i64 row_bytes);

i64 elements_of(const Buffer* buffer);
// Row-major, in elements, with the stride rules of the buffer obeyed; and the elements from the first to the last one.
std::vector<i64> strides_of(const Buffer* buffer);
i64 stored_elements_of(const Buffer* buffer);
inline i64 bytes_of(const Buffer* buffer) { return stored_elements_of(buffer) * bytes_of(buffer->dtype); }

// A copy whose nodes all live in a new arena.
OwnedProgram clone(const Program& program);

}  // namespace tw
