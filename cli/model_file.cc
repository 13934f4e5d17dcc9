#include "cli/model_file.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "costmodel/model_bytes.h"
#include "dsl/base/text.h"
#include "runtime/console/output.h"

namespace tw::cli {
namespace {

std::string several(i64 models) { return models == 1 ? "one model" : cat(models, " models that predict together"); }

}  // namespace

bool is_model_name(const std::string& option, const std::string& name) {
  std::vector<std::string> names = model_names();
  if (std::find(names.begin(), names.end(), name) != names.end()) return true;
  std::string near = closest(name, names);
  say(cat(option, ": no cost model `", name, "`; ",
          near.empty() ? cat("there are ", join(names, ", ")) : cat("did you mean `", near, "`?")));
  return false;
}

bool may_become_model_file(const std::string& path) {
  std::error_code ignored;
  const std::filesystem::path given = std::filesystem::path(path).parent_path(), folder = given.empty() ? "." : given;
  auto refuse = [&](const std::string& why) { return say(cat("cannot write ", path, ": ", why)), false; };
  if (!std::filesystem::is_directory(folder, ignored)) return refuse(cat("there is no folder ", folder.string()));
  if (std::filesystem::is_directory(path, ignored)) return refuse("it is a folder");
  if (access(folder.c_str(), W_OK) != 0) return refuse(cat(folder.string(), ": ", std::strerror(errno)));
  if (!std::filesystem::exists(path, ignored) || model_header(read_file(path).value_or(""))) return true;
  say(cat(path, " is there and is no saved cost model: give another name"));
  return false;
}

std::optional<std::string> read_model_file(const std::string& path, const std::string& name,
                                           const ModelOptions& options) {
  if (path.empty() || !std::filesystem::exists(path)) return "";
  std::optional<std::string> bytes = read_file(path);
  if (!bytes) return std::nullopt;
  MadeModel made = make_model(name, model_columns(name), 0, options);
  if (!made.model) return say(made.note), std::nullopt;
  std::optional<ModelHeader> header = model_header(*bytes);
  if (header && !header->is_readable()) header.reset();  // open_model() says so
  if (header && header->kind != made.model->name())
    return say(cat(path, ": holds the cost model `", header->kind, "`, and this run uses `", made.model->name(),
                   "`; give --model ", header->kind)),
           std::nullopt;
  if (header && header->models != options.models)
    return say(cat(path, ": holds ", several(header->models), ", and the `search` of this run has ",
                   several(options.models), "; name another file")),
           std::nullopt;
  const MadeModel saved = open_model(*bytes);
  if (!saved.model) return say(cat(path, ": ", saved.note)), std::nullopt;
  const Objective learned = saved.model->objective(), wanted = made.model->objective();
  if (learned != wanted)
    return say(cat(path, ": has learned by ", name_of(learned), ", and this run learns by ", name_of(wanted),
                   "; give --objective ", name_of(learned))),
           std::nullopt;
  return bytes;
}

}  // namespace tw::cli
