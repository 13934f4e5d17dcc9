#!/usr/bin/env python3
"""Makes ViT-B/16, as torchvision has it, with random weights: a transformer over the patches of an image."""
import numpy as np

from network import BRANCH, LINEAR, RELU, main


def block(net, x, heads):
    width = x.shape[-1]
    query, key, value = net.split(net.linear(net.layer_norm(x, 1e-6), 3 * width), 3)
    x = net.add(net.linear(net.attention(query, key, value, heads), width), x)
    y = net.gelu(net.linear(net.layer_norm(x, 1e-6), 4 * width))
    return net.add(x, net.linear(y, width, gain=RELU * BRANCH))


def vit_b_16(net, options):
    width, heads, blocks, classes = (32, 4, 2, 10) if options.tiny else (768, 12, 12, 1000)
    x = net.input("x", (options.batch, 3, options.size, options.size))
    x = net.conv(x, width, 16, 16, padding=0, gain=LINEAR)
    x = net.transpose(net.reshape(x, (options.batch, width, x.shape[2] * x.shape[3])), 0, 2, 1)
    first = net.weight("class_token", (1, 1, width), 1)
    if options.batch > 1:
        first = net.expand(first, (options.batch, 1, width))
    x = net.concat([first, x], axis=1)
    x = net.add(x, net.weight("positions", (1, *x.shape[1:]), 0.5))
    for _ in range(blocks):
        x = block(net, x, heads)
    x = net.gather(net.layer_norm(x, 1e-6), net.constant(0, np.int64), axis=1)  # the class token's
    return {"y": net.linear(x, classes)}


if __name__ == "__main__":
    main(vit_b_16, size=(224, 64))
