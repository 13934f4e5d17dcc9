#include "tests/fuzz/mutate_model.h"

#include <google/protobuf/descriptor.h>

#include <iterator>
#include <limits>
#include <utility>
#include <vector>

#include "graph/onnx/proto.h"

namespace tw::fuzz {
namespace {

using google::protobuf::FieldDescriptor, google::protobuf::Message, google::protobuf::Reflection;
using graph::onnx::proto::ModelProto;

constexpr i64 kIntegers[] = {0,
                             1,
                             2,
                             3,
                             4,
                             7,
                             8,
                             16,
                             64,
                             255,
                             1000,
                             65536,
                             1 << 24,
                             i64{1} << 31,
                             i64{1} << 32,
                             i64{1} << 40,
                             i64{1} << 62,
                             -1,
                             -2,
                             -7,
                             -(i64{1} << 31),
                             std::numeric_limits<i64>::max(),
                             std::numeric_limits<i64>::min()};
constexpr double kReals[] = {0,
                             1,
                             -1,
                             0.5,
                             1e-5,
                             1e30,
                             -1e30,
                             std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::quiet_NaN()};
constexpr const char* kTexts[] = {"",           "x",      "y",         "weights.bin", "../weights.bin", "/etc/passwd",
                                  "If",         "Loop",   "axis",      "own",         "value",          "shape",
                                  "SAME_UPPER", "linear", "\xff\x01\n"};

template <class List>
auto one_of(const List& list, Rng& rng) {
  return list[static_cast<std::size_t>(rng.below(static_cast<i64>(std::size(list))))];
}

class Mutation {
 public:
  Mutation(ModelProto& model, ModelProto& other, Rng& rng) : model_(model), other_(other), rng_(rng) {}

  void run() {
    Message& message = *one_of(messages(model_), rng_);
    const Reflection& reflection = *message.GetReflection();
    std::vector<const FieldDescriptor*> set;
    reflection.ListFields(message, &set);
    const auto& type = *message.GetDescriptor();
    if (type.field_count() == 0) return;
    bool is_new = set.empty() || rng_.below(6) == 0;
    const FieldDescriptor* field =
        is_new ? type.field(static_cast<int>(rng_.below(type.field_count()))) : one_of(set, rng_);
    if (field->is_repeated())
      change_list(message, *field);
    else if (rng_.below(10) == 0)
      reflection.ClearField(&message, field);
    else
      change(message, *field);
  }

 private:
  // The message and all that are inside it.
  static std::vector<Message*> messages(Message& root) {
    std::vector<Message*> all = {&root};
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Reflection& reflection = *all[i]->GetReflection();
      std::vector<const FieldDescriptor*> set;
      reflection.ListFields(*all[i], &set);
      for (const FieldDescriptor* field : set) {
        if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
        Message* holder = all[i];
        if (!field->is_repeated()) all.push_back(reflection.MutableMessage(holder, field));
        for (int n = 0; field->is_repeated() && n < reflection.FieldSize(*holder, field); ++n)
          all.push_back(reflection.MutableRepeatedMessage(holder, field, n));
      }
    }
    return all;
  }

  // One of that type, of either file.
  const Message* example(const google::protobuf::Descriptor* type) {
    std::vector<Message*> found;
    for (ModelProto* model : {&model_, &other_}) {
      for (Message* message : messages(*model)) {
        if (message->GetDescriptor() == type) found.push_back(message);
      }
    }
    return found.empty() ? nullptr : one_of(found, rng_);
  }

  void change_list(Message& message, const FieldDescriptor& field) {
    const Reflection& reflection = *message.GetReflection();
    int size = reflection.FieldSize(message, &field);
    i64 how = rng_.below(5);
    if (size == 0 || how == 0) return add(message, field);
    int at = static_cast<int>(rng_.below(size));
    if (how == 1) {
      reflection.SwapElements(&message, &field, at, size - 1);
      return reflection.RemoveLast(&message, &field);
    }
    if (how == 2) return reflection.SwapElements(&message, &field, at, static_cast<int>(rng_.below(size)));
    change_element(message, field, at);
  }

  void add(Message& message, const FieldDescriptor& field) {
    const Reflection& reflection = *message.GetReflection();
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_MESSAGE:
        add_message(message, field);
        break;
      case FieldDescriptor::CPPTYPE_STRING:
        reflection.AddString(&message, &field, text());
        break;
      case FieldDescriptor::CPPTYPE_INT64:
        reflection.AddInt64(&message, &field, integer(0));
        break;
      case FieldDescriptor::CPPTYPE_INT32:
        reflection.AddInt32(&message, &field, static_cast<std::int32_t>(integer(0)));
        break;
      case FieldDescriptor::CPPTYPE_UINT64:
        reflection.AddUInt64(&message, &field, static_cast<u64>(integer(0)));
        break;
      case FieldDescriptor::CPPTYPE_FLOAT:
        reflection.AddFloat(&message, &field, static_cast<float>(one_of(kReals, rng_)));
        break;
      case FieldDescriptor::CPPTYPE_DOUBLE:
        reflection.AddDouble(&message, &field, one_of(kReals, rng_));
        break;
      default:
        break;
    }
  }

  void add_message(Message& message, const FieldDescriptor& field) {
    const Message* found = example(field.message_type());
    Message* copy = found ? found->New() : nullptr;
    if (copy) copy->CopyFrom(*found);  // it may hold the message that it becomes a part of
    if (copy) message.GetReflection()->AddAllocatedMessage(&message, &field, copy);
    if (!copy) message.GetReflection()->AddMessage(&message, &field);
  }

  void change_element(Message& message, const FieldDescriptor& field, int at) {
    const Reflection& reflection = *message.GetReflection();
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_MESSAGE:
        replace(*reflection.MutableRepeatedMessage(&message, &field, at));
        break;
      case FieldDescriptor::CPPTYPE_STRING:
        reflection.SetRepeatedString(&message, &field, at, text());
        break;
      case FieldDescriptor::CPPTYPE_INT64:
        reflection.SetRepeatedInt64(&message, &field, at, integer(reflection.GetRepeatedInt64(message, &field, at)));
        break;
      case FieldDescriptor::CPPTYPE_INT32:
        reflection.SetRepeatedInt32(&message, &field, at, static_cast<std::int32_t>(integer(0)));
        break;
      case FieldDescriptor::CPPTYPE_UINT64:
        reflection.SetRepeatedUInt64(&message, &field, at, static_cast<u64>(integer(0)));
        break;
      case FieldDescriptor::CPPTYPE_FLOAT:
        reflection.SetRepeatedFloat(&message, &field, at, static_cast<float>(one_of(kReals, rng_)));
        break;
      case FieldDescriptor::CPPTYPE_DOUBLE:
        reflection.SetRepeatedDouble(&message, &field, at, one_of(kReals, rng_));
        break;
      default:
        break;
    }
  }

  void change(Message& message, const FieldDescriptor& field) {
    const Reflection& reflection = *message.GetReflection();
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_MESSAGE:
        replace(*reflection.MutableMessage(&message, &field));
        break;
      case FieldDescriptor::CPPTYPE_STRING:
        reflection.SetString(
            &message, &field,
            field.type() == FieldDescriptor::TYPE_BYTES ? bytes(reflection.GetString(message, &field)) : text());
        break;
      case FieldDescriptor::CPPTYPE_INT64:
        reflection.SetInt64(&message, &field, integer(reflection.GetInt64(message, &field)));
        break;
      case FieldDescriptor::CPPTYPE_INT32:
        reflection.SetInt32(&message, &field, static_cast<std::int32_t>(rng_.below(24)));  // a type of elements
        break;
      case FieldDescriptor::CPPTYPE_FLOAT:
        reflection.SetFloat(&message, &field, static_cast<float>(one_of(kReals, rng_)));
        break;
      case FieldDescriptor::CPPTYPE_ENUM:
        reflection.SetEnumValue(&message, &field, static_cast<int>(rng_.below(16)));
        break;
      default:
        break;
    }
  }

  void replace(Message& message) {
    const Message* found = example(message.GetDescriptor());
    if (!found) return;
    std::unique_ptr<Message> copy(found->New());
    copy->CopyFrom(*found);
    message.CopyFrom(*copy);
  }

  i64 integer(i64 now) {
    u64 near = static_cast<u64>(now) + static_cast<u64>(rng_.below(5)) - 2;
    return rng_.below(2) == 0 ? one_of(kIntegers, rng_) : static_cast<i64>(near);
  }

  // A name, an operator, ... of either file, or one of the list.
  std::string text() {
    if (rng_.below(8) == 0) return one_of(kTexts, rng_);
    std::vector<std::string> found = {"x"};
    for (Message* message : messages(rng_.below(3) == 0 ? other_ : model_)) texts_of(*message, found);
    return one_of(found, rng_);
  }

  static void texts_of(const Message& message, std::vector<std::string>& found) {
    const Reflection& reflection = *message.GetReflection();
    std::vector<const FieldDescriptor*> set;
    reflection.ListFields(message, &set);
    for (const FieldDescriptor* field : set) {
      if (field->type() != FieldDescriptor::TYPE_STRING) continue;
      if (!field->is_repeated()) found.push_back(reflection.GetString(message, field));
      for (int n = 0; field->is_repeated() && n < reflection.FieldSize(message, field); ++n)
        found.push_back(reflection.GetRepeatedString(message, field, n));
    }
  }

  std::string bytes(std::string now) {
    if (rng_.below(3) == 0) return text();
    if (now.empty() || rng_.below(3) == 0) now.resize(static_cast<std::size_t>(rng_.below(64)));
    for (i64 n = rng_.below(8); n > 0 && !now.empty(); --n)
      now[static_cast<std::size_t>(rng_.below(static_cast<i64>(now.size())))] = static_cast<char>(rng_.below(256));
    return now;
  }

  ModelProto& model_;
  ModelProto& other_;
  Rng& rng_;
};

// Bytes of one file changed, cut off, or followed by those of the other.
std::string with_other_bytes(std::string out, const std::string& other, Rng& rng) {
  auto place = [&](std::size_t size) { return static_cast<std::size_t>(rng.below(static_cast<i64>(size) + 1)); };
  i64 how = rng.below(4);
  if (how == 0) out.resize(place(out.size()));
  if (how == 1) out = out.substr(0, place(out.size())) + other.substr(place(other.size()));
  for (i64 n = rng.below(6); n >= 0 && !out.empty(); --n)
    out[place(out.size() - 1)] = static_cast<char>(rng.below(256));
  return out;
}

}  // namespace

std::string mutated_model(const std::string& file, const std::string& other, Rng& rng) {
  ModelProto model, second;
  if (rng.below(8) == 0 || !model.ParseFromString(file)) return with_other_bytes(file, other, rng);
  second.ParseFromString(other);
  for (i64 changes = 1 + rng.below(4); changes > 0; --changes) Mutation(model, second, rng).run();
  return model.SerializeAsString();
}

}  // namespace tw::fuzz
