// A part of the benchmark in a process of its own, and what becomes of it. It knows nothing of what the rows say but
// {"begin": ...}.
#pragma once
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <string>
#include <vector>

namespace tw::gpu_bench {

// How a process of this program ends by itself.
enum ExitCode : int {
  Done = 0,
  Wrong = 1,
  Usage = 2,
  NoDevice = 3,
  Poisoned = 4,  // of a part: its row is there, but the device answers this process no more
};

struct PartProcess {
  boost::json::array rows;   // without those that say what begins
  boost::json::value begun;  // what the latest of these names; null: none came
  int code = -1;             // 128 + signal if it was killed; below 0: it cannot be started
  bool is_late = false;      // its time was over, and it went on saying things
  bool is_silent = false;    // something was begun, and nothing was said for kMostSilent seconds
  bool is_done() const { return code >= Done && code <= NoDevice && !is_late && !is_silent; }
  std::string how_it_ended() const;  // of one that is neither done nor late
};
// Longer than any step takes that says nothing, the first use of a large library included.
constexpr double kMostSilent = 45;

// This program again with `words`, the first being its name; its rows until it ends, or is ended after so many seconds.
PartProcess run_part(std::vector<std::string> words, double seconds);

}  // namespace tw::gpu_bench
