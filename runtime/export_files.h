// What all exports write with: the folder, the texts that are built in, arguments and launches as JSON. For
// runtime/export*.cc only.
#pragma once
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <initializer_list>
#include <string>
#include <string_view>

#include "runtime/export.h"

namespace tw {

// Writes files and notes them, or the first failure, in a result.
class ExportFolder {
 public:
  ExportFolder(std::string path, ExportResult& result) : path_(std::move(path)), result_(result) {}
  // Makes the folder and the named parts of it.
  bool make(std::initializer_list<const char*> parts);
  bool write(const std::string& name, const std::string& text);
  std::string at(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
  ExportResult& result_;
};

// A source file that is built into the program, by its path in the tree.
std::string embedded_file(std::string_view path);
// Where a kernel was measured: the record and the time.
void add_measurement(boost::json::object& entry, const ExportedTask& task);
boost::json::array export_arguments(const std::vector<KernelArgument>& arguments);
boost::json::array export_launches(const std::vector<KernelLaunch>& launches);

}  // namespace tw
