#!/usr/bin/env python3
"""Times whole networks with ONNX Runtime, OpenVINO and PyTorch, in f32 on the CPU.

  python bench/models/peers.py resnet18.onnx --threads 1 --seconds 5 --peers onnxruntime,openvino
  python bench/models/peers.py resnet18.onnx --peers torch --torch-name resnet18     the same network from torchvision
  python bench/models/peers.py resnet18.onnx --save FOLDER     also FOLDER/resnet18/{x,y}.npy: inputs and outputs

One JSON object a line: {"model", "peer", "version", "threads", "runs", "median_ms", "min_ms"}. What is not installed is
named on standard error and left out. Inputs are random and the same each time. Needs onnx.
"""
import argparse
import gc
import json
import pathlib
import statistics
import sys
import time

import numpy as np
import onnx

WARM_UP, FEWEST = 3, 5
SAME_VALUES = ("Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze")


def random_inputs(path, seed):
    """An array for each input: normal numbers, rows of the table they index, ones for masks. Open dimensions are 1."""
    graph = onnx.load(path).graph
    random = np.random.default_rng(seed)
    tables = {tensor.name: tensor.dims for tensor in graph.initializer}
    rows, origin = {}, {}
    for node in graph.node:
        if node.op_type in SAME_VALUES:
            origin[node.output[0]] = origin.get(node.input[0], node.input[0])
        elif node.op_type == "Gather" and node.input[0] in tables:
            rows[origin.get(node.input[1], node.input[1])] = tables[node.input[0]][0]
    arrays = {}
    for entry in graph.input:
        if entry.name in tables:
            continue
        kind = onnx.helper.tensor_dtype_to_np_dtype(entry.type.tensor_type.elem_type)
        shape = [dimension.dim_value or 1 for dimension in entry.type.tensor_type.shape.dim]
        if kind.kind == "f":
            array = random.standard_normal(shape)
        elif entry.name in rows:
            array = random.integers(rows[entry.name], size=shape)
        else:
            array = np.ones(shape)
        arrays[entry.name] = array.astype(kind)
    return arrays


def times(function, seconds):
    """Calls the function for this many seconds and gives the milliseconds of each call."""
    for _ in range(WARM_UP):
        function()
    taken = []
    gc.disable()
    end = time.perf_counter() + seconds
    while len(taken) < FEWEST or time.perf_counter() < end:
        start = time.perf_counter()
        function()
        taken.append((time.perf_counter() - start) * 1e3)
    gc.enable()
    return taken


# Each peer yields (name, version, a function that runs the network once); arrays are bound before it is timed.


def onnxruntime_session(path, threads):
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads, settings.inter_op_num_threads = threads, 1
    settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    return onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])


def onnxruntime_peer(path, inputs, options):
    import onnxruntime

    session = onnxruntime_session(path, options.threads)
    binding = session.io_binding()
    for name, array in inputs.items():
        binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(array))
    for output, array in zip(session.get_outputs(), session.run(None, inputs)):
        binding.bind_ortvalue_output(output.name, onnxruntime.OrtValue.ortvalue_from_numpy(array))
    yield "onnxruntime", onnxruntime.__version__, lambda: session.run_with_iobinding(binding)


def openvino_peer(path, inputs, options):
    import openvino

    settings = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": options.threads,
                "PERFORMANCE_HINT": "LATENCY"}
    core = openvino.Core()
    request = core.compile_model(core.read_model(path), "CPU", settings).create_infer_request()
    for name, array in inputs.items():
        request.set_tensor(name, openvino.Tensor(array, shared_memory=True))
    yield "openvino", openvino.__version__.split("-")[0], lambda: request.infer(share_outputs=True)


def torch_peer(path, inputs, options):
    import torch
    import torch._inductor.config
    from export import torch_model

    torch.set_num_threads(options.threads)
    torch._inductor.config.freezing = True  # weights are constants, as they are for the other peers
    model, _, _ = torch_model(options.torch_name)
    arguments = [torch.from_numpy(array) for array in inputs.values()]
    for name, function in ("torch-eager", model), ("torch-compile", torch.compile(model)):

        def run():
            with torch.inference_mode():
                function(*arguments)

        yield name, torch.__version__.split("+")[0], run


PEERS = {"onnxruntime": onnxruntime_peer, "openvino": openvino_peer, "torch": torch_peer}


def measure(peer, path, inputs, options):
    """Prints a line for each way of the peer, or why there is none."""
    try:
        for name, version, run in PEERS[peer](path, inputs, options):
            taken = times(run, options.seconds)
            row = {"model": path.stem, "peer": name, "version": version, "threads": options.threads, "runs": len(taken),
                   "median_ms": round(statistics.median(taken), 4), "min_ms": round(min(taken), 4)}
            print(json.dumps(row), flush=True)
    except ModuleNotFoundError as error:
        print(f"{peer} is left out: {error.name} is not installed", file=sys.stderr)
    except Exception as error:  # of a library: a sentence, and the next peer
        why = (str(error).splitlines() or [type(error).__name__])[0]
        print(f"{peer} does not run {path.name}: {why}", file=sys.stderr)


def save(path, inputs, folder):
    """Writes the inputs and what ONNX Runtime makes of them."""
    session = onnxruntime_session(path, 0)
    outputs = dict(zip([output.name for output in session.get_outputs()], session.run(None, inputs)))
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in {**inputs, **outputs}.items():
        np.save(folder / f"{name.replace('/', '_')}.npy", array)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=pathlib.Path, metavar="MODEL.onnx")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=5, help="that each peer is timed for")
    parser.add_argument("--peers", metavar="LIST",
                        help="of onnxruntime, openvino, torch, with commas; all if not given, torch if it has a name")
    parser.add_argument("--torch-name", metavar="NAME", help="what torchvision calls the network, or bert_base or gpt2")
    parser.add_argument("--save", type=pathlib.Path, metavar="FOLDER",
                        help="for the inputs, and the outputs of ONNX Runtime")
    parser.add_argument("--seed", type=int, default=0, help="of the inputs")
    options = parser.parse_args()
    usual = ["onnxruntime", "openvino"] + ["torch"] * bool(options.torch_name)
    peers = usual if options.peers is None else [peer for peer in options.peers.split(",") if peer]
    for peer in peers:
        if peer not in PEERS:
            parser.error(f"{peer} is none of {', '.join(PEERS)}")
    for path in options.models:
        if not path.is_file():
            parser.error(f"there is no file {path}")
    if options.torch_name and len(options.models) > 1:
        parser.error("--torch-name is for one model")
    if "torch" in peers and not options.torch_name:
        peers.remove("torch")
        print("torch is left out: --torch-name says which network it is to run", file=sys.stderr)
    for path in options.models:
        inputs = random_inputs(path, options.seed)
        if options.save:
            save(path, inputs, options.save / path.stem)
        for peer in peers:
            measure(peer, path, inputs, options)


if __name__ == "__main__":
    main()
