// What this machine is made of: cores, threads, caches, memory nodes, and how much of them a process may use. The only
// file that knows hwloc. Used for the default target, the description of the host, and to keep the search off the core
// that measures.
#pragma once
#include <sched.h>

#include <string>
#include <vector>

#include "dsl/base/arena.h"

namespace tw {

struct Topology {
  std::string cpu_model;  // "" = not known
  int packages = 0, cores = 0, numa_nodes = 0;
  int cpus = 0;  // threads of all cores
  // The size of one cache of each level; 0 = there is none, or it is not known.
  i64 l1_bytes = 0, l2_bytes = 0, l3_bytes = 0;
  int cache_line = 0;
  int l3_cores = 0;                // how many cores share one third-level cache
  std::vector<cpu_set_t> of_core;  // the CPUs of each core
};

// The machine is asked once; later calls return the same.
const Topology& topology();

// The CPUs that the calling thread, and what it starts, may use; none if the system does not say.
cpu_set_t cpus_of_thread();

// `cpu` and the other CPUs (threads) of its core.
cpu_set_t with_siblings(const Topology& machine, int cpu);

// How many CPUs' worth of time the control groups of this process allow it; 0 = no limit. hwloc knows their sets of
// CPUs, not their quotas. `membership` is a file in the form of /proc/self/cgroup, `root` where the groups are mounted.
double cgroup_cpus(const std::string& membership = "/proc/self/cgroup", const std::string& root = "/sys/fs/cgroup");

}  // namespace tw
