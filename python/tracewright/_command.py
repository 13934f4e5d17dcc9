"""Runs the installed command `tracewright`, which compiles and tunes, and turns its failures into exceptions.

It is a process of its own: what it does not survive, or a Ctrl-C, ends no Python program.
"""
import json
import operator
import os
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path


class Error(Exception):
    """What the command said when it failed. `code` is its exit code (docs/commands.md), or None."""

    def __init__(self, text, code=None):
        super().__init__(text)
        self.code = code


def program():
    """The path of the command: in an installed package beside the modules, else in the build folder around them."""
    here = Path(__file__).absolute().parent
    for place in (here / "bin" / "tracewright", here.parent.parent / "tracewright"):
        if place.is_file():
            return str(place)
    raise Error(f"the command of this package is not at {here / 'bin' / 'tracewright'}; install the package again")


def without_prefix(text):
    """The message without the name of the program, which the exception says."""
    return "\n".join(line.removeprefix("tracewright: ") for line in text.strip().splitlines())


def run(words, show=False):
    """Runs the command to its end. `show`: what it says on standard error is passed on, line by line.

    Returns (exit code, standard output, standard error). On Ctrl-C the command is asked to end, and waited for, before
    KeyboardInterrupt goes on; a second Ctrl-C ends it at once.
    """
    # In a session of its own it gets no signal from the terminal: it gets each one from here, once.
    with subprocess.Popen([program(), *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True) as process:
        said = []

        def listen():
            for line in process.stderr:
                said.append(line)
                if show:
                    print(line, end="", file=sys.stderr, flush=True)

        printed = []
        readers = [threading.Thread(target=listen, daemon=True),
                   threading.Thread(target=lambda: printed.append(process.stdout.read()), daemon=True)]
        for reader in readers:
            reader.start()
        try:
            process.wait()
        except KeyboardInterrupt:
            _end(process)
            raise
        except BaseException:
            process.kill()
            raise
        for reader in readers:
            reader.join()
    return process.returncode, "".join(printed), "".join(said)


def _end(process):
    process.send_signal(signal.SIGINT)
    try:
        process.wait()
    except KeyboardInterrupt:
        process.kill()
        process.wait()


def run_json(words, show=False, allowed=(0,)):
    """The JSON object that the command prints. Raises Error for exit codes that are not `allowed`."""
    code, out, err = run([*words, "--json"], show)
    if code not in allowed or not out.strip():
        raise Error(without_prefix(err) or f"the command ended with code {code}", code)
    return json.loads(out)


def shapes_of(given):
    """The list of shapes that a shape, or a list of them, stands for."""
    given = list(given)
    return given if given and all(hasattr(shape, "__iter__") for shape in given) else [given]


def extents_of(shapes):
    """A dict of shapes, or of lists of them, or None, as a dict of lists of shapes. Raises Error for anything else."""
    try:
        found = {
            name: [[operator.index(extent) for extent in shape] for shape in shapes_of(given)]
            for name, given in dict(shapes or {}).items()
        }
    except (TypeError, ValueError):
        found = None
    if found is None or not all(isinstance(name, str) for name in found):
        raise Error(f'shapes: expected integers for names, as {{"x": (1, 3, 224, 224)}}, found {shapes!r}')
    return found


def shape_flags(shapes):
    """`--shape NAME=1,3,224,224` for each shape of a dict, whose values are shapes or lists of them."""
    flags = []
    for name, given in extents_of(shapes).items():
        for extents in given:
            flags += ["--shape", f"{name}={','.join(map(str, extents))}"]
    return flags


def rewrite_flags(rewrites):
    """`--rewrites FILE` for each file: a path, a list of paths, or None."""
    files = [rewrites] if isinstance(rewrites, (str, os.PathLike)) else rewrites or []
    return [word for file in files for word in ("--rewrites", os.fspath(file))]


@contextmanager
def model_file(model):
    """A path to the model, which is a path, the bytes of an ONNX file, or an onnx.ModelProto."""
    if isinstance(model, (str, os.PathLike)):
        yield os.fspath(model)
        return
    if hasattr(model, "SerializeToString"):
        try:
            model = model.SerializeToString()
        except Exception as problem:  # protobuf's own, of which there are several
            raise Error(f"the model cannot be written: {problem}; save it to a file with external data and give the "
                        "path") from problem
    if not isinstance(model, (bytes, bytearray, memoryview)):
        raise TypeError(f"the model is a path, bytes or an onnx.ModelProto, not {type(model).__name__}")
    with tempfile.TemporaryDirectory(prefix="tracewright-") as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(model)
        yield str(path)


def main():
    """The command itself, as `pip` puts it into the path."""
    path = program()
    os.execv(path, [path, *sys.argv[1:]])
