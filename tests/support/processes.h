// Processes of other programs, as /proc shows them: who is whose child, who is alive. For tests that kill.
#pragma once
#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

namespace tw::test {

// The children of a process, whichever of its threads started them. Empty if it is gone.
std::vector<pid_t> children_of(pid_t parent);
// The first 15 bytes of the program's name; "" if the process is gone.
std::string name_of_process(pid_t process);
// A zombie is not alive.
bool is_alive(pid_t process);
// Looks every millisecond; false if `condition` does not come true within `seconds`.
bool wait_until(const std::function<bool()>& condition, double seconds = 60);

}  // namespace tw::test
