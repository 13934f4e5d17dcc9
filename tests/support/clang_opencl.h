// OpenCL C as clang's front end reads it. No device is needed.
#pragma once
#include <string>

namespace tw::test {

// The clang to ask; "" where there is none.
std::string opencl_front_end();

// What clang says of a text in a version of the language ("CL1.2"), with extensions as `-cl-ext` takes them; "" if it
// has nothing against it.
std::string refused_by_clang(const std::string& clang, const std::string& text, const std::string& version,
                             const std::string& extension);

}  // namespace tw::test
