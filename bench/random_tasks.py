#!/usr/bin/env python3
"""Writes a task list of operators whose shapes are drawn at random, for `tracewright model data`.

    bench/random_tasks.py --count 600 --seed 1 --output random_tasks.yaml

Half of the sizes are multiples of 8, as in networks. No task has more arithmetic than --gflop.
"""
import argparse
import math
import random


class Sizes:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def size(self, low, high):
        """Log-uniform in [low, high]; a multiple of 8 in half of the cases."""
        value = round(math.exp(self.random.uniform(math.log(low), math.log(high))))
        return max(8, value // 8 * 8) if value >= 8 and self.random.random() < 0.5 else value

    def one_of(self, *choices):
        return self.random.choice(choices)


def matmul(s):
    return {"M": s.size(1, 1000), "N": s.size(8, 2000), "K": s.size(8, 2000)}


def batch_matmul(s):
    return {"B": s.one_of(2, 3, 4, 6, 8, 10, 12, 16), "M": s.size(8, 256), "N": s.size(8, 256), "K": s.size(8, 256)}


def transpose_batch_matmul(s):
    return {"B": 1, "S": s.size(16, 256), "H": s.one_of(2, 4, 6, 8, 12, 16), "D": s.one_of(32, 48, 64, 80, 96, 128)}


def window(s, kernels, strides=(1, 1, 1, 2)):
    """A kernel, its stride, and the padding that keeps the image's size."""
    kernel = s.one_of(*kernels)
    return {"K": kernel, "stride": s.one_of(*strides), "padding": kernel // 2}


def image(s, high=112):
    side = s.size(7, high)
    return {"N": 1, "H": side, "W": side if s.random.random() < 0.5 else s.size(7, high)}


def channels(s, high=512):
    return {"CI": s.size(3, high), "CO": s.size(8, high)}


def conv2d(s):
    return {**image(s), **channels(s), **window(s, (1, 1, 3, 3, 5, 7))}


def grouped(s):
    groups = s.one_of(2, 4, 8)
    return {**image(s, 56), "CI": groups * s.size(4, 64), "CO": groups * s.size(4, 64), **window(s, (1, 3, 3, 5)),
            "groups": groups}


def dilated(s):
    return {**image(s, 56), **channels(s, 256), **window(s, (3, 3, 5)), "dilation": 2}


def depthwise(s):
    return {**image(s), "C": s.size(8, 1024), **window(s, (3, 3, 5, 7))}


def transposed(s):
    return {**image(s, 40), **channels(s, 256), "K": s.one_of(3, 4), "stride": 2, "padding": 1}


def conv1d(s):
    return {"N": 1, "L": s.size(32, 1000), **channels(s), **window(s, (1, 3, 5))}


def conv3d(s):
    return {"N": 1, "D": s.one_of(2, 4, 8), "H": s.size(7, 40), "W": s.size(7, 40), **channels(s, 128),
            **window(s, (1, 3))}


def rows(s):
    return {"M": s.size(16, 2000), "N": s.size(16, 4096)}


def norm(s):
    return {"B": 1, **rows(s)}


def pool(s):
    return {**image(s), "C": s.size(16, 512), "K": 3, "stride": 2, "padding": 1}


# Operator, how often, how its shape is drawn.
OPERATORS = [("matmul", 5, matmul), ("dense", 5, matmul), ("batch_matmul", 3, batch_matmul),
             ("transpose_batch_matmul", 1, transpose_batch_matmul), ("conv2d", 8, conv2d), ("conv2d", 2, grouped),
             ("conv2d", 1, dilated), ("conv2d_bn_relu", 2, conv2d), ("depthwise_conv2d", 4, depthwise),
             ("conv2d_transposed", 2, transposed), ("conv1d", 2, conv1d), ("conv3d", 1, conv3d), ("softmax", 1, rows),
             ("layernorm", 1, rows), ("rmsnorm", 1, rows), ("norm", 1, norm), ("max_pool2d", 1, pool)]


def gflop(args):
    """Arithmetic of a task, for a limit: products of all sizes that multiply."""
    a = dict(args)
    window_size = a.get("K", 1) ** (3 if "D" in a and "H" in a and "W" in a else 2 if "W" in a else 1)
    if "CI" in a or "C" in a:
        points = a.get("H", 1) * a.get("W", 1) * a.get("L", 1) * a.get("D", 1) / a.get("stride", 1) ** 2
        return 2e-9 * points * a.get("CI", 1) * a.get("CO", a.get("C", 1)) * window_size / a.get("groups", 1)
    return 2e-9 * math.prod(a.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--gflop", type=float, default=0.5)
    parser.add_argument("--output", required=True)
    options = parser.parse_args()
    s = Sizes(options.seed)
    lines, seen = [], set()
    while len(lines) < options.count:
        name, _, draw = s.random.choices(OPERATORS, [often for _, often, _ in OPERATORS])[0]
        args = draw(s)
        text = f"op: {name}, args: {{" + ", ".join(f"{k}: {v}" for k, v in args.items()) + "}"
        if gflop(args) > options.gflop or text in seen:
            continue
        seen.add(text)
        lines.append(f"  - {{name: r{len(lines) + 1}, {text}}}")
    with open(options.output, "w") as out:
        out.write("version: 1\ntarget: {kind: cpu, threads: 1}\ntasks:\n" + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
