#include "cli/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include "cli/commands.h"

namespace tw::cli {

std::atomic<bool> stop_wanted{false};

namespace {
void on_interrupt(int) {
  if (stop_wanted.exchange(true)) _exit(Interrupted);
}
}  // namespace

void catch_interrupts() {
  struct sigaction action{};
  action.sa_handler = on_interrupt;
  action.sa_flags = SA_RESTART;
  for (int signal : {SIGINT, SIGTERM}) sigaction(signal, &action, nullptr);
  signal(SIGPIPE, SIG_IGN);  // a long run goes on when nobody reads its progress any more
}

}  // namespace tw::cli
