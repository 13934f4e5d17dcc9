#include "runtime/export_files.h"

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

bool ExportFolder::make(std::initializer_list<const char*> parts) {
  std::error_code error;
  for (const char* part : parts) {
    std::filesystem::create_directories(std::filesystem::path(path_) / part, error);
    if (error) result_.error = cat("cannot make the folder ", path_, ": ", error.message());
  }
  return result_.error.empty();
}

bool ExportFolder::write(const std::string& name, const std::string& text) {
  std::ofstream out(at(name), std::ios::binary);
  out << text;
  out.close();
  if (!out.good()) result_.error = cat("cannot write ", at(name), ": ", std::strerror(errno));
  if (out.good()) result_.files.push_back(name);
  return out.good();
}

std::string embedded_file(std::string_view path) {
  std::optional<std::string_view> text = embedded_text(path);
  TW_CHECK(text.has_value(), "a text is not embedded");
  return std::string(*text);
}

void add_measurement(boost::json::object& entry, const ExportedTask& task) {
  if (task.record == 0) return;
  entry["record"] = task.record;
  entry["microseconds"] = task.seconds * 1e6;
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
