// Coefficients and constants of our own exp, log, tanh, erf and sigmoid for f32 on processors, where no library has
// them for vectors. The formulas stand beside the tables, the code in backends/llvm/vector_functions.cc. Kernels for
// devices call the functions of their language (backends/gpu_source/language.cc), which drivers bring and which round
// in their own way. The polynomials are minimax fits (Remez exchange, weighted for relative error of the whole
// function), highest degree first.
//
// Largest errors against double libm on 17 million floats spread evenly over all bit patterns, in units in the last
// place, on a machine with FMA:  exp 0.97, log 0.77, tanh 1.32, erf 1.02, sigmoid 2.27; with AVX-512 exp 0.98,
// tanh 1.34, sigmoid 2.87.  tests/unit/vector_math_test.cc holds them to 1, 1, 1.5, 1.25, 2.5, and sigmoid with AVX-512
// to 3. Special values: NaN gives NaN. exp(-inf) = 0, exp(inf) = inf, results below the smallest normal number are
// denormal. log(0) = -inf, log(x < 0) = NaN, log(inf) = inf, denormal arguments are exact to the same error.
// tanh(+-inf) = erf(+-inf) = +-1.
#pragma once

namespace tw::vector_math {

// exp(x) = 2^n * (1 + r + r^2 * P(r)), n = round(x * log2(e)), r = x - n * ln 2 in two steps. x is first clamped to
// [kExpLowest, kExpHighest], which round to 0 and inf. 2^n is applied as 2^(n/2) twice, so that denormals come out;
// once where the result is known to be far from them. Adding kRoundMagic = 1.5 * 2^23 rounds to an integer that then
// sits in the low bits.
inline constexpr float kExpLowest = -104.0f, kExpHighest = 89.0f;
inline constexpr float kLog2E = 1.44269504088896341f;
inline constexpr float kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
inline constexpr float kRoundMagic = 12582912.0f;
inline constexpr float kExp[] = {0.00138145988f, 0.00836871658f, 0.041668389f, 0.166665211f, 0.49999994f};

// With AVX-512: exp(x) = 2^floor(n) * T + T * r * (1 + r * P(r)), n = round(16 x * log2(e)) / 16, T = kTable[16 n % 16]
// from a register, r = x - n * ln 2 in two steps. Adding kTableMagic = 1.5 * 2^19 rounds to sixteenths, and the low
// bits are the index.
inline constexpr float kTableMagic = 786432.0f;
inline constexpr float kTableLn2High = 0.693147182f, kTableLn2Low = -1.90465421e-9f;
inline constexpr float kTableExp[] = {0.166667223f, 0.500016153f};
inline constexpr float kTable[] = {1.0f,        1.04427373f, 1.09050775f, 1.13878858f, 1.18920708f, 1.24185777f,
                                   1.29683959f, 1.35425556f, 1.41421354f, 1.47682619f, 1.54221082f, 1.61049032f,
                                   1.68179286f, 1.75625217f, 1.8340081f,  1.91520655f};

// log(x) = e * ln 2 + t - t^2 / 2 + t^3 * P(t), x = 2^e * (1 + t), 1 + t in [sqrt(1/2), sqrt(2)): e is the shifted
// difference of the bits of x and kSqrtHalfBits. Denormal x are first multiplied by 2^23.
inline constexpr unsigned kSqrtHalfBits = 0x3f3504f3;
inline constexpr float kLog[] = {0.0674664155f, -0.116756521f, 0.11888162f,   -0.124055892f, 0.142195523f,
                                 -0.166679963f, 0.200021192f,  -0.250000089f, 0.333333135f};

// tanh(x) = x + x * z * P(z), z = x^2, below kTanhSplit; 1 - 2 / (exp(min(2 |x|, kTanhHighest)) + 1) with the sign of x
// above.
inline constexpr float kTanhSplit = 0.625f, kTanhHighest = 20.0f;
inline constexpr float kTanh[] = {-0.00570498733f, 0.020639088f, -0.0537397154f, 0.133314416f, -0.333332807f};

// erf(x) = x + x * P(x^2) below 1; 1 - exp(-Q(min(|x|, kErfHighest))) with the sign of x above.
inline constexpr float kErfHighest = 4.0f;
inline constexpr float kErfSmall[] = {7.8538731e-05f, -0.000801019778f, 0.00518832821f, -0.0268538129f,
                                      0.112835854f,   -0.37612626f,     0.128379166f};
inline constexpr float kErfLarge[] = {-0.000186379169f, 0.00294765807f, -0.0218380634f, 0.103106752f,
                                      0.638144851f,     1.12708914f,    0.000341523293f};

// 1 + erf(x) = x < 0 ? p : 2 - p, p = erfc(|x|) = exp(-a * Q(a)), a = min(|x|, kErfcHighest): to 2e-7, with fewer
// operations than erf alone.
inline constexpr float kErfcHighest = 10.0f;
inline constexpr float kErfc[] = {8.50787286e-06f, -0.000135400622f, 0.000519759649f, 0.0012934187f,
                                  -0.0201732872f,  0.103154784f,     0.636555263f,    1.12838272f};

// sigmoid(x) = (x < 0 ? e : 1) / (1 + e), e = exp(-|x|).
// a * sigmoid(x) = a / (1 + exp(-x)); 0 below -89.  1 + tanh(x) = 2 / (1 + exp(-2 x)): to 3 units, 0 below -45.

}  // namespace tw::vector_math
