#include "graph/onnx/function_body.h"

#include <google/protobuf/unknown_field_set.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "dsl/base/text.h"

namespace tw::graph::onnx {
namespace {

using google::protobuf::UnknownField, google::protobuf::UnknownFieldSet;

// Fields that came with IR 10: the classes of ONNX 1.12 do not have them.
constexpr int kOverloadOfNode = 8, kOverloadOfFunction = 13;

// "" without such a field.
std::string unknown_text(const UnknownFieldSet& fields, int number) {
  std::string text;
  for (int i = 0; i < fields.field_count(); ++i) {
    const UnknownField& field = fields.field(i);
    if (field.number() == number && field.type() == UnknownField::TYPE_LENGTH_DELIMITED)
      text = field.length_delimited();
  }
  return text;
}

std::string overload_of(const proto::FunctionProto& function) {
  return unknown_text(function.unknown_fields(), kOverloadOfFunction);
}

using Attributes = google::protobuf::RepeatedPtrField<proto::AttributeProto>;

class Call {
 public:
  Call(const proto::FunctionProto& function, const proto::NodeProto& call) {
    add_defaults(function);
    for (const proto::AttributeProto& given : call.attribute()) attributes_[given.name()] = given;
    for (int i = 0; i < function.input_size(); ++i) {
      if (i >= call.input_size() || call.input(i).empty()) omitted_.insert(function.input(i));
    }
  }

  void fill_in(proto::NodeProto& node) const {
    for (std::string& operand : *node.mutable_input()) {
      if (omitted_.contains(operand)) operand.clear();
    }
    Attributes filled;
    for (proto::AttributeProto& own : *node.mutable_attribute()) {
      if (own.ref_attr_name().empty()) {
        if (own.has_g()) {
          for (proto::NodeProto& inner : *own.mutable_g()->mutable_node()) fill_in(inner);
        }
        filled.Add(std::move(own));
      } else if (auto given = attributes_.find(own.ref_attr_name()); given != attributes_.end()) {
        *filled.Add() = given->second;
        filled.rbegin()->set_name(own.name());
      }
    }
    node.mutable_attribute()->Swap(&filled);
  }

 private:
  // `attribute_proto`, which came with IR 9: the classes of ONNX 1.12 do not have it.
  void add_defaults(const proto::FunctionProto& function) {
    constexpr int kAttributeProto = 11;
    const UnknownFieldSet& fields = function.unknown_fields();
    for (int i = 0; i < fields.field_count(); ++i) {
      const UnknownField& field = fields.field(i);
      proto::AttributeProto attribute;
      if (field.number() == kAttributeProto && field.type() == UnknownField::TYPE_LENGTH_DELIMITED &&
          attribute.ParseFromString(field.length_delimited()))
        attributes_[attribute.name()] = attribute;
    }
  }

  std::map<std::string, proto::AttributeProto> attributes_;
  std::set<std::string> omitted_;
};

}  // namespace

const proto::FunctionProto* called_function(const proto::ModelProto& model, const proto::NodeProto& node) {
  auto is_it = [&](const proto::FunctionProto& function) {
    return function.name() == node.op_type() && function.domain() == node.domain() &&
           overload_of(function) == unknown_text(node.unknown_fields(), kOverloadOfNode);
  };
  auto found = std::ranges::find_if(model.functions(), is_it);
  return found == model.functions().end() ? nullptr : &*found;
}

std::vector<std::string> hidden_functions(const proto::ModelProto& model) {
  std::set<std::tuple<std::string, std::string, std::string>> known;
  std::vector<std::string> lines;
  for (const proto::FunctionProto& function : model.functions()) {
    std::string overload = overload_of(function);
    if (known.emplace(function.domain(), function.name(), overload).second) continue;
    lines.push_back(cat("two functions of the domain `", function.domain(), "` have the name `", function.name(),
                        overload.empty() ? "`" : cat("` and the overload `", overload, "`")));
  }
  return lines;
}

google::protobuf::RepeatedPtrField<proto::NodeProto> function_body(const proto::FunctionProto& function,
                                                                   const proto::NodeProto& call) {
  const Call filled(function, call);
  google::protobuf::RepeatedPtrField<proto::NodeProto> body = function.node();
  for (proto::NodeProto& node : body) filled.fill_in(node);
  return body;
}

}  // namespace tw::graph::onnx
