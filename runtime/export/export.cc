#include "runtime/export/export.h"

#include <fcntl.h>
#include <sys/wait.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

#include "backends/kernel_abi.h"
#include "dsl/base/check.h"
#include "dsl/base/text.h"
#include "runtime/export/export_files.h"
#include "runtime/measure/spawn.h"

extern char** environ;

namespace tw {
namespace {

// ---- the texts

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

const char* c_type_of(DType type) {
  constexpr const char* names[kDTypes] = {
      "unsigned char (0 or 1)",    "int8_t", "uint8_t", "int32_t", "int64_t", "uint16_t (bits of an f16)",
      "uint16_t (bits of a bf16)", "float",  "double"};
  return names[static_cast<int>(type)];
}

// " *   [0] X: input, float[128][768], row-major, 393216 bytes\n"
std::string argument_lines(const std::vector<KernelArgument>& arguments, bool is_prepack) {
  std::string out;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const KernelArgument& argument = arguments[i];
    std::string shape;
    for (i64 extent : argument.shape) shape += cat("[", extent, "]");
    const char* role = argument.role == ArgumentRole::Packed
                           ? (is_prepack ? "written: a packed operand" : "a packed operand, made by prepack")
                       : argument.role == ArgumentRole::Output ? "output"
                       : argument.role == ArgumentRole::Input  ? "input"
                                                               : "constant";
    out += cat(" *   [", i, "] ", argument.name, ": ", role, ", ", c_type_of(argument.dtype), shape, ", row-major, ",
               argument.bytes, " bytes\n");
  }
  return out;
}

// In capitals, but for tasks whose names differ in capitals only.
std::string macro_prefix(const ExportPlan& plan, const ExportedTask& task) {
  auto is_alike = [&](const ExportedTask& other) { return upper(other.name) == upper(task.name); };
  bool is_unique = std::count_if(plan.tasks.begin(), plan.tasks.end(), is_alike) == 1;
  return cat(upper(plan.library), "_", is_unique ? upper(task.name) : task.name);
}

std::string task_declaration(const ExportPlan& plan, const ExportedTask& task) {
  const KernelManifest& manifest = task.kernel.manifest;
  std::string name = cat(plan.library, "_", task.name), scratch = macro_prefix(plan, task) + "_SCRATCH_BYTES";
  std::string out =
      cat("/* ", task.name, ": ", task.doc, "\n * Buffers of ", name, "_run:\n", argument_lines(manifest.run, false));
  if (!manifest.prepack.empty()) {
    out += cat(" * Buffers of ", name,
               "_prepack, to be called once before the first run, and whenever what it reads changes:\n",
               argument_lines(manifest.prepack, true));
  }
  out += manifest.parallel ? cat(" * Runs in parallel on a pool of ", task.target.threads,
                                 " threads; serial if parallel_for is NULL. */\n")
                           : std::string(" * Runs in the calling thread: parallel_for is not used. */\n");
  out += cat("#define ", scratch, "(workers) ((size_t)", manifest.scratch_shared_bytes, " + (size_t)(workers) * ",
             manifest.scratch_worker_bytes, ")\n");
  if (!manifest.prepack.empty()) out += cat("int32_t ", name, "_prepack(void* const* buffers);\n");
  return out + cat("int32_t ", name,
                   "_run(void* const* buffers, void* scratch, tw_parallel_for parallel_for, void* "
                   "pool);\n\n");
}

struct CpuBit {
  const char* feature;  // as LLVM spells it
  const char* condition;
};
// Where cpuid says that a feature is there. What is not listed changes no code of kernels.
constexpr CpuBit cpu_bits[] = {
    {"sse3", "cpu_bit(1, 0, 2, 0)"},
    {"ssse3", "cpu_bit(1, 0, 2, 9)"},
    {"fma", "cpu_bit(1, 0, 2, 12)"},
    {"sse4.1", "cpu_bit(1, 0, 2, 19)"},
    {"sse4.2", "cpu_bit(1, 0, 2, 20)"},
    {"movbe", "cpu_bit(1, 0, 2, 22)"},
    {"popcnt", "cpu_bit(1, 0, 2, 23)"},
    {"avx", "cpu_bit(1, 0, 2, 28)"},
    {"f16c", "cpu_bit(1, 0, 2, 29)"},
    {"bmi", "cpu_bit(7, 0, 1, 3)"},
    {"avx2", "cpu_bit(7, 0, 1, 5)"},
    {"bmi2", "cpu_bit(7, 0, 1, 8)"},
    {"avx512f", "cpu_bit(7, 0, 1, 16)"},
    {"avx512dq", "cpu_bit(7, 0, 1, 17)"},
    {"avx512ifma", "cpu_bit(7, 0, 1, 21)"},
    {"avx512cd", "cpu_bit(7, 0, 1, 28)"},
    {"avx512bw", "cpu_bit(7, 0, 1, 30)"},
    {"avx512vl", "cpu_bit(7, 0, 1, 31)"},
    {"avx512vbmi", "cpu_bit(7, 0, 2, 1)"},
    {"avx512vbmi2", "cpu_bit(7, 0, 2, 6)"},
    {"gfni", "cpu_bit(7, 0, 2, 8)"},
    {"vpclmulqdq", "cpu_bit(7, 0, 2, 10)"},
    {"avx512vnni", "cpu_bit(7, 0, 2, 11)"},
    {"avx512bitalg", "cpu_bit(7, 0, 2, 12)"},
    {"avx512vpopcntdq", "cpu_bit(7, 0, 2, 14)"},
    {"avx512vp2intersect", "cpu_bit(7, 0, 3, 8)"},
    {"avx512fp16", "cpu_bit(7, 0, 3, 23)"},
    {"avxvnni", "cpu_bit(7, 1, 0, 4)"},
    {"avx512bf16", "cpu_bit(7, 1, 0, 5)"},
    {"lzcnt", "cpu_bit(0x80000001u, 0, 2, 5)"},
};

constexpr const char* cpu_check = R"c(
#include <cpuid.h>

/* Bit `bit` of register `which` (eax, ebx, ecx, edx) of a cpuid leaf. */
static int cpu_bit(unsigned leaf, unsigned subleaf, int which, int bit) {
  unsigned registers[4] = {0, 0, 0, 0};
  if (!__get_cpuid_count(leaf, subleaf, &registers[0], &registers[1], &registers[2], &registers[3])) return 0;
  return (int)(registers[which] >> bit & 1u);
}

/* Does the system save these vector registers when it switches threads? */
static int saves_registers(unsigned mask) {
  unsigned low = 0, high = 0;
  if (!cpu_bit(1, 0, 2, 27)) return 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low & mask) == mask;
}
)c";

// A model without kernels is for this machine, as all models are.
const Target& target_of(const ExportPlan& plan) {
  return plan.tasks.empty() ? host_target() : plan.tasks.front().target;
}

bool is_x86(const Target& target) {
  return (target.triple.empty() ? host_triple() : target.triple).starts_with("x86_64");
}

std::set<std::string> features_of(const ExportPlan& plan) {
  std::set<std::string> out;
  for (const ExportedTask& task : plan.tasks) {
    const Target& target = task.target;
    for (std::string& name : enabled_features({target.triple, target.cpu, target.features, target.vector_bits}))
      out.insert(std::move(name));
  }
  return out;
}

std::string cpu_condition(const ExportPlan& plan) {
  std::set<std::string> features = features_of(plan);
  std::vector<std::string> conditions;
  if (features.count("avx"))
    conditions.push_back(features.count("avx512f") ? "saves_registers(0xe6u)" : "saves_registers(0x06u)");
  for (const CpuBit& bit : cpu_bits) {
    if (features.count(bit.feature)) conditions.push_back(bit.condition);
  }
  return conditions.empty() ? "1" : join(conditions, " &&\n              ");
}

// The entry points that others call: they refuse to run where the code would be illegal.
std::string task_definition(const ExportPlan& plan, const ExportedTask& task) {
  std::string name = cat(plan.library, "_", task.name), inner = kernel_symbol(plan.library, task.name), out;
  const char* hidden = "__attribute__((visibility(\"hidden\"))) ";
  if (!task.kernel.manifest.prepack.empty()) {
    out += cat(hidden, "int32_t ", inner, "_prepack(void* const* buffers);\n", "int32_t ", name,
               "_prepack(void* const* buffers) {\n  return supported ? ", inner, "_prepack(buffers) : 1;\n}\n");
  }
  constexpr const char* parameters = "(void* const* buffers, void* scratch, tw_parallel_for parallel_for, void* pool)";
  return out + cat(hidden, "int32_t ", inner, "_run", parameters, ";\n", "int32_t ", name, "_run", parameters,
                   " {\n  return supported ? ", inner, "_run(buffers, scratch, parallel_for, pool) : 1;\n}\n\n");
}

// ---- the files

// The sources beside the library, with the names that they have there.
std::string shipped(std::string_view path) {
  std::string text = embedded_file(path);
  const std::pair<std::string, std::string> names[] = {{"\"backends/kernel_abi.h\"", "\"tw_kernel_abi.h\""},
                                                       {"\"runtime/measure/thread_pool.h\"", "\"tw_thread_pool.h\""}};
  for (const auto& [from, to] : names) {
    for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from))
      text.replace(at, from.size(), to);
  }
  return text;
}

// 0, the exit code, or 127 if there is no such program. It runs in the folder, so that its words need no name of the
// user's: a compiler takes some characters in them for something else. Its messages go to our standard error.
int run_program(const std::vector<std::string>& words, const std::string& folder) {
  pid_t pid = spawn(words, {.search_path = true, .folder = folder});
  if (pid < 0) return 127;
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

}  // namespace

void make_libraries(const ExportPlan& plan, const std::vector<std::string>& own_objects,
                    const std::vector<std::string>& flags, ExportFolder& folder, ExportResult& result) {
  std::error_code ignored;
  std::filesystem::create_directories(folder.at("objects"), ignored);  // a model may have no kernels
  std::string glue = "objects/" + plan.library + "_glue.o";
  int code = run_program({"cc", "-std=c99", "-O2", "-fPIC", "-c", plan.library + ".c", "-o", glue}, folder.at(""));
  if (code == 127) {
    result.note = cat("no C compiler (cc) was found, so there is no library: install gcc, then compile ", plan.library,
                      ".c and link it with objects/*.o");
    return;
  }
  if (code == 0) folder.add(glue);
  std::vector<std::string> objects{glue};
  objects.insert(objects.end(), own_objects.begin(), own_objects.end());
  std::string archive = cat("lib", plan.library, ".a"), shared = cat("lib", plan.library, ".so");
  if (code == 0 && plan.make_static) {
    std::vector<std::string> words{"ar", "rcsD", archive};
    words.insert(words.end(), objects.begin(), objects.end());
    code = run_program(words, folder.at(""));
    if (code == 0) folder.add(archive);
  }
  if (code == 0 && plan.make_shared) {
    std::vector<std::string> words{"cc", "-shared", "-o", shared};
    words.insert(words.end(), objects.begin(), objects.end());
    words.insert(words.end(), flags.begin(), flags.end());
    words.push_back("-Wl,-soname," + shared);
    code = run_program(words, folder.at(""));
    if (code == 0) folder.add(shared);
  }
  if (code != 0) result.error = "cc or ar failed, see above";
}

std::string kernel_symbol(const std::string& library, const std::string& task) {
  return cat(library, "_", task, "_kernel");
}

std::string export_header(const ExportPlan& plan) {
  std::string guard = upper(plan.library) + "_H";
  std::string out = cat("/* Kernels made by tracewright ", TW_VERSION, " for ", to_string(target_of(plan)), ".\n",
                        " * Every buffer and scratch is aligned to TW_ALIGNMENT bytes; buffers do "
                        "not overlap. The functions keep no state, so that\n",
                        " * several threads may call them at once, each with its own outputs and "
                        "scratch. They return 0, or 1 where this CPU lacks\n",
                        " * instructions that the code uses. tw_kernel_abi.h says what "
                        "parallel_for is; tw_thread_pool.c is one. */\n");
  out += cat("#ifndef ", guard, "\n#define ", guard,
             "\n#include <stddef.h>\n#include <stdint.h>\n\n#include \"tw_kernel_abi.h\"\n\n",
             "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n",
             "/* Nonzero if this CPU can run the kernels; found out when the library is loaded. */\nint ", plan.library,
             "_supported(void);\n\n");
  if (plan.model) out += model_declarations(plan);
  for (const ExportedTask& task : plan.tasks) out += task_declaration(plan, task);
  return out + "#ifdef __cplusplus\n}\n#endif\n#endif\n";
}

std::string export_source(const ExportPlan& plan) {
  bool is_checked = is_x86(target_of(plan));
  std::string out = cat(plan.model ? "#define _POSIX_C_SOURCE 200809L\n" : "", "/* Joins the kernels of ", plan.library,
                        ": a check of the CPU, then the entry points. */\n#include \"", plan.library, ".h\"\n");
  if (is_checked) out += cpu_check;
  out +=
      cat("\nstatic int supported = 0;\n\n__attribute__((constructor)) static void check_cpu(void) "
          "{\n  supported = ",
          is_checked ? cpu_condition(plan) : "1", ";\n}\n\nint ", plan.library,
          "_supported(void) { return supported; }\n\n");
  for (const ExportedTask& task : plan.tasks) out += task_definition(plan, task);
  if (plan.model) out += model_definitions(plan);
  return out;
}

std::string export_manifest(const ExportPlan& plan) {
  boost::json::array tasks;
  for (const ExportedTask& task : plan.tasks) {
    const KernelManifest& manifest = task.kernel.manifest;
    std::string name = cat(plan.library, "_", task.name);
    boost::json::object entry{{"name", task.name}, {"doc", task.doc}, {"target", to_string(task.target)}};
    add_work(entry, task);
    entry["run"] = {{"symbol", name + "_run"}, {"buffers", export_arguments(manifest.run)}};
    entry["prepack"] = nullptr;
    if (!manifest.prepack.empty())
      entry["prepack"] = {{"symbol", name + "_prepack"}, {"buffers", export_arguments(manifest.prepack)}};
    entry["scratch"] = {{"shared_bytes", manifest.scratch_shared_bytes},
                        {"bytes_per_worker", manifest.scratch_worker_bytes},
                        {"alignment", TW_ALIGNMENT}};
    entry["parallel"] = manifest.parallel;
    entry["trace"] = cat("traces/", task.name, ".tw");
    tasks.push_back(std::move(entry));
  }
  std::set<std::string> features = features_of(plan);
  boost::json::object out{
      {"format", 1}, {"tracewright", TW_VERSION}, {"library", plan.library}, {"header", plan.library + ".h"}};
  out["cpu_features"] = boost::json::array(features.begin(), features.end());
  out["supported"] = plan.library + "_supported";
  out["tasks"] = std::move(tasks);
  if (plan.model) out["model"] = model_manifest(plan);
  return boost::json::serialize(out) + "\n";
}

ExportResult write_export(const ExportPlan& plan, const std::string& path) {
  TW_CHECK(!plan.tasks.empty() || plan.model, "an export without tasks");
  ExportResult result;
  ExportFolder folder(path, result);
  bool good = folder.write(plan.library + ".h", export_header(plan)) &&
              folder.write(plan.library + ".c", export_source(plan)) &&
              folder.write("manifest.json", export_manifest(plan)) &&
              folder.write("tw_kernel_abi.h", shipped("backends/kernel_abi.h")) &&
              folder.write("tw_thread_pool.h", shipped("runtime/measure/thread_pool.h")) &&
              folder.write("tw_thread_pool.c", shipped("runtime/measure/thread_pool.cc"));
  for (const ExportedTask& task : plan.tasks) {
    good = good && folder.write(cat("traces/", task.name, ".tw"), task.trace_file) &&
           folder.write(cat("objects/", task.name, ".o"), task.kernel.code);
  }
  if (plan.model)
    good = good && folder.write(plan.library + ".weights", weights_header(plan.model->weights) + plan.model->weights);
  if (!good) return result;
  if (const Target& target = target_of(plan); !target.triple.empty() && target.triple != host_triple()) {
    result.note = cat("the kernels are for ", target.triple, ": compile ", plan.library,
                      ".c for it and link it with objects/*.o");
  } else {
    std::vector<std::string> objects;
    for (const ExportedTask& task : plan.tasks) objects.push_back("objects/" + task.name + ".o");
    make_libraries(plan, objects, {"-lm"}, folder, result);
  }
  if (result.error.empty()) folder.publish();
  return result;
}

}  // namespace tw
