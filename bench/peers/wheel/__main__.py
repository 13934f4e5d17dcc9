"""tracewright-peer-wheel LIBRARY [--threads N] [--vector-bits 256] [--cpus LIST]: a library that is installed as a
Python wheel, as a peer; the folder is run by `python3`. peer_main.cc says what is asked and answered on standard input
and output, and this keeps to it. One answer more: `missing WHY` in place of `ready VERSION` where the wheel is not
there. BLAS and oneDNN are called through ctypes. Arrays are allocated, and arguments converted, before the time."""
import sys

if sys.version_info < (3, 8):
    print("missing %s is Python %d.%d; wheels need 3.8 or newer" % ((sys.executable,) + sys.version_info[:2]))
    sys.exit()

import ctypes
import gc
import json
import os
from types import SimpleNamespace

from blas import mkl, openblas
from library import BadRequest, Missing, Unsupported, fastest, map_file, sample
from models import MODEL_LIBRARIES, ModelSession
from onednn import OneDnn
from operators import understand
from pytorch import Torch

LIBRARIES = {"mkl-wheel": mkl, "openblas-wheel": openblas, "onednn-wheel": OneDnn, "torch-wheel": Torch}


def read_problem(text):
    try:
        asked = json.loads(text)
        if any(type(value) is not int for value in asked["args"].values()):
            raise BadRequest("an argument is not an integer")
        inputs = [map_file(entry["file"], 4 * entry["elements"]) for entry in asked.get("inputs", [])]
        return SimpleNamespace(op=asked["op"], args=asked["args"], epilogue=asked.get("epilogue", []), inputs=inputs)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise BadRequest("the problem is not an object with op, args, epilogue and inputs") from None


def answer(session, request, argument):
    try:
        handler = session.requests().get(request)
        if handler is None:
            raise BadRequest(f"unknown request {request}")
        return f"ok {handler(argument)}"
    except Unsupported as why:
        return f"unsupported {why}"
    except BadRequest as why:
        return f"error {why}"
    except Exception as wrong:  # of a library: a sentence for the user, not a stack
        return f"error {type(wrong).__name__}: {wrong}"


class Session:
    """One operator."""

    def __init__(self, library):
        self.library, self.chosen, self.problem, self.shape = library, None, None, None

    def requests(self):
        return {"prepare": self.prepare, "sample": self.sample, "output": self.output}

    def needs_problem(self):
        if self.chosen is None:
            raise BadRequest("nothing is prepared")

    def prepare(self, text):
        self.chosen = None
        self.problem = read_problem(text)
        self.shape = understand(self.problem)
        chosen = fastest(self.library.prepare(self.problem, self.shape))
        chosen.run()
        self.chosen = chosen
        return f"{self.shape.flops!r} {self.shape.elements} {chosen.name}"

    def sample(self, argument):
        self.needs_problem()
        if not argument.isdigit() or int(argument) < 1:
            raise BadRequest("sample needs a positive number of calls")
        return sample(self.chosen.run, int(argument))

    def output(self, name):
        self.needs_problem()
        with open(name, "r+b") as file:
            file.write(self.chosen.output())
        return ""


def set_environment(threads, vector_bits):
    """Before a library is loaded, and whatever a shell says about these libraries."""
    for name in list(os.environ):
        if name.startswith(("OPENBLAS_", "DNNL_", "ONEDNN_", "ATEN_", "OMP_", "GOMP_", "KMP_", "MKL_", "GOTO_")):
            del os.environ[name]
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(threads)
    os.environ.update({"OMP_DYNAMIC": "false", "OMP_PROC_BIND": "true"})
    if vector_bits == 256:
        os.environ.update({"OPENBLAS_CORETYPE": "Haswell", "ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2",
                           "MKL_ENABLE_INSTRUCTIONS": "AVX2"})


def options_of(words):
    if len(words) % 2 == 0 or words[0] not in {**LIBRARIES, **MODEL_LIBRARIES}:
        return None
    options = {"--threads": "1", "--vector-bits": "0", "--cpus": ""}
    options.update(zip(words[1::2], words[2::2]))
    try:
        cpus = [int(cpu) for cpu in options.pop("--cpus").split(",") if cpu]
        return words[0], int(options.pop("--threads")), int(options.pop("--vector-bits")), cpus
    except ValueError:
        return None


def serve(name, threads, vector_bits, cpus):
    ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG, SIGKILL
    os.sched_setaffinity(0, cpus or sorted(os.sched_getaffinity(0))[:threads])
    set_environment(threads, vector_bits)
    # Only this script writes answers: what a library prints goes to standard error.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(text):
        print(" ".join(text.split()), file=answers, flush=True)

    kind, session_of = (LIBRARIES, Session) if name in LIBRARIES else (MODEL_LIBRARIES, ModelSession)
    try:
        library = kind[name](threads)
        session = session_of(library)
    except Missing as why:
        say(f"missing {why}")
        return
    say(f"ready {library.version}")
    gc.freeze()
    gc.disable()
    for line in sys.stdin:
        if line.strip() == "quit":
            break
        request, _, argument = line.strip().partition(" ")
        say(answer(session, request, argument))
        gc.collect()


def main():
    options = options_of(sys.argv[1:]) if len(sys.argv) > 1 else None
    if options is None:
        sys.exit(f"usage: {sys.argv[0]} {'|'.join([*LIBRARIES, *MODEL_LIBRARIES])} [--threads N] [--vector-bits 256] [--cpus 0,1,...]")
    try:
        serve(*options)
    except Exception as wrong:  # a sentence for the user, not a stack
        sys.exit(f"{type(wrong).__name__}: {wrong}")


if __name__ == "__main__":
    main()
