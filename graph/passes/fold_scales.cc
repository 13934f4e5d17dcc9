#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "graph/passes/passes.h"

namespace tw::graph {
namespace {

// conv(X, F) * scale + shift, one number of each for each channel.
struct Scaled {
  const Node* conv = nullptr;
  std::vector<double> scale, shift;
};

class FoldScales {
 public:
  explicit FoldScales(const Graph& graph)
      : graph_(graph),
        copy_(graph),
        uses_(graph.values.size()),
        makers_(makers_of(graph)),
        scaled_(graph.values.size()) {
    for (const Node& node : graph.nodes) {
      for (ValueId input : node.inputs) ++uses_[input];
    }
    for (ValueId output : graph.outputs) ++uses_[output];
  }

  Graph run() {
    for (const Node& node : graph_.nodes) {
      scaled_[node.outputs[0]] = scaled(node);
      if (scaled_[node.outputs[0]]) continue;
      for (ValueId input : node.inputs) make(input);
      copy_.copy(node);
    }
    for (ValueId output : graph_.outputs) make(output);
    return copy_.finish();
  }

 private:
  // What a node is, if it and what it reads are a convolution with scales so far.
  std::optional<Scaled> scaled(const Node& node) const {
    if (node.op == "conv" && graph_.values[node.inputs[1]].data &&
        graph_.values[node.inputs[1]].type.dtype == DType::F32) {
      std::size_t channels = static_cast<std::size_t>(graph_.values[node.outputs[0]].type.shape[1]);
      return Scaled{&node, std::vector<double>(channels, 1), std::vector<double>(channels, 0)};
    }
    bool is_quotient = node.op == "divide", is_product = is_quotient || node.op == "multiply";
    if (!is_product && node.op != "add" && node.op != "subtract") return std::nullopt;
    for (std::size_t n = 0; n < (is_quotient || node.op == "subtract" ? 1u : 2u); ++n) {
      const std::optional<Scaled>& before = scaled_[node.inputs[n]];
      std::optional<std::vector<double>> numbers = per_channel(node.inputs[1 - n]);
      if (!before || !numbers || uses_[node.inputs[n]] != 1) continue;
      Scaled after = *before;
      for (std::size_t c = 0; c < numbers->size(); ++c) {
        double number = is_quotient ? 1 / (*numbers)[c] : (*numbers)[c];
        if (is_product) after.scale[c] *= number;
        after.shift[c] = is_product ? after.shift[c] * number : after.shift[c] + (node.op == "add" ? number : -number);
      }
      if (is_finite(after)) return after;
    }
    return std::nullopt;
  }

  // Are the weights with these scales, and the shifts, numbers in f32?
  bool is_finite(const Scaled& scaled) const {
    auto is_number = [](double x) { return std::abs(x) <= std::numeric_limits<float>::max(); };
    const HostArray& weights = *graph_.values[scaled.conv->inputs[1]].data;
    i64 of_a_channel = weights.elements() / std::ssize(scaled.scale);
    for (i64 i = 0; i < weights.elements(); ++i) {
      if (!is_number(weights.get(i) * scaled.scale[static_cast<std::size_t>(i / of_a_channel)])) return false;
    }
    return std::ranges::all_of(scaled.shift, is_number);
  }

  // The numbers of a constant that is the same at all places of a channel: one that is broadcast, or as a whole.
  std::optional<std::vector<double>> per_channel(ValueId value) const {
    const Node* maker = makers_[value];
    const Value& source = graph_.values[maker && maker->op == "broadcast" ? maker->inputs[0] : value];
    const std::vector<i64>& shape = graph_.values[value].type.shape;
    if (!source.data || shape.size() < 2) return std::nullopt;
    std::vector<i64> own = source.type.shape;
    own.insert(own.begin(), shape.size() - own.size(), 1);
    i64 inner = 1;  // elements of a channel that lie together
    for (std::size_t d = 2; d < own.size(); ++d) inner *= own[d];
    std::vector<std::optional<double>> numbers(static_cast<std::size_t>(own[1]));  // one for all, or one for each
    for (i64 e = 0; e < source.data->elements(); ++e) {
      std::optional<double>& number = numbers[static_cast<std::size_t>(e / inner % own[1])];
      double here = source.data->get(e);
      if (number.value_or(here) != here) return std::nullopt;
      number = here;
    }
    std::vector<double> out;
    for (i64 c = 0; c < shape[1]; ++c) out.push_back(numbers[static_cast<std::size_t>(c % own[1])].value_or(0));
    return out;
  }

  // A convolution and what is left behind it.
  void make(ValueId value) {
    const std::optional<Scaled>& scaled = scaled_[value];
    if (!scaled || copy_.has(value)) return;
    const Node& conv = *scaled->conv;
    const std::string& name = graph_.values[value].name;
    auto is = [](double wanted) { return [=](double x) { return x == wanted; }; };
    ValueId weights = copy_.now(conv.inputs[1]);
    if (!std::ranges::all_of(scaled->scale, is(1))) weights = scaled_weights(conv.inputs[1], scaled->scale);
    make(conv.inputs[0]);
    ValueId made = copy_.add("conv", conv.arguments, {copy_.now(conv.inputs[0]), weights}, name);
    if (!std::ranges::all_of(scaled->shift, is(0))) {
      std::vector<i64> shape = graph_.values[value].type.shape, channels(shape.size() - 1, 1);
      channels[0] = shape[1];
      HostArray shift = HostArray::zeros(DType::F32, channels);
      for (std::size_t c = 0; c < scaled->shift.size(); ++c) shift.set(static_cast<i64>(c), scaled->shift[c]);
      ValueId constant = copy_.builder().constant(name + "_shift", std::move(shift));
      made = copy_.add("add", {}, {made, copy_.add("broadcast", {{"R", shape}}, {constant}, name + "_shifts")}, name);
    }
    copy_.set(value, made);
  }

  ValueId scaled_weights(ValueId weights, const std::vector<double>& scale) {
    HostArray data = *graph_.values[weights].data;
    i64 of_a_channel = data.elements() / static_cast<i64>(scale.size());
    for (i64 i = 0; i < data.elements(); ++i)
      data.set(i, data.get(i) * scale[static_cast<std::size_t>(i / of_a_channel)]);
    return copy_.builder().constant(graph_.values[weights].name, std::move(data));
  }

  const Graph& graph_;
  GraphCopy copy_;
  std::vector<int> uses_;
  std::vector<const Node*> makers_;
  std::vector<std::optional<Scaled>> scaled_;
};

}  // namespace

Graph fold_scales(const Graph& graph) { return FoldScales(graph).run(); }

}  // namespace tw::graph
