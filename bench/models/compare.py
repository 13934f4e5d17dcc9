#!/usr/bin/env python3
"""Times a compiled model and other libraries in turn, some calls of each in every round, so that a busy machine disturbs
all alike. The first call of a turn does not count: threads of others may still be spinning.

  tracewright compile resnet18.onnx --threads 1 --output resnet18
  python bench/models/compare.py resnet18.onnx resnet18 --threads 1 --seconds 30

A line for each peer: the median of its times, and the median of (its time / ours) over the rounds. Outputs are compared
with those of the first peer. What --peers names is described in peers.py.
"""
import argparse
import ctypes
import json
import pathlib
import statistics
import subprocess
import tempfile
import time

import numpy as np

import peers

ALIGNMENT = 64


def aligned(shape, dtype):
    count = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    memory = np.zeros(count + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start:start + count].view(dtype).reshape(shape)


NUMPY_TYPES = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "i64": np.int64, "i32": np.int32, "i8": np.int8,
               "u8": np.uint8, "bool": np.bool_}


class CompiledModel:
    """The library in a folder that `tracewright compile` has written."""

    def __init__(self, folder, threads):
        folder = pathlib.Path(folder).resolve()
        manifest = json.loads((folder / "manifest.json").read_text())
        name, model = manifest["library"], manifest["model"]
        library = ctypes.CDLL(str(folder / f"lib{name}.so"))
        self.run_function = library[f"{name}_run"]
        self.context = ctypes.c_void_p()
        code = library[f"{name}_create"](str(folder / f"{name}.weights").encode(), threads, ctypes.byref(self.context))
        if code:
            raise SystemExit(f"{name}_create: {code}")
        self.parallel_for, self.pool = None, None
        if threads > 1:
            self.start_pool(folder, threads)
        make = lambda entries: {e["name"]: aligned(e["shape"], NUMPY_TYPES[e["dtype"]]) for e in entries}
        self.inputs, self.outputs = make(model["inputs"]), make(model["outputs"])
        pointers = lambda arrays: (ctypes.c_void_p * len(arrays))(*[a.ctypes.data for a in arrays.values()])
        self.input_pointers, self.output_pointers = pointers(self.inputs), pointers(self.outputs)

    def start_pool(self, folder, threads):
        self.folder = tempfile.TemporaryDirectory()
        built = f"{self.folder.name}/libpool.so"
        subprocess.run(["cc", "-O2", "-std=gnu99", "-shared", "-fPIC", "-pthread", str(folder / "tw_thread_pool.c"), "-o",
                        built], check=True)
        library = ctypes.CDLL(built)
        library.tw_pool_create.restype = ctypes.c_void_p
        self.pool = ctypes.c_void_p(library.tw_pool_create(threads, None))
        self.parallel_for = ctypes.cast(library.tw_pool_run, ctypes.c_void_p)

    def __call__(self):
        code = self.run_function(self.context, self.input_pointers, self.output_pointers, self.parallel_for, self.pool)
        assert code == 0, code


def turn(function, seconds=0.15):
    """The median milliseconds of calls for so long."""
    function()
    taken, end = [], time.perf_counter() + seconds
    while not taken or time.perf_counter() < end:
        start = time.perf_counter()
        function()
        taken.append((time.perf_counter() - start) * 1e3)
    return statistics.median(taken)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("folder")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--peers", default="onnxruntime,openvino")
    parser.add_argument("--torch-name")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    inputs = peers.random_inputs(options.model, options.seed)
    own = CompiledModel(options.folder, options.threads)
    for name, array in inputs.items():
        own.inputs[name][...] = array
    own()
    session = peers.onnxruntime_session(options.model, options.threads)
    for output, expected in zip(session.get_outputs(), session.run(None, inputs)):
        found = own.outputs[output.name]
        error = np.linalg.norm(found - expected) / max(np.linalg.norm(expected), 1e-30)
        print(f"{output.name}: relative difference from onnxruntime {error:.2e}")
    del session
    functions = {"tracewright": own}
    for peer in options.peers.split(","):
        for name, _, function in peers.PEERS[peer](options.model, inputs, options):
            functions[name] = function
    taken = {name: [] for name in functions}
    end = time.perf_counter() + options.seconds
    while time.perf_counter() < end or len(taken["tracewright"]) < 5:
        for name, function in functions.items():
            taken[name].append(turn(function))
    ours = taken.pop("tracewright")[1:]
    print(json.dumps({"model": options.model, "threads": options.threads, "peer": "tracewright", "rounds": len(ours),
                      "median_ms": round(statistics.median(ours), 3), "min_ms": round(min(ours), 3)}))
    for name, times in taken.items():
        times = times[1:]
        ratio = statistics.median(theirs / own for theirs, own in zip(times, ours))
        print(json.dumps({"peer": name, "median_ms": round(statistics.median(times), 3), "min_ms": round(min(times), 3),
                          "ratio": round(ratio, 3)}))


if __name__ == "__main__":
    main()
