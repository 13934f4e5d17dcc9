"""tracewright from Python: compiles ONNX models to native libraries, runs them, and tunes their kernels.

    import tracewright as tw
    model = tw.compile("resnet50.onnx")
    y = model(x)

`torch.compile(model, backend="tracewright")` needs no import; see tracewright.torch.
"""
from ._command import Error
from ._core import ALIGNMENT
from ._model import Entry, Model, Tensor, compile, empty, load
from ._tune import TaskResult, TuneResult, tune

__all__ = ["ALIGNMENT", "Entry", "Error", "Model", "TaskResult", "Tensor", "TuneResult", "compile", "empty", "load", "tune"]
