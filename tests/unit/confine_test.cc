// What the emulator, the compiler that it starts and workers of devices are held to: each limit, tried in a process of
// its own.
#include "runtime/worker/confine.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <functional>

#include "dsl/base/sanitizer.h"
#include "dsl/base/text.h"
#include "runtime/measure/worker_protocol.h"
#include "runtime/worker/sandbox.h"
#include "support/kernels_by_hand.h"
#include "support/support.h"

namespace tw {
namespace {

// The wait status of a process that does this.
int status_of(const std::function<int()>& work) {
  pid_t child = fork();
  if (child == 0) {
    int code = work();
    _exit(code);
  }
  int status = -1;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

// What is done in a confined process, by its exit code; 100: it cannot be confined.
int code_of(const Confinement& confinement, const std::function<int()>& work) {
  int status = status_of([&] { return confine(confinement).empty() ? work() : 100; });
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

class Confined : public ::testing::Test {
 protected:
  void SetUp() override {
    if (TW_SANITIZED) GTEST_SKIP() << "sanitizers need more than a confined process has";
    if (landlock_rights(~u64{0}) == 0) GTEST_SKIP() << "this system has no Landlock";
    std::filesystem::create_directories(inside());
    std::filesystem::create_directories(outside());
    test::write_file(outside() + "/there", "text");
  }
  std::string inside() const { return folder_.path() + "/inside"; }
  std::string outside() const { return folder_.path() + "/outside"; }
  test::TemporaryDirectory folder_;
};

void no_new_privileges() { prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); }

// 0, or errno.
int opened(const std::string& path, int flags) { return open(path.c_str(), flags, 0600) >= 0 ? 0 : errno; }

TEST_F(Confined, FilesAreWrittenInItsFoldersOnly) {
  Confinement confinement{.file_bytes = 1000, .writable = {inside(), "/no/such/folder"}};
  EXPECT_EQ(code_of(confinement, [&] { return opened(inside() + "/new", O_WRONLY | O_CREAT); }), 0);
  EXPECT_EQ(code_of(confinement, [&] { return opened(outside() + "/new", O_WRONLY | O_CREAT); }), EACCES);
  EXPECT_EQ(code_of(confinement, [&] { return opened(outside() + "/there", O_WRONLY); }), EACCES);
  EXPECT_EQ(code_of(confinement, [&] { return unlink((outside() + "/there").c_str()) == 0 ? 0 : errno; }), EACCES);
  EXPECT_EQ(code_of(confinement, [&] { return opened(outside() + "/there", O_RDONLY); }), 0);
  EXPECT_EQ(code_of({.reads_files = false}, [&] { return opened(outside() + "/there", O_RDONLY); }), EACCES);
}

TEST_F(Confined, FilesMemoryAndTimeHaveLimits) {
  Confinement confinement{.data_bytes = 64 << 20, .cpu_seconds = 1, .file_bytes = 1000, .writable = {inside()}};
  EXPECT_EQ(code_of(confinement,
                    [&] {
                      signal(SIGXFSZ, SIG_IGN);
                      char bytes[2000] = {};
                      int file = open((inside() + "/long").c_str(), O_WRONLY | O_CREAT, 0600);
                      return write(file, bytes, sizeof bytes) == 1000 && write(file, bytes, 1) < 0 ? errno : 0;
                    }),
            EFBIG);
  auto map = [](std::size_t bytes) {
    return mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? errno : 0;
  };
  EXPECT_EQ(code_of(confinement, [&] { return map(32 << 20); }), 0);
  EXPECT_EQ(code_of(confinement, [&] { return map(128 << 20); }), ENOMEM);
  EXPECT_EQ(code_of(confinement,
                    [] {
                      for (;;) __asm__ volatile("");
                      return 0;
                    }),
            -SIGKILL)
      << "the soft limit is the hard one";
  EXPECT_EQ(code_of(confinement,
                    [] {
                      rlimit core{};
                      return getrlimit(RLIMIT_CORE, &core) == 0 && core.rlim_max == 0 ? 0 : 1;
                    }),
            0);
}

TEST_F(Confined, ThereIsNoTcp) {
  int code = code_of({}, [] {
    sockaddr_in address{};
    address.sin_family = AF_INET, address.sin_addr.s_addr = htonl(INADDR_LOOPBACK), address.sin_port = htons(1);
    return connect(socket(AF_INET, SOCK_STREAM, 0), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 ? 0
                                                                                                                : errno;
  });
  EXPECT_TRUE(code == EACCES || code == ECONNREFUSED) << code;  // Landlock knows TCP since its fourth version
}

TEST_F(Confined, CallsThatChangeTheSystemAreRefused) {
  int status = status_of(
      [] { return forbid_changes_of_system() && ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) < 0 ? errno : 0; });
  EXPECT_EQ(WEXITSTATUS(status), EPERM);
}

TEST_F(Confined, TheEmulatorCanAnswerAndNothingElse) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  int status = status_of([&] {
    dup2(ends[1], kWorkerSocket);
    no_new_privileges();
    return forbid_all_but_answering() && send_frame(kWorkerSocket, MessageKind::Emulated, "text") ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
  status = status_of([&] {
    no_new_privileges();
    return forbid_all_but_answering() ? opened("/dev/null", O_RDONLY) : 1;
  });
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS) << status;
}

// Through the programs themselves.

TEST_F(Confined, AKernelThatOpensAFileIsEnded) {
  std::vector<double> y;
  EmulationReport report = test::emulate_by_hand(
      "int create(const char*, unsigned) __asm__(\"creat\"); y[threadIdx.x] = create(\"/tmp/opened_by_a_kernel\", "
      "0600);",
      y, 32, 1);
  EXPECT_EQ(report.status, EmulationStatus::Crash) << report.message;
  EXPECT_EQ(report.message, "the emulator was ended by: Bad system call");
  EXPECT_FALSE(std::filesystem::exists("/tmp/opened_by_a_kernel"));
}

TEST_F(Confined, TheCompilerWritesIntoItsFolderOnly) {
  std::string compiler = folder_.path() + "/compiler";
  test::write_file(compiler, cat("#!/bin/sh\n: > ", outside(), "/by_compiler || exit 5\nexit 6\n"));
  std::filesystem::permissions(compiler, std::filesystem::perms::owner_all);
  setenv("TRACEWRIGHT_CXX", compiler.c_str(), 1);
  std::vector<double> y;
  EmulationReport report = test::emulate_by_hand("y[threadIdx.x] = 0;", y, 32, 1);
  unsetenv("TRACEWRIGHT_CXX");
  EXPECT_EQ(report.status, EmulationStatus::Unavailable) << report.message;
  EXPECT_NE(report.message.find("Permission denied"), std::string::npos) << report.message;
  EXPECT_FALSE(std::filesystem::exists(outside() + "/by_compiler"));
}

}  // namespace
}  // namespace tw
