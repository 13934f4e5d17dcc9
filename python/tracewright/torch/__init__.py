"""A backend of torch.compile: `torch.compile(model, backend="tracewright")`.

Inference on processors. Parameters and buffers become constants of the compiled library. What tracewright does not take
runs in PyTorch as before, is logged once (logger `tracewright.torch`), and is listed by `report()`.
"""
from ._backend import backend
from ._report import GraphReport, Refusal, forget, report

__all__ = ["GraphReport", "Refusal", "backend", "forget", "report"]
