"""oneDNN 3, through its C interface: as onednn_peer.cc, which says more. A descriptor here has dims, strides (None: the
layout that oneDNN likes best) and oneDNN's handle. Handles live as long as the process, which has one problem."""
import ctypes
from ctypes import byref, c_char_p, c_float, c_int, c_int64, c_uint, c_void_p
from functools import partial
from types import SimpleNamespace

from library import Unsupported, address_of, function, in_turn, load, new_array, next_operand, way

# Constants of dnnl_types.h and dnnl_common_types.h, version 3.
(CPU, IN_ORDER, F32, ANY, FORWARD_INFERENCE) = (1, 1, 3, 1, 96)
(QUERY_NAME, QUERY_SOURCE, QUERY_WEIGHTS, QUERY_RESULT) = (8, 129, 131, 133)
(SOURCE, OPERAND, RESULT, WEIGHTS, BIAS, SCALE, SHIFT, POST_OP) = (1, 2, 17, 33, 41, 51, 52, 32768)
CONVOLUTIONS = {False: ("convolution", (1, 3)), True: ("deconvolution", (10, 11))}  # direct; auto or winograd
ELTWISE = {"relu": (0x20, 0.0), "gelu": (0x31, 0.0), "silu": (0x2C, 1.0)}
BINARY_ADD, SOFTMAX_ACCURATE, NORM_LP_SUM, USE_SCALE_AND_SHIFT = 0x1FFF0, 0x30000, 0x2FFF8, 6


class Argument(ctypes.Structure):
    _fields_ = [("arg", c_int), ("memory", c_void_p)]


def dims_of(values):
    return (c_int64 * 12)(*values)


def plain_strides(dims):
    strides = [1] * len(dims)
    for i in range(len(dims) - 1, 0, -1):
        strides[i - 1] = strides[i] * dims[i]
    return strides


class OneDnn:
    def __init__(self, threads):
        self.library, wheel = load(["onednn-cpu-gomp", "onednn-cpu-iomp"], "libdnnl.so.3")
        numbers = function(self.library, "dnnl_version", ctypes.POINTER(c_int * 3))().contents
        self.version = f"oneDNN {'.'.join(str(number) for number in numbers)}, wheel {wheel}"
        self.library.dnnl_primitive_desc_query_md.restype = c_void_p
        self.engine = self.made("engine_create", c_int(CPU), ctypes.c_size_t(0))
        self.stream = self.made("stream_create", self.engine, c_uint(IN_ORDER))

    def made(self, name, *arguments):
        """The handle that dnnl_NAME makes."""
        handle = c_void_p()
        status = getattr(self.library, "dnnl_" + name)(byref(handle), *arguments)
        if status == 0:
            return handle
        raise Unsupported(f"oneDNN refuses with status {status} of dnnl_{name}")

    def prepare(self, problem, shape):
        self.keep, self.ways, self.refusal = [], [], Unsupported(f"oneDNN has no {problem.op}")
        collect = {"gemm": self.products, "convolution": self.convolutions, "softmax": self.softmax,
                   "layernorm": self.layernorm, "norm": self.norm}.get(shape.kind)
        if collect:
            if shape.kind not in ("gemm", "convolution") and problem.epilogue:
                raise Unsupported(f"no epilogues after {problem.op}")
            collect(problem, shape)
        if not self.ways:
            raise self.refusal
        return self.ways

    def attempt(self, make, *arguments):
        """What oneDNN does not offer only costs that way."""
        try:
            make(*arguments)
        except Unsupported as refused:
            self.refusal = refused

    def desc(self, dims, strides=None):
        if strides is None:
            handle = self.made("memory_desc_create_with_tag", c_int(len(dims)), dims_of(dims), c_int(F32), c_int(ANY))
        else:
            handle = self.made("memory_desc_create_with_strides", c_int(len(dims)), dims_of(dims), c_int(F32),
                               dims_of(strides))
        return SimpleNamespace(dims=dims, strides=strides, handle=handle)

    def memory(self, handle, array=None):
        """With the data of an array, or of its own."""
        data = c_void_p(-1) if array is None else address_of(array)
        return self.made("memory_create", handle, self.engine, data)

    def execute(self, primitive, arguments):
        """A call that runs a primitive and waits for it; `arguments`: {number: memory}."""
        list_of = (Argument * len(arguments))(*(Argument(arg, memory.value) for arg, memory in arguments.items()))
        self.keep.append(list_of)
        run = partial(self.library.dnnl_primitive_execute, primitive, self.stream, c_int(len(arguments)), list_of)
        wait = partial(self.library.dnnl_stream_wait, self.stream)
        if run() or wait():
            raise Unsupported("oneDNN cannot execute its primitive")
        return in_turn([run, wait])

    def reorder(self, handle_from, memory_from, handle_to, memory_to):
        chosen = self.made("reorder_primitive_desc_create", handle_from, self.engine, handle_to, self.engine, None)
        return self.execute(self.made("primitive_create", chosen), {SOURCE: memory_from, RESULT: memory_to})

    def suited(self, wanted, plain, array):
        """An array in the layout that was chosen."""
        memory = self.memory(plain.handle, array)
        if self.library.dnnl_memory_desc_equal(wanted, plain.handle):
            return memory
        target = self.memory(wanted)
        self.reorder(plain.handle, memory, wanted, target)
        return target

    def add_way(self, name, chosen, result, inputs, others):
        """`inputs`: {number: (which layout to ask for, plain descriptor, array)}; `others`: {number: memory}."""
        def queried(what):
            return c_void_p(self.library.dnnl_primitive_desc_query_md(chosen, c_int(what), c_int(0)))

        arguments = dict(others)
        for number, (what, plain, array) in inputs.items():
            arguments[number] = self.suited(queried(what), plain, array)
        made = arguments[RESULT] = self.memory(queried(QUERY_RESULT))
        implementation = c_char_p()
        self.library.dnnl_primitive_desc_query(chosen, c_int(QUERY_NAME), c_int(0), byref(implementation))
        run = self.execute(self.made("primitive_create", chosen), arguments)
        elements = 1
        for extent in result.dims:
            elements *= extent

        def output():
            plain = new_array(elements)
            self.reorder(queried(QUERY_RESULT), made, result.handle, self.memory(result.handle, plain))
            return bytes(plain)

        self.ways.append(way(f"{name} ({(implementation.value or b'?').decode()})", run, output))

    def epilogue(self, problem, shape, result, line):
        """Attributes, the array of a leading bias, memories of post-ops. `line`: dims of a bias spread on the result."""
        steps = self.made("post_ops_create")
        operands, bias, others = iter(problem.inputs[shape.inputs:]), None, {}
        count = 0
        for i, step in enumerate(problem.epilogue):
            if step == "bias" and i == 0:
                bias = next_operand(operands, step)
                continue
            if step in ("bias", "add"):
                desc = self.desc(line, plain_strides(line)) if step == "bias" else result
                others[POST_OP * (count + 1) | OPERAND] = self.memory(desc.handle, next_operand(operands, step))
                self.library.dnnl_post_ops_append_binary(steps, c_int(BINARY_ADD), desc.handle)
            elif step in ELTWISE:
                algorithm, alpha = ELTWISE[step]
                self.library.dnnl_post_ops_append_eltwise(steps, c_int(algorithm), c_float(alpha), c_float(0))
            else:
                raise Unsupported(f"oneDNN has no epilogue {step}")
            count += 1
        attributes = self.made("primitive_attr_create")
        self.library.dnnl_primitive_attr_set_post_ops(attributes, steps)
        return attributes, bias, others

    def products(self, problem, shape):
        dropped = 0 if shape.outer > 1 else 1 if shape.inner > 1 else 2

        def plain(strides, count, columns):
            return self.desc([shape.outer, shape.inner, count, columns][dropped:], list(strides)[dropped:])

        a, b, c = plain(shape.a, shape.m, shape.k), plain(shape.b, shape.k, shape.n), plain(shape.c, shape.m, shape.n)
        spread = [1] * (len(c.dims) - 1) + [shape.n]

        def product(name, kind, prop, b, weights, line):
            attributes, bias, others = self.epilogue(problem, shape, c, spread)
            bias_desc = self.desc(line, plain_strides(line))
            if bias is not None:
                others[BIAS] = self.memory(bias_desc.handle, bias)
            chosen = self.made(kind + "_primitive_desc_create", self.engine, *prop, a.handle, weights.handle,
                               bias_desc.handle if bias is not None else None, c.handle, attributes)
            inputs = {SOURCE: (QUERY_SOURCE, a, problem.inputs[0]), WEIGHTS: (QUERY_WEIGHTS, b, problem.inputs[1])}
            self.add_way(name, chosen, c, inputs, others)

        self.attempt(product, "matmul", "matmul", (), b, b, spread)
        if shape.constant_b:
            self.attempt(product, "matmul, packed weights", "matmul", (), b, self.desc(b.dims), spread)
            turned = self.desc([shape.n, shape.k], [1, shape.n])
            self.attempt(product, "inner product, packed weights", "inner_product_forward",
                         (c_int(FORWARD_INFERENCE),), turned, self.desc(turned.dims), [shape.n])

    def convolutions(self, problem, shape):
        axes, groups = len(shape.extents), shape.groups
        per_group_in, per_group_out = shape.ci // groups, shape.co // groups
        kernel_dims = [shape.kernel] * axes
        weight_dims, weight_strides = [per_group_out, per_group_in] + kernel_dims, [1, shape.co]
        if groups > 1:
            weight_dims, weight_strides = [groups] + weight_dims, [per_group_out] + weight_strides
        weight_strides += [per_group_in * shape.co * step for step in plain_strides(kernel_dims)]
        weights = self.desc(weight_dims, weight_strides)

        def channels_last(channels, extents):
            steps = plain_strides([shape.n] + extents + [channels])
            return self.desc([shape.n, channels] + extents, [steps[0], 1] + steps[1:-1])

        source, result = channels_last(shape.ci, shape.extents), channels_last(shape.co, shape.out)
        reach = shape.dilation * (shape.kernel - 1) + 1
        small, large = (shape.extents, shape.out) if shape.transposed else (shape.out, shape.extents)
        right = [(s - 1) * shape.stride + reach - l - shape.padding for s, l in zip(small, large)]
        window = [dims_of(values) for values in ([shape.stride] * axes, [shape.dilation - 1] * axes,
                                                 [shape.padding] * axes, right)]
        kind, algorithms = CONVOLUTIONS[shape.transposed]

        def convolution_of(best_layout, algorithm):
            attributes, bias, others = self.epilogue(problem, shape, result, [1, shape.co] + [1] * axes)
            line = self.desc([shape.co], [1])
            if bias is not None:
                others[BIAS] = self.memory(line.handle, bias)
            data = [self.desc(plain.dims) if best_layout else plain for plain in (source, result)]
            chosen = self.made(kind + "_forward_primitive_desc_create", self.engine, c_int(FORWARD_INFERENCE),
                               c_int(algorithm), data[0].handle, self.desc(weights.dims).handle,
                               line.handle if bias is not None else None, data[1].handle, *window, attributes)
            inputs = {SOURCE: (QUERY_SOURCE, source, problem.inputs[0]),
                      WEIGHTS: (QUERY_WEIGHTS, weights, problem.inputs[1])}
            self.add_way("best layout" if best_layout else "channels last", chosen, result, inputs, others)

        for best_layout in (True, False):
            for algorithm in algorithms:
                self.attempt(convolution_of, best_layout, algorithm)

    def row_wise(self, name, problem, shape, width, create, others=None):
        """`create` gets the plain descriptors of source and result, and makes the primitive descriptor."""
        source = self.desc([shape.rows, shape.columns], [shape.columns, 1])
        result = self.desc([shape.rows, width], [width, 1])
        self.attempt(lambda: self.add_way(name, create(source.handle, result.handle), result,
                                          {SOURCE: (QUERY_SOURCE, source, problem.inputs[0])}, others or {}))

    def softmax(self, problem, shape):
        self.row_wise("softmax", problem, shape, shape.columns, lambda source, result: self.made(
            "softmax_forward_primitive_desc_create", self.engine, c_int(FORWARD_INFERENCE), c_int(SOFTMAX_ACCURATE),
            source, result, c_int(1), None))

    def layernorm(self, problem, shape):
        line = self.desc([shape.columns], [1])
        scale, shift = (self.memory(line.handle, array) for array in problem.inputs[1:3])
        self.row_wise("layer normalization", problem, shape, shape.columns, lambda source, result: self.made(
            "layer_normalization_forward_primitive_desc_create", self.engine, c_int(FORWARD_INFERENCE), source, result,
            None, c_float(1e-5), c_uint(USE_SCALE_AND_SHIFT), None), {SCALE: scale, SHIFT: shift})

    def norm(self, problem, shape):
        self.row_wise("reduction", problem, shape, 1, lambda source, result: self.made(
            "reduction_primitive_desc_create", self.engine, c_int(NORM_LP_SUM), source, result, c_float(2), c_float(0),
            None))
