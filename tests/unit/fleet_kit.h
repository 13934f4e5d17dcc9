// A database of a real server with the tables of records and of the queue, for tests of the queue and of fleets.
#pragma once
#include <gtest/gtest.h>

#include <string>

#include "runtime/fleet/trial_queue.h"
#include "runtime/store/postgres_schema.h"
#include "support/postgres_server.h"

namespace tw {

// Returns its name.
inline std::string make_tuning_database(test::PostgresServer& server) {
  std::string name = server.make_database();
  auto connection = PostgresConnection::open(server.address(name));
  EXPECT_TRUE(connection) << connection.error();
  auto made = make_postgres_schema(*connection, {.tuner = "", .worker = "", .reader = ""});
  EXPECT_TRUE(made) << made.error();
  auto queue = make_queue_tables(*connection, {.tuner = "", .worker = "", .reader = ""});
  EXPECT_TRUE(queue) << queue.error();
  return name;
}

}  // namespace tw
