// PoCL keeps everything that it compiles in a folder, without which it has no devices or compiles nothing, and never
// says why. This asks before it does. For this folder only.
#pragma once
#include <string>
#include <string_view>

namespace tw::opencl {

// What PoCL's platform is called (CL_PLATFORM_NAME).
inline constexpr std::string_view kPoclPlatform = "Portable Computing Language";

// Why PoCL cannot write its cache, and what to do about it; "" if it can. Creates nothing.
std::string pocl_cache_problem();
// Is PoCL among the drivers that the ICD loader is told to load?
bool pocl_is_installed();
// PoCL (3.1) aborts the process where POCL_CACHE_DIR is empty; what is empty counts as not set, as other variables do.
// Before any driver is loaded.
void forget_empty_pocl_cache();

}  // namespace tw::opencl
