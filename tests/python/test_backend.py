"""The backend's own logic, on the stand-in of torch_stub: what becomes a constant, when a graph is compiled again, what
falls back, what is said. Graphs are compiled and run where the extension module, the plugin for ONNX and the package onnx
are there; the rest runs without."""
import operator
import sys
import types
import unittest
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent / "torch_stub"))
try:
    import tracewright
except ImportError:  # the module was not built: what needs none of it is tested
    sys.path.insert(0, str(Path(__file__).parents[2] / "python"))
    sys.modules["tracewright._core"] = types.ModuleType("tracewright._core")
    sys.modules["tracewright._core"].ALIGNMENT = 64
    import tracewright
try:
    import onnx
except ImportError:
    onnx = None

import torch
from torch import fx, nn

import tracewright.torch as backend
from tracewright.torch import _backend, _graphs

aten = torch.ops.aten
HAS_MODULE = hasattr(sys.modules["tracewright._core"], "Model")


def random(*shape):
    return torch.tensor(np.random.default_rng(sum(shape)).standard_normal(shape))


def graph_of(names, *steps):
    """A graph of inputs and operators: each step is (name, operator, names of arguments); the last one is the result."""
    graph, nodes = fx.Graph(), {}
    for name in names:
        nodes[name] = graph.placeholder(name)
    for name, target, *args in steps:
        call = getattr(aten, target).default if isinstance(target, str) else target
        nodes[name] = graph.call_function(call, [nodes.get(each, each) for each in args])
    graph.output((nodes[steps[-1][0]],))
    return fx.GraphModule(nn.Module(), graph)


class Logged(unittest.TestCase):
    def setUp(self):
        backend.forget()

    def expect_said(self, text, operator="graph"):
        (report,) = backend.report()
        self.assertTrue(any(refusal.operator == operator and text in refusal.reason for refusal in report.refusals),
                        str(report))


class Policy(Logged):
    """With a compiler that only notes what it is given."""

    def setUp(self):
        super().setUp()
        self.compiled, take = [], _graphs.take
        self.addCleanup(setattr, _graphs, "take", take)

        def noted(graph_module, inputs, constant, options, report):
            self.compiled.append([value for value, fixed in zip(inputs, constant) if fixed])
            return lambda *varying: ("compiled", *varying)
        _graphs.take = noted
        self.graph = graph_of(["x", "w"], ("y", "mm", "x", "w"))
        self.weight = nn.Parameter(random(4, 4), requires_grad=False)

    def call(self, *inputs, **options):
        function = backend.backend(self.graph, inputs, options=options)
        return function, function(*inputs)

    def test_parameters_and_what_dynamo_marks_are_constants(self):
        buffer = random(4, 4)
        buffer._dynamo_static_input_type = "unguarded"
        x = random(2, 4)
        for constant in (self.weight, buffer):
            _, found = self.call(x, constant)
            self.assertEqual(found, ("compiled", x))
            self.assertEqual(self.compiled.pop(), [constant])

    def test_one_compiled_form_for_each_shape(self):
        function, _ = self.call(random(2, 4), self.weight)
        for rows in (2, 3, 3, 2):
            function(random(rows, 4), self.weight)
        self.assertEqual(len(self.compiled), 2)
        self.assertEqual([report.shapes for report in backend.report()], [((2, 4),), ((3, 4),)])

    def test_other_strides_are_another_form(self):
        function, _ = self.call(random(4, 4), self.weight)
        function(torch.Tensor(np.asfortranarray(random(4, 4).array)), self.weight)
        self.assertEqual(len(self.compiled), 2)

    def test_a_constant_that_changes_is_compiled_again(self):
        x = random(2, 4)
        function, _ = self.call(x, self.weight)
        self.weight.copy_(random(4, 4))
        function(x, self.weight)
        self.assertEqual(len(self.compiled), 2)
        function(x, self.weight)
        self.assertEqual(len(self.compiled), 2)
        other = nn.Parameter(self.weight, requires_grad=False)
        other._version = self.weight._version
        function(x, other)
        self.assertEqual(len(self.compiled), 3)

    def test_no_more_than_so_many_forms(self):
        function, _ = self.call(random(1, 4), self.weight)
        for rows in range(2, _backend.MOST_FORMS + 1):
            function(random(rows, 4), self.weight)
        x = random(_backend.MOST_FORMS + 1, 4)
        np.testing.assert_allclose(function(x, self.weight)[0].array, x.array @ self.weight.array, rtol=1e-5)
        self.assertEqual(len(self.compiled), _backend.MOST_FORMS)
        self.assertIn("other sets of shapes", str(backend.report()[-1]))

    def test_gradients_fall_back(self):
        x, weight = random(2, 4), nn.Parameter(random(4, 4))
        _, found = self.call(x, weight)
        np.testing.assert_allclose(found[0].array, x.array @ weight.array, rtol=1e-5)
        self.assertEqual(self.compiled, [])
        self.expect_said("gradients are needed")
        with torch.no_grad():
            _, found = self.call(x, weight)
        self.assertEqual(found, ("compiled", x))

    def test_other_devices_fall_back(self):
        x = random(2, 4)
        x.device.type = "cuda"
        self.call(x, self.weight)
        self.assertEqual(self.compiled, [])
        self.expect_said("an input lies on cuda")

    def test_options_are_checked(self):
        with self.assertRaisesRegex(tracewright.Error, "no option thread; it has threads, database, rewrites"):
            self.call(random(2, 4), self.weight, thread=1)


class Parts(unittest.TestCase):
    def test_what_is_refused_is_left_out_until_all_parts_hold(self):
        bad, cuts = {"b": "why b", "d": "why d"}, []

        def split(refused):
            cuts.append(set(refused))
            text = "".join(" " if each in refused else each for each in "abcde")
            return [types.SimpleNamespace(nodes=list(part)) for part in text.split()]

        def check(part):
            blamed = {node: bad[node] for node in part.nodes if node in bad}
            if blamed:
                raise _backend.Refused("why", dict([min(blamed.items())]))
            return "".join(part.nodes)
        parts, refused = _backend.take_parts(split, check, {})
        self.assertEqual([made for _, made in parts], ["a", "c", "e"])
        self.assertEqual(refused, bad)
        self.assertEqual(cuts, [set(), {"b"}, {"b", "d"}])

    def test_a_part_of_which_nobody_knows_why_is_left_out_as_a_whole(self):
        def check(part):
            raise _backend.Refused("why")
        parts, refused = _backend.take_parts(
            lambda refused: [types.SimpleNamespace(nodes=["a", "b"])] if not refused else [], check, {})
        self.assertEqual((parts, refused), ([], {"a": "why", "b": "why"}))


@unittest.skipUnless(HAS_MODULE, "the extension module was not built (it needs nanobind)")
@unittest.skipUnless(onnx, "python3-onnx is not installed")
class Compiled(Logged):
    def setUp(self):
        super().setUp()
        torch.onnx.exports.clear()
        _graphs._alone.clear()
        _graphs._unknown.clear()

    def expect_result(self, graph, *inputs):
        function = backend.backend(graph, inputs, options={"threads": 1})
        with torch.no_grad():
            found, expected = function(*inputs), graph(*inputs)
        for one, other in zip(found, expected):
            np.testing.assert_allclose(one.array, other.array, rtol=1e-4, atol=1e-5)
        return function

    def test_a_whole_graph_with_its_parameters_baked_in(self):
        weight, x = nn.Parameter(random(8, 8)), random(4, 8)
        graph = graph_of(["w", "x"], ("y", "mm", "x", "w"), ("z", "relu", "y"))
        function = self.expect_result(graph, weight, x)
        (report,) = backend.report()
        self.assertEqual((report.nodes, report.taken, report.parts, report.refusals), (2, 2, 1, []))
        (form,) = function.forms.values()
        around = form.run.__closure__
        library = next(cell.cell_contents for cell in around if isinstance(cell.cell_contents, fx.GraphModule)).fused_0
        self.assertEqual([tensor.shape for tensor in library.compiled.inputs], [(4, 8)])  # x alone
        weight.copy_(random(8, 8))
        with torch.no_grad():
            np.testing.assert_allclose(function(weight, x)[0].array, graph(weight, x)[0].array, rtol=1e-4, atol=1e-5)

    def test_an_operator_without_onnx_runs_in_pytorch(self):
        graph = graph_of(["x", "w"], ("a", "mm", "x", "w"), ("b", "relu", "a"), ("c", "i0", "b"), ("d", "tanh", "c"),
                         ("e", "add", "d", "b"))
        with self.assertLogs("tracewright.torch", "WARNING") as said:
            function = self.expect_result(graph, random(4, 8), nn.Parameter(random(8, 8)))
        (report,) = backend.report()
        self.assertEqual((report.nodes, report.taken, report.parts), (5, 4, 2))
        self.expect_said("torch.onnx: No ONNX function found for aten.i0.default", "aten.i0.default")
        self.assertEqual(len(said.output), 1)
        before = len(torch.onnx.exports)
        with torch.no_grad(), self.assertNoLogs("tracewright.torch", "WARNING"):
            function(random(6, 8), nn.Parameter(random(8, 8)))
        self.assertEqual(torch.onnx.exports[before:], [["mm", "relu"], ["tanh", "add"]])  # it is known by now

    def test_what_the_compiler_refuses_runs_in_pytorch(self):
        graph = graph_of(["x"], ("a", "tanh", "x"), ("b", "relu", "a"), ("c", "nonzero", "b"))
        self.expect_result(graph, random(3, 5))
        (report,) = backend.report()
        self.assertEqual((report.nodes, report.taken, report.parts), (3, 2, 1))
        # As a whole; the operator that was named, by itself; the rest.
        self.assertEqual(torch.onnx.exports, [["tanh", "relu", "nonzero"], ["nonzero"], ["tanh", "relu"]])
        self.expect_said("(NonZero): this operator is not supported: the shape of its result depends on data",
                         "aten.nonzero.default")

    def test_several_results_of_one_operator(self):
        graph = graph_of(["x"], ("a", "halves", "x"), ("b", operator.getitem, "a", 0),
                         ("c", operator.getitem, "a", 1), ("d", "add", "b", "c"))
        self.expect_result(graph, random(6, 5))
        self.assertEqual([report.taken for report in backend.report()], [2])

    def test_results_of_a_refused_operator_are_inputs(self):
        graph = graph_of(["x"], ("a", "relu", "x"), ("b", "tanh", "a"), ("c", "thirds", "b"), ("d", operator.getitem, "c", 0),
                         ("e", operator.getitem, "c", 2), ("f", "add", "d", "e"), ("g", "relu", "f"))
        self.expect_result(graph, random(6, 5))
        self.assertEqual([(report.taken, report.parts) for report in backend.report()], [(4, 2)])
        self.expect_said("No ONNX function found for aten.thirds.default", "aten.thirds.default")

    def test_a_graph_that_writes_falls_back(self):
        graph = graph_of(["x"], ("a", "relu", "x"), ("b", "add_", "a"))
        graph.graph.nodes[-2].target = torch.ops.Overload("add_", lambda x: x + 1)
        self.expect_result(graph, random(2, 3))
        self.expect_said("it writes into counter")

    def test_what_cannot_be_traced_falls_back(self):
        graph = graph_of(["x"], ("a", "untraceable", "x"))
        graph.graph.nodes[-2].target = torch.ops.Overload("untraceable", lambda x: x + 1)
        self.expect_result(graph, random(2, 3))
        self.expect_said("torch.export cannot trace it: data-dependent control flow")

    def test_nothing_to_gain_falls_back(self):
        self.expect_result(graph_of(["x"], ("a", "relu", "x")), random(2, 3))
        self.expect_said("nothing of it (aten.relu.default) is worth a library of its own")

    def test_types_that_only_pytorch_has_stay_there(self):
        graph = graph_of(["x"], ("a", "tanh", "x"), ("b", "relu", "a"), ("c", "strange", "b"), ("d", "strange", "c"),
                         ("e", "add", "c", "d"))
        self.expect_result(graph, random(3, 5))
        self.assertEqual([(report.taken, report.parts) for report in backend.report()], [(2, 1)])
        self.expect_said("there is no type torch.complex64", "aten.add.default")


if __name__ == "__main__":
    unittest.main()
