// Target: the machine that a kernel is made for, as a value with one canonical text. That text is
// the key of database records and stands in trace files; everything in a Target follows from it, so
// that the same text gives the same space of schedules on every machine. Used by rules, backends,
// the search and the task list. It compiles nothing and asks LLVM nothing.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dsl/base/arena.h"
#include "dsl/base/diagnostic.h"

namespace tw {

enum class TargetKind : u8 { Cpu, OpenCl, Cuda };
const char* name_of(TargetKind kind);

// `host_target()`, `parse_target` and `resolve_target` return it resolved: names are explicit,
// derived fields are set.
struct Target {
  TargetKind kind = TargetKind::Cpu;
  std::string triple;    // "" = the triple that this build of tracewright runs on
  std::string cpu;       // LLVM's name, e.g. "znver3"
  std::string features;  // LLVM's list beyond those of the cpu, e.g. "+avx512f,-avx2"; mostly ""
  int threads = 1;       // that one kernel call uses
  // Derived from cpu and features, unless the text says otherwise.
  int vector_bits = 128;
  int vector_registers = 16;
  i64 l1_bytes = 32 << 10;   // data, of one core
  i64 l2_bytes = 256 << 10;  // of one core
  i64 l3_bytes = 0;          // nominal, of one core complex; 0 = none or not known
  int cache_line = 64;
  i64 vtcm_bytes = 0;  // of memory in scope global.vtcm, for all threads (Hexagon); 0 = none
  // Of devices only: they have neither triple nor cpu nor features.
  int device = 0;    // opencl: which of the machine's devices, counted over all platforms
  std::string arch;  // cuda: "sm_80"
  std::string gpu;   // "a100", or a file that describes one. cuda: "" = the one that is built in for the arch; opencl:
                     // "" = not known
  int group_threads = 256;      // work-items of a work-group at most
  i64 shared_bytes = 32 << 10;  // memory of a work-group

  bool operator==(const Target&) const = default;
};

// Does the `device` of a cuda target name a file, not one of the built-in descriptions (runtime/lists/device_file.h)?
inline bool is_device_file(std::string_view gpu) { return gpu.find_first_of("/.") != std::string_view::npos; }

inline bool is_device(const Target& target) { return target.kind != TargetKind::Cpu; }
// Is it known to be a GPU? An OpenCL device is where the target says which (`gpu`).
inline bool is_gpu(const Target& target) {
  return target.kind == TargetKind::Cuda || (target.kind == TargetKind::OpenCl && !target.gpu.empty());
}

// Can its vector instructions leave out lanes where they read and write, at no cost? AVX-512 can.
bool has_lane_masks(const Target& target);

// One `key: value` of a target, as the user wrote it. `span` is where the value stands.
struct TargetOption {
  std::string key, value;
  Span key_span, span;
};

// This machine: its cpu, the threads that this process may use, its caches.
const Target& host_target();

// "cpu -mcpu=znver5 -threads=1". Derived fields are printed only where they differ from those of
// the cpu, so parse_target(to_string(target)) == target.
std::string to_string(const Target& target);

// Reads the canonical text; "cpu" alone is this machine. The text stands at `offset` in the source
// of `diagnostics`; several errors are reported at once. nullopt = at least one was reported.
std::optional<Target> parse_target(std::string_view text, std::size_t offset, Diagnostics& diagnostics);

// The same from `{kind: cpu, threads: 1}`: keys kind, triple, cpu, features, threads, vector_bits,
// vector_registers, l1_bytes, l2_bytes, l3_bytes, cache_line, vtcm_bytes. `{kind: opencl, device: 0}` and `{kind: cuda,
// arch: sm_80}` take device (a number; of cuda a name such as a100, from which arch follows, or a file), arch, gpu
// (opencl only: the same names or a file), vector_bits, vector_registers, group_threads, shared_bytes; no device is
// asked for them. What is not given comes from this machine, or from the cpu's entry if a cpu or triple is given (then
// threads is 1). `whole` is the place of errors about what is missing.
std::optional<Target> resolve_target(const std::vector<TargetOption>& options, Span whole, Diagnostics& diagnostics);

// "AMD EPYC, 2 of 2 cores, L3 32 MiB, Linux 6.1": for people, stored with records; never compared.
std::string host_description();

// CPUs that this process may run on (taskset, cgroups' sets and quotas); at least 1.
int usable_threads();

// What `arch` of a cuda target may be, oldest first.
std::vector<std::string> cuda_archs();

// What a backend knows about cpus. Without one, only cpus of the built-in table are accepted.
// is_cpu: does the backend have this cpu for this triple ("" = host)? Set once, before targets are
// parsed.
void set_cpu_check(bool (*is_cpu)(const std::string& triple, const std::string& cpu));

}  // namespace tw
