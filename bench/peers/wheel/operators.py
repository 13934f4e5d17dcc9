"""What each operator of a task list means to a library: the same as operators.cc, and operators.h says what the fields
mean."""
from types import SimpleNamespace

from library import BadRequest, Unsupported


def gemm(batch, m, n, k, constant_b=False):
    return SimpleNamespace(kind="gemm", outer=1, inner=batch, m=m, n=n, k=k, constant_b=constant_b,
                           a=(batch * m * k, m * k, k, 1), b=(batch * k * n, k * n, n, 1),
                           c=(batch * m * n, m * n, n, 1), inputs=2, elements=batch * m * n, channels=n,
                           flops=2.0 * batch * m * n * k)


def attention_scores(batch, seq, heads, dim):
    elements = batch * heads * seq * seq
    return SimpleNamespace(kind="gemm", outer=batch, inner=heads, m=seq, n=seq, k=dim, constant_b=False,
                           a=(seq * heads * dim, dim, heads * dim, 1), b=(seq * heads * dim, dim, 1, heads * dim),
                           c=(heads * seq * seq, seq * seq, seq, 1), inputs=2, elements=elements, channels=seq,
                           flops=2.0 * elements * dim)


def convolution(args, axes, transposed=False, depthwise=False):
    channels_in = args["C"] if depthwise else args["CI"]
    channels_out = channels_in if depthwise else args["CO"]
    groups = channels_in if depthwise else args.get("groups", 1)
    extents, kernel, batch = [args[axis] for axis in axes], args["K"], args.get("N", 1)
    stride, padding, dilation = max(1, args.get("stride", 1)), args.get("padding", 0), args.get("dilation", 1)
    reach = dilation * (kernel - 1) + 1
    if transposed:
        out = [(extent - 1) * stride - 2 * padding + reach for extent in extents]
    else:
        out = [(extent + 2 * padding - reach) // stride + 1 for extent in extents]
    elements, steps = batch * channels_out, batch * channels_out
    for before, after in zip(extents, out):
        elements, steps = elements * after, steps * (before if transposed else after)
    return SimpleNamespace(kind="convolution", n=batch, ci=channels_in, co=channels_out, groups=groups, extents=extents,
                           out=out, kernel=kernel, stride=stride, padding=padding, dilation=dilation,
                           transposed=transposed, inputs=2, elements=elements, channels=channels_out,
                           flops=2.0 * steps * kernel ** len(axes) * (channels_in // max(1, groups)))


def rows(kind, count, columns, inputs):
    reduces = kind == "norm"
    return SimpleNamespace(kind=kind, rows=count, columns=columns, inputs=inputs,
                           elements=count if reduces else count * columns, channels=count if reduces else columns,
                           flops=0.0)


OPERATORS = {
    "dense": lambda a: gemm(1, a["M"], a["N"], a["K"], constant_b=True),
    "matmul": lambda a: gemm(1, a["M"], a["N"], a["K"]),
    "batch_matmul": lambda a: gemm(a["B"], a["M"], a["N"], a["K"]),
    "transpose_batch_matmul": lambda a: attention_scores(a["B"], a["S"], a["H"], a["D"]),
    "conv1d": lambda a: convolution(a, "L"),
    "conv2d": lambda a: convolution(a, "HW"),
    "conv3d": lambda a: convolution(a, "DHW"),
    "group_conv2d": lambda a: convolution(a, "HW"),
    "dilated_conv2d": lambda a: convolution(a, "HW"),
    "depthwise_conv2d": lambda a: convolution(a, "HW", depthwise=True),
    "conv2d_transposed": lambda a: convolution(a, "HW", transposed=True),
    "softmax": lambda a: rows("softmax", a["M"], a["N"], 1),
    "layernorm": lambda a: rows("layernorm", a["M"], a["N"], 3),
    "rmsnorm": lambda a: rows("rmsnorm", a["M"], a["N"], 2),
    "norm": lambda a: rows("norm", a["B"], a["M"] * a["N"], 1),
}


def understand(problem):
    """The operator of a problem."""
    if problem.op not in OPERATORS:
        raise Unsupported(f"operator {problem.op} is not compared with libraries")
    try:
        made = OPERATORS[problem.op](problem.args)
    except KeyError as missing:
        raise Unsupported(f"{problem.op} needs the argument {missing.args[0]}") from None
    if made.elements <= 0:
        raise Unsupported(f"{problem.op} has an empty output")
    if len(problem.inputs) < made.inputs:
        raise BadRequest(f"{problem.op} needs {made.inputs} inputs")
    return made
