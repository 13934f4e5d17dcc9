#include "backends/topology.h"

#include <hwloc.h>
#include <hwloc/glibc-sched.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace tw {
namespace {

int count_of(hwloc_topology_t machine, hwloc_obj_type_t type) {
  return std::max(0, hwloc_get_nbobjs_by_type(machine, type));
}

// The first cache of a level; on processors with two kinds of cores that of the first core.
hwloc_obj_t cache_of(hwloc_topology_t machine, hwloc_obj_type_t type) {
  return hwloc_get_obj_by_type(machine, type, 0);
}

i64 bytes_of(hwloc_obj_t cache) { return cache ? static_cast<i64>(cache->attr->cache.size) : 0; }

Topology read(hwloc_topology_t machine) {
  Topology found;
  found.packages = count_of(machine, HWLOC_OBJ_PACKAGE);
  found.cores = count_of(machine, HWLOC_OBJ_CORE);
  found.numa_nodes = count_of(machine, HWLOC_OBJ_NUMANODE);
  found.cpus = count_of(machine, HWLOC_OBJ_PU);
  hwloc_obj_t package = hwloc_get_obj_by_type(machine, HWLOC_OBJ_PACKAGE, 0);
  const char* model = package ? hwloc_obj_get_info_by_name(package, "CPUModel") : nullptr;
  if (!model) model = hwloc_obj_get_info_by_name(hwloc_get_root_obj(machine), "CPUModel");
  if (model) found.cpu_model = model;
  hwloc_obj_t l1 = cache_of(machine, HWLOC_OBJ_L1CACHE), l3 = cache_of(machine, HWLOC_OBJ_L3CACHE);
  found.l1_bytes = bytes_of(l1);
  found.l2_bytes = bytes_of(cache_of(machine, HWLOC_OBJ_L2CACHE));
  found.l3_bytes = bytes_of(l3);
  if (l1) found.cache_line = static_cast<int>(l1->attr->cache.linesize);
  if (l3) found.l3_cores = hwloc_get_nbobjs_inside_cpuset_by_type(machine, l3->cpuset, HWLOC_OBJ_CORE);
  for (int i = 0; i < found.cores; ++i) {
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    hwloc_cpuset_to_glibc_sched_affinity(
        machine, hwloc_get_obj_by_type(machine, HWLOC_OBJ_CORE, static_cast<unsigned>(i))->cpuset, &cpus, sizeof cpus);
    found.of_core.push_back(cpus);
  }
  return found;
}

Topology read() {
  hwloc_topology_t machine;
  if (hwloc_topology_init(&machine) != 0) return {};
  // CPUs that the control group does not allow are counted as well; which may be used is asked when it is needed
  // (cpus_of_thread).
  hwloc_topology_set_flags(machine, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  Topology found;
  if (hwloc_topology_load(machine) == 0) found = read(machine);
  hwloc_topology_destroy(machine);
  return found;
}

// Quota divided by period, from two files (control groups version 1) or one file (version 2); 0 = no limit.
double quota_in(const std::filesystem::path& group) {
  double quota = 0, period = 0;
  if (std::ifstream file(group / "cpu.max"); file >> quota >> period && period > 0)
    return quota / period;  // else "max"
  std::ifstream quota_file(group / "cpu.cfs_quota_us"), period_file(group / "cpu.cfs_period_us");
  if (quota_file >> quota && period_file >> period && quota > 0 && period > 0) return quota / period;
  return 0;
}

}  // namespace

const Topology& topology() {
  static const Topology found = read();
  return found;
}

cpu_set_t cpus_of_thread() {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  if (sched_getaffinity(0, sizeof cpus, &cpus) != 0) CPU_ZERO(&cpus);
  return cpus;
}

cpu_set_t with_siblings(const Topology& machine, int cpu) {
  for (const cpu_set_t& core : machine.of_core) {
    if (CPU_ISSET(cpu, &core)) return core;
  }
  cpu_set_t alone;
  CPU_ZERO(&alone);
  CPU_SET(cpu, &alone);
  return alone;
}

double cgroup_cpus(const std::string& membership, const std::string& root) {
  double least = 0;
  std::ifstream file(membership);
  // "0::/user.slice" of the second version; "4:cpu,cpuacct:/docker/12ab" of the first, which has a folder for its
  // controllers.
  for (std::string line; std::getline(file, line);) {
    std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    std::string controllers = line.substr(first + 1, second - first - 1);
    bool has_cpu = controllers.empty() || ("," + controllers + ",").find(",cpu,") != std::string::npos;
    if (!has_cpu) continue;
    std::filesystem::path top = std::filesystem::path(root) / (controllers.empty() ? "" : "cpu");
    // Groups around this one limit it, too. Inside a container the path may not exist; then the top folder is its
    // group.
    std::filesystem::path inner = std::filesystem::path(line.substr(second + 1)).relative_path();
    for (std::filesystem::path group = inner;; group = group.parent_path()) {
      double quota = quota_in(top / group);
      if (quota > 0) least = least > 0 ? std::min(least, quota) : quota;
      if (group.empty()) break;
    }
  }
  return least;
}

}  // namespace tw
