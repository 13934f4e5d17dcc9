"""Graphs of PyTorch as ONNX models: constants are baked in, operators are cut into parts, each part is exported and
compiled. What is left runs in PyTorch."""
import contextlib
import logging
import re
import warnings
from dataclasses import dataclass

import torch
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from .. import _command, _model
from .._command import Error
from ._backend import Refused, take_parts

# Worth a library of their own; other operators only where there are two or more together.
LARGE = ["torch.ops.aten." + name for name in ("conv1d", "conv2d", "conv3d", "linear", "matmul", "mm", "bmm", "addmm",
                                               "scaled_dot_product_attention")]

# Operators that torch.onnx knows as a whole. Others are taken apart before the graph is cut, as torch.onnx would, so that
# it names the nodes of this graph when it refuses one.
WHOLE = ("conv1d", "conv2d", "conv3d", "linear", "matmul", "scaled_dot_product_attention", "layer_norm", "group_norm",
         "gelu", "silu", "hardswish", "hardsigmoid", "upsample_nearest2d", "upsample_bilinear2d", "pixel_shuffle")


@dataclass
class Part:
    """Operators that become one library. `nodes`: their names in the whole graph."""
    name: str
    module: torch.fx.GraphModule
    call: torch.fx.Node  # of the part in the graph around it
    nodes: list


def take(graph_module, inputs, constant, options, report):
    """A function of the inputs that are no constants. Raises Refused where nothing of the graph can be compiled."""
    names = [node for node in graph_module.graph.nodes if node.op == "placeholder"]
    fixed = {node: value for node, value, is_fixed in zip(names, inputs, constant)
             if is_fixed or not isinstance(value, torch.Tensor)}
    baked = bake(graph_module, graph_module.graph, fixed)
    tensors = [value for value, is_fixed in zip(inputs, constant) if not is_fixed and isinstance(value, torch.Tensor)]
    whole = functional(baked, tensors)
    around, libraries = compile_parts(whole, options, report)
    for name, library in libraries.items():
        setattr(around, name, library)
    around.recompile()

    def run(*varying):
        with torch.no_grad():
            return around(*[value for value in varying if isinstance(value, torch.Tensor)])
    return run


def bake(owner, graph, values):
    """The graph with tensors in place of some placeholders, as attributes, and with numbers as they are."""
    root = torch.nn.Module()
    new, copies = torch.fx.Graph(), {}
    for node in graph.nodes:
        if node not in values:
            copies[node] = new.node_copy(node, copies.__getitem__)
            if node.op in ("get_attr", "call_module"):
                copies[node].target = node.target.replace(".", "_")
                setattr(root, copies[node].target, attribute(owner, node.target))
        elif isinstance(values[node], torch.Tensor):
            name = "constant_" + node.name
            root.register_buffer(name, values[node].detach())
            copies[node] = new.get_attr(name)
            copies[node].meta = dict(node.meta)
        else:
            copies[node] = values[node]
    return torch.fx.GraphModule(root, new)


def attribute(owner, path):
    for name in path.split("."):
        owner = getattr(owner, name)
    return owner


def functional(module, tensors):
    """The graph of a module in operators that write into nothing, with all shapes known."""
    try:
        with quiet():
            program = torch.export.export(module, tuple(tensors), strict=False).run_decompositions(decompositions())
    except Exception as problem:  # of many kinds
        raise Refused(f"torch.export cannot trace it: {first_line(problem)}") from problem
    signature = program.graph_signature
    written = [*signature.buffers_to_mutate.values(), *signature.user_inputs_to_mutate.values()]
    if written:
        more = f" and {len(written) - 3} more" if len(written) > 3 else ""
        raise Refused(f"it writes into {', '.join(name.removeprefix('constant_') for name in written[:3])}{more}")
    values = {**program.state_dict, **program.constants}
    names = {**signature.inputs_to_parameters, **signature.inputs_to_buffers,
             **signature.inputs_to_lifted_tensor_constants}
    fixed = {node: values[names[node.name]] for node in program.graph.nodes
             if node.op == "placeholder" and node.name in names}
    return bake(program.graph_module, program.graph, fixed)


def decompositions():
    table = torch.export.default_decompositions()
    for name in WHOLE:
        packet = getattr(torch.ops.aten, name)
        for overload in packet.overloads():
            table.pop(getattr(packet, overload), None)
    return table


class NotIn(OperatorSupportBase):
    """All operators but those of some names. Constants stay outside, and are baked into the parts that read them."""

    def __init__(self, refused):
        self.refused = refused

    def is_node_supported(self, _, node):
        if node.op != "call_function" or node.name in self.refused:
            return False
        return node.args[0].name not in self.refused if is_getitem(node) else holds_tensors(node)


TYPES = {getattr(torch, name, None) for name in _model._MANIFEST_TYPES}


def strange_type(node):
    """What the node reads or makes that tracewright has no type for, "" if nothing."""
    for each in [node, *node.all_input_nodes]:
        value = each.meta.get("val")
        for tensor in value if isinstance(value, (tuple, list)) else [value]:
            if isinstance(tensor, torch.Tensor) and tensor.dtype not in TYPES:
                return f"there is no type {tensor.dtype}"
    return ""


def is_getitem(node):
    return getattr(node.target, "__name__", "") == "getitem"


def holds_tensors(node):
    value = node.meta.get("val")
    return all(isinstance(each, torch.Tensor) for each in (value if isinstance(value, (tuple, list)) else [value]))


def compile_parts(whole, options, report):
    """The graph around the parts, and for each the library that takes its place."""
    operators = {node.name: node for node in operators_of(whole.graph)}
    report.nodes = len(operators)
    around = whole

    def split(refused):
        nonlocal around
        around = bake(whole, whole.graph, {})
        partitioner = CapabilityBasedPartitioner(around, NotIn(refused), allowed_single_node_partition_ops=LARGE)
        parts = partitioner.propose_partitions()
        names = [[node.name for node in part.nodes] for part in parts]
        around = partitioner.fuse_partitions(parts)
        return parts_of(around, names)

    known = {name: _unknown.get(node.target) or strange_type(node) for name, node in operators.items()}
    known = {name: reason for name, reason in known.items() if reason}
    chosen, refused = take_parts(split, exported, known)
    for name, reason in refused.items():
        if name in operators:
            report.refuse(str(operators[name].target), reason)
            if NOT_IN_ONNX in reason:
                _unknown[operators[name].target] = reason
    libraries = {}
    for part, model in chosen:
        try:
            libraries[part.name] = library_of(part, model, options)
        except Error as problem:
            report.refuse("graph", f"a part of {len(part.nodes)} operators: {problem}")
            continue
        report.parts += 1
        report.taken += len([node for node in part.nodes if node in operators])
    if not libraries:
        names = ", ".join(sorted({str(node.target) for node in operators.values()})[:3])
        raise Refused(f"nothing of it ({names}) is worth a library of its own" if not report.refusals
                      else "no part of it can be compiled")
    return around, libraries


def parts_of(around, names):
    calls = [node for node in around.graph.nodes if node.op == "call_module" and node.target.startswith("fused_")]
    parts = []
    for call in calls:
        module = getattr(around, call.target)
        inside = {node.name for node in module.graph.nodes if node.op == "call_function"}
        # The names of the copies are those of the originals; where they are not, the part is refused as a whole.
        nodes = next((own for own in names if set(own) == inside), sorted(inside))
        parts.append(Part(call.target, module, call, nodes))
    return parts


@dataclass
class Exported:
    """A part as an ONNX file. `varying`: which arguments of the call it reads."""
    model: bytes
    varying: list


def exported(part):
    """The part as ONNX that tracewright can compile. Raises Refused with the nodes that are in the way."""
    around = part.call.graph.owning_module
    inputs = [node for node in part.module.graph.nodes if node.op == "placeholder"]
    fixed = {own: attribute(around, given.target) for own, given in zip(inputs, part.call.args)
             if given.op == "get_attr"}
    varying = [i for i, given in enumerate(part.call.args) if given.op != "get_attr"]
    module = bake(part.module, part.module.graph, fixed)
    try:
        model = checked_onnx(module, [zeros_like(part.call.args[i]) for i in varying])
        _alone.update((kind_of(node), "") for node in operators_of(part.module.graph))
        return Exported(model, varying)
    except Refused as refused:
        raise Refused(refused.reason, blamed(part, fixed, refused.nodes)) from None


def blamed(part, fixed, named):
    """Reasons by name of the nodes of a part that are in the way. `named`: those that the exporter or the compiler named,
    after a second tracing, which may number them otherwise. So each is tried by itself."""
    operators = {node.name: node for node in operators_of(part.module.graph)}
    found = {name: reason for name, reason in named.items()
             if name in operators and reason_alone(operators[name], part.module, fixed)}
    if not found:
        reasons = {name: reason_alone(node, part.module, fixed) for name, node in operators.items()}
        found = {name: reason for name, reason in reasons.items() if reason}
    return found


def zeros_like(node):
    value = node.meta["val"]
    return torch.zeros(tuple(value.shape), dtype=value.dtype)


def checked_onnx(module, tensors):
    """The ONNX file of a module that tracewright can read. Raises Refused."""
    try:
        with quiet(), torch.no_grad():
            program = torch.export.export(module, tuple(tensors), strict=False)
            proto = torch.onnx.export(program, dynamo=True, verbose=False).model_proto
    except ImportError as problem:
        raise Refused(f"{problem}; try: pip install onnx onnxscript") from problem
    except Exception as problem:  # of many kinds
        raise Refused(*why_not_exported(problem)) from problem
    try:
        with _command.model_file(proto) as path:
            code, _, err = _command.run(["compile", path, "--emit", "graph"])
    except Error as problem:
        raise Refused(str(problem)) from problem
    if code != 0:
        raise Refused(*why_not_read(_command.without_prefix(err), proto))
    return proto.SerializeToString()


def why_not_exported(problem):
    """The reason, and the node, of an exporter's exception."""
    text = str(problem)
    node = re.search(r"translating node %(\w+) :", text)
    cause = re.search(NOT_IN_ONNX + r" for <OpOverload\(op='(.*?)', overload='(.*?)'\)>", text)
    reason = f"torch.onnx: {f'{NOT_IN_ONNX} for {cause[1]}.{cause[2]}' if cause else first_line(problem)}"
    return reason, {node[1]: reason} if node else {}


def why_not_read(text, proto):
    """The reason, and the nodes of PyTorch, of what tracewright says about nodes of ONNX."""
    sources = {}
    for node in proto.graph.node:
        for entry in node.metadata_props:
            if entry.key == "pkg.torch.onnx.fx_node":
                sources[node.name] = entry.value.split(" ")[0].removeprefix("%")
    nodes = {}
    for line in text.splitlines()[1:]:
        found = re.match(r"\s*node `([^`]*)` (.*)", line)
        if found and found[1] in sources:
            nodes[sources[found[1]]] = found[2]
    reason = "; ".join(line.strip() for line in text.splitlines()[1:]) or text
    return reason, nodes


NOT_IN_ONNX = "No ONNX function found"  # as torch.onnx says it
_unknown = {}  # its reasons by operator, whatever the shapes
_alone = {}  # what was found out about operators: reasons by operator and types of elements, "" = it can be compiled


def kind_of(node):
    """The operator, and the types of elements that it reads and is told to make."""
    read = [str(getattr(given.meta.get("val"), "dtype", "")) for given in node.all_input_nodes]
    told = [str(given) for given in [*node.args, *node.kwargs.values()] if isinstance(given, torch.dtype)]
    return str(node.target), *read, *told


def operators_of(graph):
    return [node for node in graph.nodes if node.op == "call_function" and not is_getitem(node)]


def reason_alone(node, module, fixed):
    """Why the operator cannot be compiled by itself, "" if it can."""
    kind = kind_of(node)
    if kind not in _alone:
        _alone[kind] = why_not_alone(module, node, fixed)
    return _alone[kind]


def why_not_alone(module, node, fixed):
    """The reason why a library of one operator cannot be made, "" if it can."""
    graph, copies, varying = torch.fx.Graph(), {}, []
    for given in node.all_input_nodes:
        if given.op == "get_attr" or not isinstance(given.meta.get("val"), torch.Tensor):
            return ""
        copies[given] = graph.placeholder(given.name)
        copies[given].meta = dict(given.meta)
        if given not in fixed:
            varying.append(zeros_like(given))
    graph.output(graph.node_copy(node, copies.__getitem__))
    values = {copies[given]: tensor for given, tensor in fixed.items() if given in copies}
    try:
        checked_onnx(bake(module, graph, values), varying)
    except Refused as refused:
        return refused.reason
    return ""


def library_of(part, model, options):
    """The compiled part as a module of the graph around it."""
    compiled = _model.compile(model.model, **options)
    read = [part.call.args[i].meta["val"] for i in model.varying]
    expected = [(str(value.dtype).removeprefix("torch."), tuple(value.shape)) for value in read]
    if [(tensor.dtype, tensor.shape) for tensor in compiled.inputs] != expected:
        raise Error("the exporter has changed its inputs")
    is_tuple = isinstance(next(node for node in part.module.graph.nodes if node.op == "output").args[0], (tuple, list))
    return Library(compiled, model.varying, is_tuple)


class Library(torch.nn.Module):
    def __init__(self, compiled, varying, is_tuple):
        super().__init__()
        self.compiled, self.varying, self.is_tuple = compiled, varying, is_tuple

    def forward(self, *arguments):
        found = self.compiled.run([arguments[i] for i in self.varying], is_torch=True)
        return tuple(found) if self.is_tuple else found[0]


@contextlib.contextmanager
def quiet():
    """The exporter tells much that nobody asked for."""
    chatter = [logging.getLogger(name) for name in ("torch.onnx", "onnx_ir", "onnxscript")]
    levels = [logger.level for logger in chatter]
    for logger in chatter:
        logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(chatter, levels):
            logger.setLevel(level)


def first_line(problem):
    return next((line.strip() for line in str(problem).splitlines() if line.strip()), type(problem).__name__)
