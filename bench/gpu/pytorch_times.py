#!/usr/bin/env python3
"""Times of PyTorch for the row operators and convolutions of tasks.yaml, to stand beside those of tracewright-gpu-bench:

    python3 pytorch_times.py [LIST] > pytorch.jsonl
    tracewright-gpu-bench --pytorch pytorch.jsonl

One JSON object a line: {"task", "library", "us", "us_quartiles", "rounds", "graph"}; eager kernels, and of rows those of torch.compile where it works.
Images and weights lie channels last, cuDNN may try all its ways (cudnn.benchmark), floats are not rounded to tf32. Without PyTorch or a GPU it says so and
prints nothing.
"""
import json
import re
import statistics
import sys
import time
from pathlib import Path

ROUNDS, WARM_UP, WARM_SECONDS, SAMPLE_MS = 21, 5, 0.2, 1.0
TYPES = {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}


ROWS, CONVOLUTIONS = ("softmax", "layernorm", "rmsnorm"), ("conv2d", "depthwise_conv2d")


def tasks_of(path):
    """Each task as {"name", "op", "M", ...}; read by pattern, for PyYAML may be missing."""
    for line in path.read_text().splitlines():
        task = {key: int(value) if value.isdigit() else value for key, value in re.findall(r"(\w+): (\w+)", line)}
        if task.get("op") in ROWS + CONVOLUTIONS:
            yield task


def rows(torch, task, random):
    op, m, n = task["op"], task["M"], task["N"]
    x, gamma, beta = random(m, n), random(n), random(n)
    f = torch.nn.functional

    def rmsnorm(x):
        if hasattr(f, "rms_norm"):
            return f.rms_norm(x, (n,), gamma, 1e-6)
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * gamma

    return {"softmax": lambda x: torch.softmax(x, -1), "layernorm": lambda x: f.layer_norm(x, (n,), gamma, beta, 1e-5), "rmsnorm": rmsnorm}[op], x


def convolution(torch, task, random):
    inputs = task["C"] if "C" in task else task["CI"]
    outputs, groups = (inputs, inputs) if "C" in task else (task["CO"], task.get("groups", 1))
    last = {"memory_format": torch.channels_last}
    x = random(task["N"], inputs, task["H"], task["W"]).to(**last)
    w = random(outputs, inputs // groups, task["K"], task["K"]).to(**last)
    return lambda x: torch.nn.functional.conv2d(x, w, stride=task.get("stride", 1), padding=task.get("padding", 0), groups=groups), x


def operator(torch, task):
    """The operator with random data, as a function of its first input, and that input."""
    kind = getattr(torch, TYPES[task.get("T", "f32")])
    random = lambda *shape: torch.randn(shape, device="cuda", dtype=kind)
    return (rows if task["op"] in ROWS else convolution)(torch, task, random)


def recorded(torch, function, x, calls):
    """So many calls as one CUDA graph, as tracewright-gpu-bench times its own; the calls themselves where they cannot be recorded."""

    def enqueue():
        for _ in range(calls):
            function(x)

    try:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            enqueue()
        return graph.replay, True
    except Exception:
        torch.cuda.synchronize()
        return enqueue, False


def microseconds(torch, function, x):
    """Of one call, ROUNDS times: so many calls between two events that they take about SAMPLE_MS, behind as many untimed ones; and whether as a graph."""

    def between_events(work):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        work()
        begin.record()
        work()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end)

    for _ in range(WARM_UP):
        once = between_events(lambda: function(x))
    calls = max(1, min(64, int(SAMPLE_MS / max(once, 1e-4))))
    work, is_graph = recorded(torch, function, x, calls)
    warm = time.monotonic() + WARM_SECONDS
    while time.monotonic() < warm:
        between_events(work)
    return [between_events(work) / calls * 1e3 for _ in range(ROUNDS)], is_graph


def report(torch, name, library, function, x):
    try:
        times, is_graph = microseconds(torch, function, x)
    except Exception as problem:  # torch.compile needs a compiler; a GPU may lack the memory
        print(f"skipped  {name}, {library}: {str(problem).splitlines()[0] if str(problem) else type(problem).__name__}", file=sys.stderr)
        return
    lower, median, upper = statistics.quantiles(times, n=4)
    print(json.dumps({"task": name, "library": library, "us": median, "us_quartiles": [lower, upper], "rounds": len(times), "graph": is_graph}), flush=True)


def main():
    try:
        import torch
    except ImportError:
        return print("skipped: there is no PyTorch here", file=sys.stderr)
    if not torch.cuda.is_available():
        return print("skipped: PyTorch sees no CUDA device", file=sys.stderr)
    torch.backends.cudnn.benchmark, torch.backends.cudnn.allow_tf32 = True, False
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("tasks.yaml")
    for task in tasks_of(path):
        try:
            function, x = operator(torch, task)
        except Exception as problem:
            print(f"skipped  {task['name']}: {problem!r}", file=sys.stderr)
            continue
        with torch.no_grad():
            report(torch, task["name"], f"pytorch {torch.__version__}", function, x)
            if task["op"] in ROWS:
                report(torch, task["name"], "torch.compile", torch.compile(function), x)


if __name__ == "__main__":
    main()
