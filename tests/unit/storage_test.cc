// What lowering makes of primitives that say how buffers are stored: the form of the lowered program, and the compiled kernel against
// the interpreter on the unscheduled program.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "backends/backend.h"
#include "backends/interpreter.h"
#include "dsl/base/rng.h"
#include "dsl/ir/print.h"
#include "dsl/passes/lower.h"
#include "dsl/schedule/parse_schedule.h"
#include "dsl/schedule/state.h"
#include "dsl/text/parse_program.h"
#include "runtime/object_loader.h"
#include "support/aligned.h"

namespace tw {
namespace {

struct Stored {
  const char* name;
  const char *program, *schedule;
  std::vector<std::string> in_lowered;  // each somewhere in the text after the last pass
  i64 scratch_bytes = 0;                // of one thread
};

// Rows of 10 floats, 40 of them: too large for the stack.
constexpr const char* kTransposed = R"(program transposed(A: input f32[40, 10], C: output f32[10, 40]) {
  local B: f32[40, 10]
  for i in 40 {
    for j in 10 {
      block B(i: S 40 = i, j: S 10 = j) {
        B[i, j] = A[i, j] + 1.0
      }
    }
  }
  for j in 10 {
    for i in 40 {
      block C(j: S 10 = j, i: S 40 = i) {
        C[j, i] = B[i, j] * 2.0
      }
    }
  }
})";
constexpr const char* kDense = R"(program dense(X: input f32[5, 9], W: const f32[9, 7], Y: output f32[5, 7]) {
  for i in 5 {
    for j in 7 {
      for k in 9 {
        block Y(i: S 5 = i, j: S 7 = j, k: R 9 = k) {
          init {
            Y[i, j] = 0.0
          }
          Y[i, j] = Y[i, j] + X[i, k] * W[k, j]
        }
      }
    }
  }
})";

const Stored kCases[] = {
    {"padded_rows", kTransposed, "b = get_block(\"B\")\nstorage_align(b, 0, 0, 16, 3)", {"B: f32[751]", "i * 19"}, 39 * 76 + 40 + 4},
    {"padded_elements", kTransposed, "b = get_block(\"B\")\nstorage_align(b, 0, 1, 4, 1)\nstorage_align(b, 0, 1, 2, 0)",
     {"B: f32[799]", "j * 2"}, 3200},
    {"padded_part",  // three rows are left when B is computed for three columns of C
     kTransposed, "b = get_block(\"B\")\nc = get_block(\"C\")\nj, i = get_loops(c)\nreorder([i, j])\ni0, i1 = split(i, [_, 4])\n"
     "compute_at(b, i0)\nstorage_align(b, 0, 0, 32, 0)\nvectorize(i1)", {"B: f32[106]"}, 0},
    {"padded_panel", kDense, "y = get_block(\"Y\")\nw = cache_read(y, 1, \"global\")\nannotate(w, \"prepack\", 1)\n"
     "storage_align(w, 0, 0, 8, 0)", {"W_global: const f32[71]"}, 0},
    {"wider_type", kTransposed, "b = get_block(\"B\")\nset_dtype(b, 0, \"f64\")", {"f64[400]"}, 3200},
};

template <class T, class Parse>
T parsed(const char* name, const char* text, Parse parse) {
  Source source{name, text};
  Diagnostics diagnostics(source);
  auto made = parse(source, diagnostics);
  EXPECT_TRUE(made) << diagnostics.render();
  return std::move(*made);
}

using Arrays = std::map<std::string, HostArray, std::less<>>;

Arrays arrays_for(const Program& program) {
  Arrays arrays;
  Rng rng(5);
  for (const Param& param : program.params) {
    HostArray array = HostArray::like(param.buffer);
    for (i64 i = 0; i < array.elements() && param.role != Role::Output; ++i) array.set(i, static_cast<double>(rng.below(9) - 4));
    arrays.emplace(param.buffer->name, array);
  }
  return arrays;
}

template <class Function>
void call(Array<LoweredArgument> arguments, Arrays& arrays, Function function) {
  std::vector<Aligned<u8>> copies;
  std::vector<void*> pointers;
  for (const LoweredArgument& argument : arguments) {
    auto [at, added] = arrays.try_emplace(std::string(argument.name),
                                          HostArray::zeros(argument.dtype, {argument.shape.begin(), argument.shape.end()}));
    copies.emplace_back(at->second.bytes.size());
    std::copy(at->second.bytes.begin(), at->second.bytes.end(), copies.back().begin());
  }
  for (Aligned<u8>& copy : copies) pointers.push_back(copy.data());
  ASSERT_EQ(function(pointers.data()), 0);
  for (std::size_t i = 0; i < copies.size(); ++i) {
    std::copy(copies[i].begin(), copies[i].end(), arrays.find(arguments[i].name)->second.bytes.begin());
  }
}

void run_compiled(const LoweredProgram& lowered, Arrays& arrays) {
  Result<LlvmCompiler> compiler = LlvmCompiler::create({});
  compiler->set_verify(true);
  Result<Kernel> kernel = compiler->compile(lowered, "stored");
  ASSERT_TRUE(kernel) << to_string(kernel.rejected());
  std::string error;
  LoadedObject loaded = load_object(kernel->code, error);
  ASSERT_EQ(error, "");
  Aligned<u8> scratch(static_cast<std::size_t>(kernel->manifest.scratch_bytes(1)) + 1);
  if (lowered.prepack.body) call(lowered.prepack_arguments, arrays, [&](void** list) { return loaded.prepack("stored")(list); });
  call(lowered.run_arguments, arrays, [&](void** list) { return loaded.run("stored")(list, scratch.data(), nullptr, nullptr); });
}

class StoredBuffers : public testing::TestWithParam<Stored> {};

TEST_P(StoredBuffers, AreLaidOutAndComputeTheSame) {
  const Stored& c = GetParam();
  OwnedProgram base = parsed<OwnedProgram>("program", c.program, [](const Source& s, Diagnostics& d) { return parse_program(s, d); });
  Trace trace = parsed<Trace>("schedule", c.schedule, [](const Source& s, Diagnostics& d) { return parse_schedule(s, d); });
  Arena arena;
  State state(arena, base.program);
  Status status = replay(trace, state);
  ASSERT_TRUE(status) << to_string(status.rejected());
  std::vector<PassDump> dumps;
  Result<LoweredProgram> lowered = lower(arena, state.program(), {}, &dumps);
  ASSERT_TRUE(lowered) << to_string(lowered.rejected());
  for (const std::string& part : c.in_lowered) {
    bool found = std::any_of(dumps.begin(), dumps.end(), [&](const PassDump& dump) { return dump.text.find(part) != std::string::npos; });
    EXPECT_TRUE(found) << "no `" << part << "` in\n" << dumps.back().text;
  }
  EXPECT_EQ(lowered->scratch_shared_bytes, (c.scratch_bytes + 63) / 64 * 64);

  Arrays arrays = arrays_for(base.program);
  std::vector<HostArray> want;
  for (const Param& param : base.program.params) want.push_back(arrays.find(param.buffer->name)->second);
  ASSERT_EQ(interpret(base.program, want), "");
  run_compiled(*lowered, arrays);
  for (std::size_t p = 0; p < want.size() && !HasFatalFailure(); ++p) {
    EXPECT_EQ(arrays.find(base.program.params[p].buffer->name)->second.bytes, want[p].bytes) << base.program.params[p].buffer->name;
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, StoredBuffers, testing::ValuesIn(kCases), [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tw
