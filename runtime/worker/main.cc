// tracewright-worker: runs kernels that nobody trusts. Started by the Measurer
// (runtime/measure/measurer.h), which speaks runtime/measure/worker_protocol.h on descriptor 3; of no use by hand.
#include <sys/stat.h>

#include <csignal>
#include <cstdio>

#include "runtime/worker/server.h"

int main() {
  struct stat about{};
  if (fstat(tw::kWorkerSocket, &about) != 0 || !S_ISSOCK(about.st_mode)) {
    std::fprintf(stderr, "tracewright-worker: started by hand; tracewright starts it when it measures kernels\n");
    return 2;
  }
  std::signal(SIGINT, SIG_IGN);  // Ctrl-C is for the tuner, which lets the trial at hand finish
  // What the tuner ignores is inherited; kernels are to die of it.
  for (int signal : {SIGPIPE, SIGXFSZ}) std::signal(signal, SIG_DFL);
  return tw::Server().serve();
}
