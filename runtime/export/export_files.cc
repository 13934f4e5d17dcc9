#include "runtime/export/export_files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "backends/kernel_abi.h"
#include "dsl/base/check.h"
#include "dsl/base/embedded_text.h"
#include "dsl/base/text.h"

namespace tw {

namespace {

constexpr const char* kLock = ".tracewright-lock";
constexpr const char* kUnpublished = ".tracewright-new";

}  // namespace

FolderLock::FolderLock(const std::string& folder, Mode mode) {
  bool to_write = mode == Mode::Write;
  // Some network file systems lock only files that are open for writing.
  file_ = open(cat(folder, "/", kLock).c_str(), O_CLOEXEC | (to_write ? O_RDWR | O_CREAT : O_RDONLY), 0666);
  if (file_ < 0 && !to_write && errno == ENOENT) return;
  int locked = file_ < 0 ? -1 : 0;
  while (file_ >= 0 && (locked = flock(file_, to_write ? LOCK_EX : LOCK_SH)) != 0 && errno == EINTR) {
  }
  if (locked != 0) problem_ = cat("cannot lock ", folder, "/", kLock, ": ", std::strerror(errno));
}

FolderLock::~FolderLock() {
  if (file_ >= 0) close(file_);
}

ExportFolder::ExportFolder(std::string path, ExportResult& result) : path_(std::move(path)), result_(result) {
  std::error_code error;
  std::filesystem::create_directories(path_, error);
  if (error) {
    fail(cat("cannot make the folder ", path_), error.message());
    return;
  }
  lock_.emplace(path_, FolderLock::Mode::Write);
  result_.error = lock_->problem();
  if (!result_.error.empty()) return;
  std::filesystem::remove_all(at(""), error);  // of an export that was killed
  if (error) fail(cat("cannot remove ", at("")), error.message());
}

ExportFolder::~ExportFolder() {
  std::error_code ignored;
  if (!is_published_) result_.files.clear();
  if (lock_ && lock_->problem().empty()) std::filesystem::remove_all(at(""), ignored);
}

std::string ExportFolder::at(const std::string& name) const { return cat(path_, "/", kUnpublished, "/", name); }

bool ExportFolder::fail(const std::string& what, const std::string& why) {
  if (result_.error.empty()) result_.error = cat(what, ": ", why);
  return false;
}

bool ExportFolder::write(const std::string& name, const std::string& text) {
  if (!result_.error.empty()) return false;
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(at(name)).parent_path(), error);
  if (error) return fail(cat("cannot make the folder of ", path_, "/", name), error.message());
  std::ofstream out(at(name), std::ios::binary);
  out << text;
  out.close();
  if (!out.good()) return fail(cat("cannot write ", path_, "/", name), std::strerror(errno));
  add(name);
  return true;
}

bool ExportFolder::publish() {
  for (const std::string& name : result_.files) {
    std::error_code error;
    std::filesystem::path end = std::filesystem::path(path_) / name;
    std::filesystem::create_directories(end.parent_path(), error);
    if (!error) std::filesystem::rename(at(name), end, error);
    if (error) return fail(cat("cannot write ", end.string()), error.message());
  }
  return is_published_ = result_.error.empty();
}

std::string embedded_file(std::string_view path) {
  std::optional<std::string_view> text = embedded_text(path);
  TW_CHECK(text.has_value(), "a text is not embedded");
  return std::string(*text);
}

void add_work(boost::json::object& entry, const ExportedTask& task) {
  if (task.flops > 0) entry["flops"] = task.flops;
  if (task.record == 0) return;
  entry["record"] = task.record;
  entry["microseconds"] = task.seconds * 1e6;
  if (task.flops > 0 && task.seconds > 0) entry["gflops"] = task.flops / task.seconds * 1e-9;
}

boost::json::array export_arguments(const std::vector<KernelArgument>& arguments) {
  boost::json::array out;
  for (const KernelArgument& argument : arguments) {
    boost::json::array shape(argument.shape.begin(), argument.shape.end());
    out.push_back({{"name", argument.name},
                   {"role", name_of(argument.role)},
                   {"dtype", name_of(argument.dtype)},
                   {"shape", shape},
                   {"layout", "row-major"},
                   {"bytes", argument.bytes},
                   {"alignment", TW_ALIGNMENT}});
  }
  return out;
}

boost::json::array export_launches(const std::vector<KernelLaunch>& launches) {
  boost::json::array out;
  for (const KernelLaunch& launch : launches) {
    boost::json::array pointers;
    for (const KernelLaunch::Pointer& pointer : launch.pointers) {
      pointers.push_back(pointer.is_scratch
                             ? boost::json::object{{"scratch_offset", pointer.at}, {"bytes", pointer.bytes}}
                             : boost::json::object{{"buffer", pointer.at}});
    }
    out.push_back({{"kernel", launch.name},
                   {"groups", boost::json::array(launch.groups.begin(), launch.groups.end())},
                   {"threads", boost::json::array(launch.threads.begin(), launch.threads.end())},
                   {"dynamic_shared_bytes", launch.dynamic_shared_bytes},
                   {"parameters", pointers}});
  }
  return out;
}

}  // namespace tw
