#!/usr/bin/env python3
"""Makes BERT-base, as transformers has it, with random weights: y is the last hidden state, `pooled` the pooler's."""
import numpy as np
from onnx import TensorProto

from network import LINEAR, RELU, main

LOWEST = np.finfo(np.float32).min


def block(net, x, heads, mask):
    width = x.shape[-1]
    query, key, value = (net.linear(x, width) for _ in range(3))
    y = net.attention(query, key, value, heads, lambda scores: net.add(scores, mask))
    x = net.layer_norm(net.add(net.linear(y, width), x), 1e-12)
    y = net.linear(net.gelu(net.linear(x, 4 * width)), width, gain=RELU)
    return net.layer_norm(net.add(y, x), 1e-12)


def bert_base(net, options):
    width, heads, blocks, words, longest = (32, 4, 2, 100, 32) if options.tiny else (768, 12, 12, 30522, 512)
    shape = (options.batch, options.tokens)
    ids = net.input("input_ids", shape, TensorProto.INT64)
    mask = net.input("attention_mask", shape, TensorProto.INT64)  # 1 for a token, 0 for padding

    # What is added to the scores of padding takes them to the lowest number there is.
    mask = net.cast(net.unsqueeze(net.unsqueeze(mask, 1), 2), TensorProto.FLOAT)
    mask = net.mul(net.sub(net.constant(1), mask), net.constant(LOWEST))

    positions, kinds = np.arange(options.tokens)[None], np.zeros((1, options.tokens))
    x = net.gather(net.weight("words", (words, width), LINEAR), ids)
    x = net.add(x, net.gather(net.weight("kinds", (2, width), LINEAR), net.constant(kinds, np.int64)))
    x = net.add(x, net.gather(net.weight("positions", (longest, width), LINEAR), net.constant(positions, np.int64)))
    x = net.layer_norm(x, 1e-12)
    for _ in range(blocks):
        x = block(net, x, heads, mask)
    first = net.gather(x, net.constant(0, np.int64), axis=1)
    return {"y": x, "pooled": net.unary("Tanh", net.linear(first, width))}


if __name__ == "__main__":
    main(bert_base, tokens=(128, 16))
