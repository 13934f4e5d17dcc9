// Ctrl-C of long commands: the first one asks for an end, the second ends the program at once.
#pragma once
#include <atomic>

namespace tw::cli {

extern std::atomic<bool> stop_wanted;
void catch_interrupts();

}  // namespace tw::cli
