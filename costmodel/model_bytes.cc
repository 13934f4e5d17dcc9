#include "costmodel/model_bytes.h"

#include "dsl/ir/compare.h"

namespace tw {
namespace {

constexpr std::string_view magic = "tracewright model";
constexpr i64 kFormat = 3;

std::string bytes_of(const Hash128& hash) {
  std::string bytes(sizeof hash, '\0');
  std::memcpy(bytes.data(), &hash, sizeof hash);
  return bytes;
}

// The header that the bytes begin with, which are read up to its end.
std::optional<ModelHeader> first_header(ModelReader& in) {
  ModelHeader out;
  std::string_view kind, learned;
  if (!in.skip(magic) || !in.get(out.version) || !in.get_text(kind) || !in.get(out.columns)) return std::nullopt;
  out.kind = kind;
  if (!out.is_readable()) return out;
  std::optional<Objective> objective = in.get_text(learned) ? parse_objective(learned) : std::nullopt;
  if (!objective) return std::nullopt;
  out.objective = *objective;
  return out;
}

}  // namespace

bool ModelHeader::is_readable() const { return version == kFormat; }

ModelWriter::ModelWriter(std::string_view kind, int columns, Objective objective) : bytes_(magic) {
  put(kFormat);
  put_text(kind);
  put(static_cast<i64>(columns));
  put_text(name_of(objective));
}

std::string ModelWriter::take() {
  bytes_ += bytes_of(hash_bytes(bytes_));
  return std::move(bytes_);
}

bool ModelReader::get_text(std::string_view& text) {
  i64 size = 0;
  if (!get(size) || size < 0 || static_cast<u64>(size) > bytes_.size()) return false;
  text = bytes_.substr(0, static_cast<std::size_t>(size));
  bytes_.remove_prefix(static_cast<std::size_t>(size));
  return true;
}

Status ModelReader::header(std::string_view kind, int columns) {
  std::string_view whole = bytes_;
  if (!skip(magic)) return reject("these bytes are no saved cost model");
  i64 found_version = 0, found_columns = 0;
  std::string_view found_kind, learned;
  if (!get(found_version)) return damaged_model();
  if (found_version != kFormat) return other_format(found_version);
  if (bytes_.size() < sizeof(Hash128)) return damaged_model();
  bytes_.remove_suffix(sizeof(Hash128));
  std::string_view written = whole.substr(0, whole.size() - sizeof(Hash128));
  if (whole.substr(written.size()) != bytes_of(hash_bytes(written))) return damaged_model();
  if (!get_text(found_kind) || !get(found_columns) || !get_text(learned)) return damaged_model();
  if (found_kind != kind) return reject("the saved model is of another kind than {a}", Str(kind));
  if (found_columns != columns) {
    return reject("the saved model has {0} feature columns, this program has {1}; train it again", found_columns,
                  columns);
  }
  return ok();
}

std::optional<ModelHeader> model_header(std::string_view bytes) {
  ModelReader in(bytes);
  std::optional<ModelHeader> header = first_header(in);
  if (!header || header->kind != kSeveralModels) return header;
  i64 models = 0;
  std::string_view first;
  if (!in.get(models) || models < 1 || !in.get_text(first)) return std::nullopt;
  ModelReader in_first(first);
  header = first_header(in_first);
  if (header) header->models = models;
  return header;
}

Reject other_format(i64 found) {
  return reject("the saved model has format {0}, this program reads format {1}; train it again", found, kFormat);
}

Reject damaged_model() { return reject("the saved model is damaged: its bytes are not those that were written"); }

}  // namespace tw
