# Compiler set-up. ccache and mold are used where they are installed; nothing needs them.
option(TRACEWRIGHT_TESTS "build the tests" ON)
option(TRACEWRIGHT_BENCH "build the benchmarks" ON)
option(TRACEWRIGHT_MACHINE_ONLY "build only tracewright-measure and its worker, which need no LLVM" OFF)
option(TRACEWRIGHT_FUZZ "build the fuzzers of the parsers (Clang)" OFF)
set(TRACEWRIGHT_SANITIZE "" CACHE STRING "value for -fsanitize, e.g. address,undefined")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
# Nobody replaces our functions from outside: calls inside the library are direct and may be inlined (replay is a fifth faster).
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fno-semantic-interposition>)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
set(CMAKE_INSTALL_RPATH "$ORIGIN;$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)
set(CMAKE_CXX_FLAGS_RELEASE "-O2")  # no -DNDEBUG: TW_CHECK stays on

find_program(CCACHE ccache)
if(CCACHE)
  # Else it caches nothing that is compiled with a precompiled header.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
endif()
# Standard headers are three quarters of what the compiler reads.
set(TRACEWRIGHT_PRECOMPILED <algorithm> <array> <cmath> <cstring> <functional> <limits> <map> <memory> <optional> <set> <span> <string>
  <string_view> <unordered_map> <utility> <vector>)
find_program(MOLD mold)
if(MOLD AND NOT CMAKE_CROSSCOMPILING)
  add_link_options(-fuse-ld=mold)
endif()
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wall> $<$<COMPILE_LANGUAGE:CXX>:-Wextra> $<$<COMPILE_LANGUAGE:CXX>:-Werror>
  $<$<COMPILE_LANGUAGE:CXX>:-Wno-missing-field-initializers> -fdiagnostics-color=auto -ffunction-sections)
# Array bounds and maybe-uninitialised warnings of GCC 12 have false positives inside libstdc++ at -O2.
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized> $<$<COMPILE_LANGUAGE:CXX>:-Wno-array-bounds>
    $<$<COMPILE_LANGUAGE:CXX>:-Wno-stringop-overflow>)
endif()
if(TRACEWRIGHT_FUZZ)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-error>)  # Clang warns inside of GCC's library
endif()
if(TRACEWRIGHT_SANITIZE)
  add_compile_options(-fsanitize=${TRACEWRIGHT_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${TRACEWRIGHT_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
    # It reads the type before a function's entry, which kernels that were loaded as machine code do not have.
    add_compile_options(-fno-sanitize=function)
  endif()
endif()
