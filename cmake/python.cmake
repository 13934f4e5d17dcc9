# The module of the Python package (docs/python.md). `pip install .` turns it on; in a build folder
#   cmake --preset release -DTRACEWRIGHT_PYTHON_MODULE=ON && cmake --build build/release --target tracewright_python
# makes build/release/python/tracewright, a package of links to the source, for $PYTHONPATH. With TRACEWRIGHT_BUILT, a build
# folder, the module alone is built, and the wheel takes programs and library from there.
option(TRACEWRIGHT_PYTHON_MODULE "build the module of the Python package (needs nanobind)" OFF)
if(NOT TRACEWRIGHT_PYTHON_MODULE)
  return()
endif()
if(NOT SKBUILD AND NOT DEFINED Python_EXECUTABLE AND NOT DEFINED ENV{VIRTUAL_ENV})
  set(Python_EXECUTABLE /usr/bin/python3)  # Debian's, which has Debian's NumPy
endif()
find_package(Python 3.9 REQUIRED COMPONENTS Interpreter Development.Module)
if(NOT nanobind_ROOT)
  # Where cmake/python_packages.sh puts it, else what the interpreter knows.
  execute_process(COMMAND ${CMAKE_COMMAND} -E env "PYTHONPATH=${CMAKE_SOURCE_DIR}/build/python_packages" ${Python_EXECUTABLE} -m nanobind --cmake_dir
    OUTPUT_VARIABLE nanobind_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
find_package(nanobind CONFIG REQUIRED)

nanobind_add_module(tracewright_python NB_STATIC NOMINSIZE python/module.cc python/opened_model.cc runtime/measure/thread_pool.cc)
target_include_directories(tracewright_python PRIVATE ${CMAKE_SOURCE_DIR})
set_target_properties(tracewright_python PROPERTIES OUTPUT_NAME _core LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/python/tracewright)
# nanobind's own sources are not held to our warnings.
foreach(target nanobind-static nanobind-static-abi3)
  if(TARGET ${target})
    target_compile_options(${target} PRIVATE -w)
  endif()
endforeach()

# The package in the build folder: the source as it is, so that changes need no step in between.
file(GLOB python_files CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}/python/tracewright python/tracewright/*.py python/tracewright/torch)
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/python/tracewright)
foreach(file IN LISTS python_files)
  file(CREATE_LINK ${CMAKE_SOURCE_DIR}/python/tracewright/${file} ${CMAKE_BINARY_DIR}/python/tracewright/${file} SYMBOLIC)
endforeach()

# The wheel: programs, library and data lie in one folder of the package, as in a build folder, and so find each other.
# A wheel has no links, so the library has the name that programs look for.
if(TRACEWRIGHT_BUILT)
  get_filename_component(built ${TRACEWRIGHT_BUILT} REALPATH BASE_DIR ${CMAKE_SOURCE_DIR})
  get_filename_component(built_library ${built}/libtracewright.so.0 REALPATH)
  file(GLOB python_programs ${built}/tracewright ${built}/tracewright-worker ${built}/tracewright-worker-cuda ${built}/tracewright-worker-opencl
    ${built}/tracewright-emulator ${built}/libtracewright_onnx.so ${built}/libtracewright_torch.so)
else()
  set(built_library $<TARGET_FILE:libtracewright>)
  set(python_programs)
  foreach(program tracewright tracewright-worker tracewright-worker-cuda tracewright-worker-opencl tracewright-emulator tracewright_onnx tracewright_torch)
    if(TARGET ${program})
      list(APPEND python_programs $<TARGET_FILE:${program}>)
      add_dependencies(tracewright_python ${program})
    endif()
  endforeach()
endif()
set(in_wheel COMPONENT python EXCLUDE_FROM_ALL)
install(TARGETS tracewright_python LIBRARY DESTINATION tracewright ${in_wheel})
install(PROGRAMS ${python_programs} DESTINATION tracewright/bin ${in_wheel})
install(PROGRAMS ${built_library} DESTINATION tracewright/bin RENAME libtracewright.so.0 ${in_wheel})
install(FILES costmodel/data/cpu_model.bin DESTINATION tracewright/bin/share/tracewright ${in_wheel})
