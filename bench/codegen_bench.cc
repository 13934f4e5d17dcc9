// How fast generated matrix products run, and how long it takes to make them: for each register tile the share of the FMA peak
// that is measured in turn with it, and the milliseconds of code generation.
//   codegen_bench [--bits 512] [--size 512] [--tiles 6x4,8x3] [--unroll 4] [--asm]
#include <chrono>
#include <cstdio>
#include <iostream>
#include <random>
#include <sstream>

#include "backends/backend.h"
#include "runtime/object_loader.h"
#include "tests/support/lowered_gemm.h"

namespace tw {
namespace {

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Twelve independent chains of FMAs on whole registers, in GFLOP/s: what the machine can do at best.
double fma_rate(int bits) {
  constexpr i64 kRounds = 40000;
  i64 rounds = kRounds;
  double start = seconds();
#define FMA(reg, c) "vfmadd231ps %%" reg "12, %%" reg "13, %%" reg #c "\n"
#define FMAS(reg) FMA(reg, 0) FMA(reg, 1) FMA(reg, 2) FMA(reg, 3) FMA(reg, 4) FMA(reg, 5) \
                  FMA(reg, 6) FMA(reg, 7) FMA(reg, 8) FMA(reg, 9) FMA(reg, 10) FMA(reg, 11)
#define FMA_LOOP(reg) asm volatile("vzeroall\n1:\n" FMAS(reg) "dec %0\njnz 1b\nvzeroupper" : "+r"(rounds) : : "cc",           \
    "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13")
  if (bits == 512) FMA_LOOP("zmm");
  else FMA_LOOP("ymm");
  return 2.0 * 12 * kRounds * (bits / 32) / (seconds() - start) * 1e-9;
}

struct Options {
  int bits = 512;
  i64 size = 512;
  std::string tiles = "4x4,6x4,12x2,14x2,8x3,9x3";
  int unroll = 4;
  bool panels_outside = true, print_assembly = false;
  i64 pad = 0;
  int rounds = 15;
};

float* floats(i64 count) {
  auto* data = static_cast<float*>(std::aligned_alloc(64, static_cast<std::size_t>((count * 4 + 63) / 64 * 64)));
  for (i64 i = 0; i < count; ++i) data[i] = static_cast<float>(i % 7);
  return data;
}

template <class List>
double quartile(List list) {
  std::sort(list.begin(), list.end());
  return list[list.size() / 4];
}

void measure(const Options& options, int rows, int vectors) {
  GemmPlan plan{options.size, options.size, options.size, rows, vectors, options.bits / 32, options.unroll, options.panels_outside};
  plan.a_stride = plan.k + options.pad;
  auto compiler = LlvmCompiler::create({"", "", "", options.bits});
  if (!compiler) return void(std::cerr << to_string(compiler.rejected()) << "\n");
  Arena arena;
  LoweredProgram program = LoweredGemm(arena, plan).program();
  std::vector<double> total, build, passes, codegen;
  Result<Kernel> kernel = compiler->compile(program, "gemm");
  for (int i = 0; i < options.rounds; ++i) {
    kernel = compiler->compile(program, "gemm");
    const CompileTimes& times = compiler->last_times();
    total.push_back(times.total_ms()), build.push_back(times.build_ms);
    passes.push_back(times.passes_ms), codegen.push_back(times.codegen_ms);
  }
  if (!kernel) return void(std::cerr << to_string(kernel.rejected()) << "\n");
  if (options.print_assembly) std::cout << *compiler->emit(program, "gemm", Emit::Assembly) << "\n";
  std::string assembly = *compiler->emit(program, "gemm", Emit::Assembly);
  int spills = 0;
  for (std::size_t at = 0; (at = assembly.find("(%rsp", at)) != std::string::npos; ++at) ++spills;

  std::string error;
  LoadedObject loaded = load_object(kernel->code, error);
  if (!error.empty()) return void(std::cerr << error << "\n");
  tw_run_function run = loaded.run("gemm");
  float *a = floats(plan.m * plan.a_stride), *b = floats(plan.panels() * plan.k * plan.panel()), *c = floats(plan.m * plan.n);
  void* buffers[] = {a, b, c};
  double flops = 2.0 * static_cast<double>(plan.m * plan.n * plan.k), best = 0, peak = 0;
  int calls = std::max(1, static_cast<int>(4e8 / flops));
  for (int round = 0; round < options.rounds; ++round) {
    peak = std::max(peak, fma_rate(options.bits));
    double start = seconds();
    for (int i = 0; i < calls; ++i) run(buffers, nullptr, nullptr, nullptr);
    best = std::max(best, flops * calls / (seconds() - start) * 1e-9);
  }
  std::printf("%3dx%d u%d  %7.1f GFLOP/s  %5.1f%% of %6.1f   jit %5.2f ms (build %.2f passes %.2f codegen %.2f)  rsp %d  %zu B\n", rows,
              vectors, options.unroll, best, 100 * best / peak, peak, quartile(total), quartile(build), quartile(passes),
              quartile(codegen), spills, kernel->code.size());
  std::free(a), std::free(b), std::free(c);
}

int main_of(int count, char** words) {
  Options options;
  for (int i = 1; i < count; ++i) {
    std::string word = words[i];
    auto next = [&] { return std::string(i + 1 < count ? words[++i] : "0"); };
    if (word == "--bits") options.bits = std::stoi(next());
    else if (word == "--size") options.size = std::stoll(next());
    else if (word == "--tiles") options.tiles = next();
    else if (word == "--unroll") options.unroll = std::stoi(next());
    else if (word == "--rounds") options.rounds = std::stoi(next());
    else if (word == "--pad") options.pad = std::stoll(next());
    else if (word == "--rows-outside") options.panels_outside = false;
    else if (word == "--asm") options.print_assembly = true;
    else return std::cerr << "unknown option " << word << "\n", 2;
  }
  std::printf("%s, %d bits, %lld^3, %s outside\n", host_cpu_name().c_str(), options.bits, static_cast<long long>(options.size),
              options.panels_outside ? "panels" : "rows");
  std::istringstream list(options.tiles);
  for (std::string tile; std::getline(list, tile, ',');) {
    measure(options, std::stoi(tile), std::stoi(tile.substr(tile.find('x') + 1)));
  }
  return 0;
}

}  // namespace
}  // namespace tw

int main(int count, char** words) { return tw::main_of(count, words); }
