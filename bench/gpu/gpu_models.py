#!/usr/bin/env python3
"""The part of gpu-models that needs PyTorch, and its table.

  gpu_models.py torch NAME FOLDER       exports the network to FOLDER/NAME.onnx, writes inputs and what PyTorch gives for them, compiles PyTorch's own
                                        variants; when FOLDER/turn is there, times them in turn with the libraries in FOLDER/f32 and FOLDER/f16
  gpu_models.py compare NAME FOLDER P   what `tracewright run` gave (FOLDER/P.OUTPUT.npy) against PyTorch, a JSON line
  gpu_models.py report FOLDER           the results of all networks in FOLDER, as a table

Rows of times are JSON lines: {"network", "precision", "library", "us", "us_quartiles", "ratio", "ratio_quartiles", "rounds"}. A ratio is that of its time to
that of our library of the same precision in the same round, above 1 where ours is faster. Without a GPU PyTorch runs on the processor, and our library on host memory.
"""
import ctypes
import json
import logging
import os
import pathlib
import statistics
import sys
import time
import warnings

ROUNDS, SAMPLE_SECONDS, WAIT_SECONDS = int(os.environ.get("GPU_MODELS_ROUNDS", 15)), 0.02, 600


def relative(found, expected):
    """The length of the vector of errors over that of the expected one."""
    import numpy

    found, expected = (value.astype(numpy.float64).ravel() for value in (found, expected))
    return float(numpy.linalg.norm(found - expected) / max(numpy.linalg.norm(expected), 1e-300))


def most_relative(precision):
    return 1e-3 if precision == "f32" else 5e-2


class Library:
    """One of our libraries by its C functions: on tensors of the GPU, in PyTorch's stream; on those of the host without one."""

    def __init__(self, torch, name, folder, inputs, outputs, on_gpu):
        self.torch, self.prefix, self.on_gpu = torch, name, on_gpu
        self.library = ctypes.CDLL(str(folder / f"lib{name}.so"))
        self.context = ctypes.c_void_p()
        weights = str(folder / f"{name}.weights").encode()
        self.check(self.function("create")(weights, 1, ctypes.byref(self.context)))
        self.function("has_graph").argtypes = [ctypes.c_void_p]
        self.has_graph = bool(self.function("has_graph")(self.context))
        self.inputs, self.outputs = inputs, outputs
        self.pointers = [(ctypes.c_void_p * len(tensors))(*(tensor.data_ptr() for tensor in tensors)) for tensors in (inputs, outputs)]

    def function(self, name):
        return getattr(self.library, f"{self.prefix}_{name}")

    def check(self, code):
        if code != 0:
            problem = self.function("problem")
            problem.restype = ctypes.c_char_p
            raise RuntimeError(f"code {code}: {problem().decode()}")

    def __call__(self):
        if self.on_gpu:
            stream = ctypes.c_void_p(self.torch.cuda.current_stream().cuda_stream)
            self.check(self.function("run_on_device")(self.context, *self.pointers, stream))
        else:
            self.check(self.function("run")(self.context, *self.pointers, None, None))
        return self.outputs


class Clock:
    """Seconds of a call, from as many calls between two events as take SAMPLE_SECONDS; without a GPU by the processor's clock."""

    def __init__(self, torch, on_gpu):
        self.torch, self.on_gpu, self.calls = torch, on_gpu, {}

    def measure(self, call, calls):
        if not self.on_gpu:
            begin = time.perf_counter()
            for _ in range(calls):
                call()
            return (time.perf_counter() - begin) / calls
        begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(calls):
            call()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e-3 / calls

    def sample(self, call):
        if call not in self.calls:
            self.measure(call, 3)
            self.calls[call] = max(1, int(SAMPLE_SECONDS / max(self.measure(call, 1), 1e-6)))
        return self.measure(call, self.calls[call])


class Network:
    def __init__(self, name, folder):
        import torch

        here = pathlib.Path(__file__).resolve().parent
        sys.path[:0] = [str(here), str(here.parent / "models")]  # in the bundle, in the source
        import export

        self.torch, self.name, self.folder = torch, name, folder
        self.on_gpu = torch.cuda.is_available()
        self.device = "cuda" if self.on_gpu else "cpu"
        self.export = export
        model = export.torch_model(name)
        self.model, self.inputs, self.output_names = model
        self.say(export.write(*model, folder / "part.onnx"))
        (folder / "part.onnx").rename(folder / f"{name}.onnx")
        self.model = self.model.to(self.device)
        self.given = [value.to(self.device) for value in self.inputs.values()]

    def say(self, text):
        print(f"{time.monotonic() - BEGIN:6.1f} s  {self.name}: {text}", flush=True)

    def write_reference(self):
        import numpy

        for name, value in self.inputs.items():
            numpy.save(self.folder / f"in.{name}.npy", value.numpy())
        self.expected = self.results(self.model(*self.given))
        for name, value in zip(self.output_names, self.expected):
            numpy.save(self.folder / f"expected.{name}.npy", value)

    @staticmethod
    def results(outputs):
        outputs = outputs if isinstance(outputs, (tuple, list)) else [outputs]
        return [value.detach().float().cpu().numpy() for value in outputs]

    def row(self, file, **fields):
        with open(self.folder / file, "a") as out:
            out.write(json.dumps({"network": self.name, **fields}) + "\n")

    def attempt(self, precision, library, make):
        """What `make` gives; nothing, and a row that says why, if it fails or computes something else."""
        try:
            call = make()
            found = self.results(call())
            difference = max(relative(f, e) for f, e in zip(found, self.expected))
            self.row("outputs.jsonl", precision=precision, library=library, relative_difference=difference)
            if not difference < most_relative(precision):
                raise RuntimeError(f"wrong results: relative difference {difference}")
            return call
        except Exception as problem:
            why = str(problem).strip().splitlines()[0] if str(problem).strip() else type(problem).__name__
            self.row("skipped.jsonl", precision=precision, library=library, reason=why)
            self.say(f"{precision} {library}: {why}")
            return None

    def captured(self, function):
        """A call of a function as a CUDA graph."""
        torch = self.torch
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                function()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            outputs = function()

        def replay():
            graph.replay()
            return outputs

        return replay

    def variants(self, precision):
        """PyTorch's own, by name."""
        torch = self.torch
        model, given = self.model, self.given
        if precision == "f16":
            import copy

            model = copy.deepcopy(self.model).half()
            given = [value.half() if value.is_floating_point() else value for value in self.given]

        def eager():
            return model(*given)

        calls = {"pytorch eager": self.attempt(precision, "pytorch eager", lambda: eager)}
        if not self.on_gpu:
            return calls
        calls["pytorch graph"] = self.attempt(precision, "pytorch graph", lambda: self.captured(eager))
        if os.environ.get("GPU_MODELS_COMPILE", "1") == "1":
            compiled = torch.compile(model)

            def call():
                return compiled(*given)

            calls["torch.compile"] = self.attempt(precision, "torch.compile", lambda: call)
            self.say(f"{precision} torch.compile is done")
            calls["torch.compile graph"] = calls["torch.compile"] and self.attempt(precision, "torch.compile graph", lambda: self.captured(call))
        return calls

    def ours(self, precision):
        """Our library, and the same as a part of a graph that PyTorch captures."""
        torch, folder = self.torch, self.folder / precision
        if not (folder / f"lib{self.name}.so").exists():
            return {}
        outputs = [torch.zeros(value.shape, dtype=torch.float32, device=self.device) for value in self.expected]
        calls = {"tracewright": self.attempt(precision, "tracewright", lambda: Library(torch, self.name, folder, self.given, outputs, self.on_gpu))}
        if not calls["tracewright"]:
            return {}
        self.say(f"{precision}: {'one CUDA graph' if calls['tracewright'].has_graph else 'kernels are launched one by one'}")
        if self.on_gpu:
            calls["tracewright in a graph"] = self.attempt(precision, "tracewright in a graph", lambda: self.captured(calls["tracewright"]))
        return calls

    def wait_for_turn(self):
        end = time.monotonic() + WAIT_SECONDS
        while not (self.folder / "turn").exists() and time.monotonic() < end:
            time.sleep(0.05)

    def time(self, precision, calls):
        clock = Clock(self.torch, self.on_gpu)
        calls = {name: call for name, call in calls.items() if call}
        times, names = {name: [] for name in calls}, list(calls)
        for turn in range(ROUNDS + 1):
            for name in names[turn % len(names):] + names[:turn % len(names)]:
                seconds = clock.sample(calls[name])
                if turn > 0:
                    times[name].append(seconds)
        for name, own in times.items():
            fields = {"us": statistics.median(own) * 1e6, "us_quartiles": [q * 1e6 for q in statistics.quantiles(own, n=4)[::2]]}
            if "tracewright" in times:
                ratios = [one / ours for one, ours in zip(own, times["tracewright"])]
                fields |= {"ratio": statistics.median(ratios), "ratio_quartiles": statistics.quantiles(ratios, n=4)[::2]}
            self.row("times.jsonl", precision=precision, library=name, **fields, rounds=len(own))

    def run(self):
        torch = self.torch
        torch.backends.cudnn.benchmark = True
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
        with torch.no_grad():
            self.write_reference()
            self.say("reference written")
            (self.folder / "ready").touch()
            precisions = os.environ.get("GPU_MODELS_PRECISIONS", "f32 f16").split()
            calls = {precision: self.variants(precision) for precision in precisions}
            self.say("waits for its turn")
            (self.folder / "prepared").touch()
            self.wait_for_turn()
            for precision in precisions:
                calls[precision] = self.ours(precision) | calls[precision]
                if any(calls[precision].values()):
                    self.time(precision, calls[precision])
        self.say("done")


def compare(name, folder, precision):
    """True where an output differs by more than rounding."""
    import numpy

    is_wrong = False
    for path in sorted(folder.glob("expected.*.npy")):
        output = path.name[len("expected."):-len(".npy")]
        found, expected = numpy.load(folder / f"{precision}.{output}.npy"), numpy.load(path)
        difference = relative(found, expected)
        is_wrong |= not difference < most_relative(precision)
        print(json.dumps({"network": name, "precision": precision, "library": "tracewright run", "output": output,
                          "relative_difference": difference, "largest_difference": float(abs(found - expected).max())}), flush=True)
    return is_wrong


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines() if line.startswith("{")] if path.exists() else []


def report(folder):
    for own in sorted(path for path in folder.iterdir() if path.is_dir()):
        for row in lines_of(own / "times.jsonl"):
            ratio = f"{row['ratio']:6.2f} ({row['ratio_quartiles'][0]:.2f} to {row['ratio_quartiles'][1]:.2f})" if "ratio" in row else ""
            print(f"{row['network']:14} {row['precision']}  {row['library']:24} {row['us']:10.1f} us  {ratio}")
        for path in sorted(own.glob("*.run.json")):
            precision = path.name.split(".")[0]
            for row in lines_of(path):
                device = row.get("device", {})
                print(f"{own.name:14} {precision}  tracewright run: {row['us']:.1f} us with copies, {device.get('us', 0):.1f} on the device, "
                      f"{device.get('launched_us', 0):.1f} launched one by one, graph: {device.get('graph')}")
        for path in sorted(own.glob("*.profile.json")):
            precision = path.name.split(".")[0]
            for row in lines_of(path):
                kernels = row["kernels"]
                total = sum(kernel["seconds"] for kernel in kernels)
                top = ", ".join(f"{kernel['kernel']} {kernel['seconds'] * 1e6:.1f} us ({kernel['calls']} calls)" for kernel in kernels[:5])
                print(f"{own.name:14} {precision}  all kernels {total * 1e6:.1f} us: {top}")
        for row in lines_of(own / "outputs.jsonl") + [row for path in sorted(own.glob("*.compare.jsonl")) for row in lines_of(path)]:
            print(f"{row['network']:14} {row['precision']}  {row['library']:24} differs from PyTorch by {row['relative_difference']:.2g} {row.get('output', '')}")
        for row in lines_of(own / "skipped.jsonl"):
            print(f"{row['network']:14} {row['precision']}  {row['library']:24} not timed: {row['reason']}")


BEGIN = time.monotonic()

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    action, *words = sys.argv[1:]
    if action == "torch":
        Network(words[0], pathlib.Path(words[1])).run()
    elif action == "compare":
        sys.exit(compare(words[0], pathlib.Path(words[1]), words[2]))
    else:
        report(pathlib.Path(words[0]))
