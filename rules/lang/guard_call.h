// Runs code of a plugin in this process so that most faults of it end the call only: for what is called too often to
// have a child each time. What a child can be asked first should be (try_in_child.h): here memory of the plugin may be
// lost, and a call of exit() still ends the process.
#pragma once
#include <functional>

namespace tw::rules {

// How a call ended.
struct CallEnd {
  bool has_thrown = false;
  bool is_too_long = false;     // more processor time than it may take
  const char* crash = nullptr;  // "Segmentation fault"; null = none
  bool is_good() const { return !has_thrown && !is_too_long && !crash; }
};

// Runs call() for at most `seconds` of processor time. The first use installs handlers for the signals of crashes; a
// crash outside of a guarded call goes to the handlers that were there before. Costs about a microsecond. If the call
// crashes or takes too long, destructors of its stack frames do not run, and locks that it held stay locked. Calls must
// not be nested.
CallEnd guard_call(double seconds, const std::function<void()>& call);

}  // namespace tw::rules
