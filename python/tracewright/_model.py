"""Models: made from ONNX files, opened from folders, and called."""
import json
import os
import shutil
import sys
import tempfile
import weakref
from dataclasses import dataclass
from pathlib import Path

from . import _command, _core
from ._command import Error

# Names of element types in manifests, and NumPy's for them. NumPy has no bf16: package ml_dtypes has.
_NUMPY_TYPES = {"bool": "bool", "i8": "int8", "u8": "uint8", "i32": "int32", "i64": "int64", "f16": "float16",
                "bf16": "bfloat16", "f32": "float32", "f64": "float64"}
_MANIFEST_TYPES = {numpy: own for own, numpy in _NUMPY_TYPES.items()}


@dataclass(frozen=True)
class Tensor:
    """An input or output of a model. `dtype` is NumPy's name of the element type."""
    name: str
    dtype: str
    shape: tuple

    def __str__(self):
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True)
class Entry:
    """What a model takes and gives for one combination of shapes. `memory_bytes`: of what its steps hand on."""
    inputs: tuple
    outputs: tuple
    memory_bytes: int


@dataclass(frozen=True)
class KernelTime:
    """What the calls of one kernel take in one run of a model. `gflops` is 0 where operations are not counted."""
    kernel: str
    seconds: float
    calls: int
    gflops: float


def empty(shape, dtype="float32"):
    """A NumPy array whose elements are not set, aligned so that no call of a model copies it.

    `dtype`: a type of NumPy that models may have, or its name.
    """
    name = getattr(dtype, "__name__", None) or getattr(dtype, "name", None) or str(dtype)
    if name not in _MANIFEST_TYPES:
        raise TypeError(f"models have no element type {name}; they have {', '.join(_MANIFEST_TYPES)}")
    return _named_bits(_core.empty([int(extent) for extent in shape], _MANIFEST_TYPES[name]), name)


def _named_bits(array, dtype):
    """The array itself; bf16 comes as uint16, and is named by ml_dtypes where that is installed."""
    if dtype != "bfloat16":
        return array
    try:
        import ml_dtypes
    except ImportError:
        return array
    return array.view(ml_dtypes.bfloat16)


def _is_torch(array):
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def _readable(array):
    """What the module can read without a copy: a tensor without gradients, bf16 of NumPy by its bits."""
    if getattr(array, "requires_grad", False):
        return array.detach()
    if getattr(getattr(array, "dtype", None), "name", None) == "bfloat16":
        return array.view("uint16")
    return array


class Model:
    """A compiled model. Made by `compile` and `load`.

    Calling it gives one array for one output, else a tuple. Arrays are NumPy's; PyTorch's if an argument was a tensor
    of PyTorch. Several threads may call one model at the same time. `entries`: an Entry for each combination of shapes
    that it was compiled for; `inputs` and `outputs` are those of the first one.
    """

    def __init__(self, folder, threads=None, _temporary=None, _report=None):
        self.folder = str(folder)
        self.report = _report or {}
        manifest = self._manifest()
        model = manifest["model"]
        entries = [model, *model.get("further_entries", [])]
        self.entries = [Entry(*(tuple(map(self._tensor, entry[kind])) for kind in ("inputs", "outputs")),
                              entry["memory_bytes"]) for entry in entries]
        self.inputs, self.outputs = list(self.entries[0].inputs), list(self.entries[0].outputs)
        self.threads = threads or _threads_of(manifest)
        name = manifest["library"]
        described = [[[(tensor["name"], tensor["dtype"], tensor["shape"]) for tensor in entry[kind]]
                      for kind in ("inputs", "outputs")] for entry in entries]
        try:
            self._core = _core.Model(os.path.abspath(os.path.join(self.folder, f"lib{name}.so")), name,
                                     os.path.abspath(os.path.join(self.folder, model["weights"])), self.threads,
                                     described)
        except RuntimeError as problem:
            raise Error(f"{self.folder}: {problem}") from None
        if _temporary:
            weakref.finalize(self, shutil.rmtree, _temporary, ignore_errors=True)

    def _manifest(self):
        path = Path(self.folder) / "manifest.json"
        try:
            manifest = json.loads(path.read_text())
        except OSError as problem:
            raise Error(f"`{self.folder}` is no folder that `tracewright compile` wrote: {problem}") from None
        except ValueError as problem:
            raise Error(f"{path} is damaged: {problem}") from None
        if "model" not in manifest:
            raise Error(f"{path} describes kernels and no model")
        return manifest

    @staticmethod
    def _tensor(entry):
        return Tensor(entry["name"], _NUMPY_TYPES[entry["dtype"]], tuple(entry["shape"]))

    def __call__(self, *arrays, **named):
        """Runs the model. Inputs are given in order or by name, dense or not.

        Dense inputs at a multiple of ALIGNMENT bytes are read where they lie; others are copied first. Raises
        TypeError for a wrong number, name or element type, ValueError for a place or for shapes that no entry has.
        """
        given = self._in_order(arrays, named)
        is_torch = any(_is_torch(array) for array in given)
        found = self.run(given, is_torch)
        if not is_torch:
            found = [_named_bits(array, tensor.dtype) for array, tensor in zip(found, self.outputs)]
        return found[0] if len(found) == 1 else tuple(found)

    def run(self, arrays, is_torch):
        """Like a call with all inputs in order, but always gives a list: of tensors of PyTorch, or of NumPy arrays, where
        bf16 comes as uint16."""
        try:
            return self._core.run([_readable(array) for array in arrays], is_torch)
        except RuntimeError as problem:
            raise Error(f"{self.folder}: {problem}") from None

    def _in_order(self, arrays, named):
        names = [tensor.name for tensor in self.inputs]
        if len(arrays) > len(names):
            raise TypeError(f"the model has {len(names)} inputs ({', '.join(names)}), found {len(arrays)}")
        given = dict(zip(names, arrays))
        for name, array in named.items():
            if name not in names:
                raise TypeError(f"the model has no input `{name}`; its inputs are {', '.join(names)}")
            if name in given:
                raise TypeError(f"input `{name}` is given twice")
            given[name] = array
        missing = [name for name in names if name not in given]
        if missing:
            raise TypeError(f"inputs are missing: {', '.join(missing)}")
        return [given[name] for name in names]

    @property
    def copies(self):
        """How many inputs were copied in the calls so far, because they were not dense or not aligned."""
        return self._core.copies

    def save(self, folder):
        """Copies the compiled model to a folder, for `load`, for C programs, and for `tracewright run`.

        Raises Error where the folder is not empty or cannot be written.
        """
        try:
            if Path(folder).exists() and any(Path(folder).iterdir()):
                raise Error(f"{folder} is there and not empty")
            shutil.copytree(self.folder, folder, dirs_exist_ok=True)
        except OSError as problem:  # copytree's own shutil.Error is one
            raise Error(f"the model cannot be saved to {folder}: {problem}") from problem

    def profile(self, seconds=1.0, entry=0):
        """The time of each kernel, the one that takes longest first, measured for about `seconds`. entry: the index of one
        of `entries`."""
        shapes = {tensor.name: tensor.shape for tensor in self.entries[entry].inputs
                  if len(self.entries) > 1 and 0 not in tensor.shape}
        found = _command.run_json(["run", self.folder, "--profile", "--seconds", str(seconds), "--threads",
                                   str(self.threads), *_command.shape_flags(shapes)])
        return [KernelTime(row["kernel"], row["seconds"], row["calls"], row["gflops"] or 0.0)
                for row in found["kernels"]]

    def __repr__(self):
        return f"<tracewright.Model {', '.join(map(str, self.inputs))} -> {', '.join(map(str, self.outputs))}>"


def _threads_of(manifest):
    """Those that the kernels were made for: `-threads=2` in their target, which is left out for one."""
    most = 1
    for task in manifest["tasks"]:
        for word in task["target"].split():
            if word.startswith("-threads="):
                most = max(most, int(word.removeprefix("-threads=")))
    return most


def compile(model, *, shapes=None, threads=None, target=None, database=None, rewrites=None, precision=None,
            output=None, check=False):
    """Compiles a model: a path to an ONNX file, its bytes, or an onnx.ModelProto. Returns a Model.

    shapes: a dict of the shapes of inputs that the file leaves open. A list of shapes in place of one makes an entry for
    each: the i-th one of every list belongs to entry i, and a call runs the entry for the shapes of its arrays. threads:
    that one call uses; None = all that this process may use. target: a device, as "opencl" or "cuda -device=h100"; None =
    this processor. database: take the fastest kernels from there, where it has some. rewrites: files of rewritings of
    graphs (docs/models.md) and of operators (docs/onnx.md), a path or a list. precision: "bf16" or "f16" stores weights and values between kernels so;
    None = as they are. output: the folder to write to; None = one that is removed with the
    Model. check: compare with the model as it was imported, on random inputs.

    Raises Error with all that is wrong, each with the node of the model. Kernels are those that a tune would measure
    first: nothing is measured, which takes seconds.
    """
    temporary = None if output else tempfile.mkdtemp(prefix="tracewright-")
    try:
        folder = os.fspath(output) if output else os.path.join(temporary, "model")
        with _command.model_file(model) as path:
            words = ["compile", path, "--output", folder, *_command.shape_flags(shapes)]
            words += ["--threads", str(threads)] if threads else []
            words += ["--target", target] if target else []
            words += ["--database", os.fspath(database)] if database else []
            words += ["--precision", precision] if precision else []
            words += ["--check"] if check else []
            words += _command.rewrite_flags(rewrites)
            report = _command.run_json(words)
        return Model(folder, threads, temporary, report)
    except BaseException:
        if temporary:
            shutil.rmtree(temporary, ignore_errors=True)
        raise


def load(folder, *, threads=None):
    """Opens a folder that `compile`, `Model.save` or `tracewright compile` wrote. threads: of a call; None = as compiled."""
    return Model(os.fspath(folder), threads)
