// The metrics of a measuring machine: their text, and the server that gives them to whoever asks on loopback.
#include "runtime/fleet/machine_metrics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <thread>

#include "dsl/base/clock.h"
#include "runtime/fleet/metrics_server.h"
#include "support/http.h"
#include "support/run_program.h"
#include "support/support.h"

namespace tw {
namespace {

// The value of each sample by its name with labels. Fails where the text is not as the format says: HELP and TYPE of a
// family stand in front of its samples, once; lines are complete; a sample has a number.
std::map<std::string, double> samples_of(const std::string& text) {
  static const std::regex head("# (HELP|TYPE) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.+)"),
      sample(R"re(([a-zA-Z_:][a-zA-Z0-9_:]*)(\{[a-z]+="(\\.|[^"\\])*"(,[a-z]+="(\\.|[^"\\])*")*\})? (\S+))re");
  std::map<std::string, double> samples;
  std::set<std::string> helped, typed;
  std::string family;
  EXPECT_TRUE(text.ends_with("\n"));
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    std::smatch match;
    if (std::regex_match(line, match, head)) {
      EXPECT_TRUE((match[1] == "HELP" ? helped : typed).insert(match[2]).second) << "twice: " << line;
      family = match[2];
    } else if (std::regex_match(line, match, sample)) {
      std::string name = match[1];
      EXPECT_TRUE(name == family || name == family + "_bucket" || name == family + "_sum" || name == family + "_count")
          << line;
      EXPECT_TRUE(helped.contains(family) && typed.contains(family)) << line;
      EXPECT_TRUE(samples.emplace(name + match[2].str(), std::stod(match[6])).second) << "twice: " << line;
    } else {
      ADD_FAILURE() << "not of the format: " << line;
    }
  }
  EXPECT_EQ(helped, typed);
  return samples;
}

TEST(MachineMetrics, TextSaysWhatWasCounted) {
  MachineMetrics metrics("m", "1");
  metrics.add_leased(4);
  metrics.add_trial("ok", 0.3);
  metrics.add_trial("crash", 7);
  metrics.add_trial(MachineMetrics::kKnown, 0.001);
  std::map<std::string, double> busy = samples_of(metrics.text());
  EXPECT_EQ(busy.at("tracewright_busy"), 1);
  EXPECT_EQ(busy.at("tracewright_trials_at_hand"), 1);
  EXPECT_EQ(busy.at("tracewright_last_heartbeat_timestamp_seconds"), 0);
  metrics.add_fault("program differs");
  metrics.add_leased(2);
  metrics.add_ignored(/*is_repeated=*/false);
  metrics.add_ignored(/*is_repeated=*/true);
  metrics.add_trial("ok", 1000);
  metrics.set_heartbeat(3);
  metrics.announced_again();
  metrics.set_heartbeat(2);
  metrics.set_reconnections(5);
  metrics.add_given_back(1);
  metrics.add_leased(0);
  std::map<std::string, double> found = samples_of(metrics.text());
  EXPECT_EQ(found.at("tracewright_trials_total{status=\"ok\"}"), 2);
  EXPECT_EQ(found.at("tracewright_trials_total{status=\"crash\"}"), 1);
  EXPECT_EQ(found.at("tracewright_trials_total{status=\"known\"}"), 1);
  EXPECT_EQ(found.at("tracewright_faults_total{kind=\"program differs\"}"), 1);
  EXPECT_EQ(found.at("tracewright_faults_total{kind=\"refused\"}"), 0) << "known kinds are there before the first";
  EXPECT_EQ(found.at("tracewright_results_ignored_total{reason=\"late\"}"), 1);
  EXPECT_EQ(found.at("tracewright_results_ignored_total{reason=\"repeated\"}"), 1);
  EXPECT_EQ(found.at("tracewright_trials_leased_total"), 6);
  EXPECT_EQ(found.at("tracewright_trials_given_back_total"), 1);
  EXPECT_EQ(found.at("tracewright_leases_lost_total"), 5) << "those before it announced itself again stay counted";
  EXPECT_EQ(found.at("tracewright_reconnections_total"), 5);
  EXPECT_EQ(found.at("tracewright_busy"), 0);
  EXPECT_EQ(found.at("tracewright_trials_at_hand"), 0);
  EXPECT_NEAR(found.at("tracewright_last_heartbeat_timestamp_seconds"), static_cast<double>(time(nullptr)), 60);
  EXPECT_GT(found.at("tracewright_busy_seconds_total"), 0);
  EXPECT_EQ(samples_of(metrics.text()).at("tracewright_busy_seconds_total"), found.at("tracewright_busy_seconds_total"))
      << "time without trials is not busy";
}

TEST(MachineMetrics, TheHistogramCountsEachTrialOnce) {
  MachineMetrics metrics("m", "1");
  std::vector<double> times = {0, 0.01, 0.05, 0.051, 1, 1.5, 299, 300, 301, 1e9};
  for (double time : times) metrics.add_trial("ok", time);
  std::map<std::string, double> found = samples_of(metrics.text());
  const std::string bucket = "tracewright_trial_duration_seconds_bucket{le=\"";
  double before = 0, buckets = 0;
  for (const char* bound : {"0.01", "0.02", "0.05", "0.1", "0.2", "0.5", "1", "2", "5", "10", "30", "60", "300"}) {
    double limit = std::stod(bound), value = found.at(bucket + bound + "\"}");
    EXPECT_EQ(value, std::ranges::count_if(times, [limit](double time) { return time <= limit; })) << bound;
    EXPECT_GE(value, before);
    before = value, ++buckets;
  }
  EXPECT_EQ(found.at(bucket + "+Inf\"}"), 10);
  EXPECT_EQ(found.at("tracewright_trial_duration_seconds_count"), 10);
  EXPECT_NEAR(found.at("tracewright_trial_duration_seconds_sum"), 1e9 + 902.611, 0.001);
  EXPECT_EQ(std::ranges::count_if(found, [&](const auto& one) { return one.first.starts_with(bucket); }), buckets + 1);
}

TEST(MachineMetrics, TextOutOfElsewhereStaysInItsLabel) {
  MachineMetrics metrics("a\"b\\c\nd\"} 1\nmade_up 1", "1");
  metrics.add_fault("x\"} 1\ny 2");
  std::map<std::string, double> found = samples_of(metrics.text());
  EXPECT_EQ(found.at(R"(tracewright_machine_info{machine="a\"b\\c\nd\"} 1\nmade_up 1",version="1"})"), 1);
  EXPECT_FALSE(found.contains("made_up"));
  EXPECT_EQ(found.at(R"(tracewright_faults_total{kind="x\"} 1\ny 2"})"), 1);
}

TEST(MachineMetrics, PrometheusToolHasNoObjection) {
  test::TemporaryDirectory folder;
  MachineMetrics metrics("m", "1");
  metrics.add_trial("crash", 1);
  test::write_file(folder.path() + "/text", metrics.text());
  test::Finished checked = test::run_program(
      {"bash", "-c",
       cat("command -v promtool >/dev/null || exit 77; promtool check metrics <", folder.path(), "/text")});
  if (checked.code == 77) GTEST_SKIP() << "no promtool: Debian's package `prometheus` is not installed";
  EXPECT_EQ(checked.code, 0);
  EXPECT_EQ(checked.out + checked.err, "");
}

// ---- the server

class Server : public testing::Test {
 protected:
  void start(MetricsLimits limits = {}) {
    std::string error;
    server = MetricsServer::start(0, [this] { return ++asked, text; }, error, limits);
    ASSERT_TRUE(server) << error;
    port = server->port();
  }
  std::atomic<int> asked = 0;
  std::string text = "a 1\n";
  std::unique_ptr<MetricsServer> server;
  int port = 0;
};

TEST_F(Server, AnswersWhatPrometheusAsks) {
  start();
  std::string answer = test::get(port);
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 OK\r\n")) << answer;
  EXPECT_NE(answer.find("\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"), std::string::npos);
  EXPECT_NE(answer.find("\r\nContent-Length: 4\r\n"), std::string::npos);
  EXPECT_EQ(test::body_of(answer), text);
  EXPECT_EQ(test::body_of(test::get(port, "/metrics?name=a")), text);
  EXPECT_EQ(asked, 2);
  std::string head = test::ask(port, "HEAD /metrics HTTP/1.1\r\n\r\n");
  EXPECT_NE(head.find("Content-Length: 4\r\n"), std::string::npos);
  EXPECT_EQ(test::body_of(head), "");
  EXPECT_TRUE(test::get(port, "/").starts_with("HTTP/1.1 200"));
}

TEST_F(Server, RefusesWhatIsNoQuestion) {
  start({.connections_per_second = 1000});
  EXPECT_TRUE(test::get(port, "/etc/passwd").starts_with("HTTP/1.1 404"));
  EXPECT_TRUE(test::get(port, "/../metrics").starts_with("HTTP/1.1 404"));
  std::string post = test::ask(port, "POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc");
  EXPECT_TRUE(post.starts_with("HTTP/1.1 405")) << post;
  EXPECT_NE(post.find("\r\nAllow: GET, HEAD\r\n"), std::string::npos);
  for (std::string garbage :
       {"GET /metrics\r\n\r\n", "\r\n\r\n", "GET /metrics HTTP/1.1 x\r\n\r\n", "\x16\x03\x01\n\n"})
    EXPECT_TRUE(test::ask(port, garbage).starts_with("HTTP/1.1 400")) << garbage;
  // However long the request is, the answer arrives.
  std::string long_one = test::ask(port, "GET /metrics HTTP/1.1\r\nX: " + std::string(1 << 20, 'x'));
  EXPECT_TRUE(long_one.starts_with("HTTP/1.1 431")) << long_one.substr(0, 100);
  EXPECT_EQ(asked, 0);
}

TEST_F(Server, IsOnLoopbackAlone) {
  start();
  EXPECT_LT(test::connect_to(port, "127.0.0.2"), 0) << "it listens on other addresses, too";
  std::string error;
  EXPECT_FALSE(MetricsServer::start(port, [] { return ""; }, error));
  EXPECT_EQ(error, cat("cannot listen on 127.0.0.1:", port, ": Address already in use"));
}

TEST_F(Server, ClientsThatWaitDoNotKeepOthersAway) {
  start({.connections_per_second = 1000});
  std::vector<int> silent;
  for (int i = 0; i < 40; ++i) silent.push_back(test::connect_to(port));
  for (std::size_t i = 0; i < silent.size(); ++i) {
    if (i % 2) test::say_to(silent[i], "GET /metr");
  }
  double begin = seconds_now();
  EXPECT_EQ(test::body_of(test::get(port)), text);
  EXPECT_LT(seconds_now() - begin, 3) << "it waited for a silent client";
  for (int socket : silent) close(socket);
}

// A client that does not read what it asked for, or asks one byte at a time, has its seconds, and then goes.
TEST_F(Server, SlowClientsHaveToGo) {
  text = std::string(64 << 20, 'a');
  start({.client_seconds = 0.5, .connections_per_second = 1000});
  int deaf = test::connect_to(port), slow = test::connect_to(port);
  test::say_to(deaf, "GET /metrics HTTP/1.1\r\n\r\n");
  double begin = seconds_now();
  while (seconds_now() - begin < 1.5) {
    test::say_to(slow, "G");
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_EQ(test::hear_from(slow), "") << "closed without an answer";
  EXPECT_LT(test::hear_from(deaf).size(), text.size());
  text = "b 2\n";
  EXPECT_EQ(test::body_of(test::get(port)), text);
  close(deaf), close(slow);
}

TEST_F(Server, AFloodOfQuestionsGetsFewAnswers) {
  start({.connections_per_second = 10});
  double begin = seconds_now(), used = processor_seconds();
  std::vector<int> sockets;
  while (seconds_now() - begin < 2.5) {
    int socket = test::connect_to(port);
    if (socket < 0) break;
    test::say_to(socket, "GET /metrics HTTP/1.1\r\n\r\n");
    sockets.push_back(socket);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_GT(sockets.size(), 200u);
  EXPECT_LE(asked, 40);
  EXPECT_GE(asked, 10);
  EXPECT_LT(processor_seconds() - used, 1.5) << "of both sides";
  for (int socket : sockets) close(socket);
}

TEST_F(Server, EndsAtOnceWithOpenClients) {
  start();
  int socket = test::connect_to(port);
  test::say_to(socket, "GET /");
  double begin = seconds_now();
  server.reset();
  EXPECT_LT(seconds_now() - begin, 2);
  EXPECT_EQ(test::hear_from(socket), "");
  EXPECT_LT(test::connect_to(port), 0);
  close(socket);
}

}  // namespace
}  // namespace tw
