#include "costmodel/trace_rows.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "costmodel/log_scale.h"
#include "dsl/base/check.h"
#include "dsl/base/rng.h"
#include "dsl/ir/compare.h"

namespace tw {
namespace {

constexpr int kNumbers = 10, kReferences = 8, kTexts = 8;

float signed_log(double value) { return value < 0 ? -slog(value) : slog(value); }

// What the values of a trace are, as far as its decisions and literals say.
class KnownNumbers {
 public:
  explicit KnownNumbers(const Trace& trace) : values_(trace.value_count()) {}

  std::optional<double> of(const Arg& arg) const {
    switch (arg.tag) {
      case Arg::Tag::Int:
        return static_cast<double>(arg.integer);
      case Arg::Tag::Number:
        return arg.number;
      case Arg::Tag::Value:
        return values_[static_cast<std::size_t>(arg.integer)];
      case Arg::Tag::Binary:
        return of_binary(arg);
      default:
        return std::nullopt;
    }
  }

  // The decision as numbers: what was drawn, where that can be told. Notes the results of the sample.
  Decision drawn(const Instruction& sample, Decision decision) {
    using Draws = Meaning::Draws;
    Draws draws = sample.kind->meaning.draws;
    if (draws == Draws::Other || draws == Draws::Place || draws == Draws::Order || decision.open()) return decision;
    if (draws == Draws::OneOf) {
      const Array<Arg>& list = sample.arguments[0].items;
      auto index = static_cast<std::size_t>(decision.values[0]);
      if (index < list.size() && list[index].tag == Arg::Tag::Int) decision.values[0] = list[index].integer;
    }
    for (u32 i = 0; i < std::min<u32>(sample.results, decision.count); ++i)
      values_[sample.first_result + i] = static_cast<double>(decision.values[i]);
    return decision;
  }

 private:
  std::optional<double> of_binary(const Arg& arg) const {
    std::optional<double> a = of(arg.items[0]), b = of(arg.items[1]);
    if (!a || !b) return std::nullopt;
    switch (arg.op) {
      case BinaryOp::Add:
        return *a + *b;
      case BinaryOp::Sub:
        return *a - *b;
      case BinaryOp::Mul:
        return *a * *b;
      default:
        return std::nullopt;  // conditions, and the like
    }
  }

  std::vector<std::optional<double>> values_;  // by number of the value
};

// Calls visit(instruction, decision, number) for what stands before postprocessing; `decision` is null if it is no
// sample.
template <class Visit>
void each_instruction(const Trace& trace, std::span<const Decision> decisions, Visit visit) {
  std::size_t sample = 0;
  int number = 0;
  for (const Instruction& instruction : trace.instructions()) {
    if (instruction.kind->meaning.starts_postproc) return;
    const Decision* decision = nullptr;
    if (instruction.kind->samples) {
      TW_CHECK(sample < decisions.size(), "a trace with too few decisions");
      decision = &decisions[sample++];
    }
    visit(instruction, decision, number++);
  }
}

u64 hash_text(std::string_view text) { return hash_bytes(text).low; }

u64 hash_arg(const Arg& arg, u64 seed) {
  u64 key = mix64(seed ^ static_cast<u64>(arg.tag));
  key = mix64(key ^ static_cast<u64>(arg.integer));
  if (arg.tag == Arg::Tag::Text) key = mix64(key ^ hash_text(arg.text));
  if (arg.tag == Arg::Tag::Binary) key = mix64(key ^ static_cast<u64>(arg.op));
  for (const Arg& item : arg.items) key = hash_arg(item, key);
  return key;
}

// Does it find a block by its name? Names say nothing of what the program does.
bool names_block(const Instruction& instruction) {
  const InstructionKind& kind = *instruction.kind;
  return kind.pure && kind.result == "BlockId" && kind.parameters.size() == 1 && kind.parameters[0].type == "Str";
}

struct Layout {
  int kinds = static_cast<int>(instruction_kinds().size());
  int place = kinds, numbers = place + 1, decision = numbers + kNumbers, references = decision + Decision::kMax,
      texts = references + 2 * kReferences, columns = texts + kTexts;
};

const Layout& layout() {
  static const Layout made;
  return made;
}

int number_of(const InstructionKind* kind) {
  static const auto numbers = [] {
    std::unordered_map<const InstructionKind*, int> out;
    for (const InstructionKind* each : instruction_kinds()) out.emplace(each, static_cast<int>(out.size()));
    return out;
  }();
  return numbers.at(kind);
}

// Where each value of a trace comes from.
struct Origin {
  int instruction = 0, result = 0;
};

// Fills one row from the arguments of an instruction.
class TokenRow {
 public:
  TokenRow(const KnownNumbers& known, const std::vector<Origin>& origins, int instruction, float* row)
      : known_(known), origins_(origins), instruction_(instruction), row_(row) {}

  void add(const Arg& arg) {
    if (std::optional<double> number = known_.of(arg)) return add_number(signed_log(*number));
    switch (arg.tag) {
      case Arg::Tag::Hole:
        return add_number(-1);
      case Arg::Tag::Text:
        row_[layout().texts + static_cast<int>(hash_text(arg.text) % kTexts)] += 1;
        return;
      case Arg::Tag::Value:
        return add_reference(origins_[static_cast<std::size_t>(arg.integer)]);
      default:
        for (const Arg& item : arg.items) add(item);
    }
  }
  void add_number(float value) {
    if (numbers_ < kNumbers) row_[layout().numbers + numbers_++] = value;
  }

 private:
  void add_reference(const Origin& origin) {
    if (references_ == kReferences) return;
    float* to = row_ + layout().references + 2 * references_++;
    to[0] = slog(instruction_ - origin.instruction);
    to[1] = slog(origin.result + 1);
  }

  const KnownNumbers& known_;
  const std::vector<Origin>& origins_;
  int instruction_, numbers_ = 0, references_ = 0;
  float* row_;
};

std::vector<std::string> make_token_names() {
  std::vector<std::string> names;
  for (const InstructionKind* kind : instruction_kinds()) names.emplace_back(kind->name);
  names.emplace_back("place");
  auto add = [&](const char* name, int count) {
    for (int i = 0; i < count; ++i) names.push_back(name + std::to_string(i));
  };
  add("number_", kNumbers);
  add("decision_", Decision::kMax);
  for (int i = 0; i < kReferences; ++i) {
    names.push_back("reference_" + std::to_string(i) + ".before");
    names.push_back("reference_" + std::to_string(i) + ".result");
  }
  add("text_", kTexts);
  return names;
}

}  // namespace

int knob_columns() { return kKnobSamples * Decision::kMax + kKnobSketches; }
int token_columns() { return layout().columns; }

const std::vector<std::string>& token_column_names() {
  static const std::vector<std::string> names = make_token_names();
  return names;
}

void extract_knobs(const Trace& trace, std::span<const Decision> decisions, std::vector<float>& row) {
  row.assign(static_cast<std::size_t>(knob_columns()), 0.0f);
  KnownNumbers known(trace);
  u64 sketch = 0;
  int sample = 0;
  each_instruction(trace, decisions, [&](const Instruction& instruction, const Decision* decision, int) {
    sketch = mix64(sketch ^ hash_text(instruction.kind->name));
    for (const Arg& arg : instruction.arguments) {
      if (!names_block(instruction)) sketch = hash_arg(arg, sketch);
    }
    if (!decision) return;
    Decision drawn = known.drawn(instruction, *decision);
    float* to = row.data() + sample++ % kKnobSamples * Decision::kMax;
    for (int i = 0; i < drawn.count; ++i) to[i] += signed_log(static_cast<double>(drawn.values[i]));
  });
  row[kKnobSamples * Decision::kMax + static_cast<int>(sketch % kKnobSketches)] = 1;
}

void extract_tokens(const Trace& trace, std::span<const Decision> decisions, std::vector<float>& rows) {
  rows.clear();
  KnownNumbers known(trace);
  std::vector<Origin> origins(trace.value_count());
  std::map<std::string_view, int> blocks;
  each_instruction(trace, decisions, [&](const Instruction& instruction, const Decision* decision, int number) {
    const Layout& at = layout();
    rows.resize(rows.size() + static_cast<std::size_t>(at.columns));
    float* row = rows.data() + rows.size() - at.columns;
    row[number_of(instruction.kind)] = 1;
    row[at.place] = slog(number);
    TokenRow token(known, origins, number, row);
    if (names_block(instruction))
      token.add_number(
          slog(blocks.emplace(instruction.arguments[0].text, static_cast<int>(blocks.size()) + 1).first->second));
    else
      for (const Arg& arg : instruction.arguments) token.add(arg);
    for (u32 i = 0; i < instruction.results; ++i) origins[instruction.first_result + i] = {number, static_cast<int>(i)};
    if (!decision) return;
    Decision drawn = known.drawn(instruction, *decision);
    for (int i = 0; i < drawn.count; ++i) row[at.decision + i] = signed_log(static_cast<double>(drawn.values[i]));
  });
}

void extract_trace_rows(FeatureKind kind, const Trace& trace, std::span<const Decision> decisions,
                        std::vector<float>& rows) {
  TW_CHECK(!needs_program(kind), "rows that need a program");
  kind == FeatureKind::Knobs ? extract_knobs(trace, decisions, rows) : extract_tokens(trace, decisions, rows);
}

}  // namespace tw
