"""Programs: a graph and the shapes of its values, which are found by running it."""
from types import SimpleNamespace

from . import ops


def default_decompositions():
    return {}


class Program:
    def __init__(self, module):
        self.graph_module, self.graph, self.state_dict, self.constants = module, module.graph, {}, {}
        written = {node.name: "counter" for node in module.graph.nodes if str(node.target) == "aten.add_.default"}
        self.graph_signature = SimpleNamespace(buffers_to_mutate=written, user_inputs_to_mutate={},
                                               inputs_to_parameters={}, inputs_to_buffers={},
                                               inputs_to_lifted_tensor_constants={})

    def run_decompositions(self, _):
        return self


def export(module, tensors, strict):
    if any(str(node.target) == "aten.untraceable.default" for node in module.graph.nodes):
        raise RuntimeError("data-dependent control flow\nand a long explanation")
    if not any(str(node.target) == "aten.add_.default" for node in module.graph.nodes):
        module(*tensors)
    return Program(module)
