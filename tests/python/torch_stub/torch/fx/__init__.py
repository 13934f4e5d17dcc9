"""Graphs: nodes in order, and modules that run them one by one."""
import operator

from ..nn import Module
from .._tensor import Tensor


class Node:
    def __init__(self, graph, op, name, target, args=(), kwargs=None):
        self.graph, self.op, self.name, self.target = graph, op, name, target
        self.args, self.kwargs, self.meta = tuple(args), dict(kwargs or {}), {}

    @property
    def all_input_nodes(self):
        return [each for each in _flat(self.args) if isinstance(each, Node)]

    def __repr__(self):
        return self.name


def _flat(value):
    return [leaf for each in value for leaf in _flat(each)] if isinstance(value, (tuple, list)) else [value]


def map_nodes(value, change):
    if isinstance(value, (tuple, list)):
        return type(value)(map_nodes(each, change) for each in value)
    return change(value) if isinstance(value, Node) else value


class Graph:
    def __init__(self):
        self.nodes, self.owning_module = [], None

    def create(self, op, target, args=(), name=None):
        base = name or str(getattr(target, "__name__", target)).split(".")[0]
        taken, number, name = {node.name for node in self.nodes}, 0, base
        while name in taken:
            number += 1
            name = f"{base}_{number}"
        self.nodes.append(Node(self, op, name, target, args))
        return self.nodes[-1]

    def placeholder(self, name):
        return self.create("placeholder", name)

    def get_attr(self, name):
        return self.create("get_attr", name)

    def call_function(self, target, args):
        return self.create("call_function", target, args)

    def output(self, value):
        return self.create("output", "output", (value,))

    def node_copy(self, node, change):
        copy = self.create(node.op, node.target, map_nodes(node.args, change), node.name)
        copy.meta = dict(node.meta)
        return copy


class GraphModule(Module):
    def __init__(self, root, graph):
        vars(self).update(vars(root))
        self.graph = graph
        graph.owning_module = self

    def recompile(self):
        pass

    def forward(self, *inputs):
        values, given = {}, iter(inputs)
        for node in self.graph.nodes:
            args = map_nodes(node.args, values.__getitem__)
            if node.op == "output":
                return args[0]
            values[node] = (next(given) if node.op == "placeholder" else getattr(self, node.target)
                            if node.op == "get_attr" else getattr(self, node.target)(*args)
                            if node.op == "call_module" else node.target(*args))
            if isinstance(values[node], (Tensor, tuple)):
                node.meta["val"] = values[node]
        raise AssertionError("a graph without an output")
