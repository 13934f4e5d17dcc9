"""A stand-in for PyTorch, of what tracewright.torch uses and no more, on NumPy: for tests where the wheel is not there.

It has the operators of `ops.aten` below; its exporter writes ONNX for those in `onnx._KNOWN`.
"""
import contextlib

import numpy as np

from . import export, fx, nn, onnx, ops, utils
from ._tensor import Tensor, dtype, float32, int64, tensor, zeros

_grad = [True]


def is_grad_enabled():
    return _grad[-1]


@contextlib.contextmanager
def no_grad():
    _grad.append(False)
    try:
        yield
    finally:
        _grad.pop()
