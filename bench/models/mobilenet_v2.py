#!/usr/bin/env python3
"""Makes MobileNet-v2, as torchvision has it, with random weights: inverted residuals with depthwise convolutions."""
from network import LINEAR, main

# How much wider the middle of a block is, channels, blocks, stride of the first.
STAGES = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]


def inverted_residual(net, x, expansion, channels, stride):
    width = x.shape[1] * expansion
    y = x if expansion == 1 else net.relu6(net.conv_norm(x, width, 1))
    y = net.relu6(net.conv_norm(y, width, 3, stride, groups=width))
    y = net.conv_norm(y, channels, 1, gain=LINEAR)
    return net.add(x, y) if stride == 1 and x.shape[1] == channels else y


def mobilenet_v2(net, options):
    share, most, classes = (4, 2, 10) if options.tiny else (1, 4, 1000)
    x = net.input("x", (options.batch, 3, options.size, options.size))
    x = net.relu6(net.conv_norm(x, 32 // share, 3, 2))
    for expansion, channels, count, stride in STAGES:
        for i in range(min(count, most)):
            x = inverted_residual(net, x, expansion, channels // share, stride if i == 0 else 1)
    x = net.relu6(net.conv_norm(x, 1280 // share, 1))
    x = net.flatten(net.global_average_pool(x))
    return {"y": net.linear(x, classes)}


if __name__ == "__main__":
    main(mobilenet_v2, size=(224, 64), batch_norm=True)
