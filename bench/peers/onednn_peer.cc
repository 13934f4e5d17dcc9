// The oneDNN peer. oneDNN gets the layouts it likes best (format any), with the reorders outside
// the time; every algorithm and layout that it offers for a problem is tried once, and the fastest
// stays. Epilogues are its post-ops.
#include <oneapi/dnnl/dnnl.hpp>

#include "bench/peers/library.h"

namespace tw::peers {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;
using Dims = memory::dims;

constexpr auto kF32 = memory::data_type::f32;
constexpr auto kForward = dnnl::prop_kind::forward_inference;

// One way in which oneDNN can do the problem, ready to run.
struct Way {
  std::string name;
  dnnl::primitive primitive;
  std::unordered_map<int, memory> arguments;
  memory result;
};

// The epilogue as oneDNN wants it. A leading bias is an argument of its own, all else are post-ops.
struct Epilogue {
  const float* bias = nullptr;
  dnnl::post_ops steps;
  std::vector<std::pair<int, memory>> operands;
  std::string wrong;
};

// A convolution as oneDNN describes it: channels second, dilation 0 for none, padding on the right
// such that all fits.
struct ConvolutionDims {
  Dims in, out, strides, dilation, left, right;
  Dims bias;  // spread over the output
  memory::desc weights;
  Tag channels_last;

  explicit ConvolutionDims(const Convolution& conv) : in{conv.n, conv.ci}, out{conv.n, conv.co}, bias{1, conv.co} {
    static const Tag kTags[] = {Tag::nwc, Tag::nhwc, Tag::ndhwc};
    channels_last = kTags[conv.axes - 1];
    for (int axis = 3 - conv.axes; axis < 3; ++axis) {
      in.push_back(conv.in[axis]);
      out.push_back(conv.out[axis]);
      bias.push_back(1);
      strides.push_back(conv.stride[axis]);
      dilation.push_back(conv.dilation[axis] - 1);
      left.push_back(conv.padding[axis]);
      const i64 small = conv.transposed ? conv.in[axis] : conv.out[axis];
      const i64 large = conv.transposed ? conv.out[axis] : conv.in[axis];
      const i64 reach = conv.dilation[axis] * (conv.kernel[axis] - 1) + 1;
      right.push_back((small - 1) * conv.stride[axis] + reach - large - conv.padding[axis]);
    }
    weights = plain_weights(conv);
  }

  // [KD, KH, KW, CI / groups, CO] seen as oneDNN's (groups,) CO, CI, kernel.
  static memory::desc plain_weights(const Convolution& conv) {
    const i64 ci = conv.ci / conv.groups, co = conv.co / conv.groups;
    Dims dims{co, ci}, steps{1, conv.co};
    if (conv.groups > 1) {
      dims.insert(dims.begin(), conv.groups);
      steps.insert(steps.begin(), co);
    }
    i64 step = ci * conv.co;
    Dims kernel_steps;
    for (int axis = 2; axis >= 3 - conv.axes; --axis) {
      kernel_steps.insert(kernel_steps.begin(), step);
      step *= conv.kernel[axis];
    }
    dims.insert(dims.end(), conv.kernel.begin() + (3 - conv.axes), conv.kernel.end());
    steps.insert(steps.end(), kernel_steps.begin(), kernel_steps.end());
    return memory::desc(dims, kF32, steps);
  }
};

class OneDnn : public Library {
 public:
  std::string version() const override {
    const auto* v = dnnl::version();
    return "oneDNN " + std::to_string(v->major) + "." + std::to_string(v->minor) + "." + std::to_string(v->patch);
  }

  Outcome prepare(const Problem& problem, const Operator& op) override {
    if (static_cast<i64>(problem.inputs.size()) < op.inputs) return error(problem.op + " needs more inputs");
    ways_.clear();
    refusal_ = "oneDNN has no " + problem.op;
    std::visit([&](const auto& shape) { collect(shape, problem, op); }, op.shape);
    if (ways_.empty()) return unsupported(refusal_);
    best_ = fastest_of(*this, ways_.size(), &best_);
    return ok(ways_[best_].name);
  }

  void run() override {
    ways_[best_].primitive.execute(stream_, ways_[best_].arguments);
    stream_.wait();
  }

  void output(float* result) override { reorder(ways_[best_].result, memory(plain_output_, engine_, result)); }

 private:
  // Tries one way: `make` adds to ways_. What oneDNN does not offer is an exception of its own, and
  // only costs that way.
  template <class Make>
  void attempt(Make make) {
    try {
      make();
    } catch (const dnnl::error& refused) {
      refusal_ = refused.what();
    }
  }

  void collect(const Gemm& gemm, const Problem& problem, const Operator& op) {
    const auto describe = [&](const Strides& strides, i64 rows, i64 columns) {
      Dims dims{gemm.outer, gemm.inner, rows, columns},
          steps{strides.outer, strides.inner, strides.row, strides.column};
      const int dropped = gemm.outer > 1 ? 0 : gemm.inner > 1 ? 1 : 2;
      dims.erase(dims.begin(), dims.begin() + dropped);
      steps.erase(steps.begin(), steps.begin() + dropped);
      return memory::desc(dims, kF32, steps);
    };
    const memory::desc a = describe(gemm.a, gemm.m, gemm.k), b = describe(gemm.b, gemm.k, gemm.n);
    plain_output_ = describe(gemm.c, gemm.m, gemm.n);
    Dims bias(plain_output_.dims().size(), 1);
    bias.back() = gemm.n;
    const auto matmul = [&](const char* name, const memory::desc& weights) {
      const Epilogue epilogue = understand_epilogue(problem, op, bias);
      const dnnl::matmul::desc desc =
          epilogue.bias ? dnnl::matmul::desc(a, weights, memory::desc(bias, kF32, plain_strides(bias)), plain_output_)
                        : dnnl::matmul::desc(a, weights, plain_output_);
      const dnnl::matmul::primitive_desc chosen(desc, attributes(epilogue), engine_);
      add_way(name, chosen, epilogue, problem, a, b, bias);
    };
    attempt([&] { matmul("matmul", b); });
    if (!gemm.constant_b) return;
    attempt([&] { matmul("matmul, packed weights", memory::desc(b.dims(), kF32, Tag::any)); });
    if (gemm.outer * gemm.inner > 1) return;
    attempt([&] {
      const memory::desc wanted({gemm.n, gemm.k}, kF32, Tag::any), weights({gemm.n, gemm.k}, kF32, Dims{1, gemm.n});
      const Dims line{gemm.n};
      const Epilogue epilogue = understand_epilogue(problem, op, bias);
      const dnnl::inner_product_forward::desc desc =
          epilogue.bias
              ? dnnl::inner_product_forward::desc(kForward, a, wanted, memory::desc(line, kF32, Tag::a), plain_output_)
              : dnnl::inner_product_forward::desc(kForward, a, wanted, plain_output_);
      const dnnl::inner_product_forward::primitive_desc chosen(desc, attributes(epilogue), engine_);
      add_way("inner product, packed weights", chosen, epilogue, problem, a, weights, line);
    });
  }

  void collect(const Convolution& conv, const Problem& problem, const Operator& op) {
    const ConvolutionDims dims(conv);
    plain_output_ = memory::desc(dims.out, kF32, dims.channels_last);
    using dnnl::algorithm;
    for (Tag tag : {Tag::any, dims.channels_last}) {
      if (conv.transposed) {
        try_convolution<dnnl::deconvolution_forward>(algorithm::deconvolution_direct, tag, dims, problem, op);
        try_convolution<dnnl::deconvolution_forward>(algorithm::deconvolution_winograd, tag, dims, problem, op);
      } else {
        try_convolution<dnnl::convolution_forward>(algorithm::convolution_direct, tag, dims, problem, op);
        try_convolution<dnnl::convolution_forward>(algorithm::convolution_auto, tag, dims, problem, op);
      }
    }
  }

  // `tag`: the layout of source and result; the plain one is channels last.
  template <class Primitive>
  void try_convolution(dnnl::algorithm algorithm, Tag tag, const ConvolutionDims& dims, const Problem& problem,
                       const Operator& op) {
    attempt([&] {
      const Epilogue epilogue = understand_epilogue(problem, op, dims.bias);
      const Dims line{dims.bias[1]};
      const memory::desc bias = epilogue.bias ? memory::desc(line, kF32, Tag::a) : memory::desc();
      const typename Primitive::desc desc(
          kForward, algorithm, memory::desc(dims.in, kF32, tag), memory::desc(dims.weights.dims(), kF32, Tag::any),
          bias, memory::desc(dims.out, kF32, tag), dims.strides, dims.dilation, dims.left, dims.right);
      const typename Primitive::primitive_desc chosen(desc, attributes(epilogue), engine_);
      const memory::desc source(dims.in, kF32, dims.channels_last);
      add_way(tag == Tag::any ? "best layout" : "channels last", chosen, epilogue, problem, source, dims.weights, line);
    });
  }

  void collect(const RowWise& rows, const Problem& problem, const Operator&) {
    if (!problem.epilogue.empty()) {
      refusal_ = "no epilogues after " + problem.op;
      return;
    }
    const memory::desc data({rows.rows, rows.columns}, kF32, Tag::ab), row({1, rows.columns}, kF32, Tag::ab);
    plain_output_ = data;
    const memory source = plain_memory(data, problem.inputs[0]);
    if (rows.kind == RowWise::Kind::Softmax) {
      attempt([&] {
        const dnnl::softmax_forward::primitive_desc chosen({kForward, data, 1}, engine_);
        add_way("softmax", chosen, {{DNNL_ARG_SRC, source}});
      });
    } else if (rows.kind == RowWise::Kind::LayerNorm) {
      attempt([&] {
        const auto flags = dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift;
        const dnnl::layer_normalization_forward::primitive_desc chosen({kForward, data, 1e-5F, flags}, engine_);
        const memory::desc line({rows.columns}, kF32, Tag::a);
        add_way("layer normalization", chosen,
                {{DNNL_ARG_SRC, source},
                 {DNNL_ARG_SCALE, plain_memory(line, problem.inputs[1])},
                 {DNNL_ARG_SHIFT, plain_memory(line, problem.inputs[2])}});
      });
    } else if (rows.kind == RowWise::Kind::Norm) {
      plain_output_ = memory::desc({rows.rows, 1}, kF32, Tag::ab);
      attempt([&] {
        const auto algorithm = dnnl::algorithm::reduction_norm_lp_sum;
        const dnnl::reduction::primitive_desc chosen({algorithm, data, plain_output_, 2.0F, 0.0F}, engine_);
        add_way("reduction", chosen, {{DNNL_ARG_SRC, source}});
      });
    }
  }

  void collect(const FmaProbe&, const Problem&, const Operator&) {}

  static Dims plain_strides(const Dims& dims) {
    Dims strides(dims.size(), 1);
    for (std::size_t i = dims.size() - 1; i > 0; --i) strides[i - 1] = strides[i] * dims[i];
    return strides;
  }

  // `line` are the dimensions of a bias spread over the output. Throws dnnl::error for steps that
  // oneDNN does not have.
  Epilogue understand_epilogue(const Problem& problem, const Operator& op, const Dims& line) {
    Epilogue epilogue;
    std::size_t next = op.inputs;
    const auto add_operand = [&](const memory::desc& desc) {
      if (next >= problem.inputs.size()) throw dnnl::error(dnnl_invalid_arguments, "an epilogue step has no input");
      epilogue.operands.emplace_back(DNNL_ARG_ATTR_MULTIPLE_POST_OP(epilogue.steps.len()) | DNNL_ARG_SRC_1,
                                     plain_memory(desc, problem.inputs[next++]));
      epilogue.steps.append_binary(dnnl::algorithm::binary_add, desc);
    };
    for (std::size_t i = 0; i < problem.epilogue.size(); ++i) {
      const std::string& step = problem.epilogue[i];
      if (step == "bias" && i == 0 && next < problem.inputs.size()) {
        epilogue.bias = problem.inputs[next++];
      } else if (step == "bias") {
        add_operand(memory::desc(line, kF32, plain_strides(line)));
      } else if (step == "add") {
        add_operand(plain_output_);
      } else if (step == "relu") {
        epilogue.steps.append_eltwise(1.0F, dnnl::algorithm::eltwise_relu, 0.0F, 0.0F);
      } else if (step == "gelu") {
        epilogue.steps.append_eltwise(1.0F, dnnl::algorithm::eltwise_gelu_erf, 0.0F, 0.0F);
      } else if (step == "silu") {
        epilogue.steps.append_eltwise(1.0F, dnnl::algorithm::eltwise_swish, 1.0F, 0.0F);
      } else {
        throw dnnl::error(dnnl_unimplemented, "oneDNN has no such epilogue");
      }
    }
    return epilogue;
  }

  static dnnl::primitive_attr attributes(const Epilogue& epilogue) {
    dnnl::primitive_attr attr;
    attr.set_post_ops(epilogue.steps);
    return attr;
  }

  // A way with source, weights and epilogue: brings all into the layouts that oneDNN chose.
  template <class PrimitiveDesc>
  void add_way(const std::string& name, const PrimitiveDesc& chosen, const Epilogue& epilogue, const Problem& problem,
               const memory::desc& source, const memory::desc& weights, const Dims& bias) {
    std::unordered_map<int, memory> arguments(epilogue.operands.begin(), epilogue.operands.end());
    arguments[DNNL_ARG_SRC] = suited(chosen.src_desc(), plain_memory(source, problem.inputs[0]));
    arguments[DNNL_ARG_WEIGHTS] = suited(chosen.weights_desc(), plain_memory(weights, problem.inputs[1]));
    if (epilogue.bias) {
      arguments[DNNL_ARG_BIAS] = plain_memory(memory::desc(bias, kF32, plain_strides(bias)), epilogue.bias);
    }
    add_way(name, chosen, std::move(arguments));
  }

  template <class PrimitiveDesc>
  void add_way(const std::string& name, const PrimitiveDesc& chosen, std::unordered_map<int, memory> arguments) {
    const memory result(chosen.dst_desc(), engine_);
    arguments[DNNL_ARG_DST] = result;
    ways_.push_back(
        {name + " (" + chosen.impl_info_str() + ")", dnnl::primitive(chosen), std::move(arguments), result});
  }

  memory plain_memory(const memory::desc& desc, const float* data) {
    return memory(desc, engine_,
                  const_cast<float*>(data));  // oneDNN has no read-only memory; sources are only read
  }

  memory suited(const memory::desc& wanted, const memory& plain) {
    if (plain.get_desc() == wanted) return plain;
    memory target(wanted, engine_);
    reorder(plain, target);
    return target;
  }

  void reorder(const memory& from, memory to) {
    memory source = from;
    dnnl::reorder(source, to).execute(stream_, source, to);
    stream_.wait();
  }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::vector<Way> ways_;
  std::size_t best_ = 0;
  memory::desc plain_output_;
  std::string refusal_;
};

}  // namespace

std::unique_ptr<Library> make_library(int, int) { return std::make_unique<OneDnn>(); }

}  // namespace tw::peers
