"""Builds networks as ONNX files: a value knows its shape, an operator is a method, weights are random but repeatable.

Each of the recipes beside this file is a function (net, options) that returns its outputs by name; `main` reads the
command line, runs the recipe and writes the file. Needs onnx and numpy only.
"""
import argparse
import math
import sys
from collections import Counter
from typing import NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

IR_VERSION = 8
# Gains of weights: He's where a ReLU follows, one where nothing does, less for what is added to its own input.
RELU, LINEAR, BRANCH = math.sqrt(2), 1.0, 0.5


class Value(NamedTuple):
    name: str
    shape: tuple


class Network:
    """A graph that grows by a node for each call."""

    def __init__(self, seed=0, opset=17, batch_norm=False, is_open=False):
        self.random = np.random.default_rng(seed)
        self.opset, self.batch_norm, self.is_open = opset, batch_norm, is_open
        self.inputs, self.nodes, self.initializers = [], [], []
        self.names, self.known = Counter(), {}

    # Values

    def input(self, name, shape, kind=TensorProto.FLOAT):
        self.inputs.append(helper.make_tensor_value_info(name, kind, self.declared(shape)))
        return Value(name, tuple(shape))

    def declared(self, shape):
        """What the file says of an input or output: of open ones only the channels."""
        return [("batch", shape[1], "height", "width")[d] for d in range(len(shape))] if self.is_open else shape

    def initializer(self, name, array):
        self.initializers.append(numpy_helper.from_array(np.asarray(array), name))
        return Value(name, np.shape(array))

    def constant(self, array, kind=np.float32):
        """A value that is no weight: a shape, a factor, a mask. Equal ones are stored once."""
        array = np.asarray(array, kind)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self.known:
            self.known[key] = self.initializer(f"constant_{len(self.known)}", array)
        return self.known[key]

    def weight(self, name, shape, deviation, mean=0.0):
        return self.initializer(name, self.random.standard_normal(shape, np.float32) * np.float32(deviation)
                                + np.float32(mean))

    def new_name(self, kind):
        self.names[kind] += 1
        return f"{kind}_{self.names[kind]}"

    def node(self, op, inputs, *shapes, name=None, **attributes):
        """Appends a node; a shape for each output."""
        name = name or self.new_name(op.lower())
        outputs = [name] if len(shapes) == 1 else [f"{name}.{i}" for i in range(len(shapes))]
        self.nodes.append(helper.make_node(op, [value.name for value in inputs], outputs, name, **attributes))
        values = [Value(output, tuple(shape)) for output, shape in zip(outputs, shapes)]
        return values[0] if len(values) == 1 else values

    # Convolutions

    def conv(self, x, channels, kernel, stride=1, padding=None, groups=1, bias=True, gain=RELU):
        """A convolution of square windows; padded to keep the size unless told otherwise."""
        name = self.new_name("conv")
        padding = kernel // 2 if padding is None else padding
        batch, inputs, *size = x.shape
        shape = (channels, inputs // groups, kernel, kernel)
        operands = [x, self.weight(f"{name}.weight", shape, gain / math.sqrt(math.prod(shape[1:])))]
        if bias:
            operands.append(self.weight(f"{name}.bias", (channels,), 0.1))
        return self.node("Conv", operands, (batch, channels, *windows(size, kernel, stride, padding)), name=name,
                         dilations=[1, 1], group=groups, kernel_shape=[kernel] * 2, pads=[padding] * 4,
                         strides=[stride] * 2)

    def conv_norm(self, x, channels, kernel, stride=1, groups=1, gain=RELU):
        """A convolution and its batch norm, which exporters fold into weights and bias unless they are asked not to."""
        y = self.conv(x, channels, kernel, stride, groups=groups, bias=not self.batch_norm, gain=gain)
        return self.norm(y) if self.batch_norm else y

    def norm(self, x):
        """A batch norm."""
        name = self.new_name("batchnormalization")
        channels = x.shape[1]
        operands = [x, self.weight(f"{name}.weight", (channels,), 0.1, 1),
                    self.weight(f"{name}.bias", (channels,), 0.1), self.weight(f"{name}.mean", (channels,), 0.1),
                    self.initializer(f"{name}.var", self.random.uniform(0.8, 1.25, channels).astype(np.float32))]
        return self.node("BatchNormalization", operands, x.shape, name=name, epsilon=1e-5, momentum=0.9)

    def conv_transpose(self, x, channels, kernel, gain=LINEAR):
        """Each pixel becomes a square of `kernel` by `kernel`."""
        name = self.new_name("convtranspose")
        batch, inputs, *size = x.shape
        operands = [x, self.weight(f"{name}.weight", (inputs, channels, kernel, kernel), gain / math.sqrt(inputs)),
                    self.weight(f"{name}.bias", (channels,), 0.1)]
        return self.node("ConvTranspose", operands, (batch, channels, *[kernel * n for n in size]), name=name,
                         kernel_shape=[kernel] * 2, strides=[kernel] * 2)

    def max_pool(self, x, kernel, stride, padding):
        batch, channels, *size = x.shape
        return self.node("MaxPool", [x], (batch, channels, *windows(size, kernel, stride, padding)), ceil_mode=0,
                         dilations=[1, 1], kernel_shape=[kernel] * 2, pads=[padding] * 4, strides=[stride] * 2)

    def average_pool(self, x, kernel, stride):
        batch, channels, *size = x.shape
        return self.node("AveragePool", [x], (batch, channels, *windows(size, kernel, stride, 0)),
                         kernel_shape=[kernel] * 2, strides=[stride] * 2)

    def global_average_pool(self, x):
        return self.node("GlobalAveragePool", [x], (*x.shape[:2], 1, 1))

    # Products

    def matmul(self, a, b):
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        return self.node("MatMul", [a, b], (*batch, a.shape[-2], b.shape[-1]))

    def linear(self, x, features, gain=LINEAR):
        """x W + b: a Gemm for matrices, MatMul and Add for more axes."""
        deviation = gain / math.sqrt(x.shape[-1])
        if len(x.shape) == 2:
            name = self.new_name("gemm")
            operands = [self.weight(f"{name}.weight", (features, x.shape[1]), deviation),
                        self.weight(f"{name}.bias", (features,), 0.1)]
            return self.node("Gemm", [x, *operands], (x.shape[0], features), name=name, alpha=1.0, beta=1.0, transB=1)
        name = self.new_name("linear")
        y = self.matmul(x, self.weight(f"{name}.weight", (x.shape[-1], features), deviation))
        return self.add(self.weight(f"{name}.bias", (features,), 0.1), y)

    def attention(self, query, key, value, heads, mask=None):
        """Softmax(Q K^T / sqrt(d)) V for each head; the mask is a function of the scores."""
        batch, tokens, features = query.shape
        width = features // heads

        def split(x, *order):
            return self.transpose(self.reshape(x, (batch, tokens, heads, width)), *order)

        scores = self.matmul(split(query, 0, 2, 1, 3), split(key, 0, 2, 3, 1))
        scores = self.div(scores, self.constant(math.sqrt(width)))
        weights = self.softmax(mask(scores) if mask else scores)
        y = self.matmul(weights, split(value, 0, 2, 1, 3))
        return self.reshape(self.transpose(y, 0, 2, 1, 3), query.shape)

    # Elementwise functions, norms

    def unary(self, op, x, **attributes):
        return self.node(op, [x], x.shape, **attributes)

    def binary(self, op, a, b):
        return self.node(op, [a, b], np.broadcast_shapes(a.shape, b.shape))

    def add(self, a, b):
        return self.binary("Add", a, b)

    def sub(self, a, b):
        return self.binary("Sub", a, b)

    def mul(self, a, b):
        return self.binary("Mul", a, b)

    def div(self, a, b):
        return self.binary("Div", a, b)

    def where(self, condition, a, b):
        return self.node("Where", [condition, a, b], np.broadcast_shapes(condition.shape, a.shape, b.shape))

    def cast(self, x, kind):
        return self.unary("Cast", x, to=kind)

    def relu(self, x):
        return self.unary("Relu", x)

    def relu6(self, x):
        return self.node("Clip", [x, self.constant(0), self.constant(6)], x.shape)

    def sigmoid(self, x):
        return self.unary("Sigmoid", x)

    def silu(self, x):
        return self.mul(x, self.sigmoid(x))

    def gelu(self, x):
        """x (1 + erf(x / sqrt(2))) / 2."""
        erf = self.unary("Erf", self.div(x, self.constant(math.sqrt(2))))
        return self.mul(self.mul(x, self.add(erf, self.constant(1))), self.constant(0.5))

    def softmax(self, x):
        return self.unary("Softmax", x, axis=-1)

    def layer_norm(self, x, epsilon):
        """Over the last axis: one node from opset 17 on, the nodes it stands for before."""
        name = self.new_name("layernormalization")
        features = x.shape[-1:]
        scale = self.weight(f"{name}.weight", features, 0.1, 1)
        bias = self.weight(f"{name}.bias", features, 0.1)
        if self.opset >= 17:
            return self.node("LayerNormalization", [x, scale, bias], x.shape, name=name, axis=-1, epsilon=epsilon)

        def mean(values):
            return self.node("ReduceMean", [values], (*values.shape[:-1], 1), axes=[-1])

        centred = self.sub(x, mean(x))
        variance = mean(self.binary("Pow", centred, self.constant(2)))
        deviation = self.unary("Sqrt", self.add(variance, self.constant(epsilon)))
        return self.add(self.mul(self.div(centred, deviation), scale), bias)

    # Shapes

    def reshape(self, x, shape):
        return self.node("Reshape", [x, self.constant(shape, np.int64)], shape)

    def flatten(self, x):
        return self.node("Flatten", [x], (x.shape[0], math.prod(x.shape[1:])), axis=1)

    def transpose(self, x, *order):
        return self.node("Transpose", [x], [x.shape[axis] for axis in order], perm=order)

    def unsqueeze(self, x, axis):
        shape = (*x.shape[:axis], 1, *x.shape[axis:])
        return self.node("Unsqueeze", [x, self.constant([axis], np.int64)], shape)

    def gather(self, x, indices, axis=0):
        return self.node("Gather", [x, indices], (*x.shape[:axis], *indices.shape, *x.shape[axis + 1:]), axis=axis)

    def expand(self, x, shape):
        return self.node("Expand", [x, self.constant(shape, np.int64)], shape)

    def split(self, x, parts):
        """Equal parts of the last axis."""
        shape = (*x.shape[:-1], x.shape[-1] // parts)
        return self.node("Split", [x, self.constant([shape[-1]] * parts, np.int64)], *[shape] * parts, axis=-1)

    def concat(self, values, axis):
        shape = list(values[0].shape)
        shape[axis] = sum(value.shape[axis] for value in values)
        return self.node("Concat", values, shape, axis=axis)

    # The file

    def model(self, name, outputs):
        """The checked model; the outputs, by name, are f32."""
        renamed = {value.name: output for output, value in outputs.items()}
        for node in self.nodes:
            for field in (node.input, node.output):
                field[:] = [renamed.get(value, value) for value in field]
        infos = [helper.make_tensor_value_info(output, TensorProto.FLOAT, self.declared(value.shape))
                 for output, value in outputs.items()]
        graph = helper.make_graph(self.nodes, name, self.inputs, infos, self.initializers)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=IR_VERSION,
                                  producer_name="tracewright")
        onnx.checker.check_model(model, full_check=True)
        return model


def windows(size, kernel, stride, padding):
    """How many windows there are along each axis."""
    return [(n + 2 * padding - kernel) // stride + 1 for n in size]


def main(recipe, size=None, tokens=None, batch_norm=False):
    """Reads the command line and writes what the recipe makes. Size and tokens are pairs: usual and tiny."""
    program = sys.modules["__main__"]
    parser = argparse.ArgumentParser(description=program.__doc__)
    parser.add_argument("--output", required=True, help="the file to write")
    parser.add_argument("--batch", type=int, default=1)
    for name, pair, what in ("size", size, "height and width of the images"), ("tokens", tokens, "tokens of each text"):
        if pair:
            parser.add_argument(f"--{name}", type=int, help=f"{what}: {pair[0]} if not given, {pair[1]} if tiny")
    parser.add_argument("--tiny", action="store_true",
                        help="few channels and blocks, small inputs: the same structure, for tests")
    if size:
        parser.add_argument("--open", action="store_true",
                            help="leave batch, height and width of the images open, where no shape is a constant")
    if batch_norm:
        parser.add_argument("--batch-norm", action="store_true", help="leave the BatchNormalization nodes in")
    parser.add_argument("--seed", type=int, default=0, help="of the weights")
    parser.add_argument("--opset", type=int, default=17, help="13 or later; LayerNormalization is a node from 17 on")
    options = parser.parse_args()
    if size:
        options.size = options.size or size[options.tiny]
    if tokens:
        options.tokens = options.tokens or tokens[options.tiny]
    net = Network(options.seed, options.opset, batch_norm and options.batch_norm, size is not None and options.open)
    outputs = recipe(net, options)
    onnx.save(net.model(recipe.__name__, outputs), options.output)
