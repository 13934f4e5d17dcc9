#include "runtime/measure/machine_memory.h"

#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>

#include "dsl/base/text.h"

namespace tw {
namespace {

constexpr i64 kUnlimited = std::numeric_limits<i64>::max();

// The number behind `name` in a file of lines "name number"; -1 if it is not there.
i64 number_in(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string first;
    i64 number = 0;
    if (words >> first && first == name && words >> number) return number;
  }
  return -1;
}

// The number in a file; a missing file and "max" mean no limit.
i64 limit_in(const std::string& path) {
  std::ifstream file(path);
  i64 number = 0;
  return file >> number ? number : kUnlimited;
}

// What a control group may still take: its limit less what it uses and cannot give back.
i64 free_in_group(const std::string& folder, const char* limit, const char* usage) {
  i64 most = limit_in(folder + limit), used = limit_in(folder + usage);
  if (most == kUnlimited || used == kUnlimited) return kUnlimited;
  return most - used + std::max<i64>(number_in(folder + "memory.stat", "inactive_file"), 0);
}

// The smallest limit of the groups that this process is in; groups are nested.
i64 free_in_groups() {
  i64 least = kUnlimited;
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    std::string controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    bool is_old = controllers == "memory";
    if (!is_old && !controllers.empty()) continue;
    const std::string root = is_old ? "/sys/fs/cgroup/memory" : "/sys/fs/cgroup";
    for (;; path = path.substr(0, path.rfind('/'))) {
      std::string folder = cat(root, path, path.ends_with("/") ? "" : "/");
      least = std::min(least, is_old ? free_in_group(folder, "memory.limit_in_bytes", "memory.usage_in_bytes")
                                     : free_in_group(folder, "memory.max", "memory.current"));
      if (path.find('/') == std::string::npos || path.empty()) break;
    }
  }
  return least;
}

}  // namespace

i64 free_memory_bytes() {
  i64 free = number_in("/proc/meminfo", "MemAvailable:");
  free = free < 0 ? kUnlimited : free * 1024;
  rlimit space{};
  if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY)
    free = std::min(free, static_cast<i64>(space.rlim_cur / 2));
  return std::max<i64>(std::min(free, free_in_groups()), 0);
}

i64 processes_killed_for_memory() { return std::max<i64>(number_in("/proc/vmstat", "oom_kill"), 0); }

}  // namespace tw
