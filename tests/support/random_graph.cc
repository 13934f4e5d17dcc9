#include "support/random_graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "dsl/base/text.h"

namespace tw::test {
namespace {

using graph::ValueId;
using Ints = std::vector<i64>;

HostArray normal(const Ints& shape, Rng& rng, double scale) {
  HostArray array = HostArray::zeros(DType::F32, shape);
  for (i64 i = 0; i < array.elements(); ++i) array.set(i, scale * rng.normal());
  return array;
}

class Maker {
 public:
  Maker(Rng rng, bool joins) : rng_(rng), joins_(joins), builder_("random") {}

  graph::Graph run() {
    for (i64 n = 1 + rng_.below(2); n > 0; --n) {
      Ints shape{1 + rng_.below(2), joins_ ? channels() : 1 + rng_.below(8)};
      for (i64 d = 1 + rng_.below(2); d > 0; --d) shape.push_back((joins_ ? 2 : 3) + rng_.below(joins_ ? 3 : 5));
      values_.push_back(builder_.input(cat("x", n), {DType::F32, shape}));
    }
    for (i64 steps = 3 + rng_.below(12); steps > 0; --steps) add_something();
    for (ValueId value :
         std::vector<ValueId>(values_.end() - std::min<std::ptrdiff_t>(2, std::ssize(values_)), values_.end()))
      builder_.output(value, cat("y", value));
    if (rng_.below(3) == 0) builder_.output(any(), "z");
    return builder_.finish();
  }

 private:
  // Newer values are read more often.
  ValueId any() {
    i64 count = std::ssize(values_), at = std::max(rng_.below(count), rng_.below(count));
    return values_[static_cast<std::size_t>(at)];
  }
  // A copy: types move when something is added.
  Ints shape(ValueId value) const { return builder_.type(value).shape; }
  i64 rank(ValueId value) const { return std::ssize(shape(value)); }

  ValueId make(const std::string& op, WorkloadArguments arguments, const std::vector<ValueId>& inputs) {
    std::string error;
    auto made = builder_.add(op, std::move(arguments), inputs, op, error);
    EXPECT_TRUE(made) << op << ": " << error;
    return made ? (*made)[0] : inputs[0];
  }
  ValueId constant(const Ints& shape, double scale = 1) { return builder_.constant("c", normal(shape, rng_, scale)); }
  ValueId scalar(double value) {
    HostArray array = HostArray::zeros(DType::F32, {});
    array.set(0, value);
    return builder_.constant("s", std::move(array));
  }
  ValueId spread(ValueId value, const Ints& shape) { return make("broadcast", {{"R", shape}}, {value}); }

  void add_something() {
    ValueId x = any();
    ValueId made = x;
    if (joins_ && rng_.below(2) == 0) {
      made = rng_.below(5) == 0 ? padded(x) : rng_.below(3) == 0 ? cut(x) : joined(x);
      if (elements(made) <= 4096 && elements(made) > 0) values_.push_back(made);
      return;
    }
    switch (rng_.below(14)) {
      case 0:
      case 1:
        made = unary(x);
        break;
      case 2:
      case 3:
        made = binary(x);
        break;
      case 4:
        made = per_channel(x);
        break;
      case 5:
      case 6:
      case 7:
        made = convolution(x);
        break;
      case 8:
        made = pool(x);
        break;
      case 9:
        made = moved(x);
        break;
      case 10:
        made = reduced(x);
        break;
      case 11:
        made = product(x);
        break;
      case 12:
        made = row_wise(x);
        break;
      default:
        made = made_of_itself(x);
    }
    if (elements(made) <= 4096 && elements(made) > 0) values_.push_back(made);
  }
  i64 elements(ValueId value) const { return graph::elements_of(builder_.type(value)); }

  ValueId unary(ValueId x) {
    constexpr const char* ops[] = {"relu",           "absolute", "logistic", "hyperbolic_tangent", "negate",
                                   "error_function", "copy",     "softsign", "hard_swish"};
    if (rng_.below(6) == 0) return make("clamp", {}, {x, scalar(-0.5), scalar(1)});
    return make(ops[rng_.below(std::ssize(ops))], {}, {x});
  }
  // With another value of the same shape, or a constant; bounded.
  ValueId binary(ValueId x) {
    std::vector<ValueId> alike;
    for (ValueId value : values_) {
      if (shape(value) == shape(x)) alike.push_back(value);
    }
    ValueId other =
        rng_.below(4) == 0 ? constant(shape(x)) : alike[static_cast<std::size_t>(rng_.below(std::ssize(alike)))];
    constexpr const char* ops[] = {"add", "subtract", "maximum", "minimum"};
    if (rng_.below(4) == 0)
      return make("multiply", {}, {make("hyperbolic_tangent", {}, {x}), make("logistic", {}, {other})});
    return make(ops[rng_.below(std::ssize(ops))], {}, {x, other});
  }
  ValueId per_channel(ValueId x) {
    if (rank(x) == 0) return unary(x);
    Ints channels(static_cast<std::size_t>(std::max<i64>(1, rank(x) - 1)), 1);
    if (rank(x) > 1) channels[0] = shape(x)[1];
    return make(rng_.below(2) == 0 ? "multiply" : "add", {}, {x, spread(constant(channels), shape(x))});
  }
  ValueId convolution(ValueId x) {
    if (rank(x) < 3) return unary(x);
    if (joins_ && rng_.below(4) == 0) return spread_windows(x);
    i64 channels = shape(x)[1], groups = rng_.below(3) == 0 ? channels : 1;
    if (groups == 1 && channels % 2 == 0 && rng_.below(4) == 0) groups = 2;
    i64 results = groups * (1 + rng_.below(groups == 1 ? 8 : 2));
    if (joins_ && groups == 1) results = this->channels();
    Ints weights{results, channels / groups}, strides, before, after, dilations;
    for (i64 d = 2; d < rank(x); ++d) {
      i64 extent = shape(x)[static_cast<std::size_t>(d)], window = 1 + rng_.below(std::min<i64>(3, extent));
      weights.push_back(window);
      strides.push_back(1 + rng_.below(2));
      before.push_back(rng_.below(window));
      after.push_back(rng_.below(window));
      dilations.push_back(window > 1 && 2 * (window - 1) < extent && rng_.below(4) == 0 ? 2 : 1);
    }
    double scale = 1 / std::sqrt(static_cast<double>(graph::elements_of({DType::F32, weights}) / results));
    return make(
        "conv",
        {{"strides", strides}, {"before", before}, {"after", after}, {"dilations", dilations}, {"groups", groups}},
        {x, constant(weights, scale)});
  }
  // A transposed convolution; often with windows that lie side by side.
  ValueId spread_windows(ValueId x) {
    Ints weights{shape(x)[1], 16}, strides, before, out, dilations;
    bool is_apart = rng_.below(3) > 0;
    for (i64 d = 2; d < rank(x); ++d) {
      i64 extent = shape(x)[static_cast<std::size_t>(d)], window = 1 + rng_.below(3);
      weights.push_back(window);
      strides.push_back(is_apart ? window : 1 + rng_.below(2));
      before.push_back(is_apart ? 0 : rng_.below(window));
      dilations.push_back(1);
      out.push_back(is_apart ? extent * window : (extent - 1) * strides.back() + window - before.back());
    }
    double scale = 1 / std::sqrt(static_cast<double>(weights[0]));
    return make("conv_transposed",
                {{"strides", strides}, {"before", before}, {"out", out}, {"dilations", dilations}, {"groups", i64{1}}},
                {x, constant(weights, scale)});
  }
  ValueId pool(ValueId x) {
    if (rank(x) < 3) return unary(x);
    Ints window, strides, before, after, ones;
    for (i64 d = 2; d < rank(x); ++d) {
      window.push_back(1 + rng_.below(std::min<i64>(3, shape(x)[static_cast<std::size_t>(d)])));
      strides.push_back(1 + rng_.below(2));
      before.push_back(rng_.below(window.back()));
      after.push_back(rng_.below(window.back()));
      ones.push_back(1);
    }
    WorkloadArguments arguments{{"window", window}, {"strides", strides}, {"before", before}, {"after", after}};
    bool is_max = rng_.below(2) == 0;
    if (is_max)
      arguments.push_back({"dilations", ones});
    else
      arguments.push_back({"counts_padding", rng_.below(2)});
    return make(is_max ? "max_pool" : "average_pool", arguments, {x});
  }
  ValueId moved(ValueId x) {
    Ints own = shape(x);
    switch (rng_.below(6)) {
      case 0: {
        Ints order;
        for (i64 d = 0; d < rank(x); ++d) order.insert(order.begin() + rng_.below(d + 1), d);
        return make("transpose", {{"order", order}}, {x});
      }
      case 1: {
        Ints flat{own.empty() ? 1 : own[0], 1};
        for (std::size_t d = 1; d < own.size(); ++d) flat[1] *= own[d];
        return make("reshape", {{"R", flat}}, {x});
      }
      case 2:
        return padded(x);
      case 3: {
        Ints start, step, size;
        for (i64 extent : own) {
          size.push_back(1 + rng_.below(extent));
          start.push_back(rng_.below(extent - size.back() + 1));
          step.push_back(1);
        }
        return make("slice", {{"start", start}, {"step", step}, {"R", size}}, {x});
      }
      case 4: {
        Ints wide = own;
        for (std::size_t d = 0; d < wide.size(); ++d) wide[d] *= own[d] == 1 ? 1 + rng_.below(3) : 1;
        ValueId made = spread(x, wide);
        Ints swapped = wide;
        std::ranges::reverse(swapped);
        return rng_.below(2) == 0 ? made : make("reshape", {{"R", swapped}}, {made});
      }
      default:
        if (own.empty()) return x;
        return make("concat", {{"axis", rng_.below(rank(x))}}, {x, x});
    }
  }
  ValueId padded(ValueId x) {
    Ints before, after;
    bool is_margin = joins_ && rank(x) > 2 && rng_.below(2) == 0;  // as convolutions have it
    for (i64 d = 0; d < rank(x); ++d) {
      i64 most = is_margin && d < 2 ? 1 : 2;
      before.push_back(rng_.below(most)), after.push_back(rng_.below(most));
    }
    return make("pad", {{"before", before}, {"after", after}}, {x, scalar(is_margin ? 0 : 0.5)});
  }

  // Most are a cache line of them.
  i64 channels() { return rng_.below(5) == 0 ? 1 + rng_.below(40) : 16 * (1 + rng_.below(2)); }

  // Of x and others that fit: values that are there, constants, x again. A chain, as importers make it. Sometimes the
  // latest chain again, with more.
  ValueId joined(ValueId x) {
    if (rank(x) == 0) return x;
    Chain chain{rng_.below(rank(x)), {x}};
    if (!chain_.operands.empty() && rng_.below(3) == 0) chain = chain_;
    Ints like = shape(chain.operands[0]);
    std::size_t axis = static_cast<std::size_t>(chain.axis);
    std::vector<ValueId> fitting;
    for (ValueId value : values_) {
      Ints other = shape(value);
      if (other.size() == like.size()) other[axis] = like[axis];
      if (other == like) fitting.push_back(value);
    }
    for (i64 more = 1 + rng_.below(2); more > 0; --more) {
      if (rng_.below(8) == 0) fitting.push_back(constant(like));
      ValueId next =
          fitting[static_cast<std::size_t>(std::max(rng_.below(std::ssize(fitting)), rng_.below(std::ssize(fitting))))];
      chain.operands.push_back(next);
    }
    ValueId all = chain.operands[0];
    for (std::size_t i = 1; i < chain.operands.size(); ++i)
      all = make("concat", {{"axis", chain.axis}}, {all, chain.operands[i]});
    if (elements(all) <= 4096) chain_ = std::move(chain);
    return all;
  }

  // Into two parts along one dimension, both of which are values.
  ValueId cut(ValueId x) {
    Ints own = shape(x), start(own.size()), size = own;
    if (rank(x) == 0) return x;
    std::size_t axis = static_cast<std::size_t>(rng_.below(rank(x)));
    i64 first = own[axis] % 32 == 0 ? own[axis] / 2 : rng_.below(own[axis]);
    Ints step(own.size(), 1);
    for (i64 part : {first, own[axis] - first}) {
      size[axis] = part;
      ValueId made = part > 0 ? make("slice", {{"start", start}, {"step", step}, {"R", size}}, {x}) : x;
      start[axis] += part;
      values_.push_back(made);
    }
    return values_.back();
  }

  ValueId reduced(ValueId x) {
    Ints axes;
    for (i64 d = 0; d < rank(x); ++d) {
      if (rng_.below(2) == 0) axes.push_back(d);
    }
    if (axes.empty()) return x;
    ValueId made = make(rng_.below(2) == 0 ? "reduce_max" : "reduce_sum", {{"axes", axes}}, {x});
    return make("hyperbolic_tangent", {}, {made});
  }
  ValueId product(ValueId x) {
    if (rank(x) < 2) return unary(x);
    Ints weights{shape(x).back(), 1 + rng_.below(20)}, batch = shape(x);
    double scale = 1 / std::sqrt(static_cast<double>(weights[0]));
    batch.resize(batch.size() - 2);
    batch.insert(batch.end(), weights.begin(), weights.end());
    i64 kind = rng_.below(3);
    ValueId matrix = constant(kind == 0 ? batch : weights, scale);
    bool has_batch = rank(x) > 2;
    if (kind == 1 || (kind == 2 && !has_batch)) matrix = spread(matrix, batch);
    if (kind < 2 || !has_batch) return make("matmul", {}, {x, matrix});
    // As rows of a batch times one matrix are imported.
    Ints parted = shape(x);
    parted.back() = weights[1];
    ValueId rows = make("reshape", {{"R", Ints{elements(x) / weights[0], weights[0]}}}, {x});
    return make("reshape", {{"R", parted}}, {make("matmul", {}, {rows, matrix})});
  }
  ValueId row_wise(ValueId x) {
    if (rank(x) == 0) return x;
    if (rng_.below(2) == 0) return make("softmax", {{"axis", rng_.below(rank(x))}}, {x});
    const char* op = rng_.below(2) == 0 ? "standardize" : "divide_by_rms";
    return make(op, {{"first", rng_.below(rank(x))}}, {x, scalar(0.1)});
  }
  // x * sigmoid(x) and the like.
  ValueId made_of_itself(ValueId x) {
    ValueId gate = unary(x);
    return make(rng_.below(2) == 0 ? "multiply" : "add", {}, {x, make("logistic", {}, {gate})});
  }

  struct Chain {
    i64 axis = 0;
    std::vector<ValueId> operands;
  };

  Rng rng_;
  bool joins_;
  Chain chain_;  // the latest
  graph::GraphBuilder builder_;
  std::vector<ValueId> values_;
};

}  // namespace

graph::Graph random_graph(Rng rng) { return Maker(rng, false).run(); }

graph::Graph random_joined_graph(Rng rng) { return Maker(rng, true).run(); }

std::vector<HostArray> random_arrays(const graph::Graph& graph, Rng rng) {
  std::vector<HostArray> arrays;
  for (ValueId input : graph.inputs) arrays.push_back(normal(graph.values[input].type.shape, rng, 1));
  return arrays;
}

}  // namespace tw::test
