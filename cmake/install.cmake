# cmake --install and find_package(Tracewright).
include(CMakePackageConfigHelpers)
install(TARGETS libtracewright EXPORT TracewrightTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET tracewright)
  install(TARGETS tracewright RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(TARGETS tracewright-emulator RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
get_property(peers GLOBAL PROPERTY TRACEWRIGHT_PEERS)
if(peers)
  install(TARGETS ${peers} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})  # for `bench`, found beside the command
endif()
install(DIRECTORY bench/peers/wheel/ DESTINATION ${CMAKE_INSTALL_BINDIR}/tracewright-peer-wheel FILES_MATCHING PATTERN "*.py")
if(TARGET tracewright_onnx)
  install(TARGETS tracewright_onnx LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
if(TARGET tracewright_torch)
  install(TARGETS tracewright_torch LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(DIRECTORY dsl graph sampler rules costmodel backends runtime DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tracewright
  FILES_MATCHING PATTERN "*.h" PATTERN "onnx" EXCLUDE)
install(FILES ${TRACEWRIGHT_GENERATED_DIR}/primitives.inc DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tracewright)
# The rules that are built in, to read and to copy; the command has them as text of its own.
install(DIRECTORY rules DESTINATION ${CMAKE_INSTALL_DATADIR}/tracewright FILES_MATCHING PATTERN "*.tw" PATTERN "lang" EXCLUDE)
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DATADIR}/tracewright)
# What `model eval` learns from where no database is named, and what `tune` begins with. In the build folder they are
# found as they are when installed.
install(FILES costmodel/data/cpu_records.jsonl.gz costmodel/data/cpu_model.bin DESTINATION ${CMAKE_INSTALL_DATADIR}/tracewright)
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/share)
file(CREATE_LINK ${CMAKE_SOURCE_DIR}/costmodel/data ${CMAKE_BINARY_DIR}/share/tracewright COPY_ON_ERROR SYMBOLIC)
install(EXPORT TracewrightTargets NAMESPACE Tracewright:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Tracewright)
file(WRITE ${CMAKE_BINARY_DIR}/TracewrightConfig.cmake
  "include(\${CMAKE_CURRENT_LIST_DIR}/TracewrightTargets.cmake)\n")
write_basic_package_version_file(${CMAKE_BINARY_DIR}/TracewrightConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/TracewrightConfig.cmake ${CMAKE_BINARY_DIR}/TracewrightConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Tracewright)
