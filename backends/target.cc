#include "backends/target.h"

#include <sched.h>
#include <sys/utsname.h>

#include <algorithm>
#include <charconv>

#include "backends/cpu_table.h"
#include "backends/kernel.h"
#include "backends/topology.h"
#include "dsl/base/text.h"

namespace tw {
namespace {

bool (*is_cpu_of_backend)(const std::string& triple, const std::string& cpu) = nullptr;

// Sets of target kinds.
constexpr int kOnCpu = 1 << static_cast<int>(TargetKind::Cpu), kOnOpenCl = 1 << static_cast<int>(TargetKind::OpenCl),
              kOnCuda = 1 << static_cast<int>(TargetKind::Cuda), kOnAll = kOnCpu | kOnOpenCl | kOnCuda;

// One row per field. `flag` is the name in the canonical text; numbers have a range.
struct Field {
  const char* key;
  const char* flag;
  std::string Target::* text;
  int Target::* number;
  i64 Target::* bytes;
  i64 least, most;
  int kinds = kOnCpu;  // that have it
};

const std::vector<Field>& fields() {
  constexpr i64 most_bytes = i64{1} << 40;
  static const std::vector<Field> rows = {
      {"triple", "triple", &Target::triple, nullptr, nullptr, 0, 0},
      {"cpu", "mcpu", &Target::cpu, nullptr, nullptr, 0, 0},
      {"features", "mattr", &Target::features, nullptr, nullptr, 0, 0},
      {"threads", "threads", nullptr, &Target::threads, nullptr, 1, 4096},
      {"vector_bits", "vector-bits", nullptr, &Target::vector_bits, nullptr, 32, 4096, kOnAll},
      {"vector_registers", "vector-registers", nullptr, &Target::vector_registers, nullptr, 2, 256, kOnAll},
      {"l1_bytes", "l1-bytes", nullptr, nullptr, &Target::l1_bytes, 0, most_bytes},
      {"l2_bytes", "l2-bytes", nullptr, nullptr, &Target::l2_bytes, 0, most_bytes},
      {"l3_bytes", "l3-bytes", nullptr, nullptr, &Target::l3_bytes, 0, most_bytes},
      {"cache_line", "cache-line", nullptr, &Target::cache_line, nullptr, 16, 1024},
      {"vtcm_bytes", "vtcm-bytes", nullptr, nullptr, &Target::vtcm_bytes, 0, most_bytes},
      {"device", "device", nullptr, &Target::device, nullptr, 0, 255, kOnOpenCl},
      {"arch", "arch", &Target::arch, nullptr, nullptr, 0, 0, kOnCuda},
      {"device", "device", &Target::gpu, nullptr, nullptr, 0, 0, kOnCuda},
      {"gpu", "gpu", &Target::gpu, nullptr, nullptr, 0, 0, kOnOpenCl},
      {"group_threads", "group-threads", nullptr, &Target::group_threads, nullptr, 1, 4096, kOnOpenCl | kOnCuda},
      {"shared_bytes", "shared-bytes", nullptr, nullptr, &Target::shared_bytes, 0, most_bytes, kOnOpenCl | kOnCuda},
  };
  return rows;
}

std::string value_of(const Field& field, const Target& target) {
  if (field.text) return target.*field.text;
  return std::to_string(field.number ? target.*field.number : target.*field.bytes);
}

const std::vector<std::string>& target_kinds() {
  static const std::vector<std::string> kinds = {"cpu", "opencl", "cuda"};
  return kinds;
}

std::optional<CpuArch> arch_of(std::string_view triple) {
  if (triple.empty()) return host_arch();
  struct Row {
    const char* prefix;
    CpuArch arch;
  };
  constexpr Row rows[] = {
      {"x86_64", CpuArch::X86}, {"aarch64", CpuArch::Arm}, {"riscv64", CpuArch::RiscV}, {"hexagon", CpuArch::Hexagon}};
  std::string_view arch = triple.substr(0, triple.find('-'));
  for (const Row& row : rows) {
    if (arch == row.prefix) return row.arch;
  }
  return std::nullopt;
}

// What cpu and features imply; `target` keeps its other fields.
Target with_derived(Target target) {
  CpuArch arch = arch_of(target.triple).value_or(host_arch());
  const CpuModel* known = find_cpu(target.cpu, arch);
  const CpuModel& model = known ? *known : baseline_cpu(arch);
  target.vector_bits = model.vector_bits;
  target.vector_registers = model.vector_registers;
  target.l1_bytes = model.l1_bytes;
  target.l2_bytes = model.l2_bytes;
  target.l3_bytes = model.l3_bytes;
  target.cache_line = 64;
  target.vtcm_bytes = model.vtcm_bytes;
  if (arch != CpuArch::X86) return target;
  auto has = [&](const char* feature) {
    return cat(",", target.features, ",").find(cat(",", feature, ",")) != std::string::npos;
  };
  if (has("+avx2") && target.vector_bits < 256) target.vector_bits = 256;
  if (has("+avx512f")) target.vector_bits = 512, target.vector_registers = 32;
  if (has("-avx512f") && target.vector_bits == 512) target.vector_bits = 256, target.vector_registers = 16;
  if (has("-avx2") && target.vector_bits == 256) target.vector_bits = 128;
  return target;
}

Target detect_host() {
  Target target;
  target.cpu = host_cpu().name;
  target.threads = usable_threads();
  target = with_derived(target);
  const Topology& machine = topology();
  if (machine.l1_bytes > 0) target.l1_bytes = machine.l1_bytes;
  if (machine.l2_bytes > 0) target.l2_bytes = machine.l2_bytes;
  if (machine.cache_line > 0) target.cache_line = machine.cache_line;
  // The third level differs between products of one model and between virtual machines on one host;
  // as a part of the key it would hide good records, and no rule looks that far. So it stays the
  // model's nominal value.
  return target;
}

// Sets one field from its text. Reports and returns false if the value is wrong.
bool set_field(const Field& field, const TargetOption& option, Target& target, Diagnostics& diagnostics) {
  if (field.text) {
    auto legal = [](unsigned char c) {
      return std::isalnum(c) || c == '-' || c == '_' || c == '.' || c == '+' || c == ',' || c == '/';
    };
    if (option.value.empty() || !std::all_of(option.value.begin(), option.value.end(), legal)) {
      diagnostics.error(option.span, cat("expected a name for `", option.key, "`, found `", option.value, "`"));
      return false;
    }
    target.*field.text = option.value;
    return true;
  }
  i64 value = 0;
  const char* end = option.value.data() + option.value.size();
  auto [stop, problem] = std::from_chars(option.value.data(), end, value);
  if (problem != std::errc() || stop != end || value < field.least || value > field.most) {
    diagnostics.error(option.span, cat("expected `", option.key, "` to be an integer from ", field.least, " to ",
                                       field.most, ", found `", option.value, "`"));
    return false;
  }
  if (field.number) target.*field.number = static_cast<int>(value);
  if (field.bytes) target.*field.bytes = value;
  return true;
}

const TargetOption* find_option(const std::vector<TargetOption>& options, std::string_view key) {
  for (const TargetOption& option : options) {
    if (option.key == key) return &option;
  }
  return nullptr;
}

bool check_name(std::string_view name, const std::vector<std::string>& known, const char* what, Span span,
                Diagnostics& diagnostics) {
  if (std::find(known.begin(), known.end(), name) != known.end()) return true;
  std::string near = closest(name, known);
  diagnostics.error(span, cat("unknown ", what, " `", name, "`"),
                    near.empty() ? cat("known: ", join(known, ", ")) : cat("did you mean `", near, "`?"));
  return false;
}

bool has_field(TargetKind kind, const Field& field) { return (field.kinds >> static_cast<int>(kind) & 1) != 0; }

std::optional<TargetKind> kind_named(std::string_view name) {
  const std::vector<std::string>& kinds = target_kinds();
  auto found = std::find(kinds.begin(), kinds.end(), name);
  if (found == kinds.end()) return std::nullopt;
  return static_cast<TargetKind>(found - kinds.begin());
}

bool check_keys(const std::vector<TargetOption>& options, Diagnostics& diagnostics) {
  const TargetOption* given = find_option(options, "kind");
  TargetKind kind = given ? kind_named(given->value).value_or(TargetKind::Cpu) : TargetKind::Cpu;
  std::vector<std::string> known = {"kind"};
  for (const Field& field : fields()) {
    if (has_field(kind, field)) known.push_back(field.key);
  }
  bool good = true;
  for (const TargetOption& option : options) {
    if (!check_name(option.key, known, "target key", option.key_span, diagnostics)) {
      good = false;
    } else if (find_option(options, option.key) != &option) {
      diagnostics.error(option.key_span, cat("`", option.key, "` is given twice"));
      good = false;
    }
  }
  return good;
}

bool check_cpu(const Target& target, Span span, Diagnostics& diagnostics) {
  CpuArch arch = arch_of(target.triple).value_or(host_arch());
  if (is_cpu_of_backend && is_cpu_of_backend(target.triple, target.cpu)) return true;
  std::vector<std::string> names;
  for (const CpuModel& model : cpu_models()) {
    if (model.arch == arch) names.push_back(model.name);
  }
  return check_name(target.cpu, names, "cpu", span, diagnostics);
}

// Architectures of CUDA devices, and the shared memory that one block may have there (CUDA C++ Programming Guide,
// "Technical Specifications per Compute Capability"); costmodel/devices says the same, a test compares.
struct CudaArch {
  const char* name;
  i64 shared_bytes;
};
constexpr CudaArch kCudaArchs[] = {
    {"sm_75", 64 << 10},  {"sm_80", 163 << 10},  {"sm_86", 99 << 10},   {"sm_87", 163 << 10},   {"sm_89", 99 << 10},
    {"sm_90", 227 << 10}, {"sm_90a", 227 << 10}, {"sm_100", 227 << 10}, {"sm_100a", 227 << 10}, {"sm_120", 99 << 10}};

// What a device is taken to be where nothing is said. Not asked of the device: the same text means the same everywhere.
// `gpu`: which one it is said to be, or "".
Target device_defaults(TargetKind kind, const std::string& gpu, const std::string& arch) {
  Target target;
  target.kind = kind, target.gpu = gpu;
  // OpenCL's widest float vector, and the registers of a processor that has such vectors; narrower machines split it.
  target.vector_bits = 512, target.vector_registers = 32;
  if (!is_gpu(target)) return target;
  target.vector_bits = 128, target.vector_registers = 64, target.group_threads = 1024;
  target.shared_bytes = kStaticSharedBytes;
  if (kind != TargetKind::Cuda) return target;
  target.arch = arch;
  for (const CudaArch& known : kCudaArchs) {
    if (known.name == arch) target.shared_bytes = known.shared_bytes;
  }
  return target;
}

// The GPUs that are described in costmodel/devices; a test compares.
struct Gpu {
  const char *name, *arch;
};
constexpr Gpu kGpus[] = {{"a100", "sm_80"}, {"h100", "sm_90a"}, {"h200", "sm_90a"}, {"rtx4090", "sm_89"}};

// The arch of a cuda target follows from its GPU. False after an error.
bool set_arch(const TargetOption& gpu, bool has_arch, Target& target, Diagnostics& diagnostics) {
  bool needs_arch = target.kind == TargetKind::Cuda && !has_arch;
  if (is_device_file(gpu.value)) {
    if (needs_arch)
      diagnostics.error(gpu.span, "a device that a file describes needs `arch` beside it", "as in `arch: sm_80`");
    return !needs_arch;
  }
  std::vector<std::string> names;
  for (const Gpu& known : kGpus) {
    names.push_back(known.name);
    if (known.name != gpu.value) continue;
    if (needs_arch) target.arch = known.arch;
    return true;
  }
  std::string near = closest(gpu.value, names);
  diagnostics.error(gpu.span, cat("unknown device `", gpu.value, "`"),
                    near.empty() ? cat("known: ", join(names, ", "), "; or a path to a file that describes one")
                                 : cat("did you mean `", near, "`?"));
  return false;
}

std::optional<Target> resolve_device(TargetKind kind, const std::vector<TargetOption>& options, bool good,
                                     Diagnostics& diagnostics) {
  const TargetOption* gpu = find_option(options, kind == TargetKind::Cuda ? "device" : "gpu");
  Target target = device_defaults(kind, gpu ? gpu->value : "", "sm_80");
  for (const Field& field : fields()) {
    const TargetOption* option = find_option(options, field.key);
    if (option && has_field(kind, field)) good = set_field(field, *option, target, diagnostics) && good;
  }
  const TargetOption* arch = find_option(options, "arch");
  if (arch && kind == TargetKind::Cuda)
    good = check_name(arch->value, cuda_archs(), "arch", arch->span, diagnostics) && good;
  if (gpu) good = set_arch(*gpu, arch != nullptr, target, diagnostics) && good;
  if (!good) return std::nullopt;
  const TargetOption* shared = find_option(options, "shared_bytes");
  i64 most_shared = device_defaults(kind, target.gpu, target.arch).shared_bytes;
  if (shared && kind == TargetKind::Cuda && target.shared_bytes > most_shared) {
    diagnostics.error(shared->span,
                      cat("a block of ", target.arch, " has at most ", most_shared, " bytes of shared memory"));
    return std::nullopt;
  }
  if (!shared) target.shared_bytes = most_shared;
  return target;
}

// Splits "cpu -mcpu=x -threads=1" into options with their places. False = something was reported.
bool split_text(std::string_view text, std::size_t offset, std::vector<TargetOption>& options,
                Diagnostics& diagnostics) {
  std::vector<std::string> flags;
  for (const Field& field : fields()) flags.push_back(field.flag);
  bool good = true;
  for (std::size_t at = text.find_first_not_of(' '); at < text.size(); at = text.find_first_not_of(' ', at)) {
    std::size_t end = std::min(text.find(' ', at), text.size());
    std::string_view word = text.substr(at, end - at);
    Span span{offset + at, offset + end};
    at = end;
    std::size_t equals = word.find('=');
    if (options.empty()) {
      options.push_back({"kind", std::string(word), span, span});
      continue;
    }
    if (word[0] != '-' || equals == std::string_view::npos) {
      diagnostics.error(span, cat("expected `-name=value`, found `", word, "`"));
      good = false;
      continue;
    }
    std::string_view flag = word.substr(1, equals - 1);
    Span flag_span{span.begin + 1, span.begin + equals};
    if (!check_name(flag, flags, "target option", flag_span, diagnostics)) {
      good = false;
      continue;
    }
    const Field& field = fields()[std::find(flags.begin(), flags.end(), flag) - flags.begin()];
    options.push_back({field.key, std::string(word.substr(equals + 1)), flag_span, {flag_span.end + 1, span.end}});
  }
  return good;
}

}  // namespace

const char* name_of(TargetKind kind) { return target_kinds()[static_cast<int>(kind)].c_str(); }

bool has_lane_masks(const Target& target) {
  // More than 16 vector registers come with AVX-512 only; narrower vectors of it have masks as well.
  return target.kind == TargetKind::Cpu && arch_of(target.triple) == CpuArch::X86 && target.vector_registers > 16;
}

const Target& host_target() {
  static const Target target = detect_host();
  return target;
}

void set_cpu_check(bool (*is_cpu)(const std::string& triple, const std::string& cpu)) { is_cpu_of_backend = is_cpu; }

std::string to_string(const Target& target) {
  bool is_cpu = target.kind == TargetKind::Cpu;
  Target implied = is_cpu ? with_derived(target) : device_defaults(target.kind, target.gpu, target.arch);
  if (!is_cpu) implied.device = -1, implied.arch = implied.gpu = "";  // always shown
  if (is_cpu) implied.triple = implied.features = implied.cpu = "", implied.threads = 0;
  std::string out = name_of(target.kind);
  for (const Field& field : fields()) {
    std::string value = value_of(field, target);
    if (has_field(target.kind, field) && value != value_of(field, implied)) out += cat(" -", field.flag, "=", value);
  }
  return out;
}

std::optional<Target> resolve_target(const std::vector<TargetOption>& options, Span whole, Diagnostics& diagnostics) {
  bool good = check_keys(options, diagnostics);
  const TargetOption* kind = find_option(options, "kind");
  if (kind) {
    if (!check_name(kind->value, target_kinds(), "target kind", kind->span, diagnostics)) return std::nullopt;
  } else {
    diagnostics.error(whole, "a target needs `kind`", cat("one of: ", join(target_kinds(), ", ")));
    good = false;
  }
  std::optional<TargetKind> named = kind ? kind_named(kind->value) : std::nullopt;
  if (named && *named != TargetKind::Cpu) return resolve_device(*named, options, good, diagnostics);
  const TargetOption* cpu = find_option(options, "cpu");
  const TargetOption* triple = find_option(options, "triple");
  Target target = host_target();
  if (cpu || triple) target = Target{};
  // Names first: the numbers override what the names imply.
  for (const Field& field : fields()) {
    const TargetOption* option = find_option(options, field.key);
    if (field.text && option) good = set_field(field, *option, target, diagnostics) && good;
  }
  if (!arch_of(target.triple)) {
    diagnostics.error(triple->span, cat("unknown architecture in triple `", target.triple, "`"),
                      "known: x86_64, aarch64, riscv64, hexagon, as in `aarch64-linux-gnu`");
    return std::nullopt;
  }
  if (triple && !cpu) target.cpu = baseline_cpu(*arch_of(target.triple)).name;
  if (cpu && !target.cpu.empty() && !check_cpu(target, cpu->span, diagnostics)) good = false;
  if (cpu || triple || !target.features.empty()) target = with_derived(target);
  for (const Field& field : fields()) {
    const TargetOption* option = find_option(options, field.key);
    if (!field.text && option) good = set_field(field, *option, target, diagnostics) && good;
  }
  if (!good) return std::nullopt;
  return target;
}

std::optional<Target> parse_target(std::string_view text, std::size_t offset, Diagnostics& diagnostics) {
  std::vector<TargetOption> options;
  bool good = split_text(text, offset, options, diagnostics);
  std::optional<Target> target = resolve_target(options, {offset, offset + text.size()}, diagnostics);
  return good ? target : std::nullopt;
}

std::vector<std::string> cuda_archs() {
  std::vector<std::string> out;
  for (const CudaArch& known : kCudaArchs) out.push_back(known.name);
  return out;
}

int usable_threads() {
  cpu_set_t own = cpus_of_thread();
  int count = CPU_COUNT(&own) > 0 ? CPU_COUNT(&own) : topology().cpus;
  // With more threads than the quota allows, the system would stop them in the middle of a measurement.
  static const double quota = cgroup_cpus();
  if (quota > 0) count = std::min(count, static_cast<int>(quota));
  return std::max(1, count);
}

std::string host_description() {
  const Topology& machine = topology();
  utsname system{};
  uname(&system);
  std::string model = host_model();
  if (model.empty()) model = machine.cpu_model.empty() ? "unknown cpu" : machine.cpu_model;
  return cat(model, ", ", usable_threads(), " of ", machine.cpus, " cores, L1 ", machine.l1_bytes >> 10, " KiB, L2 ",
             machine.l2_bytes >> 10, " KiB, L3 ", machine.l3_bytes >> 10, " KiB, ", system.sysname, " ",
             system.release);
}

}  // namespace tw
