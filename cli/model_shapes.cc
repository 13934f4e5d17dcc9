#include "cli/model_shapes.h"

#include <algorithm>
#include <charconv>

#include "dsl/base/text.h"
#include "runtime/console/output.h"

namespace tw::cli {
namespace {

// Nothing if the text is not of the form.
std::optional<ModelShape> parse_shape(const std::string& text) {
  std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) return std::nullopt;
  std::vector<i64> extents;
  const char* at = text.data() + equals + 1;
  const char* end = text.data() + text.size();
  while (at < end) {
    i64 extent = 0;
    auto [next, failed] = std::from_chars(at, end, extent);
    if (failed != std::errc() || extent < 1 || extent > (i64{1} << 40)) return std::nullopt;
    extents.push_back(extent);
    if (next != end && (*next != ',' || next + 1 == end)) return std::nullopt;
    at = next == end ? end : next + 1;
  }
  return ModelShape{text.substr(0, equals), std::move(extents)};
}

// All shapes that were said of an input, in order.
struct InputShapes {
  std::string name;
  std::vector<std::vector<i64>> shapes;
};

// nullopt after a message.
std::optional<std::vector<InputShapes>> by_input(const std::vector<std::string>& texts) {
  std::vector<InputShapes> inputs;
  for (const std::string& text : texts) {
    std::optional<ModelShape> shape = parse_shape(text);
    if (!shape) return say(cat("--shape: expected NAME=EXTENT,EXTENT,..., found `", text, "`")), std::nullopt;
    auto known = std::ranges::find(inputs, shape->name, &InputShapes::name);
    if (known == inputs.end()) known = inputs.insert(known, {shape->name, {}});
    known->shapes.push_back(std::move(shape->extents));
  }
  return inputs;
}

// "" if each input has one shape or `count`, all of a number of dimensions.
std::string problem_of(const std::vector<InputShapes>& inputs, const InputShapes& most) {
  for (const InputShapes& input : inputs) {
    std::size_t own = input.shapes.size();
    if (own != 1 && own != most.shapes.size())
      return cat("--shape: the input `", input.name, "` has ", own, " shapes and `", most.name, "` has ",
                 most.shapes.size(), ": say one, which all entries have, or one for each entry");
    for (const std::vector<i64>& shape : input.shapes) {
      if (shape.size() != input.shapes[0].size())
        return cat("--shape: the shapes of the input `", input.name, "` have ", input.shapes[0].size(), " and ",
                   shape.size(), " dimensions; all entries have the same number");
    }
  }
  return "";
}

std::vector<ModelShape> shapes_of_entry(const std::vector<InputShapes>& inputs, std::size_t entry) {
  std::vector<ModelShape> out;
  for (const InputShapes& input : inputs)
    out.push_back({input.name, input.shapes[std::min(entry, input.shapes.size() - 1)]});
  return out;
}

}  // namespace

std::optional<std::vector<ModelShape>> parse_shapes(const std::vector<std::string>& texts) {
  std::optional<std::vector<InputShapes>> inputs = by_input(texts);
  if (!inputs) return std::nullopt;
  for (const InputShapes& input : *inputs) {
    if (input.shapes.size() > 1)
      return say(cat("--shape: the input `", input.name, "` has ", input.shapes.size(),
                     " shapes; say one (only `compile` takes several)")),
             std::nullopt;
  }
  return shapes_of_entry(*inputs, 0);
}

std::optional<std::vector<std::vector<ModelShape>>> parse_entry_shapes(const std::vector<std::string>& texts) {
  std::optional<std::vector<InputShapes>> inputs = by_input(texts);
  if (!inputs) return std::nullopt;
  if (inputs->empty()) return std::vector<std::vector<ModelShape>>(1);
  const InputShapes& most =
      *std::ranges::max_element(*inputs, {}, [](const auto& input) { return input.shapes.size(); });
  if (std::string problem = problem_of(*inputs, most); !problem.empty()) return say(problem), std::nullopt;
  std::vector<std::vector<ModelShape>> entries;
  for (std::size_t i = 0; i < most.shapes.size(); ++i) {
    entries.push_back(shapes_of_entry(*inputs, i));
    for (std::size_t j = 0; j < i; ++j) {
      if (std::ranges::equal(entries[i], entries[j], {}, &ModelShape::extents, &ModelShape::extents))
        return say(cat("--shape: entries ", j, " and ", i, " have the same shapes: `", most.name, "` is ",
                       join(most.shapes[i], ","), " in both; say each combination once")),
               std::nullopt;
    }
  }
  return entries;
}

}  // namespace tw::cli
