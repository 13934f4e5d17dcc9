#include "runtime/store/database_exchange.h"

#include <zlib.h>

#include <boost/json.hpp>
#include <cerrno>
#include <cstring>
#include <istream>
#include <memory>
#include <ostream>
#include <set>

#include "dsl/base/text.h"
#include "runtime/store/stored_rows.h"

namespace tw {
namespace {

namespace json = boost::json;

// A line has the oldest format that can say what it says: 3 has the times with cold caches.
constexpr i64 oldest_format = 2, newest_format = 3;
i64 format_of(const Record& record) { return to_picoseconds(record.cold) == 0 ? oldest_format : newest_format; }
i64 format_of(const WorkloadText&) { return oldest_format; }

constexpr std::size_t longest_line = 64 << 20;
constexpr std::size_t most_problems = 20;

struct Writer {
  json::object& object;
  void operator()(const char* name, const std::string& text) { object[name] = text; }
  void operator()(const char* name, double seconds) { object[name] = to_picoseconds(seconds); }
  void operator()(const char* name, OptionalTime<const double> time) {
    if (to_picoseconds(time.seconds) != 0) (*this)(name, time.seconds);
  }
  void operator()(const char* name, i64 value) { object[name] = value; }
  void operator()(const char* name, u64 value) { object[name] = value; }
};

// The first problem is kept.
struct Reader {
  const json::object& object;
  std::string problem = "";
  const json::value* find(const char* name) {
    const json::value* value = object.if_contains(name);
    if (!value && problem.empty()) problem = cat("`", name, "` is missing");
    return value;
  }
  void refuse(const char* name, const char* what) {
    if (problem.empty()) problem = cat("`", name, "` is not ", what);
  }
  void operator()(const char* name, std::string& text) {
    const json::value* value = find(name);
    if (!value) return;
    if (!value->is_string()) return refuse(name, "text");
    text.assign(value->get_string().data(), value->get_string().size());
  }
  void operator()(const char* name, i64& number) {
    const json::value* value = find(name);
    if (!value) return;
    if (!value->is_int64()) return refuse(name, "an integer");
    number = value->get_int64();
  }
  void operator()(const char* name, u64& number) {
    const json::value* value = find(name);
    if (!value) return;
    if (value->is_uint64()) {
      number = value->get_uint64();
    } else if (value->is_int64() && value->get_int64() >= 0) {
      number = static_cast<u64>(value->get_int64());
    } else {
      refuse(name, "an integer of at least 0");
    }
  }
  void operator()(const char* name, double& seconds) {
    i64 picoseconds = 0;
    (*this)(name, picoseconds);
    seconds = from_picoseconds(picoseconds);
    if (to_picoseconds(seconds) != picoseconds) refuse(name, "a time in picoseconds");
  }
  void operator()(const char* name, OptionalTime<double> time) {
    if (object.if_contains(name)) (*this)(name, time.seconds);
  }
};

template <class Row>
std::string line_of(const Row& row, const char* kind) {
  json::object object;
  object["format"] = format_of(row);
  object["kind"] = kind;
  Row::fields(row, Writer{object});
  object["digest"] = content_digest(row);
  return json::serialize(object);
}

// The row that a line holds, or why it holds none.
template <class Row>
std::string read_line(const json::object& object, Row& row) {
  Reader reader{object};
  Row::fields(row, reader);
  std::string digest;
  reader("digest", digest);
  if (reader.problem.empty() && digest != content_digest(row))
    return "the digest does not fit: the line was changed or damaged";
  return reader.problem;
}

std::string check(const Record& record) {
  if (!is_hash(record.workload)) return "`workload` is not a hash of 32 hex digits";
  if (!is_hash(record.program)) return "`program` is not a hash of 32 hex digits";
  if (!record.object.empty() && !is_hash(record.object)) return "`object` is not a hash of 32 hex digits";
  if (record.status.empty() || record.target.empty()) return "`status` or `target` is empty";
  if (record.ok() && to_picoseconds(record.seconds) == 0) return "a good trial without a time";
  if (record.created <= 0) return "`created` is not a time";
  return "";
}

std::string check(const WorkloadText& workload) {
  return is_hash(workload.hash) ? "" : "`hash` is not a hash of 32 hex digits";
}

// One import: the digests of what is there, and the database that takes the rest.
struct Import {
  Database& database;
  std::set<std::string> known = {};
  ImportReport report = {};

  template <class Row, class Add>
  std::string take(const json::object& object, DatabaseStatus& status, Add add) {
    Row row;
    std::string shape = read_line(object, row);
    std::string problem = check(row);
    // A field that is missing or has the wrong type comes first, a digest that does not fit last.
    bool misshapen = shape.find('`') != std::string::npos;
    if (misshapen || (problem.empty() && !shape.empty())) return shape;
    if (!problem.empty()) return problem;
    bool is_new = known.insert(content_digest(row)).second;
    if (is_new) status = add(row);
    is_new ? ++report.added : ++report.known;
    return "";
  }

  // Why the line is refused, or "".
  std::string line(const std::string& text, DatabaseStatus& status) {
    if (text.size() > longest_line) return "longer than 64 MiB";
    json::error_code error;
    json::value value = json::parse(text, error);
    if (error || !value.is_object()) return "not a JSON object";
    const json::object& object = value.get_object();
    Reader reader{object};
    i64 line_format = 0;
    std::string kind;
    reader("format", line_format);
    reader("kind", kind);
    if (!reader.problem.empty()) return reader.problem;
    if (line_format < oldest_format || line_format > newest_format)
      return cat("format ", line_format, " is not known; this tracewright reads formats ", oldest_format, " to ",
                 newest_format);
    if (kind == "record") {
      return take<Record>(object, status, [&](const Record& row) -> DatabaseStatus {
        auto id = database.add_record(row);
        if (!id) return DatabaseError{id.error()};
        return Done{};
      });
    }
    if (kind == "workload") {
      return take<WorkloadText>(object, status,
                                [&](const WorkloadText& row) { return database.add_workload(row.hash, row.text); });
    }
    return cat("`kind` is \"", kind, "\"; expected \"record\" or \"workload\"");
  }
};

}  // namespace

DatabaseResult<i64> export_records(Database& database, std::ostream& out, const RecordFilter& filter) {
  i64 lines = 0;
  auto workloads = database.workloads();
  if (!workloads) return DatabaseError{workloads.error()};
  for (const WorkloadText& workload : *workloads) {
    if (!filter.workload.empty() && filter.workload != workload.hash) continue;
    out << line_of(workload, "workload") << '\n';
    ++lines;
  }
  DatabaseStatus done = database.visit(filter, [&](const Record& record) {
    out << line_of(record, "record") << '\n';
    ++lines;
  });
  if (!done) return DatabaseError{done.error()};
  out.flush();
  if (!out) return DatabaseError{"the exported lines cannot be written; is the disk full?"};
  return lines;
}

DatabaseResult<ImportReport> import_records(Database& database, std::istream& in) {
  Import import{database};
  auto workloads = database.workloads();
  if (!workloads) return DatabaseError{workloads.error()};
  for (const WorkloadText& workload : *workloads) import.known.insert(content_digest(workload));
  DatabaseStatus done = database.visit({}, [&](const Record& record) { import.known.insert(content_digest(record)); });
  if (!done) return DatabaseError{done.error()};
  std::string text;
  for (i64 number = 1; std::getline(in, text); ++number) {
    if (text.empty()) continue;
    DatabaseStatus status = Done{};
    std::string problem = import.line(text, status);
    if (!status) return DatabaseError{status.error()};
    if (problem.empty()) continue;
    ++import.report.refused;
    if (import.report.problems.size() < most_problems)
      import.report.problems.push_back(cat("line ", number, ": ", problem));
  }
  return import.report;
}

std::optional<std::string> read_exchange_file(const std::string& path, std::string& error) {
  constexpr std::size_t most = std::size_t{4} << 30;  // of what may be a small file that unpacks without end
  std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  if (!file) return error = cat("cannot read ", path, ": ", std::strerror(errno)), std::nullopt;
  std::string text;
  std::vector<char> piece(1 << 20);
  int read = 0;
  while ((read = gzread(file.get(), piece.data(), static_cast<unsigned>(piece.size()))) > 0) {
    text.append(piece.data(), static_cast<std::size_t>(read));
    if (text.size() > most) return error = cat(path, " is larger than 4 GiB"), std::nullopt;
  }
  int problem = 0;
  const char* why = gzerror(file.get(), &problem);
  if (read < 0 || problem != Z_OK) return error = cat("cannot read ", path, ": ", why), std::nullopt;
  return text;
}

}  // namespace tw
