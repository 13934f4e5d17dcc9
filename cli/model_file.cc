#include "cli/model_file.h"

#include <filesystem>

#include "costmodel/features.h"
#include "costmodel/make_model.h"
#include "dsl/base/text.h"
#include "runtime/console/output.h"

namespace tw::cli {

bool write_model_file(const std::string& path, const std::string& bytes) {
  std::string fresh = path + ".part";
  if (!write_file(fresh, bytes)) return false;
  std::error_code error;
  std::filesystem::rename(fresh, path, error);
  if (error) say(cat("cannot write ", path, ": ", error.message()));
  return !error;
}

std::optional<std::string> read_model_file(const std::string& path, const std::string& name, int models) {
  if (path.empty() || !std::filesystem::exists(path)) return "";
  std::optional<std::string> bytes = read_file(path);
  if (!bytes) return std::nullopt;
  MadeModel made = make_model(name, feature_columns(), 0, {.models = models});
  if (!made.model) return say(made.note), std::nullopt;
  if (Status loaded = made.model->load(*bytes); !loaded)
    return say(cat(path, ": ", to_string(loaded.rejected()))), std::nullopt;
  return bytes;
}

}  // namespace tw::cli
