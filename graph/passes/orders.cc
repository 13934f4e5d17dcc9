#include "graph/passes/orders.h"

#include <cstring>

namespace tw::graph {

using Ints = std::vector<i64>;

Ints in_order(const Ints& values, const Ints& order) {
  Ints out;
  for (i64 d : order) out.push_back(values[static_cast<std::size_t>(d)]);
  return out;
}

Ints inverse(const Ints& order) {
  Ints out(order.size());
  for (std::size_t d = 0; d < order.size(); ++d) out[static_cast<std::size_t>(order[d])] = static_cast<i64>(d);
  return out;
}

HostArray transposed(const HostArray& array, const Ints& order) {
  HostArray out = HostArray::zeros(array.dtype, in_order(array.shape, order));
  Ints strides(order.size(), 1), place(order.size(), 0);
  for (std::size_t d = order.size(); d-- > 1;) strides[d - 1] = strides[d] * array.shape[d];
  strides = in_order(strides, order);
  const i64 size = bytes_of(array.dtype);
  i64 from = 0;
  for (i64 to = 0; to < out.elements(); ++to) {
    std::memcpy(out.bytes.data() + to * size, array.bytes.data() + from * size, static_cast<std::size_t>(size));
    for (std::size_t d = order.size(); d-- > 0;) {
      from += strides[d];
      if (++place[d] < out.shape[d]) break;
      from -= strides[d] * out.shape[d];
      place[d] = 0;
    }
  }
  return out;
}

ValueId transposed(GraphCopy& copy, ValueId value, const Ints& shape, const Ints& order, const std::string& name) {
  if (const HostArray* data = copy.builder().data(value)) {
    HostArray array = *data;
    array.shape = shape;
    return copy.builder().constant(name, transposed(array, order));
  }
  if (copy.builder().type(value).shape != shape) value = copy.add("reshape", {{"R", shape}}, {value}, name);
  return copy.add("transpose", {{"order", order}}, {value}, name);
}

}  // namespace tw::graph
