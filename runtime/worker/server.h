// The worker's loop: takes requests from the tuner over a socket, one at a time, and answers them,
// until the tuner is gone.
#pragma once
#include <map>
#include <memory>

#include "runtime/worker/measurement.h"

namespace tw {

class Server {
 public:
  // Returns the exit status of the process: 0 when the tuner has closed the socket, 1 when the
  // worker cannot work here.
  int serve();

 private:
  struct OpenTask {
    std::unique_ptr<Task> data;
    Incumbent incumbent;
  };
  template <class Server>
  friend int serve_requests(int socket, Server& server);
  // False: the tuner is gone, or the request cannot be.
  bool hello(HelloMessage& message);
  bool begin_task(BeginTaskMessage& message);
  bool end_task(int& task) { return tasks_.erase(task) == 1; }
  bool measure(MeasureMessage& message);

  WorkerState worker_;
  std::map<int, OpenTask> tasks_;
};

}  // namespace tw
