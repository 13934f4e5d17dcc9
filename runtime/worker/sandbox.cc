#include "runtime/worker/sandbox.h"

#include <linux/seccomp.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>

namespace tw {
namespace {

// A forbidden call raises SIGSYS in the child, whose handler reports which one it was.
using Filter = scmp_filter_ctx;

bool allow(Filter filter, std::initializer_list<int> calls) {
  for (int call : calls) {
    if (seccomp_rule_add(filter, SCMP_ACT_ALLOW, call, 0) != 0) return false;
  }
  return true;
}

bool allow_with_descriptor(Filter filter, int call, int descriptor) {
  return seccomp_rule_add(filter, SCMP_ACT_ALLOW, call, 1,
                          SCMP_A0(SCMP_CMP_EQ, static_cast<scmp_datum_t>(descriptor))) == 0;
}

bool allow_running(Filter filter) {
  return allow(filter, {SCMP_SYS(futex), SCMP_SYS(sched_yield), SCMP_SYS(getrusage), SCMP_SYS(clock_gettime),
                        SCMP_SYS(exit), SCMP_SYS(exit_group), SCMP_SYS(rt_sigreturn), SCMP_SYS(restart_syscall)}) &&
         allow_with_descriptor(filter, SCMP_SYS(read), kChildCommands) &&
         allow_with_descriptor(filter, SCMP_SYS(write), kChildEvents) &&
         allow_with_descriptor(filter, SCMP_SYS(pread64), kChildSchedstat);
}

bool allow_loading(Filter filter) {
  return allow_running(filter) &&
         allow(filter,
               {SCMP_SYS(mmap), SCMP_SYS(mprotect), SCMP_SYS(munmap), SCMP_SYS(madvise), SCMP_SYS(mremap),
                SCMP_SYS(brk), SCMP_SYS(clone), SCMP_SYS(clone3), SCMP_SYS(set_robust_list), SCMP_SYS(rseq),
                SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigaction), SCMP_SYS(sched_setaffinity), SCMP_SYS(seccomp)});
}

std::vector<sock_filter> build_filter(bool (*add_rules)(Filter)) {
  std::vector<sock_filter> program;
  Filter filter = seccomp_init(SCMP_ACT_TRAP);
  if (!filter) return program;
  seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
  int file = memfd_create("filter", MFD_CLOEXEC);
  if (file >= 0 && add_rules(filter) && seccomp_export_bpf(filter, file) == 0) {
    off_t bytes = lseek(file, 0, SEEK_END);
    program.resize(static_cast<std::size_t>(bytes) / sizeof(sock_filter));
    if (pread(file, program.data(), static_cast<std::size_t>(bytes), 0) != bytes) program.clear();
  }
  if (file >= 0) close(file);
  seccomp_release(filter);
  return program;
}

bool install(const std::vector<sock_filter>& program, unsigned flags) {
  sock_fprog filter{static_cast<unsigned short>(program.size()), const_cast<sock_filter*>(program.data())};
  // Without SPEC_ALLOW older kernels slow every store down, which would change the times.
  return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags | SECCOMP_FILTER_FLAG_SPEC_ALLOW, &filter) == 0;
}

bool has_seccomp() {
  u32 action = SECCOMP_RET_TRAP;
  return syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
}

// The rules of Landlock, as in the kernel's newest header; older kernels know a shorter struct.
struct LandlockRules {
  u64 files = 0, network = 0, scopes = 0;
};
struct LandlockVersion {
  int version;
  u64 files, network, scopes;
  std::size_t bytes;
};
constexpr LandlockVersion kLandlockVersions[] = {
    // newest first
    {6, 0xffff, 3, 3, 24}, {5, 0xffff, 3, 0, 16}, {4, 0x7fff, 3, 0, 16},
    {3, 0x7fff, 0, 0, 8},  {2, 0x3fff, 0, 0, 8},  {1, 0x1fff, 0, 0, 8},
};
constexpr long kLandlockCreate = 444, kLandlockRestrict = 446;

const LandlockVersion* landlock_version() {
  long version = syscall(kLandlockCreate, nullptr, 0, 1u /* LANDLOCK_CREATE_RULESET_VERSION */);
  for (const LandlockVersion& row : kLandlockVersions) {
    if (version >= row.version) return &row;
  }
  return nullptr;
}

u64 address_space_bytes() {
  u64 pages = 0;
  FILE* file = std::fopen("/proc/self/statm", "re");
  if (!file) return 0;
  if (std::fscanf(file, "%lu", &pages) != 1) pages = 0;
  std::fclose(file);
  return pages * static_cast<u64>(sysconf(_SC_PAGESIZE));
}

}  // namespace

bool lower_limit(int resource, u64 limit) {
  auto which = static_cast<__rlimit_resource_t>(resource);
  rlimit value{};
  if (getrlimit(which, &value) != 0) return false;
  limit = std::min<u64>(limit, value.rlim_max);
  value = {limit, limit};
  return setrlimit(which, &value) == 0;
}

u64 landlock_rights(u64 files) {
  const LandlockVersion* known = landlock_version();
  return known ? known->files & files : 0;
}

int create_landlock(u64 files) {
  const LandlockVersion* known = landlock_version();
  if (!known) return -1;
  // Sockets and signals to others are taken away only together with all files.
  LandlockRules rules{known->files & files, known->network, files == ~u64{0} ? known->scopes : 0};
  return static_cast<int>(syscall(kLandlockCreate, &rules, known->bytes, 0u));
}

bool Sandbox::prepare(std::string& error) {
  const char* allowed = std::getenv(kWithoutSeccomp);
  is_without_seccomp_ = allowed && std::string_view(allowed) == "1" && !has_seccomp();
  if (is_without_seccomp_)
    std::fprintf(stderr,
                 "tracewright-worker: this system has no seccomp, and %s=1 allows to run kernels without: only ones "
                 "that you trust\n",
                 kWithoutSeccomp);
  loading_ = build_filter(allow_loading);
  running_ = build_filter(allow_running);
  if (loading_.empty() || running_.empty()) {
    error = "the seccomp filters cannot be built";
    return false;
  }
  landlock_ = create_landlock(~u64{0});
  return true;
}

bool Sandbox::limit_resources(i64 memory_bytes, int cpu_seconds) const {
  u64 space = address_space_bytes() + static_cast<u64>(memory_bytes);
  return prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && prctl(PR_SET_DUMPABLE, 0) == 0 &&
         prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && lower_limit(RLIMIT_CORE, 0) &&
         lower_limit(RLIMIT_CPU, static_cast<u64>(cpu_seconds)) && lower_limit(RLIMIT_FSIZE, 0) &&
         lower_limit(RLIMIT_AS, space);
}

bool Sandbox::forbid_files() const {
  bool restricted = landlock_ < 0 || syscall(kLandlockRestrict, landlock_, 0u) == 0;
  // After the descriptors were opened: no more than these.
  return restricted && lower_limit(RLIMIT_NOFILE, kChildSchedstat + 1);
}

bool Sandbox::enter_loading() const { return is_without_seccomp_ || install(loading_, 0); }
bool Sandbox::enter_running() const { return is_without_seccomp_ || install(running_, SECCOMP_FILTER_FLAG_TSYNC); }

std::string syscall_name(int number) {
  char* name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, number);
  std::string out = name ? name : std::to_string(number);
  std::free(name);
  return out;
}

}  // namespace tw
