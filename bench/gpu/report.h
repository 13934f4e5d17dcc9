// What the parts of the benchmark found: as a file that is whole after each of them, and as tables. It runs nothing.
#pragma once
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <map>
#include <set>
#include <string>

namespace tw::gpu_bench {

// Skipped: no time for it, or for all of it; what it said before is right.
enum class State : int { Right, Wrong, Skipped };

class Report {
 public:
  // `json_file` may be "": then there is no file.
  Report(std::string device_name, std::string json_file)
      : device_name_(std::move(device_name)), json_file_(std::move(json_file)) {}

  // Times of PyTorch by pytorch_times.py, one JSON object a line, to stand beside ours. False with why in `error`.
  bool read_pytorch(const std::string& path, std::string& error);
  // Takes over what an earlier run wrote of parts that were right; their names.
  std::set<std::string> take_done();
  // Also writes the file.
  void add(const std::string& part, State state, double seconds, boost::json::array rows);
  // Writes the file for the last time, and prints all.
  void finish();
  // A part, or the file.
  bool is_wrong() const { return is_wrong_ || is_unwritten_; }

 private:
  void keep(boost::json::object part);
  void save(bool is_last);
  boost::json::array beside_pytorch() const;
  void print() const;
  void print_pytorch() const;

  std::string device_name_, json_file_;
  boost::json::array parts_, pytorch_;
  std::map<std::string, double> us_;  // of our kernels, by the task's name
  bool is_wrong_ = false, is_unwritten_ = false;
};

}  // namespace tw::gpu_bench
