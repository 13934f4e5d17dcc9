#include "cli/model_file.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "costmodel/make_model.h"
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

std::optional<std::string> read_model_file(const std::string& path, const std::string& name, int models) {
  if (path.empty() || !std::filesystem::exists(path)) return "";
  std::optional<std::string> bytes = read_file(path);
  if (!bytes) return std::nullopt;
  MadeModel made = make_model(name, model_columns(name), 0, {.models = models});
  if (!made.model) return say(made.note), std::nullopt;
  std::optional<ModelHeader> header = model_header(*bytes);
  if (header && header->kind != made.model->name())
    return say(cat(path, ": holds the cost model `", header->kind, "`, and this run uses `", made.model->name(),
                   "`; give --model ", header->kind)),
           std::nullopt;
  if (header && header->models != models)
    return say(cat(path, ": holds ", several(header->models), ", and the `search` of this run has ", several(models),
                   "; name another file")),
           std::nullopt;
  if (Status loaded = made.model->load(*bytes); !loaded)
    return say(cat(path, ": ", to_string(loaded.rejected()))), std::nullopt;
  return bytes;
}

}  // namespace tw::cli
