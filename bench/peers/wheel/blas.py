"""MKL and OpenBLAS: sgemm on plain arrays. MKL can pack a constant operand once, which is outside of the time. Bias,
relu and add are a pass over the result, by NumPy and inside of the time, as a caller of the library has to write it."""
import ctypes
import importlib
import re
from ctypes import byref, c_char_p, c_float, c_int, c_int64
from functools import partial

from library import Unsupported, address_of, advice, function, in_turn, load, new_array, next_operand, way

ROW_MAJOR, PLAIN, TRANSPOSED, PACKED, B_MATRIX = (c_int(value) for value in (101, 111, 112, 151, 162))


class Blas:
    def __init__(self, name, version, functions, integer):
        self.name, self.version, self.functions, self.integer = name, version, functions, integer

    def prepare(self, problem, shape):
        if shape.kind != "gemm":
            raise Unsupported(f"a BLAS has no {problem.op}")
        result = new_array(shape.elements)
        passes = self.epilogue(problem, shape, result)
        found = []
        for name, calls in self.products(problem, shape, result):
            found.append(way(name + (", then a pass for the epilogue" if passes else ""), in_turn(calls + passes),
                             partial(bytes, result)))
        return found

    def products(self, problem, shape, result):
        """Names and calls of the ways to do the product alone."""
        a, b = problem.inputs[:2]
        transpose_a, leading_a = self.operand(shape.a)
        transpose_b, leading_b = self.operand(shape.b)
        m, n, k, leading_c = (self.integer(value) for value in (shape.m, shape.n, shape.k, shape.c[2]))
        one, zero = c_float(1), c_float(0)
        first = (ROW_MAJOR, transpose_a, transpose_b, m, n, k, one)

        def at(array, strides, outer, inner=0):
            return address_of(array, outer * strides[0] + inner * strides[1])

        yield "sgemm", [
            partial(self.functions["sgemm"], *first, at(a, shape.a, outer, inner), leading_a,
                    at(b, shape.b, outer, inner), leading_b, zero, at(result, shape.c, outer, inner), leading_c)
            for outer in range(shape.outer) for inner in range(shape.inner)]
        if self.functions["strided"] and shape.inner > 1:
            steps = [self.integer(strides[1]) for strides in (shape.a, shape.b, shape.c)]
            yield "sgemm_batch_strided", [
                partial(self.functions["strided"], *first, at(a, shape.a, outer), leading_a, steps[0],
                        at(b, shape.b, outer), leading_b, steps[1], zero, at(result, shape.c, outer), leading_c,
                        steps[2], self.integer(shape.inner)) for outer in range(shape.outer)]
        if self.functions["pack"] and shape.constant_b:
            self.packed = new_array(max(1, self.functions["pack_size"](B_MATRIX, m, n, k) // 4))
            self.functions["pack"](ROW_MAJOR, B_MATRIX, transpose_b, m, n, k, one, address_of(b), leading_b,
                                   address_of(self.packed))
            yield "sgemm, packed weights", [
                partial(self.functions["compute"], ROW_MAJOR, transpose_a, PACKED, m, n, k, address_of(a), leading_a,
                        address_of(self.packed), leading_b, zero, address_of(result), leading_c)]

    def operand(self, strides):
        """How cblas is told about an operand: transposed or not, and the leading dimension."""
        plain = strides[3] == 1
        return PLAIN if plain else TRANSPOSED, self.integer(strides[2] if plain else strides[3])

    def epilogue(self, problem, shape, result):
        for step in problem.epilogue:
            if step not in ("bias", "add", "relu"):
                raise Unsupported(f"a BLAS has no {step}")
        if not problem.epilogue:
            return []
        try:
            numpy = importlib.import_module("numpy")
        except ImportError:
            raise Unsupported(f"the epilogue after {self.name} needs NumPy; {advice('numpy')}") from None
        matrix = numpy.frombuffer(result, numpy.float32).reshape(-1, shape.n)
        operands = iter(problem.inputs[shape.inputs:])
        zeros = numpy.zeros((1, shape.n), numpy.float32)  # NumPy is faster with a row than with one number
        calls = []
        for step in problem.epilogue:
            if step == "relu":
                calls.append(partial(numpy.maximum, matrix, zeros, out=matrix))
            else:
                operand = numpy.frombuffer(next_operand(operands, step), numpy.float32)
                calls.append(partial(numpy.add, matrix, operand.reshape(-1, shape.n), out=matrix))
        return calls


def mkl(threads):
    library, wheel = load(["mkl"], "libmkl_rt.so")
    text = ctypes.create_string_buffer(200)
    library.mkl_get_version_string(text, len(text))
    library.mkl_set_num_threads(byref(c_int(threads)))
    words = re.search(r"Version ([0-9.]+)", text.value.decode())
    functions = {"sgemm": function(library, "cblas_sgemm", None),
                 "strided": function(library, "cblas_sgemm_batch_strided", None),
                 "pack": function(library, "cblas_sgemm_pack", None),
                 "pack_size": function(library, "cblas_sgemm_pack_get_size", ctypes.c_size_t),
                 "compute": function(library, "cblas_sgemm_compute", None)}
    return Blas("MKL", f"MKL {words.group(1) if words else '?'}, wheel {wheel}", functions, c_int)


def openblas(threads):
    library, wheel = load(["scipy-openblas64", "scipy-openblas32"], "libscipy_openblas")
    wide = wheel.startswith("scipy-openblas64")
    suffix = "64_" if wide else ""
    function(library, "scipy_openblas_set_num_threads" + suffix, None)(c_int(threads))
    config, core = (function(library, "scipy_openblas_" + name + suffix, c_char_p)().decode()
                    for name in ("get_config", "get_corename"))
    functions = {"sgemm": function(library, "scipy_cblas_sgemm" + suffix, None),
                 "strided": function(library, "scipy_cblas_sgemm_batch_strided" + suffix, None), "pack": None}
    version = " ".join(config.split()[:2])
    return Blas("OpenBLAS", f"{version}, kernels for {core}, wheel {wheel}", functions, c_int64 if wide else c_int)
