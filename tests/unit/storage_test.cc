// What lowering makes of primitives that say how buffers are stored, and of parts of loops: the form of the lowered
// program, and the compiled kernel against the interpreter on the unscheduled program.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "backends/backend.h"
#include "backends/interpreter.h"
#include "dsl/base/rng.h"
#include "dsl/ir/print.h"
#include "dsl/passes/lower.h"
#include "dsl/schedule/state.h"
#include "runtime/measure/object_loader.h"
#include "support/aligned.h"
#include "support/parsed.h"

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

constexpr const char* kStencil = R"(program stencil(A: input f32[42, 20], C: output f32[40, 20]) {
  local B: f32[42, 20]
  for y in 42 {
    for x in 20 {
      block B(y: S 42 = y, x: S 20 = x) {
        B[y, x] = A[y, x] * 2.0
      }
    }
  }
  for y in 40 {
    for x in 20 {
      block C(y: S 40 = y, x: S 20 = x) {
        C[y, x] = B[y, x] - B[y + 1, x] + B[y + 2, x]
      }
    }
  }
})";
constexpr const char* kPool = R"(program pool(A: input f32[3, 601], C: output f32[3, 300]) {
  local B: f32[3, 601]
  for n in 3 {
    for x in 601 {
      block B(n: S 3 = n, x: S 601 = x) {
        B[n, x] = A[n, x] + 1.0
      }
    }
  }
  for n in 3 {
    for x in 300 {
      for r in 3 {
        block C(n: S 3 = n, x: S 300 = x, r: R 3 = r) {
          init {
            C[n, x] = -1e30
          }
          C[n, x] = max(C[n, x], B[n, x * 2 + r])
        }
      }
    }
  }
})";

const Stored kCases[] = {
    {"ring_of_rows",
     kStencil,
     "b = get_block(\"B\")\nc = get_block(\"C\")\ny, x = get_loops(c)\ncompute_at(b, y)\nrolling_buffer(b, 0)",
     {"B: f32[60]", "% 3"},
     0},
    {"ring_of_blocks_of_rows",
     kStencil,
     "b = get_block(\"B\")\nc = get_block(\"C\")\ny, x = get_loops(c)\ny0, y1 = split(y, [_, 7])\n"
     "compute_at(b, y0)\nrolling_buffer(b, 0)\nvectorize(x)",
     {"B: f32[180]", "% 9"},
     0},
    {"ring_anew_in_each_row",
     kPool,
     "b = get_block(\"B\")\nc = get_block(\"C\")\nn, x, r = get_loops(c)\ncompute_at(b, x)\n"
     "rolling_buffer(b, 0)\nx0, x1 = split(x, [_, 4])",
     {"B: f32[9]", "% 9"},
     0},
    {"parts_of_a_loop",
     kDense,
     "y = get_block(\"Y\")\ni, j, k = get_loops(y)\nj_0, j_1, j_2 = loop_partition(j, [1, 4, _])\nvectorize(j_1)",
     {"for j in 2", "ramp("},
     0},
    {"parts_of_a_reduction",
     kDense,
     "y = get_block(\"Y\")\ni, j, k = get_loops(y)\nk_0, k_1 = loop_partition(k, [_, 2])\nunroll(k_1)",
     {"for k in 7", "W[j + 56]"},
     0},
    {"parts_of_a_parallel_loop",
     kTransposed,
     "b = get_block(\"B\")\ni, j = get_loops(b)\ni_0, i_1 = loop_partition(i, [16, _])\nparallel(i_0)\n"
     "parallel(i_1)",
     {"parallel for i in 16", "parallel for i in 24"},
     1600},
    {"padded_rows",
     kTransposed,
     "b = get_block(\"B\")\nstorage_align(b, 0, 0, 16, 3)",
     {"B: f32[751]", "i * 19"},
     39 * 76 + 40 + 4},
    {"padded_elements",
     kTransposed,
     "b = get_block(\"B\")\nstorage_align(b, 0, 1, 4, 1)\nstorage_align(b, 0, 1, 2, 0)",
     {"B: f32[799]", "j * 2"},
     3200},
    {"padded_part",  // three rows are left when B is computed for three columns of C
     kTransposed,
     "b = get_block(\"B\")\nc = get_block(\"C\")\nj, i = get_loops(c)\nreorder([i, j])\ni0, i1 = split(i, [_, 4])\n"
     "compute_at(b, i0)\nstorage_align(b, 0, 0, 32, 0)\nvectorize(i1)",
     {"B: f32[106]"},
     0},
    {"padded_panel",
     kDense,
     "y = get_block(\"Y\")\nw = cache_read(y, 1, \"global\")\nannotate(w, \"prepack\", 1)\n"
     "storage_align(w, 0, 0, 8, 0)",
     {"W_global: const f32[71]"},
     0},
    {"wider_type", kTransposed, "b = get_block(\"B\")\nset_dtype(b, 0, \"f64\")", {"f64[400]"}, 3200},
};

using Arrays = std::map<std::string, HostArray, std::less<>>;

Arrays arrays_for(const Program& program) {
  Arrays arrays;
  Rng rng(5);
  for (const Param& param : program.params) {
    HostArray array = HostArray::like(param.buffer);
    for (i64 i = 0; i < array.elements() && param.role != Role::Output; ++i)
      array.set(i, static_cast<double>(rng.below(9) - 4));
    arrays.emplace(param.buffer->name, array);
  }
  return arrays;
}

template <class Function>
void call(Array<LoweredArgument> arguments, Arrays& arrays, Function function) {
  std::vector<Aligned<u8>> copies;
  std::vector<void*> pointers;
  for (const LoweredArgument& argument : arguments) {
    auto [at, added] = arrays.try_emplace(
        std::string(argument.name), HostArray::zeros(argument.dtype, {argument.shape.begin(), argument.shape.end()}));
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
  if (lowered.prepack.body)
    call(lowered.prepack_arguments, arrays, [&](void** list) { return loaded.prepack("stored")(list); });
  call(lowered.run_arguments, arrays,
       [&](void** list) { return loaded.run("stored")(list, scratch.data(), nullptr, nullptr); });
}

class StoredBuffers : public testing::TestWithParam<Stored> {};

TEST_P(StoredBuffers, AreLaidOutAndComputeTheSame) {
  const Stored& c = GetParam();
  OwnedProgram base = test::parsed(c.program);
  Trace trace = test::parsed_schedule(c.schedule);
  Arena arena;
  State state(arena, base.program);
  Status status = replay(trace, state);
  ASSERT_TRUE(status) << to_string(status.rejected());
  std::vector<PassDump> dumps;
  Result<LoweredProgram> lowered = lower(arena, state.program(), {}, &dumps);
  ASSERT_TRUE(lowered) << to_string(lowered.rejected());
  for (const std::string& part : c.in_lowered) {
    bool found = std::any_of(dumps.begin(), dumps.end(),
                             [&](const PassDump& dump) { return dump.text.find(part) != std::string::npos; });
    EXPECT_TRUE(found) << "no `" << part << "` in\n" << dumps.back().text;
  }
  EXPECT_EQ(lowered->scratch_shared_bytes, (c.scratch_bytes + 63) / 64 * 64);

  Arrays arrays = arrays_for(base.program);
  std::vector<HostArray> want;
  for (const Param& param : base.program.params) want.push_back(arrays.find(param.buffer->name)->second);
  ASSERT_EQ(interpret(base.program, want), "");
  run_compiled(*lowered, arrays);
  for (std::size_t p = 0; p < want.size() && !HasFatalFailure(); ++p) {
    EXPECT_EQ(arrays.find(base.program.params[p].buffer->name)->second.bytes, want[p].bytes)
        << base.program.params[p].buffer->name;
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, StoredBuffers, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tw
