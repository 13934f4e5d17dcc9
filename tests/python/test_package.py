"""The package on NumPy: compile, call, save, load, profile, tune. Needs the extension module, the plugin for ONNX and
the package onnx, which makes the models."""
import ast
import inspect
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import unittest
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import tracewright as tw

FLOAT = TensorProto.FLOAT


def model_of(nodes, inputs, outputs, weights=()):
    """nodes: (operator, inputs, outputs); inputs and outputs: (name, type, shape)."""
    made = [helper.make_node(op, reads, writes, f"node_{i}") for i, (op, reads, writes) in enumerate(nodes)]
    graph = helper.make_graph(made, "graph", *[[helper.make_tensor_value_info(*each) for each in values]
                                               for values in (inputs, outputs)],
                              [numpy_helper.from_array(array, name) for name, array in weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    return model


def two_layers(seed=0, rows=8):
    """relu(x a) b, and the same by NumPy."""
    random = np.random.default_rng(seed)
    a, b = (random.standard_normal(shape, np.float32) for shape in ((64, 48), (48, 16)))
    model = model_of([("MatMul", ["x", "a"], ["h"]), ("Relu", ["h"], ["r"]), ("MatMul", ["r", "b"], ["y"])],
                     [("x", FLOAT, [rows, 64])], [("y", FLOAT, [rows if rows != "n" else "n", 16])],
                     [("a", a), ("b", b)])
    return model, lambda x: np.maximum(x @ a, 0) @ b


def rows(count=8, seed=1):
    return np.random.default_rng(seed).standard_normal((count, 64), np.float32)


def expect_close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)


class Package(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def saved(self, model, name="net.onnx"):
        onnx.save(model, str(self.folder / name))
        return self.folder / name


class Compile(Package):
    def test_paths_bytes_and_protos(self):
        proto, expected = two_layers()
        x = rows()
        for given in (self.saved(proto), str(self.saved(proto)), proto.SerializeToString(), proto):
            model = tw.compile(given, threads=1)
            expect_close(model(x), expected(x))
        self.assertEqual([str(each) for each in model.inputs + model.outputs],
                         ["x: float32[8, 64]", "y: float32[8, 16]"])

    def test_all_problems_at_once_with_their_nodes(self):
        bad = model_of([("Nope", ["x"], ["h"]), ("NonZero", ["h"], ["y"]), ("NonZero", ["x"], ["z"])],
                       [("x", FLOAT, [4])], [("y", TensorProto.INT64, [1, "k"]), ("z", TensorProto.INT64, [1, "k"])])
        with self.assertRaises(tw.Error) as found:
            tw.compile(self.saved(bad))
        command = subprocess.run([tw._command.program(), "compile", str(self.saved(bad)), "--output",
                                  str(self.folder / "out")], stderr=subprocess.PIPE, text=True)
        self.assertEqual(str(found.exception), command.stderr.strip().removeprefix("tracewright: "))
        self.assertEqual(found.exception.code, command.returncode)
        for part in ("node_0", "Nope", "node_2", "NonZero"):
            self.assertIn(part, str(found.exception))

    def test_no_model_at_all(self):
        with self.assertRaisesRegex(tw.Error, "cannot be read"):
            tw.compile(self.folder / "none.onnx")
        with self.assertRaisesRegex(tw.Error, "damaged"):
            tw.compile(b"no model")
        with self.assertRaisesRegex(TypeError, "not int"):
            tw.compile(3)

    def test_shapes_that_the_file_leaves_open(self):
        proto, expected = two_layers(rows="n")
        with self.assertRaisesRegex(tw.Error, "`x`"):
            tw.compile(proto)
        model = tw.compile(proto, shapes={"x": (3, 64)}, threads=1)
        expect_close(model(rows(3)), expected(rows(3)))
        with self.assertRaisesRegex(tw.Error, "no input `z`"):
            tw.compile(proto, shapes={"z": (3, 64)})
        for shapes in ({"x": 3}, {"x": (1.5, 64)}, {"x": ("3", 64)}, {"x": "3,64"}, {0: (3, 64)}, [(3, 64)], 3,
                       {"x": None}):
            for call in (tw.compile, tw.tune):
                with self.assertRaisesRegex(tw.Error, "shapes: expected integers for names, as .*, found "):
                    call(proto, shapes=shapes)

    def test_several_shapes_make_entries_that_calls_choose(self):
        proto, expected = two_layers(rows="n")
        model = tw.compile(proto, shapes={"x": [(3, 64), (8, 64)]}, threads=1, output=self.folder / "out", check=True)
        self.assertEqual([[str(each) for each in entry.inputs + entry.outputs] for entry in model.entries],
                         [["x: float32[3, 64]", "y: float32[3, 16]"], ["x: float32[8, 64]", "y: float32[8, 16]"]])
        self.assertEqual(model.inputs, list(model.entries[0].inputs))
        self.assertEqual([(each["entry"], each["wrong"]) for each in model.report["check"]], [(0, False), (1, False)])
        for opened in (model, tw.load(self.folder / "out")):
            for count in (8, 3, 8):
                expect_close(opened(rows(count)), expected(rows(count)))
            with self.assertRaisesRegex(ValueError, r"no entry for these shapes: x f32\[5, 64\]"):
                opened(rows(5))
            with self.assertRaisesRegex(TypeError, "`x`"):
                opened(rows(3).astype("float64"))
        kernels = [{row.kernel for row in model.profile(0.01, entry)} for entry in (0, 1)]
        self.assertFalse(kernels[0] & kernels[1])
        with self.assertRaisesRegex(tw.Error, "entries 0 and 1 have the same shapes"):
            tw.compile(proto, shapes={"x": [[3, 64], [3, 64]]})
        with self.assertRaisesRegex(tw.Error, "`x`: tune takes one shape"):
            tw.tune(self.saved(proto), shapes={"x": [(3, 64), (8, 64)]})

    def test_entries_run_at_the_same_time(self):
        proto, expected = two_layers(rows="n")
        counts = (1, 8, 32)
        model = tw.compile(proto, shapes={"x": [(count, 64) for count in counts]}, threads=1)
        found = {}

        def call(number):
            x = rows(counts[number % 3], number)
            found[number] = all(np.allclose(model(x), expected(x), 1e-3, 1e-3) for _ in range(50))

        threads = [threading.Thread(target=call, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(found, {number: True for number in range(6)})

    def test_checked_against_the_model_as_imported(self):
        report = tw.compile(two_layers()[0], check=True).report
        self.assertEqual([each["wrong"] for each in report["check"]], [False])

    def test_precision_is_of_what_kernels_hand_on(self):
        proto, expected = two_layers()
        model = tw.compile(proto, precision="bf16", threads=1, check=True)
        self.assertEqual(model.report["precision"], "bf16")
        self.assertGreater(model.report["accuracy"][0]["cosine"], 0.9999)
        self.assertEqual([str(each) for each in model.inputs + model.outputs],
                         ["x: float32[8, 64]", "y: float32[8, 16]"])
        wanted = expected(rows())
        np.testing.assert_allclose(model(rows()), wanted, atol=0.02 * np.abs(wanted).max())
        with self.assertRaisesRegex(tw.Error, "--precision: unknown type `f8`"):
            tw.compile(proto, precision="f8")

    def test_rewrites_are_read_and_proved(self):
        (self.folder / "wrong.tw").write_text("rewrite off(x: value) { relu(x) -> x }\n")
        with self.assertRaisesRegex(tw.Error, "`off` is not proved"):
            tw.compile(two_layers()[0], rewrites=self.folder / "wrong.tw")

    def test_operators_of_ones_own_are_text(self):
        model = model_of([("Bent", ["x"], ["y"])], [("x", FLOAT, [8, 64])], [("y", FLOAT, [8, 64])])
        model.graph.node[0].domain = "own"
        model.opset_import.append(helper.make_opsetid("own", 1))
        with self.assertRaisesRegex(tw.Error, "operators of `own` are not supported"):
            tw.compile(model)
        (self.folder / "own.tw").write_text('onnx "own" Bent(x: value, by: number = 2) { return relu(x) * by }\n')
        compiled = tw.compile(model, rewrites=self.folder / "own.tw", threads=1)
        expect_close(compiled(rows()), 2 * np.maximum(rows(), 0))

    def test_a_folder_of_ones_own_and_one_that_goes_with_the_model(self):
        model = tw.compile(two_layers()[0], output=self.folder / "own", threads=1)
        del model
        self.assertTrue((self.folder / "own" / "manifest.json").exists())
        model = tw.compile(two_layers()[0], threads=1)
        folder = Path(model.folder)
        self.assertTrue(folder.exists())
        del model
        self.assertFalse(folder.exists())

    def test_another_model_in_the_same_folder_is_another_model(self):
        (first, one), (second, other) = two_layers(0), two_layers(5)
        folder, x = self.folder / "out", rows()
        old = tw.compile(self.saved(first), output=folder, threads=1)
        new = tw.compile(self.saved(second), output=folder, threads=1)
        expect_close(old(x), one(x))
        expect_close(new(x), other(x))


class Call(Package):
    def setUp(self):
        super().setUp()
        proto, self.expected = two_layers()
        self.model = tw.compile(proto, threads=1)

    def copies_of(self, x):
        before = self.model.copies
        expect_close(self.model(x), self.expected(np.asarray(x)))
        return self.model.copies - before

    def test_dense_and_aligned_inputs_are_not_copied(self):
        x = tw.empty((8, 64))
        x[:] = rows()
        self.assertEqual(x.ctypes.data % tw.ALIGNMENT, 0)
        self.assertEqual(self.copies_of(x), 0)
        self.assertEqual(self.copies_of(memoryview(x)), 0)
        x.flags.writeable = False
        self.assertEqual(self.copies_of(x), 0)

    def test_others_are_copied(self):
        wide = tw.empty((8, 128))
        wide[:] = np.concatenate([rows(), rows(seed=2)], 1)
        self.assertEqual(self.copies_of(wide[:, :64]), 1)
        self.assertEqual(self.copies_of(wide[:, 1::2]), 1)
        self.assertEqual(self.copies_of(wide[::-1, :64]), 1)
        self.assertEqual(self.copies_of(np.asfortranarray(rows())), 1)
        shifted = tw.empty((8 * 64 + 1,))[1:].reshape(8, 64)
        shifted[:] = rows()
        self.assertEqual(self.copies_of(shifted), 1)
        self.assertEqual(self.copies_of(np.broadcast_to(rows(1), (8, 64))), 1)

    def test_results_are_the_callers(self):
        one, other = self.model(rows()), self.model(rows(seed=2))
        expect_close(one, self.expected(rows()))
        one[:] = 0
        expect_close(other, self.expected(rows(seed=2)))
        self.assertEqual(one.ctypes.data % tw.ALIGNMENT, 0)
        del self.model
        expect_close(other, self.expected(rows(seed=2)))

    def test_wrong_calls(self):
        x = rows()
        for call, kind, text in (
                (lambda: self.model(), TypeError, "inputs are missing: x"),
                (lambda: self.model(x, x), TypeError, r"1 inputs \(x\), found 2"),
                (lambda: self.model(z=x), TypeError, "no input `z`; its inputs are x"),
                (lambda: self.model(x, x=x), TypeError, "`x` is given twice"),
                (lambda: self.model(x.astype(np.float64)), TypeError, r"expected f32\[8, 64\], found f64\[8, 64\]"),
                (lambda: self.model(x.astype(np.complex64)), TypeError, "found complex64"),
                (lambda: self.model(x[:4]), ValueError, r"expected f32\[8, 64\], found f32\[4, 64\]"),
                (lambda: self.model(x.reshape(-1)), ValueError, r"found f32\[512\]"),
                (lambda: self.model([1.0]), TypeError, "`x`: expected an array .* found list"),
                (lambda: self.model(None), TypeError, "found NoneType")):
            with self.assertRaisesRegex(kind, text):
                call()
        expect_close(self.model(x=x), self.expected(x))

    def test_threads_share_a_model(self):
        inputs = [rows(seed=seed) for seed in range(4)]
        expected, wrong = [self.expected(x) for x in inputs], []

        def calls(i):
            for _ in range(500):
                if not np.allclose(self.model(inputs[i]), expected[i], rtol=1e-3, atol=1e-3):
                    wrong.append(i)
        threads = [threading.Thread(target=calls, args=[i]) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_other_threads_run_meanwhile(self):
        # With an interval that never ends, another thread runs only where this one lets it.
        self.addCleanup(sys.setswitchinterval, sys.getswitchinterval())
        x, ran, go = rows(), [], threading.Lock()
        go.acquire()
        thread = threading.Thread(target=lambda: (go.acquire(), ran.append(1)))
        thread.start()
        sys.setswitchinterval(1e6)
        go.release()
        for _ in range(100000):
            if ran:
                break
            self.model._core.run([x], False)
        found = bool(ran)
        thread.join()
        self.assertTrue(found)

    def test_a_forked_process_has_threads_of_its_own(self):
        proto, expected = two_layers(rows=256)
        model, x = tw.compile(proto, threads=2), rows(256)
        right = expected(x)  # here, for NumPy may start threads of its own
        expect_close(model(x), right)
        for does_call in (True, False):
            child = os.fork()
            if child == 0:
                signal.alarm(60)  # it might wait for threads that are not there
                is_right = not does_call or (np.allclose(model(x), right, rtol=1e-3, atol=1e-3) and
                                             len(os.listdir("/proc/self/task")) == 2)
                del model
                os._exit(0 if is_right else 1)
            self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_every_element_type(self):
        kinds = [("BOOL", "bool"), ("INT8", "int8"), ("UINT8", "uint8"), ("INT32", "int32"), ("INT64", "int64"),
                 ("FLOAT16", "float16"), ("FLOAT", "float32"), ("DOUBLE", "float64")]
        values = [(name, getattr(TensorProto, name), [2, 3]) for name, _ in kinds]
        model = tw.compile(model_of([("Identity", [name], [name + "_out"]) for name, _ in kinds], values,
                                    [(name + "_out", kind, shape) for name, kind, shape in values]), threads=1)
        arrays = [np.array([[0, 1, 1], [1, 0, 1]], dtype) for _, dtype in kinds]
        for array, found, tensor in zip(arrays, model(*arrays), model.outputs):
            self.assertEqual(found.dtype, array.dtype)
            self.assertEqual(tensor.dtype, array.dtype.name)
            np.testing.assert_array_equal(found, array)

    def test_bf16_by_its_bits(self):
        kind = TensorProto.BFLOAT16
        model = tw.compile(model_of([("Relu", ["x"], ["y"])], [("x", kind, [4])], [("y", kind, [4])]), threads=1)
        bits = np.array([0x3F80, 0xBF80, 0x4040, 0], np.uint16)  # 1, -1, 3, 0
        np.testing.assert_array_equal(model(bits).view(np.uint16), [0x3F80, 0, 0x4040, 0])


class Folders(Package):
    def test_saved_and_loaded(self):
        proto, expected = two_layers()
        tw.compile(proto, threads=2).save(self.folder / "saved")
        model = tw.load(self.folder / "saved")
        self.assertEqual(model.threads, 2)
        expect_close(model(rows()), expected(rows()))
        with self.assertRaisesRegex(tw.Error, "not empty"):
            model.save(self.folder / "saved")
        (self.folder / "file").write_text("")
        for folder in ("file", "file/below"):
            with self.assertRaisesRegex(tw.Error, f"cannot be saved to .*{folder}: .*Not a directory"):
                model.save(self.folder / folder)

    def test_relative_folders(self):
        proto, expected = two_layers()
        tw.compile(proto, threads=1).save(self.folder / "saved")
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)
        expect_close(tw.load("saved")(rows()), expected(rows()))

    def test_what_is_no_model(self):
        with self.assertRaisesRegex(tw.Error, "no folder that `tracewright compile` wrote"):
            tw.load(self.folder)
        model = tw.compile(two_layers()[0], threads=1)
        model.save(self.folder / "saved")
        (self.folder / "saved" / "model.weights").write_bytes(b"x" * 64)
        with self.assertRaisesRegex(tw.Error, "weights cannot be read or belongs to another model"):
            tw.load(self.folder / "saved")
        (self.folder / "saved" / "manifest.json").write_text("{")
        with self.assertRaisesRegex(tw.Error, "manifest.json is damaged"):
            tw.load(self.folder / "saved")

    def test_profile(self):
        rows = tw.compile(two_layers()[0], threads=1).profile(seconds=0.1)
        self.assertEqual(sum(row.calls for row in rows), 2)
        self.assertTrue(all(row.seconds > 0 and row.gflops > 0 for row in rows), rows)


class Tune(Package):
    def test_a_model_is_tuned_and_compiled_with_what_was_found(self):
        proto, expected = two_layers()
        result = tw.tune(proto, trials=4, threads=1, database=self.folder / "tuning.db")
        self.assertEqual(len(result.tasks), 2)
        self.assertTrue(all(task.trials >= 1 and task.best_us > 0 for task in result.tasks), result)
        self.assertIn(result.tasks[0].name, str(result))
        model = tw.compile(proto, threads=1, database=self.folder / "tuning.db")
        expect_close(model(rows()), expected(rows()))
        with self.assertRaises(tw.Error):
            tw.compile(proto, database=self.folder / "none.db")

    def test_rewrites_and_a_target_are_those_of_compile(self):
        proto, _ = two_layers()
        own, database = self.folder / "own.tw", self.folder / "tuning.db"
        own.write_text("rewrite halves(x: value) { relu(x) -> 0.5 * (x + absolute(x)) }\n")
        tw.tune(proto, trials=4, target="cpu -threads=1", rewrites=own, database=database)

        def are_tuned(rewrites):
            manifest = json.loads((Path(tw.compile(proto, threads=1, database=database, rewrites=rewrites,
                                                   output=self.folder / "out").folder) / "manifest.json").read_text())
            return ["record" in task for task in manifest["tasks"]]

        self.assertEqual(are_tuned([own]), [True, True])
        self.assertIn(False, are_tuned(None))
        own.write_text("rewrite off(x: value) { relu(x) -> x }\n")
        with self.assertRaisesRegex(tw.Error, "`off` is not proved"):
            tw.tune(proto, rewrites=own, database=database)
        with self.assertRaisesRegex(tw.Error, "part of the target"):
            tw.tune(proto, target="cpu -threads=1", threads=1, database=database)
        with self.assertRaisesRegex(tw.Error, "target"):
            tw.tune(proto, target="none", database=database)

    def test_a_task_list(self):
        file = self.folder / "tasks.yaml"
        file.write_text("version: 1\ntarget: {kind: cpu, threads: 1}\ntasks:\n"
                        "  - {name: gemm, op: matmul, args: {M: 16, N: 32, K: 16}}\n")
        result = tw.tune(file, trials=2, database=self.folder / "list.db")
        self.assertEqual([task.name for task in result.tasks], ["gemm"])
        file.write_text("version: 1\ntasks: [{name: gemm, op: nope}]\n")
        with self.assertRaisesRegex(tw.Error, "nope"):
            tw.tune(file)
        with self.assertRaisesRegex(tw.Error, "stand in the list"):
            tw.tune(file, threads=1)
        with self.assertRaisesRegex(tw.Error, "stand in the list"):
            tw.tune(file, target="opencl")

    def test_ctrl_c_keeps_what_was_measured(self):
        program = textwrap.dedent("""
            import sys, tracewright as tw
            try:
                tw.tune(sys.argv[1], trials=100000, threads=1, database=sys.argv[2], show=True)
            except KeyboardInterrupt:
                print("interrupted", flush=True)
        """)
        database = self.folder / "tuning.db"
        path = self.saved(two_layers()[0])
        with subprocess.Popen([sys.executable, "-c", program, str(path), str(database)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as process:
            said = process.stderr.readline()  # of the first results
            process.send_signal(signal.SIGINT)
            out, err = process.communicate()
        self.assertEqual((process.returncode, out), (0, "interrupted\n"), said + err)
        self.assertIn("interrupted; everything measured is stored", err)
        found = subprocess.run([tw._command.program(), "show", str(database), "--json"], stdout=subprocess.PIPE)
        self.assertEqual(found.returncode, 0)


class Documents(unittest.TestCase):
    """Python in the documents is Python, and calls what is there with arguments that it has."""

    def test_examples_fit_the_package(self):
        calls = 0
        for page in ("README.md", "docs/python.md"):
            text = (Path(__file__).parents[2] / page).read_text()
            for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
                for call in ast.walk(ast.parse(block)):
                    if isinstance(call, ast.Call) and ast.unparse(call.func).startswith("tw."):
                        function = getattr(tw, call.func.attr)
                        inspect.signature(function).bind(*call.args, **{word.arg: 0 for word in call.keywords})
                        calls += 1
        self.assertGreaterEqual(calls, 5)


if __name__ == "__main__":
    unittest.main()
