#!/usr/bin/env python3
"""Makes GPT-2 (124M), as transformers has it, with random weights: y are the logits of every token, without a cache."""
import math

import numpy as np
from onnx import TensorProto

from network import BRANCH, RELU, main

LOWEST = np.finfo(np.float32).min


def projection(net, x, features, **gain):
    """A linear layer over the tokens as rows of one matrix."""
    y = net.linear(net.reshape(x, (math.prod(x.shape[:-1]), x.shape[-1])), features, **gain)
    return net.reshape(y, (*x.shape[:-1], features))


def gelu(net, x):
    """GELU by tanh: x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2."""
    inner = net.add(x, net.mul(net.binary("Pow", x, net.constant(3)), net.constant(0.044715)))
    tanh = net.unary("Tanh", net.mul(inner, net.constant(math.sqrt(2 / math.pi))))
    return net.mul(net.mul(x, net.constant(0.5)), net.add(tanh, net.constant(1)))


def block(net, x, heads, causal):
    width = x.shape[-1]
    query, key, value = net.split(projection(net, net.layer_norm(x, 1e-5), 3 * width), 3)
    y = net.attention(query, key, value, heads, lambda scores: net.where(causal, scores, net.constant(LOWEST)))
    x = net.add(projection(net, y, width), x)
    y = gelu(net, projection(net, net.layer_norm(x, 1e-5), 4 * width))
    return net.add(x, projection(net, y, width, gain=RELU * BRANCH))


def gpt2(net, options):
    width, heads, blocks, words, longest = (32, 4, 2, 100, 32) if options.tiny else (768, 12, 12, 50257, 1024)
    ids = net.input("input_ids", (options.batch, options.tokens), TensorProto.INT64)
    table = net.weight("words", (words, width), 1 / math.sqrt(width))
    positions = net.weight("positions", (longest, width), 1 / math.sqrt(width))
    x = net.add(net.gather(table, ids), net.gather(positions, net.constant(np.arange(options.tokens)[None], np.int64)))
    causal = net.constant(np.tri(options.tokens)[None, None], bool)
    for _ in range(blocks):
        x = block(net, x, heads, causal)
    return {"y": net.matmul(net.layer_norm(x, 1e-5), net.transpose(table, 1, 0))}  # the words' own table


if __name__ == "__main__":
    main(gpt2, tokens=(128, 16))
