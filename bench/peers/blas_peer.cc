// The OpenBLAS and BLIS peers: cblas_sgemm, from whichever library this file is linked to
// (TW_PEER_OPENBLAS, TW_PEER_BLIS). They have no convolutions, and no epilogues of their own: bias,
// relu and add are a pass over the result inside the time, as a caller of the library has to write
// it.
#include <cblas.h>
#ifdef TW_PEER_BLIS
#include <blis.h>
#endif

#include <algorithm>

#include "bench/peers/library.h"

namespace tw::peers {
namespace {

// out[r, c] = step(out[r, c], operand[...]) for one step of an epilogue.
struct Step {
  enum class Kind { Bias, Relu, Add } kind;
  const float* operand = nullptr;
};

// Which one runs is asked before ThreadSanitizer is there.
#ifdef __SANITIZE_THREAD__
#define TW_FOR_EVERY_MACHINE
#else
#define TW_FOR_EVERY_MACHINE __attribute__((target_clones("avx512f", "avx2", "default")))
#endif

TW_FOR_EVERY_MACHINE void apply(const Step& step, float* out, i64 rows, i64 columns) {
  for (i64 row = 0; row < rows; ++row) {
    float* at = out + row * columns;
    const float* operand = step.operand + (step.kind == Step::Kind::Add ? row * columns : 0);
    switch (step.kind) {
      case Step::Kind::Relu:
        for (i64 i = 0; i < columns; ++i) at[i] = std::max(at[i], 0.0F);
        break;
      case Step::Kind::Bias:
      case Step::Kind::Add:
        for (i64 i = 0; i < columns; ++i) at[i] += operand[i];
        break;
    }
  }
}

// How cblas wants to be told about one operand: transposed or not, and the leading dimension.
struct Operand {
  CBLAS_TRANSPOSE transpose;
  int leading;
};
Operand operand_of(const Strides& strides) {
  return strides.column == 1 ? Operand{CblasNoTrans, static_cast<int>(strides.row)}
                             : Operand{CblasTrans, static_cast<int>(strides.column)};
}

class Blas : public Library {
 public:
  std::string version() const override {
#ifdef TW_PEER_BLIS
    bli_init();  // or the query below aborts
    const std::string kernels = bli_arch_string(bli_arch_query_id());
    return std::string("BLIS ") + bli_info_get_version_str() + ", kernels for " + kernels;
#else
    // "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ...": the rest is how it was built.
    const std::string config = openblas_get_config();
    const std::string name = config.substr(0, config.find(' ', config.find(' ') + 1));
    return name + ", kernels for " + openblas_get_corename();
#endif
  }

  Outcome prepare(const Problem& problem, const Operator& op) override {
    const Gemm* gemm = std::get_if<Gemm>(&op.shape);
    if (!gemm) return unsupported("a BLAS has no " + problem.op);
    gemm_ = *gemm;
    a_ = problem.inputs.empty() ? nullptr : problem.inputs[0];
    b_ = problem.inputs.size() < 2 ? nullptr : problem.inputs[1];
    if (!a_ || !b_) return error(problem.op + " needs two inputs");
    steps_.clear();
    std::size_t next = op.inputs;
    for (const std::string& name : problem.epilogue) {
      const bool known = name == "bias" || name == "relu" || name == "add";
      if (!known) return unsupported("a BLAS has no " + name);
      Step step{name == "bias" ? Step::Kind::Bias : name == "add" ? Step::Kind::Add : Step::Kind::Relu};
      if (name != "relu") {
        if (next >= problem.inputs.size()) return error("no input for " + name);
        step.operand = problem.inputs[next++];
      }
      steps_.push_back(step);
    }
    elements_ = op.output_elements;
    c_ = make_array(elements_);
    return ok(steps_.empty() ? "sgemm" : "sgemm, then a pass for the epilogue");
  }

  void run() override {
    const Operand a = operand_of(gemm_.a), b = operand_of(gemm_.b);
    for (i64 outer = 0; outer < gemm_.outer; ++outer) {
      for (i64 inner = 0; inner < gemm_.inner; ++inner) {
        cblas_sgemm(CblasRowMajor, a.transpose, b.transpose, gemm_.m, gemm_.n, gemm_.k, 1.0F,
                    at(a_, gemm_.a, outer, inner), a.leading, at(b_, gemm_.b, outer, inner), b.leading, 0.0F,
                    c_.get() + outer * gemm_.c.outer + inner * gemm_.c.inner, static_cast<int>(gemm_.c.row));
      }
    }
    for (const Step& step : steps_) apply(step, c_.get(), elements_ / gemm_.n, gemm_.n);
  }

  void output(float* result) override { std::copy_n(c_.get(), elements_, result); }

 private:
  static const float* at(const float* base, const Strides& strides, i64 outer, i64 inner) {
    return base + outer * strides.outer + inner * strides.inner;
  }

  Gemm gemm_;
  const float* a_ = nullptr;
  const float* b_ = nullptr;
  std::vector<Step> steps_;
  Array c_;
  i64 elements_ = 0;
};

}  // namespace

std::unique_ptr<Library> make_library(int, int) { return std::make_unique<Blas>(); }

}  // namespace tw::peers
