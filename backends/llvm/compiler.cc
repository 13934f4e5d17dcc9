// LlvmCompiler: target machine, the short pass pipeline, object and assembly output; what LLVM knows about this
// machine.
#include <llvm/Analysis/TargetLibraryInfo.h>
#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/DiagnosticPrinter.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/ErrorHandling.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/TargetParser/SubtargetFeature.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/LICM.h>
#include <llvm/Transforms/Scalar/LoopPassManager.h>
#include <llvm/Transforms/Scalar/SROA.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>

#include <algorithm>
#include <chrono>
#include <mutex>

#include "backends/backend.h"
#include "backends/kernel_arguments.h"
#include "backends/llvm/code_cycles.h"
#include "backends/llvm/emitter.h"
#include "backends/llvm/register_pressure.h"
#include "backends/overwrites.h"
#include "dsl/base/check.h"

namespace tw {
namespace {

// LLVM's own report_fatal_error, unwound to the call that caused it.
struct FatalError {
  std::string text;
};

void throw_fatal(void*, const char* reason, bool) { throw FatalError{reason}; }

void set_option(const char* name, bool value) {
  llvm::StringMap<llvm::cl::Option*>& options = llvm::cl::getRegisteredOptions();
  auto found = options.find(name);
  TW_CHECK(found != options.end(), "an LLVM option is gone");
  *static_cast<llvm::cl::opt<bool>*>(found->second) = value;
}

// Process-wide state of LLVM, set once before the first compiler exists.
void initialize_llvm() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo(), LLVMInitializeX86Target(), LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter(), LLVMInitializeX86AsmParser();
    LLVMInitializeAArch64TargetInfo(), LLVMInitializeAArch64Target(), LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter(), LLVMInitializeAArch64AsmParser();
    LLVMInitializeRISCVTargetInfo(), LLVMInitializeRISCVTarget(), LLVMInitializeRISCVTargetMC();
    LLVMInitializeRISCVAsmPrinter(), LLVMInitializeRISCVAsmParser();
    LLVMInitializeHexagonTargetInfo(), LLVMInitializeHexagonTarget(), LLVMInitializeHexagonTargetMC();
    LLVMInitializeHexagonAsmPrinter(), LLVMInitializeHexagonAsmParser();
    llvm::install_fatal_error_handler(throw_fatal);
    // Addresses are already a hoisted base plus a constant: loop strength reduction costs a quarter of the time for
    // nothing.
    set_option("disable-lsr", true);
  });
}

struct Collected final : llvm::DiagnosticHandler {
  explicit Collected(std::string& text) : text(text) {}
  bool handleDiagnostics(const llvm::DiagnosticInfo& info) override {
    if (info.getSeverity() != llvm::DS_Error) return true;
    llvm::raw_string_ostream out(text);
    llvm::DiagnosticPrinterRawOStream printer(out);
    info.print(printer);
    return true;
  }
  std::string& text;
};

std::unique_ptr<llvm::MCSubtargetInfo> subtarget(const llvm::Target& target, const std::string& triple,
                                                 const std::string& cpu, const std::string& features) {
  return std::unique_ptr<llvm::MCSubtargetInfo>(target.createMCSubtargetInfo(triple, cpu, features));
}

double now_ms() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

std::string host_cpu_name() { return llvm::sys::getHostCPUName().str(); }
std::string host_triple() { return llvm::sys::getProcessTriple(); }

std::string host_features() {
  std::string list;
  std::vector<std::string> sorted;
  for (const auto& feature : llvm::sys::getHostCPUFeatures())
    sorted.push_back((feature.second ? "+" : "-") + feature.first().str());
  std::ranges::sort(sorted);
  for (const std::string& feature : sorted) list += (list.empty() ? "" : ",") + feature;
  return list;
}

bool is_llvm_cpu(const std::string& triple, const std::string& cpu) {
  initialize_llvm();
  std::string error, name = triple.empty() ? host_triple() : triple;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(name, error);
  return target && subtarget(*target, name, "", "")->isCPUStringValid(cpu);
}

std::vector<std::string> enabled_features(const CodegenTarget& target) {
  initialize_llvm();
  std::string error, triple = target.triple.empty() ? host_triple() : target.triple;
  const llvm::Target* found = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!found) return {};
  auto info = subtarget(*found, triple, target.cpu.empty() ? host_cpu_name() : target.cpu, target.features);
  std::vector<std::string> names;
  for (const llvm::SubtargetFeatureKV& feature : info->getAllProcessorFeatures()) {
    if (info->getFeatureBits()[feature.Value]) names.emplace_back(feature.Key);
  }
  return names;
}

KernelManifest manifest_of(const LoweredProgram& program, std::string_view symbol) {
  KernelManifest manifest;
  manifest.symbol = symbol;
  manifest.run = kernel_arguments(program.run_arguments);
  if (program.prepack.body) manifest.prepack = kernel_arguments(program.prepack_arguments);
  manifest.scratch_shared_bytes = program.scratch_shared_bytes;
  manifest.scratch_worker_bytes = program.scratch_worker_bytes;
  manifest.parallel = program.parallel;
  manifest.overwrites = overwrites_of(program);
  return manifest;
}

struct LlvmCompiler::Impl {
  CodegenTarget target;
  std::unique_ptr<llvm::TargetMachine> machine;
  bool verify = false;
  CompileTimes times;
  std::string error;

  bool make_machine();
  // `cycles`: receives an estimate in place of code, if not null.
  Result<std::string> translate(const LoweredProgram& program, std::string_view symbol, Emit what,
                                double* cycles = nullptr);
  Result<std::string> translate_unguarded(const LoweredProgram& program, std::string_view symbol, Emit what,
                                          double* cycles);
  void optimize(llvm::Module& module);
  std::string generate(llvm::Module& module, llvm::CodeGenFileType type);
};

// Hexagon's vectors are features that its cpus do not imply: "hexagonv68" has "+hvxv68,+hvx-length128b" where they are
// asked for.
std::string with_vectors(const CodegenTarget& target) {
  constexpr std::string_view prefix = "hexagon";
  bool is_wide = target.vector_bits == 1024 && std::string_view(target.cpu).starts_with(prefix);
  if (!is_wide || target.features.find("hvx") != std::string::npos) return target.features;
  return (target.features.empty() ? "" : target.features + ",") + "+hvx" + target.cpu.substr(prefix.size()) +
         ",+hvx-length128b";
}

bool LlvmCompiler::Impl::make_machine() {
  error.clear();
  target.features = with_vectors(target);
  const llvm::Target* found = llvm::TargetRegistry::lookupTarget(target.triple, error);
  if (!found) return false;
  auto base = subtarget(*found, target.triple, "", "");
  if (!base->isCPUStringValid(target.cpu)) error = "no cpu `" + target.cpu + "` for " + target.triple;
  const llvm::SubtargetFeatures features(target.features);
  for (const std::string& feature : features.getFeatures()) {
    bool is_known = std::ranges::any_of(base->getAllProcessorFeatures(),
                                        [&](const auto& known) { return feature.substr(1) == known.Key; });
    if (!is_known) error = "no feature `" + feature.substr(1) + "` of " + target.triple;
  }
  if (!error.empty()) return false;
  llvm::TargetOptions options;
  bool is_riscv = llvm::Triple(target.triple).isRISCV64();
  if (is_riscv && subtarget(*found, target.triple, target.cpu, target.features)->checkFeatures("+d")) {
    options.MCOptions.ABIName = "lp64d";  // what Linux distributions use; LLVM's default is soft float
  }
  options.AllowFPOpFusion = llvm::FPOpFusion::Standard;  // fused where the IR says contract
  machine.reset(found->createTargetMachine(target.triple, target.cpu, target.features, options, llvm::Reloc::PIC_,
                                           llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default));
  return machine != nullptr;
}

void LlvmCompiler::Impl::optimize(llvm::Module& module) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager graphs;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder passes(machine.get());
  passes.registerModuleAnalyses(modules);
  passes.registerCGSCCAnalyses(graphs);
  passes.registerFunctionAnalyses(functions);
  passes.registerLoopAnalyses(loops);
  passes.crossRegisterProxies(loops, functions, graphs, modules);
  llvm::FunctionPassManager pipeline;
  pipeline.addPass(llvm::SROAPass(llvm::SROAOptions::PreserveCFG));
  pipeline.addPass(llvm::EarlyCSEPass(true));
  pipeline.addPass(llvm::SimplifyCFGPass());
  pipeline.addPass(llvm::createFunctionToLoopPassAdaptor(llvm::LICMPass(llvm::LICMOptions()), true));
  for (llvm::Function& function : module) {
    if (function.isDeclaration()) continue;
    pipeline.run(function, functions);
    llvm::TargetTransformInfo facts = machine->getTargetTransformInfo(function);
    unsigned count = facts.getNumberOfRegisters(facts.getRegisterClassForType(/*Vector=*/true));
    if (count == 0) continue;  // unknown
    codegen::reduce_register_pressure(function, {.count = static_cast<int>(count),
                                                 .bits = target.vector_bits,
                                                 .are_loads_free = machine->getTargetTriple().isX86()});
  }
}

std::string LlvmCompiler::Impl::generate(llvm::Module& module, llvm::CodeGenFileType type) {
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream out(bytes);
  llvm::legacy::PassManager pipeline;
  bool is_unable = machine->addPassesToEmitFile(pipeline, out, nullptr, type, /*DisableVerify=*/true);
  TW_CHECK(!is_unable, "the target cannot write this kind of file");
  pipeline.run(module);
  return {bytes.begin(), bytes.end()};
}

Result<std::string> LlvmCompiler::Impl::translate_unguarded(const LoweredProgram& program, std::string_view symbol,
                                                            Emit what, double* cycles) {
  times = {};
  double start = now_ms();
  llvm::LLVMContext context;
  context.setDiagnosticHandler(std::make_unique<Collected>(error));
  llvm::Module module(llvm::StringRef(symbol.data(), symbol.size()), context);
  module.setTargetTriple(target.triple);
  module.setDataLayout(machine->createDataLayout());
  module.setPICLevel(llvm::PICLevel::BigPIC);
  TW_TRY(int widest, codegen::check_intrinsics(program, *machine, module));
  int vector_bits = std::max(target.vector_bits, widest);  // LLVM splits what is wider, but no instructions by name
  bool has_table = vector_bits >= 512 && machine->getTargetTriple().isX86() &&
                   machine->getMCSubtargetInfo()->checkFeatures("+avx512f");
  codegen::ModuleEmitter(module, program, symbol, vector_bits, target.cpu, target.features, has_table).emit();
  double built = now_ms();
  times.build_ms = built - start;
  auto check = [&] {
    std::string complaint;
    llvm::raw_string_ostream out(complaint);
    bool is_broken = verify && llvm::verifyModule(module, &out);
    TW_CHECK(!is_broken, "IR is not valid");
  };
  check();
  auto text = [&] {
    std::string printed;
    llvm::raw_string_ostream out(printed);
    module.print(out, nullptr);
    return printed;
  };
  if (what == Emit::Ir) return text();
  built = now_ms();
  optimize(module);
  double optimized = now_ms();
  check();
  times.passes_ms = optimized - built;
  if (what == Emit::OptimizedIr) return text();
  bool is_assembly = what == Emit::Assembly;
  std::string code;
  if (cycles) {
    *cycles = codegen::code_cycles(module, (llvm::Twine(llvm::StringRef(symbol)) + "_run").str(), *machine);
  } else {
    code = generate(module, is_assembly ? llvm::CodeGenFileType::AssemblyFile : llvm::CodeGenFileType::ObjectFile);
  }
  times.codegen_ms = now_ms() - optimized;
  if (!error.empty()) return reject("LLVM: {a}", error);
  return code;
}

Result<std::string> LlvmCompiler::Impl::translate(const LoweredProgram& program, std::string_view symbol, Emit what,
                                                  double* cycles) {
  error.clear();
  try {
    return translate_unguarded(program, symbol, what, cycles);
  } catch (const FatalError& fatal) {
    bool is_remade = make_machine();  // what the old one was doing is unknown
    TW_CHECK(is_remade);
    error = fatal.text;
    return reject("LLVM: {a}", error);
  }
}

LlvmCompiler::LlvmCompiler(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LlvmCompiler::LlvmCompiler(LlvmCompiler&&) noexcept = default;
LlvmCompiler& LlvmCompiler::operator=(LlvmCompiler&&) noexcept = default;
LlvmCompiler::~LlvmCompiler() = default;

Result<LlvmCompiler> LlvmCompiler::create(const CodegenTarget& target) {
  initialize_llvm();
  auto impl = std::make_unique<Impl>();
  impl->target = target;
  if (target.triple.empty()) impl->target.triple = host_triple();
  if (target.cpu.empty()) impl->target.cpu = host_cpu_name();
  if (!impl->make_machine()) {
    static thread_local std::string why;
    why = impl->error;
    return reject("LLVM: {a}", why);
  }
  return LlvmCompiler(std::move(impl));
}

Result<Kernel> LlvmCompiler::compile(const LoweredProgram& program, std::string_view symbol) {
  TW_TRY(std::string code, impl_->translate(program, symbol, Emit::Object));
  return Kernel{std::move(code), manifest_of(program, symbol)};
}

Result<std::string> LlvmCompiler::emit(const LoweredProgram& program, std::string_view symbol, Emit what) {
  return impl_->translate(program, symbol, what);
}

Result<double> LlvmCompiler::cycles(const LoweredProgram& program, std::string_view symbol) {
  double cycles = 0;
  TW_TRY(std::string none, impl_->translate(program, symbol, Emit::Object, &cycles));
  return cycles;
}

void LlvmCompiler::set_verify(bool verify) { impl_->verify = verify; }
const CompileTimes& LlvmCompiler::last_times() const { return impl_->times; }

}  // namespace tw
