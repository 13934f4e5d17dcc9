// Every parser reads its seeds, and thousands of them damaged: the fuzzers' targets, without a fuzzer.
#include <gtest/gtest.h>

#include "dsl/base/rng.h"
#include "tests/fuzz/fuzz_targets.h"

namespace tw {
namespace {

std::string damaged(const std::string& text, const std::string& other, Rng& rng) {
  auto below = [&](std::size_t n) { return static_cast<std::size_t>(rng.below(static_cast<i64>(n) + 1)); };
  std::string out = text;
  for (int i = 0; i < 3; ++i) {
    std::size_t at = below(out.size()), length = below(std::min<std::size_t>(20, out.size() - at));
    switch (rng.below(5)) {
      case 0:
        out.erase(at, length);
        break;
      case 1:
        out.insert(at, out.substr(below(out.size()), length));
        break;
      case 2:
        if (at < out.size()) out[at] = static_cast<char>(rng.below(256));
        break;
      case 3:
        out.resize(at);
        break;
      default:
        out.insert(at, other.substr(below(other.size()), 30));
    }
  }
  return out;
}

class Parsers : public testing::TestWithParam<std::size_t> {};

TEST_P(Parsers, SurviveDamagedSeeds) {
  const fuzz::Target& target = fuzz::targets()[GetParam()];
  ASSERT_FALSE(target.seeds.empty());
  for (const std::string& seed : target.seeds) target.run(seed);
  Rng rng(7, GetParam());
  for (int i = 0; i < 1000; ++i) {
    const std::string& seed = target.seeds[rng.below(static_cast<i64>(target.seeds.size()))];
    const std::string& other = target.seeds[rng.below(static_cast<i64>(target.seeds.size()))];
    std::string text = damaged(seed, other, rng);
    SCOPED_TRACE(text);
    target.run(text);
  }
}

// 64 KiB of the same: nesting without end, and programs longer than anybody's. Each is read, or refused, in a second
// (and so ctest's limit is met).
TEST_P(Parsers, SurviveLongTexts) {
  constexpr std::size_t kBytes = 65536;
  const fuzz::Target& target = fuzz::targets()[GetParam()];
  std::vector<std::string> pieces = target.seeds;
  for (const char* piece : {"(",           "[",  "{",  "-",       "not ",           "1+",        "a.",  "[{a: ",
                            "- - ",        "\"", "#",  "if a { ", "for i in [1] {", "let a = (", "a, ", "either {",
                            "&a [*a,*a] ", "f(", "\n", "9"}) {
    pieces.push_back(piece);
  }
  std::string beginning = target.seeds[0].substr(0, target.seeds[0].size() / 2);
  for (const std::string& piece : pieces) {
    std::string text;
    while (!piece.empty() && text.size() + piece.size() <= kBytes) text += piece;
    SCOPED_TRACE(piece);
    target.run(text);
    target.run(beginning + text);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Parsers, testing::Range<std::size_t>(0, fuzz::targets().size()),
                         [](const auto& info) { return fuzz::targets()[info.param].name; });

}  // namespace
}  // namespace tw
