// The LibTorch peer: ATen operators in inference mode. Convolutions are tried with both memory
// formats, and the faster stays.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <torch/version.h>

#include <functional>

#include "bench/peers/library.h"

namespace tw::peers {
namespace {

using at::Tensor;
using Sizes = std::vector<std::int64_t>;

// One way to run the problem: from held tensors to a tensor whose elements in C order are the plain
// layout.
struct Way {
  std::string name;
  std::function<Tensor()> run;
  std::function<Tensor(const Tensor&)> plain;  // brings the result into the plain layout; outside the time
};

Tensor same(const Tensor& tensor) { return tensor; }

class Torch : public Library {
 public:
  explicit Torch(int threads) { at::set_num_threads(threads); }

  std::string version() const override { return std::string("LibTorch ") + TORCH_VERSION; }

  Outcome prepare(const Problem& problem, const Operator& op) override {
    if (static_cast<i64>(problem.inputs.size()) < op.inputs) return error(problem.op + " needs more inputs");
    ways_.clear();
    elements_ = op.output_elements;
    try {
      std::visit([&](const auto& shape) { collect(shape, problem); }, op.shape);
      if (ways_.empty()) return unsupported("LibTorch has no " + problem.op);
      if (std::string wrong = add_epilogue(problem, op); !wrong.empty()) return unsupported(wrong);
      best_ = fastest_of(*this, ways_.size(), &best_);
    } catch (const c10::Error& refused) {
      return unsupported(refused.what_without_backtrace());
    }
    return ok(ways_[best_].name);
  }

  void run() override { result_ = ways_[best_].run(); }

  void output(float* result) override {
    const Tensor plain = ways_[best_].plain(result_).contiguous();
    std::copy_n(plain.data_ptr<float>(), elements_, result);
  }

 private:
  // A copy on a boundary that LibTorch likes.
  static Tensor tensor(const float* data, const Sizes& sizes) {
    return at::from_blob(const_cast<float*>(data), sizes, at::kFloat).clone();
  }

  void collect(const Gemm& gemm, const Problem& problem) {
    const auto view = [&](const float* data, const Strides& strides, i64 rows, i64 columns) {
      const Tensor flat = tensor(data, {gemm.outer * gemm.inner * rows * columns});
      Tensor shaped = flat.as_strided({gemm.outer, gemm.inner, rows, columns},
                                      {strides.outer, strides.inner, strides.row, strides.column});
      while (shaped.dim() > 2 && shaped.size(0) == 1) shaped = shaped.squeeze(0);
      return shaped;
    };
    const Tensor a = view(problem.inputs[0], gemm.a, gemm.m, gemm.k),
                 b = view(problem.inputs[1], gemm.b, gemm.k, gemm.n);
    ways_.push_back({"matmul", [a, b] { return at::matmul(a, b); }, same});
    if (!gemm.constant_b) return;
    const Tensor weights = b.t().contiguous();
    ways_.push_back({"linear", [a, weights] { return at::linear(a, weights); }, same});
  }

  void collect(const Convolution& conv, const Problem& problem) {
    const int first = 3 - conv.axes;
    const auto range = [&](const std::array<i64, 3>& values) { return Sizes(values.begin() + first, values.end()); };
    Sizes in{conv.n}, kernel = range(conv.kernel);
    for (i64 extent : range(conv.in)) in.push_back(extent);
    in.push_back(conv.ci);
    kernel.insert(kernel.end(),
                  {conv.ci / (conv.transposed ? 1 : conv.groups), conv.co / (conv.transposed ? conv.groups : 1)});
    // Channels from last to second; weights from [K.., CI, CO] to [CO, CI, K..] (transposed: [CI,
    // CO, K..]).
    const Tensor x = tensor(problem.inputs[0], in).movedim(-1, 1);
    const Tensor plain = tensor(problem.inputs[1], kernel);
    const Tensor w = conv.transposed ? plain.movedim({-2, -1}, {0, 1}) : plain.movedim({-1, -2}, {0, 1});
    const Sizes stride = range(conv.stride), padding = range(conv.padding), dilation = range(conv.dilation);
    const Sizes output_padding(conv.axes, 0);
    const bool transposed = conv.transposed;
    const i64 groups = conv.groups;
    for (const bool channels_last : {false, true}) {
      const bool has_format = conv.axes >= 2;
      if (channels_last && !has_format) continue;
      const auto format = !channels_last   ? at::MemoryFormat::Contiguous
                          : conv.axes == 2 ? at::MemoryFormat::ChannelsLast
                                           : at::MemoryFormat::ChannelsLast3d;
      const Tensor source = x.contiguous(format), weights = w.contiguous(format);
      ways_.push_back({channels_last ? "channels last" : "channels first",
                       [=] {
                         return at::convolution(source, weights, {}, stride, padding, dilation, transposed,
                                                output_padding, groups);
                       },
                       [](const Tensor& result) { return result.movedim(1, -1); }});
    }
  }

  void collect(const RowWise& rows, const Problem& problem) {
    const Tensor x = tensor(problem.inputs[0], {rows.rows, rows.columns});
    if (rows.kind == RowWise::Kind::Softmax) {
      ways_.push_back({"softmax", [x] { return at::softmax(x, 1); }, same});
    } else if (rows.kind == RowWise::Kind::Norm) {
      ways_.push_back({"norm", [x] { return at::norm(x, 2, {1}, false); }, same});
    } else if (rows.kind == RowWise::Kind::LayerNorm) {
      const Tensor scale = tensor(problem.inputs[1], {rows.columns}), shift = tensor(problem.inputs[2], {rows.columns});
      ways_.push_back({"layer_norm", [=] { return at::layer_norm(x, {x.size(1)}, scale, shift, 1e-5); }, same});
    }
  }

  void collect(const FmaProbe&, const Problem&) {}

  // Wraps every way in the epilogue; returns what is not known, or "".
  std::string add_epilogue(const Problem& problem, const Operator& op) {
    std::size_t next = op.inputs;
    for (const std::string& name : problem.epilogue) {
      const bool bias = name == "bias", takes_operand = bias || name == "add";
      if (takes_operand && next >= problem.inputs.size()) return "no input for " + name;
      const float* data = takes_operand ? problem.inputs[next++] : nullptr;
      const Tensor operand = takes_operand ? tensor(data, bias ? Sizes{op.channels} : Sizes{elements_}) : Tensor();
      for (Way& way : ways_) {
        const Tensor first = way.run();
        // In the memory order of the result, whatever that is.
        const Tensor shaped = !takes_operand ? Tensor()
                              : bias         ? spread(operand, first, way)
                                             : like(operand, first, way);
        const auto before = way.run;
        if (takes_operand)
          way.run = [=] { return before().add_(shaped); };
        else if (name == "relu")
          way.run = [=] { return before().relu_(); };
        else if (name == "gelu")
          way.run = [=] { return at::gelu(before()); };
        else if (name == "silu")
          way.run = [=] { return at::silu(before()); };
        else
          return "LibTorch has no epilogue " + name;
      }
    }
    return "";
  }

  // A bias along the axis that is last in the plain layout.
  static Tensor spread(const Tensor& bias, const Tensor& result, const Way& way) {
    const Tensor plain = way.plain(result);
    if (plain.is_same(result)) return bias;
    Sizes sizes(result.dim(), 1);
    sizes[1] = bias.size(0);
    return bias.reshape(sizes);
  }

  static Tensor like(const Tensor& operand, const Tensor& result, const Way& way) {
    Tensor target = at::empty_like(result);
    way.plain(target).copy_(operand.reshape(way.plain(result).sizes()));
    return target;
  }

  c10::InferenceMode inference_;
  std::vector<Way> ways_;
  std::size_t best_ = 0;
  Tensor result_;
  i64 elements_ = 0;
};

}  // namespace

std::unique_ptr<Library> make_library(int threads, int) { return std::make_unique<Torch>(threads); }

}  // namespace tw::peers
