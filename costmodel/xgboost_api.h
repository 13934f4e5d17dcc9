// XGBoost's C functions, found at run time (dlopen of libxgboost.so.0), so that nothing needs it to build or start.
// Used by xgboost_model.cc.
//
// They are declared here, as far as they are used, and not taken from xgboost/c_api.h: which library is there is known
// at run time only, so a header at build time would prove nothing of it, and a program built without the header could
// never use a library that is installed later. The C interface of XGBoost is stable: libraries from 1.6 on have these
// functions. Where the header is installed, xgboost_test compares the declarations with it.
#pragma once
#include <optional>
#include <string>

#include "dsl/base/arena.h"

namespace tw::xgboost {

using Handle = void*;  // of a matrix or of a booster

// Those that return int return 0, or -1 and then last_error() says why. What they hand out belongs to them and lives
// until the next call with the same handle.
struct Api {
  void (*version)(int* major, int* minor, int* patch);
  const char* (*last_error)();
  int (*create_matrix)(const float* values, u64 rows, u64 columns, float missing, Handle* out, int threads);
  int (*free_matrix)(Handle matrix);
  int (*create_booster)(const Handle* matrices, u64 count, Handle* out);
  int (*free_booster)(Handle booster);
  int (*set_parameter)(Handle booster, const char* name, const char* value);
  int (*boost)(Handle booster, Handle matrix, float* gradient, float* curvature, u64 rows);
  int (*predict)(Handle booster, Handle matrix, const char* config, const u64** shape, u64* dimensions,
                 const float** out);
  int (*predict_dense)(Handle booster, const char* values, const char* config, Handle matrix, const u64** shape,
                       u64* dimensions, const float** out);
  int (*save)(Handle booster, const char* config, u64* size, const char** bytes);
  int (*load)(Handle booster, const void* bytes, u64 size);
};

// The functions of the library that the environment variable TRACEWRIGHT_XGBOOST names, if it is set; otherwise of
// libxgboost.so.0 or libxgboost.so in the library path. Nothing if there is none or it is another library; then *why
// says what was wrong. The library stays open.
std::optional<Api> open_api(std::string* why);

// "1.7.4"
std::string version_of(const Api& api);

}  // namespace tw::xgboost
