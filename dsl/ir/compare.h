// Structural equality and hash of programs up to renaming: names and ids do not count, the order in which loops, iters,
// variables and buffers are first met does.
#pragma once
#include "dsl/ir/program.h"

namespace tw {

struct Hash128 {
  u64 low = 0, high = 0;
  bool operator==(const Hash128&) const = default;
  auto operator<=>(const Hash128&) const = default;
};
std::string to_hex(Hash128 hash);  // 32 digits
std::optional<Hash128> parse_hash(std::string_view hex);
// XXH3-128.
Hash128 hash_bytes(std::string_view bytes);

// Of the whole program: parameters (role, type, shape), locals, body, tolerance.
Hash128 structural_hash(const Program& program);

// The same of the program without its unit loops, and with affine indices in normal form: programs that differ only in
// where loops of one iteration stand compile to the same code. What the search calls one candidate.
Hash128 normalized_hash(const Program& program);

// Equal structural hashes are confirmed with this.
bool structurally_equal(const Program& a, const Program& b);

}  // namespace tw
