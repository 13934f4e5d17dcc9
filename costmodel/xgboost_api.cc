#include "costmodel/xgboost_api.h"

#include <dlfcn.h>

#include <cstdlib>
#include <vector>

#include "dsl/base/text.h"

namespace tw::xgboost {
namespace {

constexpr const char* library_variable = "TRACEWRIGHT_XGBOOST";

void* open_library(std::string* path, std::string* why) {
  std::vector<std::string> names = {"libxgboost.so.0", "libxgboost.so"};
  if (const char* named = std::getenv(library_variable)) names = {named};
  for (const std::string& name : names) {
    // Its threads' memory does not bear unloading.
    if (void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)) return *path = name, library;
    if (why->empty()) *why = dlerror();
  }
  return nullptr;
}

// Finds functions until one is missing.
class Finder {
 public:
  explicit Finder(void* library) : library_(library) {}
  template <class Function>
  void find(const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library_, name));
    if (!function && missing_.empty()) missing_ = name;
  }
  const std::string& missing() const { return missing_; }

 private:
  void* library_;
  std::string missing_;
};

}  // namespace

std::optional<Api> open_api(std::string* why) {
  why->clear();
  std::string path;
  void* library = open_library(&path, why);
  if (!library) return std::nullopt;
  why->clear();
  Api api{};
  Finder finder(library);
  finder.find("XGBoostVersion", api.version);
  finder.find("XGBGetLastError", api.last_error);
  finder.find("XGDMatrixCreateFromMat_omp", api.create_matrix);
  finder.find("XGDMatrixFree", api.free_matrix);
  finder.find("XGBoosterCreate", api.create_booster);
  finder.find("XGBoosterFree", api.free_booster);
  finder.find("XGBoosterSetParam", api.set_parameter);
  finder.find("XGBoosterBoostOneIter", api.boost);
  finder.find("XGBoosterPredictFromDMatrix", api.predict);
  finder.find("XGBoosterPredictFromDense", api.predict_dense);
  finder.find("XGBoosterSaveModelToBuffer", api.save);
  finder.find("XGBoosterLoadModelFromBuffer", api.load);
  if (finder.missing().empty()) return api;
  *why = cat(path, " is no XGBoost of version 1.6 or newer: it has no ", finder.missing());
  return std::nullopt;
}

std::string version_of(const Api& api) {
  int major = 0, minor = 0, patch = 0;
  api.version(&major, &minor, &patch);
  return cat(major, ".", minor, ".", patch);
}

}  // namespace tw::xgboost
