// Runs code of a plugin in a child process, so that a crash, an endless loop or a call of exit() ends the child only.
#pragma once
#include <functional>
#include <string>

namespace tw::rules {

// `call` returns "" or a message. The result is that message, or how the child ended, with `subject` in front: "its
// entry point crashes: Segmentation fault", "... takes longer than 10 seconds", "... ends the process with code 3". The
// child has no other threads.
std::string try_in_child(const std::string& subject, int seconds, const std::function<std::string()>& call);

}  // namespace tw::rules
