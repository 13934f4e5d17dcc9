# The programs of a measuring machine: the worker, and tracewright-measure, which measures what builders have compiled. Neither is linked with
# LLVM or LibTorch. With TRACEWRIGHT_MACHINE_ONLY nothing else is built (docs/fleet.md).

# The worker runs measured kernels. It is small, so that forking it stays cheap.
file(GLOB worker_sources CONFIGURE_DEPENDS runtime/worker/*.cc)
add_executable(tracewright-worker ${worker_sources} ${TRACEWRIGHT_LOADER} runtime/measure/elements.cc runtime/measure/fma_probe.cc
  runtime/measure/thread_pool.cc runtime/measure/worker_protocol.cc
  dsl/base/check.cc dsl/base/text.cc dsl/ir/types.cc)
target_include_directories(tracewright-worker PRIVATE ${CMAKE_SOURCE_DIR})
set_source_files_properties(runtime/measure/elements.cc PROPERTIES SKIP_PRECOMPILE_HEADERS ON COMPILE_OPTIONS "-O3;-fopenmp-simd;-fno-math-errno")  # compares millions of elements
# It limits its own address space and system calls, which sanitizers do not survive.
target_compile_options(tracewright-worker PRIVATE -fno-sanitize=all)
target_link_options(tracewright-worker PRIVATE -fno-sanitize=all)
target_link_libraries(tracewright-worker PRIVATE Threads::Threads ${SECCOMP_LIBRARY})

# What tracewright-measure is linked from; of these files the linker takes what is needed. A build of everything links it from the same ones, so
# that what is missing here shows there, too.
set(machine_folders dsl/base dsl/ir dsl/te dsl/text dsl/analysis dsl/intrinsics dsl/passes dsl/schedule dsl/primitives backends backends/cuda
  backends/gpu_source runtime/console runtime/lists runtime/store runtime/fleet runtime/measure sampler/fleet)
set(machine_files sampler/search/device_checks.cc sampler/search/least_flops.cc sampler/search/measure_trial.cc
  sampler/search/measured_kernel.cc sampler/search/reference.cc sampler/search/sample_cost.cc sampler/search/sampled_reference.cc
  sampler/search/task_memory.cc sampler/search/task_reference.cc sampler/search/trial.cc)
add_library(tracewright_parts STATIC EXCLUDE_FROM_ALL)
set_target_properties(tracewright_parts PROPERTIES LINKER_LANGUAGE CXX)
if(TRACEWRIGHT_MACHINE_ONLY)
  tracewright_layer(tw_machine ${TRACEWRIGHT_EMBEDDED_TEXT} ${machine_files} FOLDERS ${machine_folders}
                    LIBRARIES xxhash SQLite::SQLite3 SQLiteCpp yaml-cpp fmt::fmt Boost::headers)
  target_include_directories(tw_machine SYSTEM PRIVATE ${POSTGRES_HEADERS})
  target_sources(tracewright_parts PRIVATE $<TARGET_OBJECTS:tw_machine>)
else()
  list(TRANSFORM machine_folders APPEND "/[^/]*")
  list(JOIN machine_folders "|" wanted)
  list(TRANSFORM machine_files APPEND "[.]o")
  list(JOIN machine_files "|" wanted_files)
  foreach(layer tw_dsl tw_rules tw_backends tw_runtime tw_search)
    target_sources(tracewright_parts PRIVATE $<FILTER:$<TARGET_OBJECTS:${layer}>,INCLUDE,/\(${wanted}|${wanted_files}|generated/embedded_text.cc.o\)$>)
  endforeach()
endif()

add_executable(tracewright-measure cli/built_machine/main.cc cli/arguments.cc cli/devices.cc cli/interrupt.cc cli/lend_machine.cc runtime/console/boost_json.cc)
set_source_files_properties(cli/built_machine/main.cc PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
target_include_directories(tracewright-measure PRIVATE ${CMAKE_SOURCE_DIR} ${TRACEWRIGHT_GENERATED_DIR})
target_link_options(tracewright-measure PRIVATE LINKER:--gc-sections)
target_link_libraries(tracewright-measure PRIVATE tracewright_parts SQLiteCpp SQLite::SQLite3 yaml-cpp fmt::fmt xxhash Boost::headers CLI11::CLI11 ${HWLOC_LIBRARY}
  ${CMAKE_DL_LIBS} Threads::Threads)
add_dependencies(tracewright-measure tracewright-worker tracewright_generated)
install(TARGETS tracewright-worker tracewright-measure RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
