"""PyTorch 2: as torch_peer.cc. Plain calls, no torch.compile, which would need a compiler; the result goes to a tensor
made before where a function has `out`."""
import ctypes
import sys
from functools import partial

from library import Missing, Unsupported, advice, module, next_operand, way


class Torch:
    def __init__(self, threads):
        self.torch = module("torch")
        number = str(self.torch.__version__)
        if int(number.split(".")[0]) < 2:
            raise Missing(f"PyTorch {number} of {sys.executable} is older than 2.0; {advice('torch')}")
        self.version = f"PyTorch {number}"
        self.torch.set_num_threads(threads)
        self.inference = self.torch.inference_mode()
        self.inference.__enter__()

    def tensor(self, array, sizes):
        """A copy on a boundary that PyTorch likes."""
        return self.torch.frombuffer(array, dtype=self.torch.float32).clone().reshape(sizes)

    def prepare(self, problem, shape):
        collect = {"gemm": self.products, "convolution": self.convolutions, "softmax": self.softmax,
                   "layernorm": self.layernorm, "rmsnorm": self.rmsnorm, "norm": self.norm}.get(shape.kind)
        try:
            ways = []
            for name, call, plain in collect(problem, shape):
                steps = self.epilogue(problem, shape, call(), plain)
                ways.append(held(name, in_chain(call, steps), plain))
            return ways
        except (RuntimeError, NotImplementedError) as refused:
            raise Unsupported(str(refused)) from None

    def products(self, problem, shape):
        torch = self.torch

        def view(array, strides, count, columns):
            flat = self.tensor(array, [shape.outer * shape.inner * count * columns])
            shaped = flat.as_strided((shape.outer, shape.inner, count, columns), strides)
            while shaped.dim() > 2 and shaped.size(0) == 1:
                shaped = shaped.squeeze(0)
            return shaped

        a, b = view(problem.inputs[0], shape.a, shape.m, shape.k), view(problem.inputs[1], shape.b, shape.k, shape.n)
        result = torch.empty(torch.matmul(a, b).shape)
        yield "matmul", partial(torch.matmul, a, b, out=result), same
        if shape.constant_b:
            weights = b.t().contiguous()
            yield "linear", partial(torch.nn.functional.linear, a, weights), same

    def convolutions(self, problem, shape):
        torch = self.torch
        axes = len(shape.extents)
        per_group = ([shape.ci, shape.co // shape.groups] if shape.transposed else
                     [shape.ci // shape.groups, shape.co])
        x = self.tensor(problem.inputs[0], [shape.n] + shape.extents + [shape.ci]).movedim(-1, 1)
        w = self.tensor(problem.inputs[1], [shape.kernel] * axes + per_group)
        w = w.movedim((-2, -1), (0, 1)) if shape.transposed else w.movedim((-1, -2), (0, 1))
        formats = {"channels first": torch.contiguous_format}
        if axes > 1:
            formats["channels last"] = torch.channels_last if axes == 2 else torch.channels_last_3d
        for name, order in formats.items():
            call = partial(torch.convolution, x.contiguous(memory_format=order), w.contiguous(memory_format=order),
                           None, [shape.stride] * axes, [shape.padding] * axes, [shape.dilation] * axes,
                           shape.transposed, [0] * axes, shape.groups)
            yield name, call, lambda result: result.movedim(1, -1)

    def softmax(self, problem, shape):
        x = self.tensor(problem.inputs[0], [shape.rows, shape.columns])
        yield "softmax", partial(self.torch.softmax, x, 1, out=self.torch.empty_like(x)), same

    def layernorm(self, problem, shape):
        x = self.tensor(problem.inputs[0], [shape.rows, shape.columns])
        scale, shift = (self.tensor(array, [shape.columns]) for array in problem.inputs[1:3])
        yield "layer_norm", partial(self.torch.layer_norm, x, (shape.columns,), scale, shift, 1e-5), same

    def rmsnorm(self, problem, shape):
        rms_norm = getattr(self.torch.nn.functional, "rms_norm", None)
        if rms_norm is None:
            raise Unsupported("PyTorch has rmsnorm from 2.4 on")
        x, scale = self.tensor(problem.inputs[0], [shape.rows, shape.columns]), self.tensor(problem.inputs[1], [-1])
        yield "rms_norm", partial(rms_norm, x, (shape.columns,), scale, 1e-6), same

    def norm(self, problem, shape):
        x = self.tensor(problem.inputs[0], [shape.rows, shape.columns])
        result = self.torch.empty(shape.rows)
        yield "norm", partial(self.torch.linalg.vector_norm, x, 2, 1, out=result), same

    def epilogue(self, problem, shape, result, plain):
        """Functions of a result, in the memory order that the result has."""
        functional = self.torch.nn.functional
        operands, steps = iter(problem.inputs[shape.inputs:]), []
        simple = {"relu": self.torch.relu_, "gelu": functional.gelu, "silu": partial(functional.silu, inplace=True)}
        for step in problem.epilogue:
            if step in simple:
                steps.append(simple[step])
            elif step in ("bias", "add"):
                target = self.torch.empty_like(result)
                data = self.tensor(next_operand(operands, step), [-1])
                if step == "add":
                    plain(target).copy_(data.reshape(plain(result).shape))
                elif plain is same:
                    target = data
                else:
                    target = data.reshape([1, -1] + [1] * (result.dim() - 2))
                steps.append(partial(add_to, target))
            else:
                raise Unsupported(f"PyTorch has no epilogue {step}")
        return steps


def same(result):
    return result


def add_to(operand, result):
    return result.add_(operand)


def held(name, call, plain):
    """A way that keeps the latest result, as torch_peer.cc does."""
    latest = [None]

    def run():
        latest[0] = call()

    def output():
        result = plain(latest[0]).contiguous()
        return ctypes.string_at(result.data_ptr(), result.numel() * 4)

    return way(name, run, output)


def in_chain(call, steps):
    if not steps:
        return call

    def run():
        result = call()
        for step in steps:
            result = step(result)
        return result

    return run
