#include "runtime/store/postgres_connection.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "dsl/base/text.h"
#include "runtime/store/postgres_address.h"
#include "support/environment.h"
#include "support/postgres_server.h"

namespace tw {
namespace {

using namespace std::chrono_literals;

class PostgresConnectionTest : public testing::Test {
 protected:
  void SetUp() override {
    TW_POSTGRES_OR_SKIP(server);
    server_ = server;
    database_ = server->make_database();
  }
  PostgresConnection open(const std::string& role = "postgres") {
    auto opened = PostgresConnection::open(server_->address(database_, role));
    EXPECT_TRUE(opened) << (opened ? "" : opened.error());
    return std::move(*opened);
  }
  std::string open_error(const std::string& address) {
    auto opened = PostgresConnection::open(address);
    return opened ? "" : opened.error();
  }
  test::PostgresServer* server_ = nullptr;
  std::string database_;
};

TEST_F(PostgresConnectionTest, ValuesAreBoundAndComeBackAsTheyWere) {
  PostgresConnection connection = open();
  const std::string hostile = "'; DROP TABLE t; -- \" \\ $1 \xc3\xb6\n\t";
  const std::string bytes("\0\1\xff\\x'", 6);
  auto rows = connection.run("SELECT $1::text, $2::bigint, $3::text, $4::bytea, $5::bool, $6::bigint[]",
                             {hostile, i64{-9000000000000000000}, std::nullopt, PostgresValue::bytes(bytes), true,
                              PostgresValue::numbers({3, -4})});
  ASSERT_TRUE(rows) << rows.error();
  ASSERT_EQ(rows->size(), 1);
  PostgresRow row = (*rows)[0];
  EXPECT_EQ(row.text(0), hostile);
  EXPECT_EQ(row.integer(1), -9000000000000000000);
  EXPECT_TRUE(row.is_null(2));
  EXPECT_EQ(row.bytes(3), bytes);
  EXPECT_TRUE(row.is_true(4));
  EXPECT_EQ(row.text(5), "{3,-4}");
  EXPECT_NE(connection.run("SELECT $1::text", {std::string("a\0b", 3)}).error().find("zero bytes"), std::string::npos);
  EXPECT_NE(connection.run("SELECT $1::text", {"\xff"}).error().find("not UTF-8"), std::string::npos);
}

TEST_F(PostgresConnectionTest, ATransactionIsDoneAsAWholeOrNotAtAll) {
  PostgresConnection connection = open(), other = open();
  ASSERT_TRUE(connection.script("CREATE TABLE public.t (n int)"));
  auto count = [&] { return (*other.run("SELECT count(*) FROM public.t"))[0].integer(0); };
  auto insert = [&](int n) { return connection.run("INSERT INTO public.t VALUES ($1)", {n}); };
  auto done = connection.transaction<Done>([&]() -> DatabaseStatus {
    EXPECT_EQ(insert(1)->changed(), 1);
    EXPECT_EQ(count(), 0);
    return Done{};
  });
  EXPECT_TRUE(done);
  EXPECT_EQ(count(), 1);
  done = connection.transaction<Done>([&]() -> DatabaseStatus {
    EXPECT_TRUE(insert(2));
    return DatabaseError{"given up"};
  });
  EXPECT_EQ(done.error(), "given up");
  done = connection.transaction<Done>([&]() -> DatabaseStatus {
    EXPECT_TRUE(insert(3));
    EXPECT_FALSE(connection.run("SELECT 1 / 0"));  // which the caller overlooks
    return Done{};
  });
  EXPECT_NE(done.error().find("nothing of it was done"), std::string::npos);
  EXPECT_EQ(count(), 1);
  EXPECT_TRUE(insert(4)) << "the connection can be used again";
}

TEST_F(PostgresConnectionTest, RowsArriveOneByOneAndTheCallerMayStop) {
  PostgresConnection connection = open();
  i64 sum = 0;
  ASSERT_TRUE(
      connection.each("SELECT * FROM generate_series(1, $1::bigint)", {i64{100000}}, [&](const PostgresRow& row) {
        sum += row.integer(0);
        return row.integer(0) < 1000;
      }));
  EXPECT_EQ(sum, 1000 * 1001 / 2);
  auto failed =
      connection.each("SELECT 10 / (3 - n) FROM generate_series(1, 9) n", {}, [](const PostgresRow&) { return true; });
  EXPECT_NE(failed.error().find("division by zero"), std::string::npos);
  EXPECT_EQ(failed.failure().state, "22012");
  EXPECT_TRUE(connection.run("SELECT 1"));
}

TEST_F(PostgresConnectionTest, ANotificationWakesAWaitingConnection) {
  PostgresConnection listener = open(), other = open();
  ASSERT_TRUE(listener.listen("trials"));
  EXPECT_TRUE(listener.wait(0ms)->empty());
  ASSERT_TRUE(other.run("SELECT pg_notify($1, $2)", {"trials", "17"}));
  auto arrived = listener.wait(60s);
  ASSERT_TRUE(arrived) << arrived.error();
  ASSERT_EQ(arrived->size(), 1u);
  EXPECT_EQ((*arrived)[0].channel, "trials");
  EXPECT_EQ((*arrived)[0].payload, "17");
  EXPECT_TRUE(listener.wait(1ms)->empty());
  ASSERT_TRUE(other.run("SELECT pg_notify($1, $2)", {"trials", "18"}));
  ASSERT_TRUE(listener.run("SELECT 1")) << "a notification that comes with an answer is kept";
  EXPECT_EQ(listener.wait(60s)->size(), 1u);
}

TEST_F(PostgresConnectionTest, ALostConnectionIsSaidAndReconnectListensAgain) {
  PostgresConnection connection = open(), other = open();
  ASSERT_TRUE(connection.listen("trials"));
  auto end = [&] {
    return other.run(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND "
        "pid <> pg_backend_pid()");
  };
  ASSERT_TRUE(end());
  auto failed = connection.wait(60s);
  ASSERT_FALSE(failed);
  EXPECT_TRUE(failed.failure().is_connection_lost);
  EXPECT_FALSE(connection.is_connected());
  EXPECT_EQ(connection.descriptor(), -1);
  auto again = connection.run("SELECT 1");
  EXPECT_TRUE(again.failure().is_connection_lost) << again.error();
  ASSERT_TRUE(connection.reconnect());
  ASSERT_TRUE(end());
  auto run = connection.run("SELECT 1");
  EXPECT_TRUE(run.failure().is_connection_lost) << run.error();
  EXPECT_NE(run.error().find("the connection to the server is lost"), std::string::npos) << run.error();
  ASSERT_TRUE(connection.reconnect());
  ASSERT_TRUE(other.run("SELECT pg_notify('trials', 'x')"));
  EXPECT_EQ(connection.wait(60s)->size(), 1u);
}

// What was committed while a transaction waited for its lock is seen, waiting keeps no snapshot, and errors leave
// nothing.
TEST_F(PostgresConnectionTest, AStatementRunsBehindALock) {
  PostgresConnection holder = open(), waiting = open(), other = open();
  ASSERT_TRUE(holder.script(
      "CREATE TABLE public.gate (); CREATE TABLE public.numbers (n bigint); INSERT INTO public.numbers VALUES (1)"));
  const std::string sum = "SELECT sum(n) + $1 FROM public.numbers", lock = "LOCK TABLE public.gate IN EXCLUSIVE MODE",
                    count = "SELECT count(*) FROM public.numbers";
  // A session that looks a table up for the first time takes a snapshot for that.
  EXPECT_EQ(waiting.run_behind(lock, sum, {10}, count)->first[0].integer(0), 11);
  ASSERT_TRUE(holder.script(cat("BEGIN; ", lock)));
  i64 seen = 0, counted = 0;
  std::thread waits([&] {
    auto rows = waiting.run_behind(lock, sum, {100}, count);
    EXPECT_TRUE(rows) << rows.error();
    if (rows) seen = rows->first[0].integer(0), counted = rows->second[0].integer(0);
  });
  std::string snapshot = "not waiting";
  for (int look = 0; look < 1000 && snapshot == "not waiting"; ++look) {
    std::this_thread::sleep_for(5ms);
    auto rows = other.run(
        "SELECT coalesce(backend_xmin::text, 'none') FROM pg_stat_activity WHERE pid = $1 AND "
        "wait_event_type = 'Lock'",
        {waiting.session()});
    ASSERT_TRUE(rows) << rows.error();
    if (!rows->empty()) snapshot = (*rows)[0].text(0);
  }
  EXPECT_EQ(snapshot, "none");
  ASSERT_TRUE(holder.script("INSERT INTO public.numbers VALUES (10); COMMIT"));
  waits.join();
  EXPECT_EQ(seen, 111);
  EXPECT_EQ(counted, 2) << "the answer to the statement behind it";
  EXPECT_EQ(waiting.run_behind(lock, sum, {200}, count)->first[0].integer(0), 211);
  EXPECT_EQ(waiting.run_behind("LOCK TABLE nowhere", sum, {1}, count).failure().state, "42P01");
  EXPECT_EQ(waiting.run_behind("INSERT INTO public.numbers VALUES (1000)", "SELECT 1 / $1::bigint", {0}, count)
                .failure()
                .state,
            "22012");
  EXPECT_EQ(waiting.run_behind(lock, "SELECT $1", {std::string("a\0b", 3)}, count).failure().state, "22021");
  ASSERT_TRUE(waiting.script("SET lock_timeout = '50ms'"));
  ASSERT_TRUE(holder.script(cat("BEGIN; ", lock)));
  EXPECT_EQ(waiting.run_behind(lock, sum, {0}, count).failure().state, "55P03");
  ASSERT_TRUE(holder.script("COMMIT"));
  EXPECT_EQ(waiting.run_behind(lock, sum, {300}, count)->first[0].integer(0), 311) << "what failed has left nothing";
  ASSERT_TRUE(other.run("SELECT pg_terminate_backend($1::integer)", {waiting.session()}));
  EXPECT_TRUE(waiting.run_behind(lock, sum, {0}, count).failure().is_connection_lost);
  ASSERT_TRUE(waiting.reconnect());
  EXPECT_EQ(waiting.run_behind(lock, sum, {400}, count)->first[0].integer(0), 411);
}

// What is run again is prepared, and gives the same: with other values, in another session, where tables have changed.
TEST_F(PostgresConnectionTest, AStatementThatIsRunAgainIsPrepared) {
  PostgresConnection connection = open(), other = open();
  ASSERT_TRUE(connection.script("CREATE TABLE public.t (id bigint); INSERT INTO public.t VALUES (1), (2)"));
  const std::string sql = "SELECT * FROM public.t WHERE id = $1";
  auto prepared = [&] {
    auto rows = connection.run_script("SELECT count(*) FROM pg_prepared_statements WHERE from_sql = false");
    EXPECT_TRUE(rows) << rows.error();
    return (*rows)[0].integer(0);
  };
  for (int round = 0; round < 2; ++round) {
    for (i64 value : {1, 2, 1, 7}) {
      auto rows = connection.run(sql, {value});
      ASSERT_TRUE(rows) << rows.error();
      ASSERT_EQ(rows->size(), value == 7 ? 0 : 1);
      if (value != 7) {
        EXPECT_EQ((*rows)[0].integer(0), value);
      }
    }
    EXPECT_EQ(prepared(), 1);
    ASSERT_TRUE(connection.reconnect());
    EXPECT_EQ(prepared(), 0);
  }
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(connection.run(sql, {i64{1}}));
  ASSERT_TRUE(other.script("ALTER TABLE public.t ADD COLUMN more text DEFAULT 'x'"));
  connection.run(sql, {i64{1}}).operator bool();  // the server may refuse the plan once
  auto rows = connection.run(sql, {i64{1}});
  ASSERT_TRUE(rows) << rows.error();
  EXPECT_EQ((*rows)[0].text(1), "x");
}

TEST_F(PostgresConnectionTest, EveryRefusalIsOneSentence) {
  server_->sql(database_, cat("CREATE ROLE ", database_, "_keyed LOGIN PASSWORD 'right-one'"));
  const std::string keyed = server_->loopback_address(database_, database_ + "_keyed");
  test::TemporaryDirectory folder;
  test::Variable home("PGPASSFILE", folder.path() + "/passwords");
  auto expect = [&](const std::string& address, const std::string& part) {
    std::string message = open_error(address);
    EXPECT_NE(message.find(part), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_EQ(message.find("wr0ng"), std::string::npos) << message;
  };
  expect(keyed, "the server asks for a password, and there is none");
  test::write_file(folder.path() + "/passwords", "*:*:*:*:wr0ng\n");
  chmod((folder.path() + "/passwords").c_str(), 0600);
  expect(keyed, "the password of this role is wrong");
  test::write_file(folder.path() + "/passwords", "*:*:*:*:right-one\n");
  EXPECT_EQ(open_error(keyed), "");
  expect(keyed + "?sslmode=require", "no encrypted connection");
  expect(server_->address("no_such"), "the server has no database of that name");
  expect(server_->address(database_, "nobody_here"), "the server does not let this role in");
  expect("postgresql://a@127.0.0.1:1/b", "no server answers");
  expect("postgresql://a@127.0.0.1:abc/b", "an option of the address cannot be used");
  expect("postgresql://a@127.0.0.1:99999/b", "an option of the address cannot be used");
  expect("postgresql://a@127.0.0.1/b?sslmode=requird", "an option of the address cannot be used");
  expect(cat("postgresql://a@/b?host=", folder.path()), "no server answers");
  expect("postgresql://a@no.such.host.invalid/b", "no server answers");
}

// Only a certificate that the address trusts, and that has not expired, lets a client in that asks for proof.
TEST(PostgresTls, AnExpiredCertificateIsSaid) {
  std::string why;
  auto server = test::PostgresServer::start({}, &why);
  if (!test::PostgresServer::is_installed()) GTEST_SKIP() << "no PostgreSQL server: no package";
  ASSERT_TRUE(server) << why;
  const std::string folder = server->folder(), key = folder + "/key.pem";
  auto openssl = [&](const std::string& words) {
    return std::system(cat("openssl ", words, " 2>/dev/null").c_str()) == 0;
  };
  if (!openssl(cat("req -x509 -newkey rsa:2048 -nodes -keyout ", key, " -out ", folder,
                   "/valid.pem -days 2 -subj /CN=localhost")) ||
      !openssl(cat("x509 -in ", folder, "/valid.pem -signkey ", key, " -days -1 -out ", folder, "/old.pem")))
    GTEST_SKIP() << "no openssl that makes certificates";
  struct stat owner{};
  ASSERT_EQ(stat(folder.c_str(), &owner), 0);
  ASSERT_EQ(chown(key.c_str(), owner.st_uid, owner.st_gid), 0);
  chmod(key.c_str(), 0600);
  server->sql("postgres", cat("ALTER SYSTEM SET ssl_key_file = '", key, "'"));
  server->sql("postgres", "ALTER SYSTEM SET ssl = on");
  server->sql("postgres", "ALTER ROLE postgres PASSWORD 'right-one'");
  test::Variable password("PGPASSWORD", "right-one");
  auto error = [&](const char* certificate) {
    server->sql("postgres", cat("ALTER SYSTEM SET ssl_cert_file = '", folder, "/", certificate, "'"));
    server->stop();
    EXPECT_TRUE(server->start_again()) << test::read_file(folder + "/log");
    auto opened = PostgresConnection::open(cat("postgresql://postgres@localhost:", server->port(),
                                               "/postgres?sslmode=verify-full&sslrootcert=", folder, "/", certificate));
    return opened ? "" : opened.error();
  };
  EXPECT_EQ(error("valid.pem"), "");
  std::string message = error("old.pem");
  EXPECT_NE(message.find("no encrypted connection"), std::string::npos) << message;
  EXPECT_NE(message.find("certificate"), std::string::npos) << message;
  EXPECT_EQ(message.find("right-one"), std::string::npos);
}

TEST(PostgresAddress, NothingOfAnAddressWithAPasswordIsShown) {
  for (const char* address :
       {"postgresql://u:wr0ng@h/d", "postgres:/u:wr0ng@h/d", "postgresql//u:wr0ng@h/d", "postgress://u:wr0ng@h/d",
        "postgresql://u@h/d?password=wr0ng", "postgresql://u@h/d?sslpassword=wr0ng", "postgresql://u:wr0n/g@h:7/d",
        "postgresql://u@h/d?pass%77ord=wr0ng", "postgresql://u:wr0ng@h:x/d%zz", "postgres:u:wr0ng@h/d",
        "postgresql://u:wr0?ng@h/d", "postgresql://u:wr0/n?g@h/d", "postgresql://u:wr0/n?g=@h/d",
        "host=h password=wr0ng dbname=d", "password = wr0ng"}) {
    EXPECT_TRUE(is_database_address(address)) << address;
    std::string problem = check_address(address);
    EXPECT_NE(problem.find("has a password in it"), std::string::npos) << address << ": " << problem;
    EXPECT_EQ(problem.find("wr0"), std::string::npos) << problem;
  }
}

TEST(PostgresAddress, TypingErrorsAreSaid) {
  for (const char* file : {"tuning.db", "a/b:c", "/postgres/x.db", "C:/x", "postgres.db"})
    EXPECT_FALSE(is_database_address(file)) << file;
  EXPECT_NE(check_address("postgre://u@h/d").find("does not begin with postgresql://"), std::string::npos);
  EXPECT_TRUE(is_database_address("host=h dbname=d"));
  EXPECT_NE(check_address("host=h dbname=d").find("does not begin with postgresql://"), std::string::npos);
  EXPECT_NE(check_address("postgresql:/u@h/d").find("does not begin with postgresql://"), std::string::npos);
  EXPECT_NE(check_address("postgresql://u@h/d?sslmod=x").find("sslmod"), std::string::npos);
  EXPECT_NE(check_address("postgresql://u@h").find("names no database"), std::string::npos);
  EXPECT_EQ(check_address("postgresql://u@h:5432/d?sslmode=verify-full"), "");
  EXPECT_EQ(check_address("postgresql://u@h:5432,g/d?application_name=me@home:1&sslmode=require"), "");
  EXPECT_EQ(check_address("postgresql:///d?application_name=me@home"), "");
}

}  // namespace
}  // namespace tw
