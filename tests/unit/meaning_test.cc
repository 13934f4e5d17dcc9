// What instructions mean to those that read a trace without applying it (dsl/schedule/instruction.h): it fits their
// parameters, and nobody goes by their names instead.
#include <gtest/gtest.h>

#include <filesystem>
#include <regex>

#include "dsl/base/text.h"
#include "dsl/schedule/instruction.h"
#include "support/support.h"

namespace tw {
namespace {

namespace fs = std::filesystem;

std::string type_of(const InstructionKind& kind, std::size_t parameter) {
  return parameter < kind.parameters.size() ? kind.parameters[parameter].type : "";
}

// Readers take apart arguments[0], [1], ... as the meaning says.
TEST(Meaning, FitsTheParameters) {
  for (const InstructionKind* kind : instruction_kinds()) {
    SCOPED_TRACE(kind->name);
    const Meaning& meaning = kind->meaning;
    EXPECT_EQ(kind->samples, meaning.draws != Meaning::Draws::Other);
    switch (meaning.draws) {
      case Meaning::Draws::Other:
        break;
      case Meaning::Draws::OneOf:
        EXPECT_EQ(type_of(*kind, 0) + type_of(*kind, 1), "IntsInts");
        break;
      case Meaning::Draws::Divisors:
      case Meaning::Draws::Factors:
        EXPECT_EQ(type_of(*kind, 0) + type_of(*kind, 2), "LoopIdi64");
        break;
      case Meaning::Draws::PartedDivisors:
        EXPECT_EQ(type_of(*kind, 0) + type_of(*kind, 2) + type_of(*kind, 3), "LoopIdi64i64");
        break;
      case Meaning::Draws::Order:
        EXPECT_EQ(type_of(*kind, 0), "Loops");
        break;
      case Meaning::Draws::Place:
        EXPECT_EQ(type_of(*kind, 0), "BlockId");
        break;
    }
    switch (meaning.extents) {
      case Meaning::Extents::Kept:
      case Meaning::Extents::Lost:
        break;
      case Meaning::Extents::Split:
        EXPECT_EQ(type_of(*kind, 0) + type_of(*kind, 1) + kind->result, "LoopIdFactorsLoops");
        break;
      case Meaning::Extents::Fused:
        EXPECT_EQ(type_of(*kind, 0) + kind->result, "LoopsLoopId");
        break;
      case Meaning::Extents::Listed:
        EXPECT_EQ(type_of(*kind, 0) + kind->result, "BlockIdLoops");
        break;
      case Meaning::Extents::Padded:
        EXPECT_EQ(type_of(*kind, 0) + type_of(*kind, 1), "BlockIdInts");
        break;
    }
    auto takes = [&](bool is_meant, std::size_t parameter, const char* type) {
      EXPECT_TRUE(!is_meant || type_of(*kind, parameter) == type) << type;
    };
    takes(meaning.mark != Meaning::Mark::None, 0, "LoopOrBlock");
    takes(meaning.mark != Meaning::Mark::None, 1, "Str");
    takes(meaning.mark == Meaning::Mark::Set, 2, "Literal");
    takes(meaning.is_condition, 0, "bool");
    takes(meaning.is_weight, 0, "i64");
    takes(meaning.picks, 0, "Loops");
    takes(meaning.picks, 1, "i64");
  }
}

// `name == "split"` is a property that has no word yet.
TEST(Meaning, NobodyComparesNames) {
  std::string names;
  for (const InstructionKind* kind : instruction_kinds()) names += cat(names.empty() ? "" : "|", kind->name);
  std::regex comparison(cat("[=!]= *\"(", names, ")\"|\"(", names, ")\" *[=!]="));
  EXPECT_TRUE(std::regex_search(std::string("if (name == \"split\")"), comparison));
  int files = 0;
  for (const char* folder : {"dsl", "sampler", "rules", "costmodel", "backends", "graph", "runtime", "cli"}) {
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(TW_SOURCE_DIR) / folder)) {
      if (entry.path().extension() != ".cc" && entry.path().extension() != ".h") continue;
      ++files;
      std::string text = test::read_file(entry.path().string());
      std::smatch found;
      EXPECT_FALSE(std::regex_search(text, found, comparison)) << entry.path() << ": " << found.str();
    }
  }
  EXPECT_GT(files, 100);
}

}  // namespace
}  // namespace tw
