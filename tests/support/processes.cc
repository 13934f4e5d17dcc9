#include "support/processes.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "dsl/base/text.h"

namespace tw::test {

std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> children;
  std::error_code gone;
  std::filesystem::directory_iterator threads(cat("/proc/", parent, "/task"), gone), end;
  while (!gone && threads != end) {
    std::ifstream file(threads->path() / "children");
    for (pid_t child; file >> child;) children.push_back(child);
    threads.increment(gone);
  }
  return children;
}

std::string name_of_process(pid_t process) {
  std::string name;
  std::ifstream file(cat("/proc/", process, "/comm"));
  std::getline(file, name);
  return name;
}

bool is_alive(pid_t process) {
  std::string word;
  std::ifstream status(cat("/proc/", process, "/status"));
  while (status >> word && word != "State:") {
  }
  return static_cast<bool>(status >> word) && word != "Z" && word != "X";
}

bool wait_until(const std::function<bool()>& condition, double seconds) {
  auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace tw::test
