// Databases and exported lines as earlier versions wrote them: every row stays readable, and files that are written to
// get the columns of today. Both texts below were written by a build of format 2.
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <sstream>

#include "dsl/base/text.h"
#include "runtime/store/database.h"
#include "runtime/store/database_exchange.h"
#include "support/support.h"

namespace tw {
namespace {

constexpr const char* kFile =
    R"sql(
PRAGMA journal_mode = WAL;
CREATE TABLE workloads (id INTEGER PRIMARY KEY, hash TEXT NOT NULL, text TEXT NOT NULL, digest TEXT NOT NULL) STRICT;
CREATE TABLE records (id INTEGER PRIMARY KEY, digest TEXT NOT NULL, workload TEXT NOT NULL, target TEXT NOT NULL, status TEXT NOT NULL, )sql"
    R"sql(seconds_ps INTEGER NOT NULL, minimum_ps INTEGER NOT NULL, first_quartile_ps INTEGER NOT NULL, )sql"
    R"sql(median_ps INTEGER NOT NULL, third_quartile_ps INTEGER NOT NULL, created INTEGER NOT NULL, )sql"
    R"sql(seed INTEGER NOT NULL, generation INTEGER NOT NULL, task TEXT NOT NULL, program TEXT NOT NULL, )sql"
    R"sql(object TEXT NOT NULL, version TEXT NOT NULL, host TEXT NOT NULL, error TEXT NOT NULL, )sql"
    R"sql(trace TEXT NOT NULL) STRICT;
CREATE TABLE models (id INTEGER PRIMARY KEY, digest TEXT NOT NULL, name TEXT NOT NULL, target TEXT NOT NULL, version INTEGER NOT NULL, )sql"
    R"sql(data BLOB NOT NULL) STRICT;
CREATE TABLE runs (id INTEGER PRIMARY KEY, digest TEXT NOT NULL, command TEXT NOT NULL, seed INTEGER NOT NULL, started INTEGER NOT NULL, )sql"
    R"sql(finished INTEGER NOT NULL, outcome TEXT NOT NULL, version TEXT NOT NULL, host TEXT NOT NULL) STRICT;
INSERT INTO records VALUES (1, '0aebdeb976b3b7a69031c87aeb6032ec', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'cuda -arch=sm_80', 'ok', 1500000,
  1400000, 1450000, 1500000, 1600000, 1700000000000, 7, 2, 'mm', 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb', 'cccccccccccccccccccccccccccccccc',
  '1.0', 'a GPU', '', '');
PRAGMA application_id = 0x54574442;
PRAGMA user_version = 2;
)sql";

constexpr const char* kLine =
    R"({"format":2,"kind":"record","workload":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","target":"cuda -arch=sm_80","status":"ok","seconds_ps":1500000,)"
    R"("minimum_ps":1400000,"first_quartile_ps":1450000,"median_ps":1500000,"third_quartile_ps":1600000,"created":1700000000000,"seed":7,)"
    R"("generation":2,"task":"mm","program":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb","object":"cccccccccccccccccccccccccccccccc","version":"1.0",)"
    R"("host":"a GPU","error":"","trace":"","digest":"f254a0f3f836586412966b50f7959fcf"})";

const std::string kWorkload(32, 'a'), kTarget = "cuda -arch=sm_80";

class OldFormats : public ::testing::Test {
 protected:
  std::string path() const { return folder_.path() + "/old.db"; }
  // Runs statements on the file, and gives the last value of the last row.
  std::string run(const char* statements) const {
    sqlite3* file = nullptr;
    std::string last;
    EXPECT_EQ(sqlite3_open(path().c_str(), &file), SQLITE_OK);
    auto keep = [](void* to, int columns, char** values, char**) {
      *static_cast<std::string*>(to) = values[columns - 1];
      return 0;
    };
    EXPECT_EQ(sqlite3_exec(file, statements, keep, &last, nullptr), SQLITE_OK) << sqlite3_errmsg(file);
    sqlite3_close(file);
    return last;
  }
  Database open(DatabaseMode mode) const {
    auto database = Database::open(path(), mode);
    EXPECT_TRUE(database) << database.error();
    return std::move(*database);
  }
  test::TemporaryDirectory folder_;
};

TEST_F(OldFormats, AFileIsReadAndLeftAsItIs) {
  run(kFile);
  Database database = open(DatabaseMode::Read);
  std::vector<Record> records = *database.all(kWorkload, kTarget);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(to_picoseconds(records[0].seconds), 1500000);
  EXPECT_EQ(records[0].cold, 0);
  EXPECT_EQ(database.damaged(), 0);
  EXPECT_EQ(run("PRAGMA user_version"), "2");
}

TEST_F(OldFormats, AFileThatIsWrittenToGetsTheNewColumn) {
  run(kFile);
  Database reader = open(DatabaseMode::Read);
  Record old = *reader.record(1), added = old;
  {
    Database writer = open(DatabaseMode::Write);
    EXPECT_EQ(*writer.record(1), old);
    added.cold = from_picoseconds(2500000);
    ASSERT_EQ(*writer.add_record(added), 2);
    added.id = 2;
  }
  EXPECT_EQ(run("PRAGMA user_version"), "3");
  EXPECT_EQ(run("SELECT cold_ps FROM records ORDER BY id"), "2500000");
  // Whoever had it open before sees that.
  EXPECT_EQ(*reader.all(kWorkload, kTarget), (std::vector<Record>{old, added}));
  EXPECT_EQ(reader.damaged(), 0);
  Database again = open(DatabaseMode::Write);
  EXPECT_EQ(*again.all(kWorkload, kTarget), (std::vector<Record>{old, added}));
  EXPECT_TRUE(again.verify()->good());
}

TEST_F(OldFormats, AColdTimeIsCoveredByTheDigest) {
  run(kFile);
  {
    Database writer = open(DatabaseMode::Write);
    Record record = *writer.record(1);
    record.cold = from_picoseconds(2500000);
    ASSERT_TRUE(writer.add_record(record));
  }
  run("UPDATE records SET cold_ps = cold_ps - 1 WHERE id = 2; UPDATE records SET cold_ps = 1 WHERE id = 1");
  Database reader = open(DatabaseMode::Read);
  EXPECT_TRUE(reader.all(kWorkload, kTarget)->empty());
  EXPECT_EQ(reader.damaged(), 2);
}

TEST_F(OldFormats, LinesAreImportedAndThoseWithoutNewFieldsStayTheSame) {
  Database database = open(DatabaseMode::Write);
  std::istringstream in(kLine);
  ImportReport report = *import_records(database, in);
  EXPECT_EQ(report.added, 1) << join(report.problems, "\n");
  std::ostringstream out;
  EXPECT_EQ(*export_records(database, out), 1);
  EXPECT_EQ(out.str(), cat(kLine, "\n"));
  Record record = *database.record(1);
  record.cold = from_picoseconds(2500000);
  ASSERT_TRUE(database.add_record(record));
  std::ostringstream both;
  EXPECT_EQ(*export_records(database, both), 2);
  EXPECT_NE(both.str().find("\n{\"format\":3,"), std::string::npos) << both.str();
  EXPECT_NE(both.str().find("\"cold_ps\":2500000"), std::string::npos) << both.str();
}

}  // namespace
}  // namespace tw
