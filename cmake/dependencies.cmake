# Every find_package of the project. Required: Boost, yaml-cpp, SQLite, libpq's header, zlib, xxHash, hwloc, CLI11, fmt. Optional: LLVM, LibTorch, seccomp, OpenCL.
# XGBoost is not among them: it is opened at run time (costmodel/xgboost_api.h), and so are libpq and libcrypto.
option(TRACEWRIGHT_LLVM "build the LLVM backend" ON)
option(TRACEWRIGHT_TORCH "build the LibTorch cost model plugin if LibTorch is found" ON)

find_package(Threads REQUIRED)
find_package(Boost 1.81 REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(fmt REQUIRED)
find_package(CLI11 REQUIRED)
find_package(SQLite3 REQUIRED)
find_package(SQLiteCpp REQUIRED)
find_path(POSTGRES_HEADERS libpq-fe.h PATH_SUFFIXES postgresql REQUIRED)  # the library is opened at run time
find_path(OPENSSL_HEADERS openssl/evp.h REQUIRED)  # likewise
find_package(ZLIB REQUIRED)
find_library(SECCOMP_LIBRARY seccomp REQUIRED)
find_library(XXHASH_LIBRARY xxhash REQUIRED)
find_library(HWLOC_LIBRARY hwloc REQUIRED)
if(TRACEWRIGHT_MACHINE_ONLY)
  return()
endif()

if(TRACEWRIGHT_LLVM)
  # The version policy of LLVM is MAJOR.MINOR, hence 19.1.
  find_package(LLVM 19.1 CONFIG REQUIRED PATHS /usr/lib/llvm-19/lib/cmake/llvm NO_DEFAULT_PATH)
  separate_arguments(LLVM_DEFINITIONS_LIST NATIVE_COMMAND ${LLVM_DEFINITIONS})
  llvm_map_components_to_libnames(TRACEWRIGHT_LLVM_LIBRARIES core passes target mc support transformutils scalaropts
    instcombine analysis bitwriter x86codegen x86asmparser x86info x86desc aarch64codegen aarch64asmparser aarch64info aarch64desc
    riscvcodegen riscvasmparser riscvinfo riscvdesc hexagoncodegen hexagonasmparser hexagoninfo hexagondesc)
endif()

if(TRACEWRIGHT_TORCH)
  find_package(Torch QUIET)
  if(NOT Torch_FOUND)
    message(STATUS "LibTorch not found: the learned cost model falls back to the built-in one")
    set(TRACEWRIGHT_TORCH OFF)
  endif()
endif()

find_path(ONNX_INCLUDE onnx/onnx_pb.h)
find_library(ONNX_PROTO_LIBRARY onnx_proto)
find_library(PROTOBUF_LIBRARY protobuf)
if(NOT ONNX_INCLUDE OR NOT ONNX_PROTO_LIBRARY OR NOT PROTOBUF_LIBRARY)
  message(STATUS "libonnx not found: no ONNX files")
  set(ONNX_PROTO_LIBRARY OFF)
endif()

# Headers only: the ICD loader is opened at run time.
find_path(OPENCL_HEADERS CL/cl.h)
if(NOT OPENCL_HEADERS)
  message(STATUS "CL/cl.h not found: no OpenCL devices")
endif()
