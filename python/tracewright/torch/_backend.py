"""What the backend does with a graph from dynamo: which inputs are constants, one compiled form for each set of shapes,
and when PyTorch runs the graph instead. How a graph becomes ONNX is in _graphs.py."""
import itertools
import threading

import torch

from .._command import Error
from . import _report

OPTIONS = ("threads", "database", "rewrites", "precision")
MOST_FORMS = 16  # of one graph: after that PyTorch runs other shapes, else a loop over lengths would compile for ever

_numbers = itertools.count(1)


class Refused(Exception):
    """Why a graph, or nodes of it, cannot be compiled. `nodes`: reasons by name of the node; empty = as a whole."""

    def __init__(self, reason, nodes=None):
        super().__init__(reason)
        self.reason = reason
        self.nodes = nodes or {}


def backend(graph_module, example_inputs, *, options=None, **_):
    """The function that dynamo calls with each graph. options: `threads`, `database`, `rewrites` and `precision` of tw.compile."""
    unknown = [name for name in options or {} if name not in OPTIONS]
    if unknown:
        raise Error(f"the backend has no option {', '.join(unknown)}; it has {', '.join(OPTIONS)}")
    return CompiledGraph(graph_module, example_inputs, options or {})


def is_constant(value):
    """Parameters, and tensors that dynamo knows to belong to a module: they are the same in each call."""
    return isinstance(value, torch.nn.Parameter) or getattr(value, "_dynamo_static_input_type", None) is not None


def version_of(tensor):
    """Changes with each writing into the tensor. None where PyTorch does not count: tensors of inference mode."""
    try:
        return tensor._version
    except RuntimeError:
        return None


class Form:
    """A graph for one set of shapes. `run` takes the inputs that are no constants; None = PyTorch runs the graph."""

    def __init__(self, run, constants):
        self.run = run
        self.constants = constants
        self.versions = [version_of(tensor) for tensor in constants]

    def fits(self, constants):
        """Whether the constants are still those that were compiled in."""
        return all(mine is other for mine, other in zip(self.constants, constants)) and all(
            version_of(tensor) == version for tensor, version in zip(constants, self.versions))


class CompiledGraph:
    """What dynamo calls in place of the graph. Compiles at the first call with new shapes."""

    def __init__(self, graph_module, example_inputs, options):
        self.name = f"graph {next(_numbers)}"
        self.graph_module = graph_module
        self.options = options
        self.constant = [is_constant(value) for value in example_inputs]
        self.forms = {}
        self.lock = threading.Lock()
        self.without_gradients = None  # the report that says so, once

    def __call__(self, *inputs):
        if torch.is_grad_enabled() and any(getattr(value, "requires_grad", False) for value in inputs):
            self._say_gradients(inputs)
            return self.graph_module(*inputs)
        varying = [value for value, constant in zip(inputs, self.constant) if not constant]
        constants = [value for value, constant in zip(inputs, self.constant) if constant]
        key = tuple(key_of(value) for value in varying)
        form = self.forms.get(key)
        if form is None or not form.fits(constants):
            form = self._new_form(key, inputs, constants)
        if form.run is None:
            return self.graph_module(*inputs)
        return form.run(*varying)

    def _say_gradients(self, inputs):
        if self.without_gradients is None:
            self.without_gradients = _report.new_report(self.name, self._shapes(inputs))
            self.without_gradients.refuse("graph", "gradients are needed; use torch.no_grad() or inference_mode()")

    def _shapes(self, inputs):
        return tuple(tuple(value.shape) for value, constant in zip(inputs, self.constant)
                     if not constant and hasattr(value, "shape"))

    def _new_form(self, key, inputs, constants):
        with self.lock:
            form = self.forms.get(key)
            if form is not None and form.fits(constants):
                return form  # another thread was faster
            report = _report.new_report(self.name, self._shapes(inputs))
            self.forms[key] = Form(self._compile(key, inputs, report), constants)
            return self.forms[key]

    def _compile(self, key, inputs, report):
        from . import _graphs
        if key not in self.forms and len(self.forms) >= MOST_FORMS:
            report.refuse("graph", f"it is compiled for {MOST_FORMS} other sets of shapes already")
            return None
        try:
            place = next((str(value.device) for value in inputs
                          if getattr(value, "device", None) is not None and value.device.type != "cpu"), None)
            if place:
                raise Refused(f"an input lies on {place}; tracewright compiles for the processor")
            return _graphs.take(self.graph_module, inputs, self.constant, self.options, report)
        except Refused as refused:
            report.refuse("graph", refused.reason)
            return None


def key_of(value):
    """What one compiled form is for: everything of an input but the elements of a tensor."""
    if isinstance(value, torch.Tensor):
        return tuple(value.shape), tuple(value.stride()), value.dtype, str(value.device)
    return type(value), value


def take_parts(split, check, refused):
    """Cuts a graph into parts that can be compiled.

    split(refused) gives parts that leave out the nodes of these names; check(part) raises Refused, whose nodes the next
    cut leaves out. `refused`: those that are known to be in the way. Returns the parts, with what check returned for
    each, and all reasons by name of the node.
    """
    refused, checked = dict(refused), {}
    while True:
        parts = split(refused)
        found = {}
        for part in parts:
            nodes = frozenset(part.nodes)
            if nodes not in checked:
                try:
                    checked[nodes] = check(part)
                except Refused as problem:
                    found.update(problem.nodes or {node: problem.reason for node in part.nodes})
        if not found:
            return [(part, checked[frozenset(part.nodes)]) for part in parts], refused
        refused.update(found)
