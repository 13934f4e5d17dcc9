// The functions outside their object that kernels may call: external_symbol of object_loader.h.
#include <cmath>
#include <cstring>
#include <unordered_map>

#include "runtime/measure/object_loader.h"

#if !defined(__aarch64__)  // which has instructions for it
extern "C" {
// Conversions that compilers call where the machine has no instruction for them; they live in the
// compiler's library. Only their addresses are used, so their types (which C++20 cannot spell) do
// not matter.
void __extendhfsf2();
void __truncsfhf2();
void __truncdfhf2();
}
#endif

namespace tw {
namespace {

template <class Function>
void* code(Function* function) {
  return reinterpret_cast<void*>(function);
}
// These choose one of the overloads of <cmath>.
template <class T>
void* unary(T (*function)(T)) {
  return code(function);
}
template <class T>
void* binary(T (*function)(T, T)) {
  return code(function);
}
template <class T>
void* ternary(T (*function)(T, T, T)) {
  return code(function);
}

}  // namespace

void* external_symbol(std::string_view name) {
  // clang-format off
  static const std::unordered_map<std::string_view, void*> table = {
      {"memcpy", code(::memcpy)}, {"memmove", code(::memmove)}, {"memset", code(::memset)},
#if !defined(__aarch64__)
      {"__extendhfsf2", code(__extendhfsf2)}, {"__truncsfhf2", code(__truncsfhf2)},
      {"__truncdfhf2", code(__truncdfhf2)}, {"__gnu_h2f_ieee", code(__extendhfsf2)},
      {"__gnu_f2h_ieee", code(__truncsfhf2)},
#endif
      {"exp", unary<double>(::exp)},
      {"expf", unary<float>(::expf)}, {"exp2", unary<double>(::exp2)},
      {"exp2f", unary<float>(::exp2f)}, {"expm1", unary<double>(::expm1)},
      {"expm1f", unary<float>(::expm1f)}, {"log", unary<double>(::log)},
      {"logf", unary<float>(::logf)}, {"log2", unary<double>(::log2)},
      {"log2f", unary<float>(::log2f)}, {"log10", unary<double>(::log10)},
      {"log10f", unary<float>(::log10f)}, {"log1p", unary<double>(::log1p)},
      {"log1pf", unary<float>(::log1pf)}, {"sin", unary<double>(::sin)},
      {"sinf", unary<float>(::sinf)}, {"cos", unary<double>(::cos)}, {"cosf", unary<float>(::cosf)},
      {"tan", unary<double>(::tan)}, {"tanf", unary<float>(::tanf)},
      {"asin", unary<double>(::asin)}, {"asinf", unary<float>(::asinf)},
      {"acos", unary<double>(::acos)}, {"acosf", unary<float>(::acosf)},
      {"atan", unary<double>(::atan)}, {"atanf", unary<float>(::atanf)},
      {"sinh", unary<double>(::sinh)}, {"sinhf", unary<float>(::sinhf)},
      {"cosh", unary<double>(::cosh)}, {"coshf", unary<float>(::coshf)},
      {"tanh", unary<double>(::tanh)}, {"tanhf", unary<float>(::tanhf)},
      {"asinh", unary<double>(::asinh)}, {"asinhf", unary<float>(::asinhf)},
      {"acosh", unary<double>(::acosh)}, {"acoshf", unary<float>(::acoshf)},
      {"atanh", unary<double>(::atanh)}, {"atanhf", unary<float>(::atanhf)},
      {"sqrt", unary<double>(::sqrt)}, {"sqrtf", unary<float>(::sqrtf)},
      {"cbrt", unary<double>(::cbrt)}, {"cbrtf", unary<float>(::cbrtf)},
      {"erf", unary<double>(::erf)}, {"erff", unary<float>(::erff)},
      {"erfc", unary<double>(::erfc)}, {"erfcf", unary<float>(::erfcf)},
      {"tgamma", unary<double>(::tgamma)}, {"tgammaf", unary<float>(::tgammaf)},
      {"lgamma", unary<double>(::lgamma)}, {"lgammaf", unary<float>(::lgammaf)},
      {"floor", unary<double>(::floor)}, {"floorf", unary<float>(::floorf)},
      {"ceil", unary<double>(::ceil)}, {"ceilf", unary<float>(::ceilf)},
      {"round", unary<double>(::round)}, {"roundf", unary<float>(::roundf)},
      {"roundeven", unary<double>(::roundeven)}, {"roundevenf", unary<float>(::roundevenf)},
      {"trunc", unary<double>(::trunc)}, {"truncf", unary<float>(::truncf)},
      {"rint", unary<double>(::rint)}, {"rintf", unary<float>(::rintf)},
      {"nearbyint", unary<double>(::nearbyint)}, {"nearbyintf", unary<float>(::nearbyintf)},
      {"fabs", unary<double>(::fabs)}, {"fabsf", unary<float>(::fabsf)},
      {"pow", binary<double>(::pow)}, {"powf", binary<float>(::powf)},
      {"fmod", binary<double>(::fmod)}, {"fmodf", binary<float>(::fmodf)},
      {"atan2", binary<double>(::atan2)}, {"atan2f", binary<float>(::atan2f)},
      {"hypot", binary<double>(::hypot)}, {"hypotf", binary<float>(::hypotf)},
      {"fmin", binary<double>(::fmin)}, {"fminf", binary<float>(::fminf)},
      {"fmax", binary<double>(::fmax)}, {"fmaxf", binary<float>(::fmaxf)},
      {"copysign", binary<double>(::copysign)}, {"copysignf", binary<float>(::copysignf)},
      {"fma", ternary<double>(::fma)}, {"fmaf", ternary<float>(::fmaf)},
  };
  // clang-format on
  auto found = table.find(name);
  return found == table.end() ? nullptr : found->second;
}

}  // namespace tw
