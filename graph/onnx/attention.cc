// Attention and the rotary embedding.
#include <algorithm>
#include <cmath>
#include <limits>

#include "dsl/base/text.h"
#include "graph/onnx/node_import.h"

namespace tw::graph::onnx {
namespace {

using Ints = std::vector<i64>;

// [N, L, heads * E] as [N, heads, L, E]; what has four dimensions stays.
ValueId in_heads(NodeImport& node, ValueId x, i64 heads) {
  const Ints s = node.shape(x);
  if (s.size() == 4) return x;
  if (s.size() != 3 || heads < 1 || s[2] % heads != 0) return node.fail("its operands do not divide into the heads"), x;
  return node.transpose(node.reshape(x, {s[0], s[1], heads, s[2] / heads}), {0, 2, 1, 3});
}

ValueId without_heads(NodeImport& node, ValueId x) {
  const Ints s = node.shape(x);
  if (s.size() != 4) return x;
  return node.reshape(node.transpose(x, {0, 2, 1, 3}), {s[0], s[2], s[1] * s[3]});
}

void rotary_embedding(NodeImport& node) {
  ValueId given = node.input(0), cos = node.input(1), sin = node.input(2);
  ValueId x = in_heads(node, given, node.integer("num_heads", 0));
  if (node.has_input(3)) {
    cos = gathered(node, cos, node.input(3), 0);
    sin = gathered(node, sin, node.input(3), 0);
  }
  i64 turned = node.integer("rotary_embedding_dim", 0);
  if (turned == 0) turned = node.extent(x, 3);
  if (2 * node.extent(cos, 2) != turned) return node.fail("its angles are for another number of elements");
  ValueId made = node.add("rotary_embedding", {{"interleaved", node.integer("interleaved", 0)}}, {x, cos, sin});
  node.result(0, node.rank(given) == 3 ? without_heads(node, made) : made);
}

class AttentionImport {
 public:
  explicit AttentionImport(NodeImport& node) : node_(node) {}

  void run() {
    if (node_.integer("left_window_size", -1) >= 0 || node_.integer("right_window_size", -1) >= 0)
      return node_.fail("windows of attention are not supported");
    ValueId q = node_.input(0), k = node_.input(1), v = node_.input(2);
    bool is_flat = node_.rank(q) == 3;
    q = in_heads(node_, q, node_.integer("q_num_heads", 0));
    k = in_heads(node_, k, node_.integer("kv_num_heads", 0));
    v = in_heads(node_, v, node_.integer("kv_num_heads", 0));
    k = behind(4, k), v = behind(5, v);
    if (node_.rank(q) != 4 || node_.rank(k) != 4 || node_.rank(v) != 4 || node_.has_failed())
      return node_.fail("its operands are to have three or four dimensions");
    heads_ = node_.extent(q, 1), rows_ = node_.extent(q, 2), groups_ = node_.extent(k, 1);
    if (groups_ < 1 || heads_ % groups_ != 0)
      return node_.fail("the heads of its queries do not divide into those of its keys");
    ValueId scores = grouped(q, node_.transpose(k, {0, 1, 3, 2}));
    scores = times(scores, node_.real("scale", 1 / std::sqrt(static_cast<double>(node_.extent(q, 3)))));
    note(0, scores);
    scores = capped(scores);
    note(1, scores);
    scores = masked(scores);
    note(2, scores);
    ValueId weights = softmax(scores);
    note(3, weights);
    if (node_.has_failed()) return;  // the weights may then be anything
    ValueId made = grouped(weights, v);
    node_.result(0, is_flat ? without_heads(node_, made) : made);
    node_.result(1, k);
    node_.result(2, v);
  }

 private:
  // What came before it, and it.
  ValueId behind(std::size_t past, ValueId x) {
    return node_.has_input(past) ? concatenated(node_, node_.input(past), x, 2) : x;
  }

  ValueId times(ValueId x, double factor) { return node_.add("multiply", {}, {x, node_.number(factor, x)}); }

  // A product for each head; heads that share keys or values are more rows of these.
  ValueId grouped(ValueId x, ValueId shared) {
    const Ints s = node_.shape(x);
    ValueId rows = node_.reshape(x, {s[0], groups_, heads_ / groups_ * s[2], s[3]});
    return node_.reshape(product(node_, rows, shared), {s[0], heads_, s[2], node_.extent(shared, 3)});
  }

  ValueId capped(ValueId scores) {
    double cap = node_.real("softcap", 0);
    return cap == 0 ? scores : times(node_.add("hyperbolic_tangent", {}, {times(scores, 1 / cap)}), cap);
  }

  ValueId masked(ValueId scores) {
    if (node_.has_input(3)) scores = with_mask(scores, node_.input(3));
    bool is_causal = node_.integer("is_causal", 0) != 0;
    if (node_.has_input(6)) return node_.add("up_to_length", {{"causal", i64{is_causal}}}, {scores, node_.input(6)});
    i64 past = node_.has_input(4) ? node_.extent(node_.input(4), 2) : 0;
    return is_causal ? node_.add("causal", {{"offset", past}}, {scores}) : scores;
  }

  // What is shorter than the keys hides the others.
  ValueId with_mask(ValueId scores, ValueId mask) {
    const Ints shape = node_.shape(scores), own = node_.shape(mask);
    bool is_bool = node_.dtype(mask) == DType::Bool;
    constexpr double infinity = std::numeric_limits<double>::infinity();
    if (!own.empty() && own.back() < shape.back()) {
      Ints before(own.size(), 0), after(own.size(), 0);
      after.back() = shape.back() - own.back();
      ValueId hidden = node_.scalar(is_bool ? 0 : -infinity, node_.dtype(mask));
      mask = node_.add("pad", {{"before", before}, {"after", after}}, {mask, hidden});
    }
    mask = node_.broadcast(mask, shape);
    if (is_bool) return node_.add("where", {}, {mask, scores, node_.number(-infinity, scores)});
    return node_.add("add", {}, {scores, node_.cast(mask, node_.dtype(scores))});
  }

  ValueId softmax(ValueId scores) {
    DType own = node_.dtype(scores);
    std::optional<DType> wide = own;
    if (node_.has("softmax_precision")) wide = dtype_of(static_cast<int>(node_.integer("softmax_precision", 0)));
    if (!wide || !is_float(*wide)) return node_.fail("its softmax has a type that is not supported"), scores;
    bool has_hidden = node_.has_input(3) || node_.has_input(6);  // rows that may be hidden as a whole
    ValueId x = node_.cast(scores, *wide);
    x = has_hidden || node_.integer("is_causal", 0) ? node_.add("masked_softmax", {}, {x})
                                                    : node_.add("softmax", {{"axis", i64{3}}}, {x});
    return node_.cast(x, own);
  }

  // One of the steps may be a result.
  void note(i64 step, ValueId scores) {
    if (node_.integer("qk_matmul_output_mode", 0) == step) node_.result(3, scores);
  }

  NodeImport& node_;
  i64 heads_ = 1, rows_ = 1, groups_ = 1;
};

}  // namespace

void add_attention(Converters& table) {
  table["Attention"] = [](NodeImport& node) { AttentionImport(node).run(); };
  table["RotaryEmbedding"] = rotary_embedding;
}

}  // namespace tw::graph::onnx
