// A Unix socket between clients and a PostgreSQL server that can lose an answer, or everything: for tests of what
// becomes of a statement that was done, and whose client does not know.
#pragma once
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "support/postgres_server.h"
#include "support/support.h"

namespace tw::test {

class LossyProxy {
 public:
  explicit LossyProxy(const PostgresServer& server);
  ~LossyProxy();
  LossyProxy(const LossyProxy&) = delete;

  // Of a database, through the proxy.
  std::string address(const std::string& database, const std::string& role = "postgres") const;
  // The next message of a client that holds this text gets no answer: it is passed on, and when the server has answered
  // both ends are closed.
  void lose_answer_to(const char* text) { lost_ = text; }
  // From now on nothing passes between the clients and servers of now, and neither notices; new ones can talk.
  void hold();
  // How many answers were lost.
  int lost() const { return count_; }

 private:
  struct Pair {
    int client = -1, server = -1;
    bool is_lost = false;  // the server's next answer closes it
    bool is_held = false;
  };
  void work();
  bool pass(Pair& pair, bool from_client);

  TemporaryDirectory folder_;
  std::string server_socket_;
  int port_, listener_ = -1;
  std::vector<Pair> pairs_;  // of the thread
  std::atomic<const char*> lost_ = nullptr;
  std::atomic<int> count_ = 0;
  std::atomic<bool> is_over_ = false, must_hold_ = false;
  std::thread thread_;
};

}  // namespace tw::test
