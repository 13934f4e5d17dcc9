// What all exports write with: the folder, the texts that are built in, arguments and launches as JSON. For
// runtime/export*.cc and finalist_files.cc only.
#pragma once
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/export.h"

namespace tw {

// Keeps the folder of an export as it is (Read), or for oneself (Write), against other processes; waits for those that have it. A file in the folder is
// what they lock, and it stays there: `flock -s FOLDER/.tracewright-lock COMMAND` reads under the same lock.
class FolderLock {
 public:
  enum class Mode { Read, Write };
  // To read, a folder without that file needs none.
  FolderLock(const std::string& folder, Mode mode);
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock();
  const std::string& problem() const { return problem_; }  // "" if it is locked

 private:
  int file_ = -1;
  std::string problem_;
};

// The files of an export. They are made beside those that are there, and publish() moves them to their names, so that nobody reads half a file, and an export
// that fails changes nothing. One process at a time. Files, or the first failure, are noted in the result.
class ExportFolder {
 public:
  // Makes the folder and waits for other exports into it.
  ExportFolder(std::string path, ExportResult& result);
  ExportFolder(const ExportFolder&) = delete;
  ExportFolder& operator=(const ExportFolder&) = delete;
  ~ExportFolder();
  // Folders in the name are made. False after a failure, here or before.
  bool write(const std::string& name, const std::string& text);
  // Notes a file that another program has made at at(name).
  void add(const std::string& name) { result_.files.push_back(name); }
  // Where a file is until it is published.
  std::string at(const std::string& name) const;
  bool publish();

 private:
  bool fail(const std::string& what, const std::string& why);

  std::string path_;
  ExportResult& result_;
  std::optional<FolderLock> lock_;
  bool is_published_ = false;
};

// A source file that is built into the program, by its path in the tree.
std::string embedded_file(std::string_view path);
// Where a kernel was measured: the record and the time.
void add_measurement(boost::json::object& entry, const ExportedTask& task);
boost::json::array export_arguments(const std::vector<KernelArgument>& arguments);
boost::json::array export_launches(const std::vector<KernelLaunch>& launches);

}  // namespace tw
