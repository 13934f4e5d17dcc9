// What all exports write with: the folder, the texts that are built in, arguments and launches as JSON. For
// runtime/export*.cc and finalist_files.cc only.
#pragma once
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/export/export.h"

namespace tw {

// A lock of an export's folder, against other processes: Read shares it with other readers, Write has it alone. Waits
// until it can be had. The lock is on a file in the folder, which stays there: `flock -s FOLDER/.tracewright-lock
// COMMAND` reads under the same lock.
class FolderLock {
 public:
  enum class Mode { Read, Write };
  // A folder without that file is read without a lock.
  FolderLock(const std::string& folder, Mode mode);
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock();
  const std::string& problem() const { return problem_; }  // "" if it is locked

 private:
  int file_ = -1;
  std::string problem_;
};

// The files of an export. They are made beside those that are there, and publish() moves them to their names, so that
// nobody reads half a file, and an export that fails changes nothing. It holds the lock. The result gets the names of
// the files, or the first failure.
class ExportFolder {
 public:
  // Makes the folder and waits for other exports into it.
  ExportFolder(std::string path, ExportResult& result);
  ExportFolder(const ExportFolder&) = delete;
  ExportFolder& operator=(const ExportFolder&) = delete;
  ~ExportFolder();
  // Makes the folders in the name. False if this or an earlier call failed.
  bool write(const std::string& name, const std::string& text);
  // Adds a file that another program wrote to at(name).
  void add(const std::string& name) { result_.files.push_back(name); }
  // The path of a file before publish().
  std::string at(const std::string& name) const;
  bool publish();

 private:
  bool fail(const std::string& what, const std::string& why);

  std::string path_;
  ExportResult& result_;
  std::optional<FolderLock> lock_;
  bool is_published_ = false;
};

// Compiles the library's C file and joins it with object files of the folder into the libraries that the plan wants.
// `flags`: of the linker, for the shared one. What is missing is in the result's note, a failure in its error.
void make_libraries(const ExportPlan& plan, const std::vector<std::string>& objects,
                    const std::vector<std::string>& flags, ExportFolder& folder, ExportResult& result);

// A source file that is built into the program, by its path in the tree.
std::string embedded_file(std::string_view path);
// The operations of a call of a kernel and, where it was measured, the record, the time and the speed.
void add_work(boost::json::object& entry, const ExportedTask& task);
boost::json::array export_arguments(const std::vector<KernelArgument>& arguments);
boost::json::array export_launches(const std::vector<KernelLaunch>& launches);

}  // namespace tw
