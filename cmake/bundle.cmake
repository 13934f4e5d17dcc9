# The portable bundle: cmake --build build/release --target bundle
# One archive for a bare Ubuntu 24.04 (or any x86-64 Linux with the C library of Debian 12 or a newer one): the command, its workers, what they
# are linked with beyond the C and C++ runtime, rules, examples, the GPU benchmark, and the source of the LibTorch plugin with a script that
# compiles it there. No driver, no toolkit and no LibTorch is inside. cmake/pack_bundle.sh checks what it needs and how large it is.
set(bundle tracewright-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
set(in_bundle COMPONENT bundle EXCLUDE_FROM_ALL)

set(bundle_programs tracewright tracewright-measure tracewright-worker tracewright-worker-cuda tracewright-emulator)
foreach(target tracewright-worker-opencl tracewright-peer-fma tracewright-gpu-bench)
  if(TARGET ${target})
    list(APPEND bundle_programs ${target})
  endif()
endforeach()
set(bundle_files)
if(TARGET gpu_bench_files)
  set(bundle_files gpu_bench_files)
endif()
install(TARGETS libtracewright RUNTIME_DEPENDENCY_SET bundled LIBRARY DESTINATION lib NAMELINK_SKIP ${in_bundle})
install(TARGETS ${bundle_programs} RUNTIME_DEPENDENCY_SET bundled RUNTIME DESTINATION bin ${in_bundle})
if(TARGET tracewright_onnx)
  install(TARGETS tracewright_onnx RUNTIME_DEPENDENCY_SET bundled LIBRARY DESTINATION lib ${in_bundle})
  list(APPEND bundle_files tracewright_onnx)
endif()
install(RUNTIME_DEPENDENCY_SET bundled PRE_EXCLUDE_REGEXES "^(ld-linux|libc|libm|libdl|libpthread|librt|libgcc_s|libstdc[+][+])[.-]" "^libtracewright[.]"
  LIBRARY DESTINATION lib ${in_bundle})
install(DIRECTORY rules examples DESTINATION share/tracewright ${in_bundle} PATTERN "*.h" EXCLUDE PATTERN "*.cc" EXCLUDE)
install(FILES costmodel/data/cpu_model.bin DESTINATION share/tracewright ${in_bundle})
install(DIRECTORY ${CMAKE_BINARY_DIR}/gpu_bench/ DESTINATION share/tracewright/gpu USE_SOURCE_PERMISSIONS ${in_bundle}
  PATTERN "*.cu" EXCLUDE PATTERN "*.ptx" EXCLUDE PATTERN ".tracewright-lock" EXCLUDE)
install(FILES docs/bundle.md DESTINATION . RENAME README.md ${in_bundle})
install(FILES LICENSE DESTINATION . ${in_bundle})
install(FILES docs/commands.md docs/language.md DESTINATION share/doc ${in_bundle})

# What the plugin is made of.
install(PROGRAMS cmake/build_torch_plugin.sh DESTINATION torch ${in_bundle})
install(DIRECTORY costmodel/torch DESTINATION torch/costmodel ${in_bundle})
install(FILES costmodel/network_abi.h DESTINATION torch/costmodel ${in_bundle})
install(FILES dsl/base/rng.h dsl/base/arena.h DESTINATION torch/dsl/base ${in_bundle})

# Terms of what is linked in or lies beside.
foreach(package llvm-19-dev libsqlite3-0 libsqlitecpp-dev libyaml-cpp0.7 libfmt9 libxxhash0 libhwloc15 libudev1 libseccomp2 zlib1g libzstd1 libboost1.81-dev libcli11-dev libonnx1 libprotobuf32)
  install(FILES /usr/share/doc/${package}/copyright DESTINATION share/doc/licenses RENAME ${package} OPTIONAL ${in_bundle})
endforeach()

add_custom_target(bundle
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${CMAKE_BINARY_DIR}/${bundle}
  COMMAND ${CMAKE_COMMAND} --install ${CMAKE_BINARY_DIR} --component bundle --prefix ${CMAKE_BINARY_DIR}/${bundle} --strip
  COMMAND ${CMAKE_SOURCE_DIR}/cmake/pack_bundle.sh ${CMAKE_BINARY_DIR}/${bundle}
  DEPENDS libtracewright ${bundle_programs} ${bundle_files} USES_TERMINAL VERBATIM)
if(TARGET bundle_test)
  add_dependencies(bundle_test libtracewright ${bundle_programs} ${bundle_files})
endif()
