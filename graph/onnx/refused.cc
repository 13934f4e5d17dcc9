// Operators that are known and not supported, with the reason.
#include "graph/onnx/node_import.h"

namespace tw::graph::onnx {

const Refusals& refusals() {
  static const Refusals table = [] {
    Refusals all;
    auto add = [&](const char* reason, std::initializer_list<const char*> names) {
      for (const char* name : names) all[name] = reason;
    };
    add("the shape of its result depends on data", {"Compress", "NonZero", "Unique"});
    add("its body runs as often as data says", {"Loop", "Scan", "SequenceMap"});
    add("sequences and optional values are not supported",
        {"ConcatFromSequence", "Optional", "OptionalGetElement", "OptionalHasElement", "SequenceAt",
         "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert", "SequenceLength", "SplitToSequence"});
    add("its result is random",
        {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"});
    add("text is not supported",
        {"RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit", "TfIdfVectorizer"});
    add("the language has no operations on the bits of integers",
        {"BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor"});
    add("the data of images in files is not supported", {"ImageDecoder"});
    add("nobody has written it yet",
        {"AffineGrid", "DFT", "DeformConv", "Det", "MaxRoiPool", "MelWeightMatrix", "RoiAlign", "STFT"});
    return all;
  }();
  return table;
}

}  // namespace tw::graph::onnx
