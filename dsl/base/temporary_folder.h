// A folder of this process alone, in that for temporary files ($TMPDIR, else /tmp); it is removed with all that is in
// it when the object goes.
#pragma once
#include <string>

namespace tw {

class TemporaryFolder {
 public:
  // The name of the folder begins with tracewright-`purpose`.
  explicit TemporaryFolder(const std::string& purpose);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }        // "" if it could not be made
  const std::string& problem() const { return problem_; }  // why; else ""

 private:
  std::string path_, problem_;
};

}  // namespace tw
