// The byte form of saved models: a header (format, kind of model, columns, objective), then numbers in the byte order
// of the machine, at the end a hash of all that. Used by save() and load() of the models. Model bytes are a cache of
// what the records say: a model of another format is not converted but trained anew.
#pragma once
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "costmodel/objective.h"
#include "dsl/base/result.h"

namespace tw {

class ModelWriter {
 public:
  // `kind`: the model's name. `objective`: what it has learned; usual = nothing.
  ModelWriter(std::string_view kind, int columns, Objective objective);
  template <class T>
  void put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }
  void put_text(std::string_view text) {
    put(static_cast<i64>(text.size()));
    bytes_.append(text);
  }
  std::string take();  // with the hash

 private:
  std::string bytes_;
};

class ModelReader {
 public:
  explicit ModelReader(std::string_view bytes) : bytes_(bytes) {}
  // Rejects unless the bytes start with the header of a model of that kind, whatever it has learned, and their hash
  // fits.
  Status header(std::string_view kind, int columns);
  // Reads one value; false, and nothing read, if the bytes end before it.
  template <class T>
  bool get(T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (bytes_.size() < sizeof(T)) return false;
    std::memcpy(&value, bytes_.data(), sizeof(T));
    bytes_.remove_prefix(sizeof(T));
    return true;
  }
  // A view into the bytes that were given.
  bool get_text(std::string_view& text);
  // Reads that text; false, and nothing read, if another one stands there.
  bool skip(std::string_view text) {
    if (!bytes_.starts_with(text)) return false;
    bytes_.remove_prefix(text.size());
    return true;
  }
  bool at_end() const { return bytes_.empty(); }

 private:
  std::string_view bytes_;
};

// The kind that several models of one kind are saved as (ensemble.h): their number, then the bytes of each.
inline constexpr std::string_view kSeveralModels = "ensemble";

// What the header of saved bytes says; nullopt if they are no saved model. Of several models that predict together all
// but their number is that of the first.
struct ModelHeader {
  i64 version = 0, columns = 0;
  std::string kind;  // the name of the model
  Objective objective = Objective::Usual;
  i64 models = 1;  // at least 1

  bool is_readable() const;  // of this program's format; of others the objective is not known
};
std::optional<ModelHeader> model_header(std::string_view bytes);

// The reject for bytes of that format, which this program does not read.
Reject other_format(i64 found);
// The reject for bytes that are not those which were written.
Reject damaged_model();

}  // namespace tw
