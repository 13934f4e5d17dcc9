// The kinds of features that cost models want: what rows depend on, and what they do not. The kind `stores` has
// features_test.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "costmodel/feature_kind.h"
#include "costmodel/make_model.h"
#include "costmodel/row_extractor.h"
#include "costmodel/trace_rows.h"
#include "dsl/base/text.h"
#include "dsl/ir/print.h"
#include "dsl/schedule/parse_schedule.h"
#include "support/parsed.h"
#include "support/random_program.h"
#include "support/random_schedule.h"
#include "support/scheduled.h"

namespace tw {
namespace {

using Floats = std::vector<float>;

double slog(double value) { return std::log2(value + 1); }

Trace trace_of(const std::string& text) {
  Source source{"schedule", text};
  Diagnostics diagnostics(source);
  std::optional<Trace> trace = parse_schedule(source, diagnostics);
  EXPECT_TRUE(trace) << diagnostics.render();
  return trace ? *trace : Trace();
}

Floats rows_of(FeatureKind kind, const Program& program, const Trace& trace = {}) {
  Floats rows;
  RowExtractor(kind, {}).extract(program, trace, trace.decisions(), rows);
  return rows;
}

Floats of_trace(FeatureKind kind, const std::string& text) { return rows_of(kind, {}, trace_of(text)); }

const std::vector<std::string>& names_of(FeatureKind kind) {
  if (kind == FeatureKind::Loops) return loop_column_names();
  return kind == FeatureKind::Relation ? relation_column_names() : token_column_names();
}

// The value of one column, by name.
float at(FeatureKind kind, const Floats& rows, int row, const std::string& column) {
  const std::vector<std::string>& names = names_of(kind);
  auto found = std::find(names.begin(), names.end(), column);
  EXPECT_NE(found, names.end()) << column;
  return rows[static_cast<std::size_t>(row) * names.size() + static_cast<std::size_t>(found - names.begin())];
}

// Random programs with random schedules.
template <class Visit>
void each_random_schedule(int count, Visit visit) {
  Rng rng(11);
  test::Acceptance acceptance;
  std::vector<const InstructionKind*> kinds = test::changing_kinds(), others = test::other_kinds();
  kinds.insert(kinds.end(), others.begin(), others.end());
  for (int i = 0; i < count; ++i) {
    std::string use;
    OwnedProgram base = test::random_program(rng, use);
    Schedule schedule(base.program, static_cast<u64>(i));
    for (i64 steps = rng.below(12); steps > 0; --steps)
      test::apply_random(schedule, *kinds[static_cast<std::size_t>(rng.below(static_cast<i64>(kinds.size())))], rng,
                         acceptance);
    visit(schedule);
  }
}

TEST(FeatureKinds, EveryModelSaysItsOwn) {
  EXPECT_EQ(feature_kind_of("auto"), FeatureKind::Stores);
  EXPECT_EQ(feature_kind_of("mlp"), FeatureKind::Stores);
  EXPECT_EQ(feature_kind_of("mlp-reference"), FeatureKind::Reference);
  EXPECT_EQ(feature_kind_of("treegru"), FeatureKind::Loops);
  EXPECT_EQ(feature_kind_of("tlp"), FeatureKind::Tokens);
  EXPECT_EQ(feature_kind_of("xgboost-relation"), FeatureKind::Relation);
  EXPECT_EQ(feature_kind_of("xgboost-knobs"), FeatureKind::Knobs);
  EXPECT_EQ(model_columns("treegru"), columns_of(FeatureKind::Loops));
  std::set<int> columns;  // a model of another kind is refused by its columns, too
  for (FeatureKind kind : kFeatureKinds) columns.insert(columns_of(kind));
  EXPECT_EQ(columns.size(), std::size(kFeatureKinds));
}

TEST(FeatureKinds, EveryColumnHasANameOfItsOwn) {
  for (FeatureKind kind : {FeatureKind::Loops, FeatureKind::Relation, FeatureKind::Tokens}) {
    const std::vector<std::string>& names = names_of(kind);
    EXPECT_EQ(static_cast<int>(names.size()), columns_of(kind)) << name_of(kind);
    EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size()) << name_of(kind);
  }
}

// Whole rows of finite numbers for whatever schedule; the same from a used extractor, and from a copy of the program
// with other ids.
TEST(FeatureKinds, RowsAreFiniteAndDependOnNothingElse) {
  for (FeatureKind kind : kFeatureKinds) {
    RowExtractor used(kind, {});
    int with_rows = 0;
    each_random_schedule(300, [&](const Schedule& schedule) {
      const Trace& trace = schedule.trace();
      Floats rows = rows_of(kind, schedule.program(), trace), again;
      used.extract(schedule.program(), trace, trace.decisions(), again);
      EXPECT_EQ(rows, again) << name_of(kind);
      EXPECT_EQ(rows.size() % static_cast<std::size_t>(columns_of(kind)), 0u);
      EXPECT_TRUE(std::all_of(rows.begin(), rows.end(), [](float value) { return std::isfinite(value); }))
          << name_of(kind) << "\n"
          << print(schedule.program());
      with_rows += !rows.empty();
      OwnedProgram copy = test::parsed(print(schedule.program()));
      EXPECT_EQ(rows, rows_of(kind, copy.program, trace)) << name_of(kind) << "\n" << print(schedule.program());
    });
    EXPECT_GT(with_rows, 250) << name_of(kind);
  }
}

TEST(FeatureKinds, RowsOfATraceNeedNoProgramAndOthersNoTrace) {
  each_random_schedule(100, [&](const Schedule& schedule) {
    const Trace& trace = schedule.trace();
    for (FeatureKind kind : {FeatureKind::Knobs, FeatureKind::Tokens})
      EXPECT_EQ(rows_of(kind, schedule.program(), trace), rows_of(kind, {}, trace));
    for (FeatureKind kind : {FeatureKind::Stores, FeatureKind::Loops, FeatureKind::Relation, FeatureKind::Reference})
      EXPECT_EQ(rows_of(kind, schedule.program(), trace), rows_of(kind, schedule.program(), {}));
  });
}

TEST(FeatureKinds, ReferenceIsTheFirstPartOfEachStore) {
  const auto all = static_cast<std::size_t>(feature_columns()), kept = std::size_t{kReferenceColumns};
  each_random_schedule(50, [&](const Schedule& schedule) {
    const Floats stores = rows_of(FeatureKind::Stores, schedule.program());
    const Floats found = rows_of(FeatureKind::Reference, schedule.program());
    ASSERT_EQ(found.size() / kept, stores.size() / all);
    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i], stores[i / kept * all + i % kept]);
  });
}

// ---- loops

TEST(LoopRows, FormATreeWithTheStoresAsLeaves) {
  const auto columns = static_cast<std::size_t>(loop_columns());
  int deepest = 0;
  each_random_schedule(500, [&](const Schedule& schedule) {
    Floats rows = rows_of(FeatureKind::Loops, schedule.program());
    int count = static_cast<int>(rows.size() / columns), leaves = 0;
    std::vector<int> children(static_cast<std::size_t>(count));
    for (int row = 0; row < count; ++row) {
      float distance = rows[static_cast<std::size_t>(row + 1) * columns - 1];
      bool is_last = row == count - 1;
      EXPECT_EQ(at(FeatureKind::Loops, rows, row, "is_root"), is_last);
      if (is_last) {
        EXPECT_EQ(distance, 0) << "the root has no parent";
        break;
      }
      ASSERT_EQ(distance, std::floor(distance));
      ASSERT_GE(distance, 1) << "children come first";
      ASSERT_LT(row + distance, count);
      ++children[static_cast<std::size_t>(row + static_cast<int>(distance))];
      bool is_store = at(FeatureKind::Loops, rows, row, "is_store") == 1;
      EXPECT_EQ(children[static_cast<std::size_t>(row)] == 0, is_store) << "stores are the leaves";
      EXPECT_NE(is_store, at(FeatureKind::Loops, rows, row, "is_loop") == 1);
      leaves += is_store;
    }
    EXPECT_EQ(leaves, static_cast<int>(rows_of(FeatureKind::Stores, schedule.program()).size()) / feature_columns())
        << print(schedule.program());
    deepest = std::max(deepest, count - leaves);
  });
  EXPECT_GT(deepest, 6);
}

TEST(LoopRows, PlainProductByHand) {
  test::Scheduled plain("matmul(M = 16, N = 8, K = 4)", {}, "");
  Floats rows = rows_of(FeatureKind::Loops, plain.program());
  ASSERT_EQ(rows.size(), 5 * static_cast<std::size_t>(loop_columns()));
  auto value = [&](int row, const std::string& column) { return at(FeatureKind::Loops, rows, row, column); };
  for (int row = 0; row < 4; ++row) EXPECT_EQ(value(row, "parent"), 1);
  EXPECT_EQ(value(0, "is_store"), 1);
  EXPECT_NEAR(value(0, "executions"), slog(16 * 8 * 4), 1e-5);
  const double extents[] = {4, 8, 16}, inside[] = {4, 32, 512}, around[] = {128, 16, 1};  // k, j, i
  for (int loop = 0; loop < 3; ++loop) {
    EXPECT_NEAR(value(loop + 1, "extent"), slog(extents[loop]), 1e-5);
    EXPECT_NEAR(value(loop + 1, "bottom_up"), slog(inside[loop]), 1e-5);
    EXPECT_NEAR(value(loop + 1, "top_down"), slog(around[loop]), 1e-5);
    EXPECT_EQ(value(loop + 1, "serial"), 1);
    EXPECT_EQ(value(loop + 1, "reduces"), loop == 0);
  }
  // C is read and written, so it comes first: in k always the same element, in j a row, in i all.
  const double different[] = {1, 8, 128}, steps[] = {0, 1, 8};
  for (int loop = 0; loop < 3; ++loop) {
    EXPECT_EQ(value(loop + 1, "B0.write"), 1);
    EXPECT_NEAR(value(loop + 1, "B0.bytes"), slog(different[loop] * 4), 1e-5);
    EXPECT_NEAR(value(loop + 1, "B0.stride"), slog(steps[loop]), 1e-5);
    EXPECT_EQ(value(loop + 1, "B0.stays"), steps[loop] == 0);
    EXPECT_NEAR(value(loop + 1, "B0.bytes_accessed"), slog(2 * 4 * inside[loop]), 1e-5);
    EXPECT_NEAR(value(loop + 1, "B0.reuse"), slog(2 * inside[loop] / different[loop]), 1e-5);
  }
}

TEST(LoopRows, TellMarks) {
  test::Scheduled marked("matmul(M = 16, N = 8, K = 4)", {}, R"(b = get_block("C")
i, j, k = get_loops(b)
vectorize(j)
parallel(i)
)");
  Floats rows = rows_of(FeatureKind::Loops, marked.program());
  EXPECT_EQ(at(FeatureKind::Loops, rows, 2, "vectorize"), 1);
  EXPECT_EQ(at(FeatureKind::Loops, rows, 3, "parallel"), 1);
  EXPECT_EQ(at(FeatureKind::Loops, rows, 3, "serial"), 0);
}

// ---- relation

std::string tiled(int width) {
  return "b = get_block(\"C\")\ni, j, k = get_loops(b)\nj0, j1 = split(j, [_, " + std::to_string(width) +
         "])\nreorder([i, j0, k, j1])\n";
}

TEST(RelationRow, ProgramsThatDifferInOneTileDiffer) {
  test::Scheduled narrow("matmul(M = 64, N = 64, K = 64)", {}, tiled(8)),
      wide("matmul(M = 64, N = 64, K = 64)", {}, tiled(16));
  Floats a = rows_of(FeatureKind::Relation, narrow.program()), b = rows_of(FeatureKind::Relation, wide.program());
  EXPECT_EQ(a.size(), static_cast<std::size_t>(relation_columns())) << "one row";
  EXPECT_NE(a, b);
}

TEST(RelationRow, CurvesByHand) {
  test::Scheduled plain("matmul(M = 16, N = 8, K = 4)", {}, "");
  Floats row = rows_of(FeatureKind::Relation, plain.program());
  auto value = [&](const std::string& column) { return at(FeatureKind::Relation, row, 0, column); };
  // Thresholds on the scale of log2 are 1.5 t. Executions inside of k, j, i: 4, 32, 512, so 2.32, 5.04, 9.00.
  EXPECT_EQ(value("length_by_bottom_up.1"), 0);
  for (int t : {2, 3}) EXPECT_NEAR(value(cat("length_by_bottom_up.", t)), slog(4), 1e-5) << t;
  for (int t : {4, 5, 6}) EXPECT_NEAR(value(cat("length_by_bottom_up.", t)), slog(8), 1e-5) << t;
  for (int t : {7, 20}) EXPECT_NEAR(value(cat("length_by_bottom_up.", t)), slog(16), 1e-5) << t;
  // Bytes of C in k, j, i: 4, 32, 512. Reuse of it: 8, 8, 8; products around: 128, 16, 1.
  EXPECT_EQ(value("B0.reuse_by_bytes.1"), 0);
  EXPECT_NEAR(value("B0.reuse_by_bytes.2"), slog(8), 1e-5);
  EXPECT_NEAR(value("B0.top_down_by_bytes.2"), slog(128), 1e-5);
  EXPECT_NEAR(value("B0.top_down_by_bytes.20"), slog(128), 1e-5);
  EXPECT_NEAR(value("B0.bytes_by_bottom_up.3"), slog(4), 1e-5);
  EXPECT_NEAR(value("B0.bytes_by_bottom_up.4"), slog(32), 1e-5);
  for (int t = 1; t <= 20; ++t) EXPECT_EQ(value(cat("vectorized_by_bottom_up.", t)), 0);
}

// ---- traces

// Two samples, and what is made of them; `names` changes every name.
std::string sketch(int choice, int columns, int inner, bool other_names = false) {
  std::string text = cat("v = sample_categorical([1, 2, 4]) @ ", choice,
                         "\nb = get_block(\"C\")\ni, j, k = get_loops(b)\nj0, j1 = split(j, [_, v * 16])\n"
                         "outer, inner = sample_tile(j0, 2) @ [",
                         columns, ", ", inner, "]\nj2, j3 = split(j0, [outer, inner])\nvectorize(j1)\n");
  if (!other_names) return text;
  for (const auto& [from, to] :
       {std::pair("\"C\"", "\"Product\""), {"outer", "many"}, {"inner", "few"}, {"j1", "lane"}})
    for (std::size_t place = 0; (place = text.find(from, place)) != std::string::npos; place += std::string(to).size())
      text.replace(place, std::string(from).size(), to);
  return text;
}

TEST(TraceRows, DoNotDependOnNames) {
  for (FeatureKind kind : {FeatureKind::Knobs, FeatureKind::Tokens})
    EXPECT_EQ(of_trace(kind, sketch(2, 3, 4)), of_trace(kind, sketch(2, 3, 4, true))) << name_of(kind);
}

TEST(TraceRows, EndAtPostprocessing) {
  for (FeatureKind kind : {FeatureKind::Knobs, FeatureKind::Tokens})
    EXPECT_EQ(of_trace(kind, sketch(2, 3, 4)), of_trace(kind, sketch(2, 3, 4) + "enter_postproc()\nunroll(k)\n"))
        << name_of(kind);
}

// Columns in which two rows differ.
std::vector<int> differences(const Floats& a, const Floats& b) {
  EXPECT_EQ(a.size(), b.size());
  std::vector<int> out;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] != b[i]) out.push_back(static_cast<int>(i));
  }
  return out;
}

TEST(TraceRows, KnobsAreTheDecisionsInOrder) {
  Floats row = of_trace(FeatureKind::Knobs, sketch(2, 3, 4));
  ASSERT_EQ(row.size(), static_cast<std::size_t>(knob_columns()));
  EXPECT_NEAR(row[0], slog(4), 1e-5) << "the number drawn, and not its index";
  EXPECT_NEAR(row[Decision::kMax], slog(3), 1e-5);
  EXPECT_NEAR(row[Decision::kMax + 1], slog(4), 1e-5);
  EXPECT_EQ(std::accumulate(row.end() - kKnobSketches, row.end(), 0.0f), 1) << "one sketch";
  EXPECT_EQ(differences(row, of_trace(FeatureKind::Knobs, sketch(1, 3, 4))), std::vector<int>{0});
  EXPECT_EQ(differences(row, of_trace(FeatureKind::Knobs, sketch(2, 3, 5))), std::vector<int>{Decision::kMax + 1});
}

TEST(TraceRows, KnobsTellSketchesApart) {
  std::set<Floats> rows;
  for (const char* more : {"", "unroll(k)\n", "unroll(i)\n", "parallel(i)\n"})
    rows.insert(of_trace(FeatureKind::Knobs, sketch(2, 3, 4) + more));
  EXPECT_EQ(rows.size(), 4u);
}

TEST(TraceRows, TokensAreTheInstructions) {
  Floats rows = of_trace(FeatureKind::Tokens, sketch(2, 3, 4));
  ASSERT_EQ(rows.size(), 7 * static_cast<std::size_t>(token_columns()));
  auto value = [&](int row, const std::string& column) { return at(FeatureKind::Tokens, rows, row, column); };
  const char* const kinds[] = {"sample_categorical", "get_block", "get_loops", "split",
                               "sample_tile",        "split",     "vectorize"};
  for (int row = 0; row < 7; ++row) {
    for (const InstructionKind* kind : instruction_kinds())
      EXPECT_EQ(value(row, kind->name), std::string(kinds[row]) == kind->name) << row;
    EXPECT_NEAR(value(row, "place"), slog(row), 1e-5);
  }
  EXPECT_NEAR(value(0, "decision_0"), slog(4), 1e-5);
  EXPECT_EQ(value(3, "number_0"), -1) << "a factor that is left open";
  EXPECT_NEAR(value(3, "number_1"), slog(64), 1e-5) << "v * 16, as decided";
  EXPECT_NEAR(value(3, "reference_0.before"), slog(1), 1e-5) << "j is of the instruction before";
  EXPECT_NEAR(value(3, "reference_0.result"), slog(2), 1e-5) << "its second result";
  EXPECT_NEAR(value(4, "decision_1"), slog(4), 1e-5);
  EXPECT_NEAR(value(5, "number_0"), slog(3), 1e-5);
  EXPECT_NEAR(value(6, "reference_0.before"), slog(3), 1e-5);
}

TEST(TraceRows, TheDecisionsGivenCount) {
  for (FeatureKind kind : {FeatureKind::Knobs, FeatureKind::Tokens}) {
    Trace trace = trace_of(sketch(2, 3, 4)), other = trace_of(sketch(0, 6, 2));
    Floats rows;
    RowExtractor(kind, {}).extract({}, trace, other.decisions(), rows);
    EXPECT_EQ(rows, rows_of(kind, {}, other)) << name_of(kind);
    EXPECT_NE(rows, rows_of(kind, {}, trace)) << name_of(kind);
  }
}

}  // namespace
}  // namespace tw
