#include "sampler/draw/support.h"

#include <algorithm>
#include <numeric>

#include "dsl/base/rng.h"

namespace tw {
namespace {

using Draws = Meaning::Draws;

class Support {
 public:
  Support(const Instruction& sample, State& state, std::size_t most) : sample_(sample), state_(state), most_(most) {}

  std::optional<std::vector<Decision>> all() {
    Rng any(1);
    Decision drawn;
    if (!apply(drawn, &any, false)) return std::vector<Decision>();
    count_ = drawn.count;
    switch (sample_.kind->meaning.draws) {
      case Draws::OneOf:
        for (i64 i = 0; add(Decision::of(i)); ++i) continue;
        break;
      case Draws::Order:
        add_orders();
        break;
      case Draws::Place:
        add_places();
        break;
      case Draws::Divisors:
      case Draws::Factors:
      case Draws::PartedDivisors:
        if (!add_tiles()) return std::nullopt;
        break;
      case Draws::Other:
        return std::nullopt;
    }
    if (found_.size() > most_) return std::nullopt;
    return std::move(found_);
  }

 private:
  bool apply(Decision& decision, Rng* rng, bool adapt) {
    List<Value> results;
    return static_cast<bool>(sample_.kind->apply(state_, sample_.arguments, {&decision, rng, adapt}, results));
  }
  bool is_full() const { return found_.size() > most_; }
  // False if it is none of the sample, or there are enough.
  bool add(Decision decision) {
    if (is_full() || !apply(decision, nullptr, false)) return false;
    found_.push_back(decision);
    return true;
  }

  void add_orders() {
    Decision order;
    order.count = static_cast<u8>(count_);
    std::iota(order.values, order.values + count_, 0);
    do add(order);
    while (!is_full() && std::next_permutation(order.values, order.values + count_));
  }

  // Adapting takes the nearest smaller legal place, or -1 where there is none.
  void add_places() {
    constexpr i64 kBeyondAll = 1 << 20, kFirst = -2;
    for (i64 wanted = kBeyondAll; wanted >= kFirst; --wanted) {
      Decision place = Decision::of(wanted);
      if (!apply(place, nullptr, true) || place.values[0] > wanted) break;
      found_.push_back(place);
      wanted = place.values[0];
    }
    std::reverse(found_.begin(), found_.end());
  }

  // False if the extent cannot be told.
  bool add_tiles() {
    const Arg& loop = sample_.arguments[0];
    if (loop.tag != Arg::Tag::Value) return false;
    auto id = static_cast<u32>(state_.values()[static_cast<std::size_t>(loop.integer)].payload);
    Result<const For*> found = state_.loop(LoopId{id});
    Result<i64> limit = state_.integer(sample_.arguments[2]);  // of partitioned tiles it is something else
    if (!found || !limit) return false;
    max_innermost_ = sample_.kind->meaning.draws == Draws::PartedDivisors ? 0 : *limit;
    Decision tile;
    tile.count = static_cast<u8>(count_);
    add_factors(tile, count_ - 1, (*found)->extent);
    return true;
  }

  // All ways to choose the factors up to `place`, innermost first, where `rest` is what those behind it leave.
  void add_factors(Decision& tile, int place, i64 rest) {
    if (place == 0) {
      tile.values[0] = rest;
      add(tile);
      return;
    }
    bool divides = sample_.kind->meaning.draws != Draws::Factors;
    bool is_limited = place == count_ - 1 && max_innermost_ > 0;
    for (i64 factor = 1; factor <= (is_limited ? std::min(rest, max_innermost_) : rest) && !is_full(); ++factor) {
      if (divides && rest % factor != 0) continue;
      tile.values[place] = factor;
      add_factors(tile, place - 1, divides ? rest / factor : (rest + factor - 1) / factor);
    }
  }

  const Instruction& sample_;
  State& state_;
  std::size_t most_;
  int count_ = 0;
  i64 max_innermost_ = 0;
  std::vector<Decision> found_;
};

}  // namespace

std::optional<std::vector<Decision>> support_of(const Instruction& sample, State& state, std::size_t most) {
  return Support(sample, state, most).all();
}

}  // namespace tw
