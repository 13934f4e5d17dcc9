// LSTM, GRU and RNN: one step after the other, each a product of matrices and a cell.
#include <algorithm>
#include <array>

#include "dsl/base/text.h"
#include "graph/onnx/node_import.h"

namespace tw::graph::onnx {
namespace {

using Ints = std::vector<i64>;

constexpr i64 kMostSteps = 512;  // of a sequence: each one is operators of its own

// By the numbers that `activated` of graph/operators has for them.
constexpr std::array kActivations{"Sigmoid", "Tanh", "Relu", "HardSigmoid", "Softsign", "Softplus"};

struct Recurrent {
  i64 gates;
  std::vector<i64> activations;  // of one direction, unless the node says others
};

// The operands of one direction: [inputs, gates * H], [H, gates * H], [gates * H] each, peepholes [3 * H].
struct Weights {
  ValueId inputs, state;
  std::optional<ValueId> bias_of_inputs, bias_of_state, peepholes;
};

struct State {
  ValueId hidden, cell;  // [N, H]; only an LSTM has a cell
};

ValueId plus(NodeImport& node, ValueId a, ValueId b) {
  return node.add("add", {}, {a, node.broadcast(b, node.shape(a))});
}

// Pairs of pairs, so that each element is copied as often as the tree is deep.
ValueId one_behind_the_other(NodeImport& node, std::vector<ValueId> values) {
  while (values.size() > 1) {
    std::vector<ValueId> pairs;
    for (std::size_t i = 0; i < values.size(); i += 2)
      pairs.push_back(i + 1 < values.size() ? node.add("concat", {{"axis", i64{0}}}, {values[i], values[i + 1]})
                                            : values[i]);
    values = std::move(pairs);
  }
  return values[0];
}

class RecurrentImport {
 public:
  RecurrentImport(NodeImport& node, Recurrent kind) : node_(node), kind_(std::move(kind)) {}

  void run() {
    if (!is_supported()) return;
    x_ = node_.input(0);
    bool is_batch_first = node_.integer("layout", 0) != 0;
    if (node_.rank(x_) != 3 || node_.rank(node_.input(1)) != 3 || node_.rank(node_.input(2)) != 3)
      return node_.fail("its operands are to have three dimensions");
    if (is_batch_first) x_ = node_.transpose(x_, {1, 0, 2});
    const Ints shape = node_.shape(x_);
    steps_ = shape[0], batch_ = shape[1], width_ = node_.extent(node_.input(2), 2);
    if (node_.integer("hidden_size", width_) != width_) return node_.fail("its weights are for another hidden size");
    if (steps_ > kMostSteps)
      return node_.fail(cat("its sequence has ", steps_, " steps; at most ", kMostSteps, " are supported"));
    if (!has_full_lengths()) return;
    std::string way = node_.text("direction", "forward");
    i64 directions = way == "bidirectional" ? 2 : 1;
    if (node_.extent(node_.input(1), 0) != directions) return node_.fail("its weights are for other directions");
    for (i64 d = 0; d < directions && !node_.has_failed(); ++d) direction(d, way == "reverse" || d == 1);
    if (!node_.has_failed()) results(is_batch_first);
  }

 private:
  bool is_supported() {
    if (node_.has("clip") || node_.integer("input_forget", 0) != 0)
      return node_.fail("clipped gates and coupled gates are not supported"), false;
    const proto::AttributeProto* names = node_.find("activations");
    if (!names) return true;
    if (node_.has("activation_alpha") || node_.has("activation_beta"))
      return node_.fail("activations with parameters are not supported"), false;
    given_.clear();
    for (const std::string& name : names->strings()) {
      auto found = std::ranges::find(kActivations, name);
      if (found == kActivations.end()) return node_.fail(cat("activation `", name, "` is not supported")), false;
      given_.push_back(found - kActivations.begin());
    }
    return true;
  }

  bool has_full_lengths() {
    if (!node_.has_input(4)) return true;
    Ints lengths = node_.known_integers(4);
    bool is_full = std::ranges::all_of(lengths, [&](i64 length) { return length == steps_; });
    if (!is_full) node_.fail("sequences that are shorter than the longest one are not supported");
    return !node_.has_failed();
  }

  // What an input has for a direction, without that dimension.
  ValueId of_direction(std::size_t input, i64 d) {
    ValueId all = node_.input(input);
    Ints shape = node_.shape(all);
    if (shape.empty()) return node_.fail(cat("input ", input, " has no dimensions")), all;
    return node_.reshape(part(node_, all, 0, d, 1), Ints(shape.begin() + 1, shape.end()));
  }

  ValueId initial(std::size_t input, i64 d) {
    if (!node_.has_input(input)) return node_.broadcast(node_.scalar(0, node_.dtype(x_)), {batch_, width_});
    ValueId all = node_.input(input);
    if (node_.rank(all) != 3) return node_.fail("an initial state is to have three dimensions"), all;
    if (node_.integer("layout", 0) != 0) all = node_.transpose(all, {1, 0, 2});
    return node_.reshape(part(node_, all, 0, d, 1), {batch_, width_});
  }

  Weights weights(i64 d) {
    Weights w{node_.transpose(of_direction(1, d), {1, 0}), node_.transpose(of_direction(2, d), {1, 0}), {}, {}, {}};
    if (node_.has_input(3)) {
      ValueId both = of_direction(3, d);
      w.bias_of_inputs = part(node_, both, 0, 0, kind_.gates * width_);
      w.bias_of_state = part(node_, both, 0, kind_.gates * width_, kind_.gates * width_);
    }
    if (node_.op() == "LSTM" && node_.has_input(7)) w.peepholes = of_direction(7, d);
    return w;
  }

  void direction(i64 d, bool is_backwards) {
    Weights w = weights(d);
    auto count = kind_.activations.size();
    activations_ = kind_.activations;
    if (!given_.empty()) {
      if (given_.size() < (static_cast<std::size_t>(d) + 1) * count) return node_.fail("it has too few activations");
      std::copy_n(given_.begin() + d * static_cast<i64>(count), count, activations_.begin());
    }
    // What the inputs give, of all steps at once.
    ValueId rows = node_.reshape(x_, {steps_ * batch_, node_.extent(x_, 2)});
    ValueId gates = product(node_, rows, w.inputs);
    if (w.bias_of_inputs) gates = plus(node_, gates, *w.bias_of_inputs);
    gates = node_.reshape(gates, {steps_, batch_, kind_.gates * width_});
    State state{initial(5, d), 0};
    if (node_.op() == "LSTM") state.cell = initial(6, d);
    std::vector<ValueId> hidden(static_cast<std::size_t>(steps_));
    for (i64 n = 0; n < steps_ && !node_.has_failed(); ++n) {
      i64 step = is_backwards ? steps_ - 1 - n : n;
      state = cell(w, of_step(gates, step), state);
      hidden[static_cast<std::size_t>(step)] = node_.reshape(state.hidden, {1, 1, batch_, width_});
    }
    if (node_.has_failed()) return;
    all_.push_back(one_behind_the_other(node_, hidden));
    last_.push_back(node_.reshape(state.hidden, {1, batch_, width_}));
    if (node_.op() == "LSTM") last_cell_.push_back(node_.reshape(state.cell, {1, batch_, width_}));
  }

  // The number of the step is data, so that one kernel serves all steps.
  ValueId of_step(ValueId gates, i64 step) {
    return node_.add("gather", {{"axis", i64{0}}}, {gates, node_.scalar(static_cast<double>(step), DType::I64)});
  }

  State cell(const Weights& w, ValueId gates, const State& before) {
    const Ints& a = activations_;
    if (node_.op() == "GRU") return {gru(w, gates, before.hidden), 0};
    ValueId given = product(node_, before.hidden, w.state);
    if (w.bias_of_state) given = plus(node_, given, *w.bias_of_state);
    if (node_.op() == "RNN") return {node_.add("rnn_cell", {{"f", a[0]}}, {gates, given}), 0};
    std::vector<ValueId> operands{before.cell, gates, given};
    if (w.peepholes) operands.push_back(*w.peepholes);
    std::vector<ValueId> made = node_.add_several(w.peepholes ? "lstm_cell_with_peepholes" : "lstm_cell",
                                                  {{"f", a[0]}, {"g", a[1]}, {"h", a[2]}}, operands);
    return {made[0], made.back()};
  }

  ValueId gru(const Weights& w, ValueId gates, ValueId before) {
    const Ints& a = activations_;
    auto given = [&](ValueId state, i64 begin, i64 extent) {
      ValueId made = product(node_, state, part(node_, w.state, 1, begin * width_, extent * width_));
      return w.bias_of_state ? plus(node_, made, part(node_, *w.bias_of_state, 0, begin * width_, extent * width_))
                             : made;
    };
    if (node_.integer("linear_before_reset", 0) != 0)
      return node_.add("gru_cell_reset_behind", {{"f", a[0]}, {"g", a[1]}}, {before, gates, given(before, 0, 3)});
    ValueId both = given(before, 0, 2);
    ValueId let_through = node_.add("gru_reset", {{"f", a[0]}}, {before, gates, both});
    return node_.add("gru_cell", {{"f", a[0]}, {"g", a[1]}}, {before, gates, both, given(let_through, 2, 1)});
  }

  // Steps, directions, batch; or the batch first.
  void results(bool is_batch_first) {
    auto joined = [&](const std::vector<ValueId>& values, i64 axis) {
      return values.size() == 1 ? values[0] : node_.add("concat", {{"axis", axis}}, {values[0], values[1]});
    };
    ValueId all = joined(all_, 1), last = joined(last_, 0);
    if (is_batch_first) all = node_.transpose(all, {2, 0, 1, 3}), last = node_.transpose(last, {1, 0, 2});
    node_.result(0, all);
    node_.result(1, last);
    if (last_cell_.empty()) return;
    ValueId cell = joined(last_cell_, 0);
    node_.result(2, is_batch_first ? node_.transpose(cell, {1, 0, 2}) : cell);
  }

  NodeImport& node_;
  Recurrent kind_;
  Ints given_, activations_;
  ValueId x_ = 0;
  i64 steps_ = 0, batch_ = 0, width_ = 0;
  std::vector<ValueId> all_, last_, last_cell_;  // one for each direction
};

Converter recurrent(const Recurrent& kind) {
  return [kind](NodeImport& node) { RecurrentImport(node, kind).run(); };
}

}  // namespace

void add_recurrent(Converters& table) {
  constexpr i64 sigmoid = 0, tanh = 1;
  table["RNN"] = recurrent({1, {tanh}});
  table["GRU"] = recurrent({3, {sigmoid, tanh}});
  table["LSTM"] = recurrent({4, {sigmoid, tanh, tanh}});
}

}  // namespace tw::graph::onnx
