// tracewright._core: calls compiled models on arrays of NumPy, PyTorch, and whatever else speaks DLPack or the buffer
// protocol. Inputs are read where they lie if they are dense and aligned, else from a copy.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "python/opened_model.h"

namespace nb = nanobind;

namespace tw::python {
namespace {

using Array = nb::ndarray<nb::ro>;
using Code = nb::dlpack::dtype_code;

struct ElementType {
  const char* name;  // as in manifests
  nb::dlpack::dtype type;
};

constexpr nb::dlpack::dtype dtype_of(Code code, std::uint8_t bits) {
  return {static_cast<std::uint8_t>(code), bits, 1};
}

constexpr ElementType kTypes[] = {
    {"bool", dtype_of(Code::Bool, 8)},    {"i8", dtype_of(Code::Int, 8)},     {"u8", dtype_of(Code::UInt, 8)},
    {"i32", dtype_of(Code::Int, 32)},     {"i64", dtype_of(Code::Int, 64)},   {"f16", dtype_of(Code::Float, 16)},
    {"bf16", dtype_of(Code::Bfloat, 16)}, {"f32", dtype_of(Code::Float, 32)}, {"f64", dtype_of(Code::Float, 64)},
};
// The bits of bf16 where the owner of the memory has no such type, as NumPy.
constexpr nb::dlpack::dtype kBits16 = dtype_of(Code::UInt, 16);

nb::dlpack::dtype parse_type(const std::string& name) {
  for (const ElementType& type : kTypes) {
    if (name == type.name) return type.type;
  }
  throw nb::value_error(("there is no element type `" + name + "`").c_str());
}

std::string name_of(nb::dlpack::dtype dtype) {
  for (const ElementType& type : kTypes) {
    if (dtype == type.type) return type.name;
  }
  const char* kind = dtype.code == static_cast<std::uint8_t>(Code::UInt)      ? "u"
                     : dtype.code == static_cast<std::uint8_t>(Code::Int)     ? "i"
                     : dtype.code == static_cast<std::uint8_t>(Code::Complex) ? "complex"
                                                                              : "type of bits ";
  return kind + std::to_string(dtype.bits);
}

struct Tensor {
  std::string name, type_name;
  nb::dlpack::dtype type;
  std::vector<std::size_t> shape;
  std::size_t bytes = 0;
};

Tensor tensor_of(nb::handle described) {
  Tensor tensor;
  tensor.name = nb::cast<std::string>(described[0]);
  tensor.type_name = nb::cast<std::string>(described[1]);
  tensor.type = parse_type(tensor.type_name);
  tensor.shape = nb::cast<std::vector<std::size_t>>(described[2]);
  tensor.bytes = tensor.type.bits / 8;
  for (std::size_t extent : tensor.shape) tensor.bytes *= extent;
  return tensor;
}

std::string described(const std::string& type, const std::size_t* shape, std::size_t dimensions) {
  std::string out = type + "[";
  for (std::size_t i = 0; i < dimensions; ++i) out += (i ? ", " : "") + std::to_string(shape[i]);
  return out + "]";
}

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<void, Free>;

// Aligned to TW_ALIGNMENT bytes.
Memory new_memory(std::size_t bytes) {
  Memory memory(std::aligned_alloc(TW_ALIGNMENT, (bytes / TW_ALIGNMENT + 1) * TW_ALIGNMENT));
  if (!memory) throw std::bad_alloc();
  return memory;
}

bool is_dense(const Array& array) {
  std::int64_t expected = 1;
  for (std::size_t i = array.ndim(); i-- > 0;) {
    if (array.shape(i) != 1 && array.stride(i) != expected) return false;
    expected *= static_cast<std::int64_t>(array.shape(i));
  }
  return true;
}

// Appends the elements from dimension `axis` on at `to`, row by row.
void copy_dense(const Array& array, std::size_t axis, const char* from, char*& to) {
  std::size_t item = array.itemsize();
  if (axis == array.ndim()) {
    std::memcpy(to, from, item);
    to += item;
    return;
  }
  for (std::size_t i = 0; i < array.shape(axis); ++i, from += array.stride(axis) * static_cast<std::int64_t>(item))
    copy_dense(array, axis + 1, from, to);
}

std::vector<std::size_t> shape_of(const Array& array) {
  std::vector<std::size_t> shape(array.ndim());
  for (std::size_t i = 0; i < shape.size(); ++i) shape[i] = array.shape(i);
  return shape;
}

std::string expected_found(const Tensor& tensor, const Array& array) {
  std::vector<std::size_t> shape = shape_of(array);
  return "`" + tensor.name + "`: expected " + described(tensor.type_name, tensor.shape.data(), tensor.shape.size()) +
         ", found " + described(name_of(array.dtype()), shape.data(), shape.size());
}

// Any shape, and the element type of the input.
Array import_array(const Tensor& tensor, nb::handle object) {
  Array array;
  if (!nb::try_cast(object, array, false) || !array.is_valid())
    throw nb::type_error(("`" + tensor.name + "`: expected an array (DLPack or the buffer protocol), found " +
                          nb::cast<std::string>(nb::str(object.type().attr("__name__"))))
                             .c_str());
  std::string where = "`" + tensor.name + "`: ";
  if (array.device_type() != nb::device::cpu::value)
    throw nb::value_error((where + "the array lies on a device; the model needs it in main memory").c_str());
  bool is_type = array.dtype() == tensor.type || (tensor.type_name == "bf16" && array.dtype() == kBits16);
  if (!is_type) throw nb::type_error(expected_found(tensor, array).c_str());
  return array;
}

// Memory that Python owns from now on.
nb::object exported(const Tensor& tensor, Memory memory, bool is_torch) {
  void* data = memory.get();
  nb::capsule owner(memory.release(), [](void* owned) noexcept { std::free(owned); });
  const std::size_t* shape = tensor.shape.data();
  std::size_t dimensions = tensor.shape.size();
  if (is_torch)
    return nb::cast(
        nb::ndarray<nb::pytorch>(data, dimensions, shape, owner, nullptr, tensor.type, nb::device::cpu::value));
  return nb::cast(nb::ndarray<nb::numpy>(data, dimensions, shape, owner, nullptr,
                                         tensor.type_name == "bf16" ? kBits16 : tensor.type, nb::device::cpu::value));
}

// What a model takes and gives for one combination of shapes.
struct Entry {
  std::vector<Tensor> inputs, outputs;
};

bool fits(const Entry& entry, const std::vector<Array>& arrays) {
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    if (shape_of(arrays[i]) != entry.inputs[i].shape) return false;
  }
  return true;
}

class Model {
 public:
  // `entries`: of each entry the inputs and the outputs.
  Model(const std::string& library, const std::string& name, const std::string& weights, int threads, nb::list entries)
      : opened_(library, name, weights, static_cast<int>(nb::len(entries)), threads) {
    for (nb::handle described : entries) {
      Entry& entry = entries_.emplace_back();
      for (nb::handle input : described[0]) entry.inputs.push_back(tensor_of(input));
      for (nb::handle output : described[1]) entry.outputs.push_back(tensor_of(output));
    }
  }

  // By the entry for the shapes of the arrays.
  nb::list run(nb::list objects, bool is_torch) {
    std::vector<Array> arrays;
    for (std::size_t i = 0; i < entries_[0].inputs.size(); ++i)
      arrays.push_back(import_array(entries_[0].inputs[i], objects[i]));
    std::size_t number = 0;
    while (number < entries_.size() && !fits(entries_[number], arrays)) ++number;
    if (number == entries_.size()) refuse_shapes(arrays);
    const Entry& entry = entries_[number];
    std::vector<Memory> results;
    std::vector<void*> out;
    for (const Tensor& output : entry.outputs) {
      results.push_back(new_memory(output.bytes));
      out.push_back(results.back().get());
    }
    {
      nb::gil_scoped_release others_may_run;
      call(number, arrays, out);
    }
    nb::list found;
    for (std::size_t i = 0; i < results.size(); ++i)
      found.append(exported(entry.outputs[i], std::move(results[i]), is_torch));
    return found;
  }

  // How many inputs of the calls so far were copied.
  std::size_t copies() const { return copies_; }

 private:
  // No entry has them.
  [[noreturn]] void refuse_shapes(const std::vector<Array>& arrays) const {
    if (entries_.size() == 1) {
      std::size_t wrong = 0;
      while (shape_of(arrays[wrong]) == entries_[0].inputs[wrong].shape) ++wrong;
      throw nb::value_error(expected_found(entries_[0].inputs[wrong], arrays[wrong]).c_str());
    }
    std::string message = "the model has no entry for these shapes: ";
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      const Tensor& input = entries_[0].inputs[i];
      std::vector<std::size_t> shape = shape_of(arrays[i]);
      message += (i ? ", " : "") + input.name + " " + described(input.type_name, shape.data(), shape.size());
    }
    throw nb::value_error((message + "; see Model.entries").c_str());
  }

  void call(std::size_t entry, const std::vector<Array>& arrays, const std::vector<void*>& out) {
    std::vector<Memory> copied;
    std::vector<const void*> in;
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      const void* data = arrays[i].data();
      bool is_aligned = reinterpret_cast<std::uintptr_t>(data) % TW_ALIGNMENT == 0;
      if (!data || !is_aligned || !is_dense(arrays[i])) {
        copied.push_back(copy_of(arrays[i], entries_[entry].inputs[i].bytes));
        data = copied.back().get();
        ++copies_;
      }
      in.push_back(data);
    }
    opened_.run(static_cast<int>(entry), in, out);
  }

  static Memory copy_of(const Array& array, std::size_t bytes) {
    Memory memory = new_memory(bytes);
    const char* from = static_cast<const char*>(array.data());
    char* to = static_cast<char*>(memory.get());
    if (bytes == 0) return memory;
    if (is_dense(array))
      std::memcpy(to, from, bytes);
    else
      copy_dense(array, 0, from, to);
    return memory;
  }

  OpenedModel opened_;
  std::vector<Entry> entries_;
  std::atomic<std::size_t> copies_ = 0;
};

// An array of NumPy that no call needs to copy; its elements are not set.
nb::object empty(const std::vector<std::size_t>& shape, const std::string& type) {
  nb::list extents;
  for (std::size_t extent : shape) extents.append(extent);
  Tensor tensor = tensor_of(nb::make_tuple("", type, extents));
  return exported(tensor, new_memory(tensor.bytes), /*is_torch=*/false);
}

}  // namespace
}  // namespace tw::python

NB_MODULE(_core, module) {
  using tw::python::Model;
  nb::set_leak_warnings(false);  // models that a program keeps until it ends
  module.attr("ALIGNMENT") = TW_ALIGNMENT;
  module.def("empty", &tw::python::empty);
  nb::class_<Model>(module, "Model")
      .def(nb::init<const std::string&, const std::string&, const std::string&, int, nb::list>())
      .def("run", &Model::run)
      .def_prop_ro("copies", &Model::copies);
}
