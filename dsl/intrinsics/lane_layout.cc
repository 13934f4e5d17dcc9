#include "dsl/intrinsics/lane_layout.h"

#include <bit>
#include <numeric>
#include <optional>

#include "dsl/base/text.h"

namespace tw {
namespace {

constexpr i64 kMostElements = 1 << 16;

// Of sums, products, // and % of the two variables and numbers that are not negative; nothing for anything else.
struct Evaluation {
  Str t_name, i_name;
  i64 t = 0, i = 0;

  std::optional<i64> operator()(const ast::Expr* e) const {
    if (auto* number = ast::as<ast::Int>(e)) return number->value;
    if (auto* name = ast::as<ast::Name>(e))
      return name->name == t_name ? std::optional(t) : name->name == i_name ? std::optional(i) : std::nullopt;
    auto* binary = ast::as<ast::Binary>(e);
    std::optional<i64> a = binary ? (*this)(binary->a) : std::nullopt, b = a ? (*this)(binary->b) : std::nullopt;
    if (!b || *a < 0 || *b < 0 || *a > kMostElements || *b > kMostElements) return std::nullopt;
    switch (binary->op) {
      case BinaryOp::Add:
        return *a + *b;
      case BinaryOp::Mul:
        return *a * *b;
      case BinaryOp::FloorDiv:
        return *b > 0 ? std::optional(*a / *b) : std::nullopt;
      case BinaryOp::FloorMod:
        return *b > 0 ? std::optional(*a % *b) : std::nullopt;
      default:
        return std::nullopt;
    }
  }
};

bool is_power_of_two(i64 value) { return value > 0 && std::has_single_bit(static_cast<u64>(value)); }
std::size_t bits_of(i64 count) { return static_cast<std::size_t>(std::countr_zero(static_cast<u64>(count))); }

std::string digit_text(std::string_view variable, const LaneLayout::Digit& digit, std::size_t all_bits) {
  std::string out(variable);
  if (digit.first > 0) out += cat(" / ", i64{1} << digit.first);
  if (digit.first + digit.count < all_bits) out += cat(" % ", i64{1} << digit.count);
  if (digit.step != 1) out += cat(" * ", digit.step);
  return out;
}

}  // namespace

std::vector<LaneLayout::Digit> LaneLayout::digits(const std::vector<Index>& bits, std::size_t dimension) {
  std::vector<Digit> out;
  for (std::size_t b = 0; b < bits.size(); ++b) {
    i64 step = bits[b][dimension];
    if (step == 0) continue;
    bool goes_on =
        !out.empty() && out.back().first + out.back().count == b && step == out.back().step << out.back().count;
    if (goes_on)
      ++out.back().count;
    else
      out.push_back({b, 1, step});
  }
  return out;
}

LaneLayout::Index LaneLayout::at(i64 t, i64 i) const {
  Index out((lane_bits.empty() ? own_bits : lane_bits)[0].size(), 0);
  auto add = [&](const std::vector<Index>& bits, i64 value) {
    for (std::size_t b = 0; b < bits.size(); ++b) {
      for (std::size_t d = 0; d < out.size(); ++d) out[d] += (value >> b & 1) * bits[b][d];
    }
  };
  add(lane_bits, t), add(own_bits, i);
  return out;
}

std::string LaneLayout::text(std::size_t dimension, std::string_view t, std::string_view i) const {
  std::vector<std::string> terms;
  for (const Digit& digit : digits(lane_bits, dimension)) terms.push_back(digit_text(t, digit, lane_bits.size()));
  for (const Digit& digit : digits(own_bits, dimension)) terms.push_back(digit_text(i, digit, own_bits.size()));
  return terms.empty() ? "0" : join(terms, " + ");
}

ParsedLayout read_lane_layout(const ast::Expr* map, const std::vector<i64>& shape, i64 lanes) {
  auto* lambda = ast::as<ast::Lambda>(map);
  auto* results = lambda ? ast::as<ast::Tuple>(lambda->body) : nullptr;
  if (!results || lambda->parameters.size() != 2 || results->items.size() != shape.size())
    return {{}, cat("expected (t, i) -> the ", shape.size(), " indices of what lane t holds as its element i")};
  i64 elements = std::accumulate(shape.begin(), shape.end(), i64{1}, std::multiplies<>());
  if (elements > kMostElements || elements % lanes != 0 || !is_power_of_two(elements / lanes) || elements < 2)
    return {{}, cat(elements, " elements are not shared evenly by ", lanes, " lanes")};
  auto index = [&](i64 t, i64 i) {
    Evaluation evaluate{lambda->parameters[0]->name, lambda->parameters[1]->name, t, i};
    std::optional<LaneLayout::Index> out(std::in_place);
    for (std::size_t d = 0; d < shape.size() && out; ++d) {
      std::optional<i64> one = evaluate(results->items[d]);
      if (one && *one < shape[d])
        out->push_back(*one);
      else
        out.reset();
    }
    return out;
  };
  LaneLayout made;
  for (std::size_t b = 0; b < bits_of(lanes); ++b)
    made.lane_bits.push_back(index(i64{1} << b, 0).value_or(LaneLayout::Index(shape.size(), -1)));
  for (std::size_t b = 0; b < bits_of(elements / lanes); ++b)
    made.own_bits.push_back(index(0, i64{1} << b).value_or(LaneLayout::Index(shape.size(), -1)));
  std::vector<bool> is_held(static_cast<std::size_t>(elements));
  for (i64 t = 0; t < lanes; ++t) {
    for (i64 i = 0; i < elements / lanes; ++i) {
      std::optional<LaneLayout::Index> found = index(t, i);
      if (!found) return {{}, cat("lane ", t, " has no element ", i, " inside of the operand")};
      if (*found != made.at(t, i))
        return {{}, cat("what lane ", t, " holds as element ", i, " is no sum over the bits of these numbers")};
      i64 place = 0;
      for (std::size_t d = 0; d < shape.size(); ++d) place = place * shape[d] + (*found)[d];
      if (is_held[static_cast<std::size_t>(place)])
        return {{}, cat("lane ", t, " holds as element ", i, " what is held already")};
      is_held[static_cast<std::size_t>(place)] = true;
    }
  }
  return {std::move(made), ""};
}

}  // namespace tw
