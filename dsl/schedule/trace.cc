#include "dsl/schedule/trace.h"

#include <algorithm>
#include <bit>
#include <unordered_set>

#include "dsl/base/text.h"
#include "dsl/ir/compare.h"
#include "dsl/ir/print.h"
#include "dsl/schedule/state.h"

namespace tw {
namespace {

Arg copy_arg(Arena& arena, const Arg& arg) {
  Arg copy = arg;
  copy.text = arena.text(arg.text);
  std::vector<Arg> items;
  for (const Arg& item : arg.items) items.push_back(copy_arg(arena, item));
  copy.items = arena.copy(items);
  return copy;
}

Arg renumber(Arena& arena, const Arg& arg, const std::vector<u32>& number) {
  Arg copy = arg;
  if (arg.tag == Arg::Tag::Value) copy.integer = number[arg.integer];
  std::vector<Arg> items;
  for (const Arg& item : arg.items) items.push_back(renumber(arena, item, number));
  copy.items = arena.copy(items);
  return copy;
}

void mark_used(const Arg& arg, std::vector<bool>& used) {
  if (arg.tag == Arg::Tag::Value) used[arg.integer] = true;
  for (const Arg& item : arg.items) mark_used(item, used);
}

bool uses_any(const Arg& arg, const std::vector<bool>& values) {
  if (arg.tag == Arg::Tag::Value && values[arg.integer]) return true;
  return std::any_of(arg.items.begin(), arg.items.end(), [&](const Arg& item) { return uses_any(item, values); });
}

class ArgPrinter {
 public:
  explicit ArgPrinter(const Trace& trace) : trace_(trace) {}

  std::string print(const Arg& arg, bool nested = false) {
    switch (arg.tag) {
      case Arg::Tag::None:
        return "none";
      case Arg::Tag::Hole:
        return "_";
      case Arg::Tag::Int:
        return std::to_string(arg.integer);
      case Arg::Tag::Text:
        return quote(arg.text);
      case Arg::Tag::Value:
        return std::string(trace_.name_of_value(static_cast<u32>(arg.integer)));
      case Arg::Tag::Param:
        return param(arg.integer);
      case Arg::Tag::Extent:
        return cat("extent(", print(arg.items[0]), ")");
      case Arg::Tag::List:
        return cat("[", list(arg.items), "]");
      case Arg::Tag::Binary: {
        if (arg.op == BinaryOp::Min || arg.op == BinaryOp::Max) return cat(name_of(arg.op), "(", list(arg.items), ")");
        std::string text = cat(print(arg.items[0], true), " ", name_of(arg.op), " ", print(arg.items[1], true));
        return nested ? "(" + text + ")" : text;
      }
      case Arg::Tag::Map: {
        std::vector<std::string> params;
        for (i64 i = 0; i < arg.integer; ++i) params.push_back(param(i));
        return cat("(", join(params, ", "), ") -> (", list(arg.items), ")");
      }
      case Arg::Tag::Number:
        return print_number(arg.number);
      case Arg::Tag::Dictionary:
        return cat("{", list(arg.items), "}");
      case Arg::Tag::Entry:
        return cat(quote(arg.text), ": ", print(arg.items[0]));
    }
    return "?";
  }

 private:
  // Parameters of index maps are called i0, i1, ...; names of values that look the same are avoided by Trace::append.
  static std::string param(i64 index) { return cat("p", index); }
  std::string list(Array<Arg> items) {
    std::vector<std::string> parts;
    for (const Arg& item : items) parts.push_back(print(item));
    return join(parts, ", ");
  }
  const Trace& trace_;
};

bool is_default(const Arg& arg, const std::string& fallback) {
  if (fallback.empty()) return false;
  if (arg.tag == Arg::Tag::Text) return cat("\"", arg.text, "\"") == fallback;
  if (arg.tag == Arg::Tag::None) return fallback == "none";
  if (arg.tag != Arg::Tag::Int) return false;
  if (fallback == "true" || fallback == "false") return (arg.integer != 0) == (fallback == "true");
  return std::to_string(arg.integer) == fallback;
}

void hash_arg(const Arg& arg, std::string& bytes) {
  auto put = [&](i64 word) { bytes.append(reinterpret_cast<const char*>(&word), sizeof word); };
  put(static_cast<i64>(arg.tag));
  put(static_cast<i64>(arg.op));
  put(arg.integer);
  if (arg.tag == Arg::Tag::Number) put(std::bit_cast<i64>(arg.number));
  put(static_cast<i64>(arg.text.size()));
  bytes.append(arg.text);
  put(static_cast<i64>(arg.items.size()));
  for (const Arg& item : arg.items) hash_arg(item, bytes);
}

}  // namespace

void Trace::append(const InstructionKind& kind, Array<Arg> arguments, const Decision& decision,
                   Array<Str> result_names) {
  TW_CHECK(arguments.size() == kind.parameters.size(), "instruction with a wrong number of arguments");
  std::vector<Arg> copied;
  for (const Arg& arg : arguments) copied.push_back(copy_arg(*arena_, arg));
  instructions_.push_back(
      {&kind, arena_->copy(copied), value_count(), static_cast<u32>(result_names.size()), decision});
  auto taken = [&](std::string_view candidate) {
    return std::find(names_.begin(), names_.end(), candidate) != names_.end();
  };
  for (Str wanted : result_names) {
    std::string unique(wanted);
    // p0, p1, ... name the parameters of index maps.
    if (unique.size() > 1 && unique[0] == 'p' && unique.find_first_not_of("0123456789", 1) == std::string::npos)
      unique += "_";
    std::string base = unique;
    for (int i = 1; taken(unique); ++i) unique = cat(base, "_", i);
    names_.push_back(arena_->text(unique));
  }
}

std::size_t Trace::sample_count() const {
  std::size_t count = 0;
  for (const Instruction& i : instructions_) count += i.kind->samples;
  return count;
}

std::vector<Decision> Trace::decisions() const {
  std::vector<Decision> out;
  for (const Instruction& i : instructions_) {
    if (i.kind->samples) out.push_back(i.decision);
  }
  return out;
}

Trace Trace::with_decisions(const std::vector<Decision>& decisions) const {
  TW_CHECK(decisions.size() == sample_count(), "one decision per sample expected");
  Trace copy = *this;  // arguments are shared: they are never changed
  std::size_t next = 0;
  for (Instruction& i : copy.instructions_) {
    if (i.kind->samples) i.decision = decisions[next++];
  }
  return copy;
}

Trace Trace::without_postproc() const {
  Trace copy = *this;
  auto marker = std::find_if(copy.instructions_.begin(), copy.instructions_.end(),
                             [](const Instruction& i) { return i.kind->meaning.starts_postproc; });
  if (marker == copy.instructions_.end()) return copy;
  copy.names_.resize(marker->first_result);
  copy.instructions_.erase(marker, copy.instructions_.end());
  return copy;
}

std::vector<bool> Trace::live() const {
  std::vector<bool> used(value_count()), keep(instructions_.size());
  for (std::size_t i = instructions_.size(); i-- > 0;) {
    const Instruction& instruction = instructions_[i];
    bool needed = !instruction.kind->pure;
    for (u32 r = 0; r < instruction.results; ++r) needed |= used[instruction.first_result + r];
    keep[i] = needed;
    if (!needed) continue;
    for (const Arg& arg : instruction.arguments) mark_used(arg, used);
  }
  return keep;
}

Trace Trace::keeping(const std::vector<bool>& wanted) const {
  // What uses a dropped value goes, too.
  std::vector<bool> keep = wanted, dropped(value_count());
  for (std::size_t i = 0; i < instructions_.size(); ++i) {
    const Instruction& instruction = instructions_[i];
    for (const Arg& arg : instruction.arguments) keep[i] = keep[i] && !uses_any(arg, dropped);
    for (u32 r = 0; r < instruction.results; ++r) dropped[instruction.first_result + r] = !keep[i];
  }
  Trace out;
  std::vector<u32> number(value_count());
  for (std::size_t i = 0; i < instructions_.size(); ++i) {
    if (!keep[i]) continue;
    const Instruction& instruction = instructions_[i];
    std::vector<Arg> arguments;
    for (const Arg& arg : instruction.arguments) arguments.push_back(renumber(*out.arena_, arg, number));
    std::vector<Str> names;
    for (u32 r = 0; r < instruction.results; ++r) {
      number[instruction.first_result + r] = out.value_count() + r;
      names.push_back(names_[instruction.first_result + r]);
    }
    out.append(*instruction.kind, arguments, instruction.decision, names);
  }
  return out;
}

std::string Trace::print_instruction(const Instruction& instruction) const {
  std::vector<std::string> results, arguments;
  for (u32 r = 0; r < instruction.results; ++r) results.emplace_back(names_[instruction.first_result + r]);
  ArgPrinter printer(*this);
  bool positional = true;
  for (std::size_t i = 0; i < instruction.arguments.size(); ++i) {
    const Parameter& parameter = instruction.kind->parameters[i];
    if (is_default(instruction.arguments[i], parameter.fallback)) {
      positional = false;
      continue;
    }
    std::string text = printer.print(instruction.arguments[i]);
    // Parameters with a default are written with their name.
    arguments.push_back(positional && parameter.fallback.empty() ? text : cat(parameter.name, " = ", text));
  }
  std::string line =
      cat(results.empty() ? "" : join(results, ", ") + " = ", instruction.kind->name, "(", join(arguments, ", "), ")");
  if (instruction.kind->samples && !instruction.decision.open()) {
    const Decision& d = instruction.decision;
    std::vector<i64> values(d.values, d.values + d.count);
    line += d.count == 1 ? cat(" @ ", values[0]) : cat(" @ [", join(values, ", "), "]");
  }
  return line;
}

std::string Trace::print(int indent) const {
  std::string out;
  for (const Instruction& instruction : instructions_)
    out += cat(std::string(indent, ' '), print_instruction(instruction), "\n");
  return out;
}

Hash128 Trace::hash() const {
  std::string bytes;
  for (const Instruction& instruction : instructions_) {
    bytes += instruction.kind->name;
    for (const Arg& arg : instruction.arguments) hash_arg(arg, bytes);
    for (int i = 0; i < instruction.decision.count; ++i) {
      bytes.append(reinterpret_cast<const char*>(&instruction.decision.values[i]), sizeof(i64));
    }
    bytes += '\n';
  }
  return hash_bytes(bytes);
}

Status replay(const Trace& trace, State& state, std::vector<Decision>& decisions, ReplayMode mode, Rng* rng,
              std::size_t first, std::size_t last) {
  last = std::min(last, trace.instructions().size());
  std::size_t sample = 0;
  for (std::size_t i = 0; i < last; ++i) {
    const Instruction& instruction = trace.instructions()[i];
    Decision* decision = nullptr;
    if (instruction.kind->samples) {
      TW_CHECK(sample < decisions.size(), "replay with too few decisions");
      decision = &decisions[sample++];
    }
    if (i < first) continue;
    TW_CHECK(state.values().size() == instruction.first_result, "replay on a state of another prefix");
    Status status = instruction.kind->apply(state, instruction.arguments, {decision, rng, mode == ReplayMode::Adapt},
                                            state.values());
    if (status && state.values().size() != instruction.first_result + instruction.results) {
      status = reject("gave {0} results here, {1} when it was recorded: is the trace of another program?",
                      static_cast<i64>(state.values().size()) - instruction.first_result, instruction.results);
    }
    if (!status) {
      Reject why = status.rejected();
      why.instruction = instruction.kind->name;
      why.step = static_cast<int>(i);
      return why;
    }
  }
  return ok();
}

Status replay(const Trace& trace, State& state, ReplayMode mode, Rng* rng) {
  std::vector<Decision> decisions = trace.decisions();
  return replay(trace, state, decisions, mode, rng);
}

}  // namespace tw
