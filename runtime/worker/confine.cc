#include "runtime/worker/confine.h"

#include <fcntl.h>
#include <seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <initializer_list>

#include "dsl/base/text.h"
#include "runtime/measure/worker_protocol.h"
#include "runtime/worker/sandbox.h"

namespace tw {
namespace {

// Rights of Landlock: to write to files, to remove and make them, to move them between folders, to cut them short.
constexpr u64 kWriteFile = 1 << 1, kTruncate = 1 << 14;
constexpr u64 kWrites = kWriteFile | 0x1ff0 | 1 << 13 | kTruncate, kAllFiles = ~u64{0};
constexpr long kLandlockAddRule = 445, kLandlockRestrict = 446;

struct __attribute__((packed)) PathRule {
  u64 rights;
  int folder;
};

// VmData of /proc/self/status, which RLIMIT_DATA limits.
u64 data_bytes_now() {
  u64 kilobytes = 0;
  FILE* file = std::fopen("/proc/self/status", "re");
  char line[256];
  while (file && std::fgets(line, sizeof line, file)) {
    if (std::sscanf(line, "VmData: %lu", &kilobytes) == 1) break;
  }
  if (file) std::fclose(file);
  return kilobytes << 10;
}

u64 cpu_seconds_now() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return static_cast<u64>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) + 1;
}

bool limit_files(const Confinement& confinement) {
  u64 handled = confinement.reads_files ? kWrites : kAllFiles;
  int rules = create_landlock(handled);
  if (rules < 0) return true;
  bool good = true;
  for (const std::string& folder : confinement.writable) {
    PathRule rule{landlock_rights(handled & kWrites), open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)};
    if (rule.folder < 0) continue;
    good = good && syscall(kLandlockAddRule, rules, 1 /* LANDLOCK_RULE_PATH_BENEATH */, &rule, 0u) == 0;
    close(rule.folder);
  }
  good = good && syscall(kLandlockRestrict, rules, 0u) == 0;
  close(rules);
  return good;
}

bool install(scmp_filter_ctx filter, std::initializer_list<int> calls, u32 action) {
  bool good = filter != nullptr;
  for (int call : calls) {
    int added = good ? seccomp_rule_add(filter, action, call, 0) : 0;
    good = good && (added == 0 || added == -EDOM);  // EDOM: this machine has no such call
  }
  return good;
}

}  // namespace

std::string confine(const Confinement& confinement) {
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || !lower_limit(RLIMIT_CORE, 0))
    return cat("no limit of rights or core files: ", std::strerror(errno));
  if (!lower_limit(RLIMIT_FSIZE, static_cast<u64>(confinement.file_bytes)))
    return cat("no limit of files: ", std::strerror(errno));
  if (confinement.cpu_seconds > 0 &&
      !lower_limit(RLIMIT_CPU, cpu_seconds_now() + static_cast<u64>(confinement.cpu_seconds)))
    return cat("no limit of processor time: ", std::strerror(errno));
  if (confinement.data_bytes > 0 &&
      !lower_limit(RLIMIT_DATA, data_bytes_now() + static_cast<u64>(confinement.data_bytes)))
    return cat("no limit of memory: ", std::strerror(errno));
  if (!limit_files(confinement)) return cat("no limit of where files are written: ", std::strerror(errno));
  return "";
}

bool forbid_changes_of_system() {
  scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
  bool good = install(filter,
                      {SCMP_SYS(ptrace),
                       SCMP_SYS(process_vm_readv),
                       SCMP_SYS(process_vm_writev),
                       SCMP_SYS(init_module),
                       SCMP_SYS(finit_module),
                       SCMP_SYS(delete_module),
                       SCMP_SYS(kexec_load),
                       SCMP_SYS(kexec_file_load),
                       SCMP_SYS(reboot),
                       SCMP_SYS(mount),
                       SCMP_SYS(umount2),
                       SCMP_SYS(pivot_root),
                       SCMP_SYS(chroot),
                       SCMP_SYS(setns),
                       SCMP_SYS(unshare),
                       SCMP_SYS(swapon),
                       SCMP_SYS(swapoff),
                       SCMP_SYS(bpf),
                       SCMP_SYS(add_key),
                       SCMP_SYS(request_key),
                       SCMP_SYS(keyctl),
                       SCMP_SYS(settimeofday),
                       SCMP_SYS(clock_settime),
                       SCMP_SYS(adjtimex),
                       SCMP_SYS(sethostname),
                       SCMP_SYS(acct),
                       SCMP_SYS(quotactl)},
                      SCMP_ACT_ERRNO(EPERM)) &&
              seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1) == 0 && seccomp_load(filter) == 0;
  if (filter) seccomp_release(filter);
  return good;
}

bool forbid_all_but_answering() {
  scmp_filter_ctx filter = seccomp_init(SCMP_ACT_KILL_PROCESS);
  bool good =
      install(filter,
              {SCMP_SYS(mmap), SCMP_SYS(mprotect), SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(madvise), SCMP_SYS(brk),
               SCMP_SYS(futex), SCMP_SYS(getrusage), SCMP_SYS(clock_gettime), SCMP_SYS(getrandom),
               SCMP_SYS(sigaltstack), SCMP_SYS(rt_sigaction), SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigreturn),
               SCMP_SYS(setitimer), SCMP_SYS(restart_syscall), SCMP_SYS(exit), SCMP_SYS(exit_group)},
              SCMP_ACT_ALLOW) &&
      seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(sendto), 1,
                       SCMP_A0(SCMP_CMP_EQ, static_cast<scmp_datum_t>(kWorkerSocket))) == 0 &&
      seccomp_load(filter) == 0;
  if (filter) seccomp_release(filter);
  return good;
}

}  // namespace tw
