// Runs code of a plugin in a child process first, so that what crashes, hangs or ends the process there does not do so here.
#pragma once
#include <functional>
#include <string>

namespace tw::rules {

// `call` gives what is wrong in the plugin's own way, or "". The answer is that, or, with `subject` in front: "its entry point crashes:
// Segmentation fault", "... takes longer than 10 seconds", "... ends the process with code 3". Other threads do not run in the child.
std::string try_in_child(const std::string& subject, int seconds, const std::function<std::string()>& call);

}  // namespace tw::rules
