"""What all wheels need: refusals, arrays, ways to do a problem, their times, the shared library or module of a wheel."""
import ctypes
import importlib
import mmap
import os
import sys
import time
from ctypes import c_float, c_int, c_void_p
from importlib import metadata
from itertools import repeat
from types import SimpleNamespace


class Missing(Exception):
    """The library is not there; the text says what to do."""


class Unsupported(Exception):
    """The library cannot do this problem."""


class BadRequest(Exception):
    """What is asked makes no sense."""


# Arrays are maps: on a page boundary, and seen without copies by ctypes, NumPy and PyTorch.


def map_file(name, size):
    try:
        with open(name, "rb") as file:
            return mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY)
    except (OSError, ValueError):
        raise BadRequest(f"cannot map {name}") from None


def new_array(elements):
    return mmap.mmap(-1, elements * 4)


def address_of(array, offset=0):
    """Of the element at this offset, as an argument of a C function. Maps are never moved."""
    return c_void_p(ctypes.addressof(c_float.from_buffer(array)) + 4 * offset)


def way(name, run, output):
    """One way to do the problem. output(): the latest result in plain layout, as bytes."""
    return SimpleNamespace(name=name, run=run, output=output)


def sample(run, calls):
    """Nanoseconds that `calls` calls take together; one more call comes first and is not timed."""
    run()
    begin = time.perf_counter_ns()
    for _ in repeat(None, calls):
        run()
    return time.perf_counter_ns() - begin


def fastest(ways):
    best = [float("inf")] * len(ways)
    for turn in range(7 if len(ways) > 1 else 0):
        for i, tried in enumerate(ways):
            calls = 1 if turn == 0 else max(1, int(1e6 / best[i]))
            best[i] = min(best[i], sample(tried.run, calls) / calls)
    return ways[best.index(min(best))]


def in_turn(calls):
    """One call that makes all of these."""
    if len(calls) == 1:
        return calls[0]

    def run():
        for call in calls:
            call()

    return run


def advice(wheel):
    return f"install it (pip install {wheel}), or name the Python that has it in TRACEWRIGHT_PYTHON"


def module(name):
    """The module of this name, of the wheel that is called so, too."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as missing:
        raise Missing(f"{sys.executable} has no module {missing.name}; {advice(missing.name)}") from None
    except Exception as wrong:  # a broken installation fails in ways of its own
        raise Missing(f"cannot import {name}: {wrong}") from None


def load(wheels, start):
    """The shared library whose file name starts so, of the first of these wheels that is there; and "WHEEL VERSION"."""
    for wheel in wheels:
        try:
            found = metadata.distribution(wheel)
        except metadata.PackageNotFoundError:
            continue
        label = f"{wheel} {found.version}"
        for file in found.files or ():
            if file.name.startswith(start):
                path = os.path.realpath(found.locate_file(file))
                try:
                    return ctypes.CDLL(path), label
                except OSError as wrong:
                    raise Missing(f"cannot load {path} of the wheel {label}: {wrong}") from None
        raise Missing(f"the wheel {label} has no file {start}*")
    raise Missing(f"{sys.executable} has no wheel {' or '.join(wheels)}; {advice(wheels[0])}")


def function(library, name, result=c_int):
    """With the type of its result; None where the library has no such function."""
    found = getattr(library, name, None)
    if found is not None:
        found.restype = result
    return found


def next_operand(operands, step):
    for operand in operands:
        return operand
    raise BadRequest(f"no input for {step}")
