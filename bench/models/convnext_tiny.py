#!/usr/bin/env python3
"""Makes ConvNeXt-tiny, as torchvision has it, with random weights: 7x7 depthwise convolutions and layer norms."""
from network import LINEAR, RELU, main


def layer_norm(net, x):
    """Over the channels, which are last for as long as it takes."""
    return net.transpose(net.layer_norm(net.transpose(x, 0, 2, 3, 1), 1e-6), 0, 3, 1, 2)


def block(net, x):
    channels = x.shape[1]
    y = net.conv(x, channels, 7, groups=channels, gain=LINEAR)
    y = net.layer_norm(net.transpose(y, 0, 2, 3, 1), 1e-6)
    y = net.linear(net.gelu(net.linear(y, 4 * channels)), channels, gain=RELU)
    y = net.transpose(y, 0, 3, 1, 2)
    scale = net.weight(net.new_name("scale"), (channels, 1, 1), 0.1, 0.3)
    return net.add(net.mul(scale, y), x)


def convnext_tiny(net, options):
    width, blocks, classes = (8, (1, 1, 2, 1), 10) if options.tiny else (96, (3, 3, 9, 3), 1000)
    x = net.input("x", (options.batch, 3, options.size, options.size))
    x = layer_norm(net, net.conv(x, width, 4, 4, padding=0, gain=LINEAR))
    for stage, count in enumerate(blocks):
        if stage > 0:
            x = net.conv(layer_norm(net, x), width << stage, 2, 2, padding=0, gain=LINEAR)
        for _ in range(count):
            x = block(net, x)
    x = net.flatten(layer_norm(net, net.global_average_pool(x)))
    return {"y": net.linear(x, classes)}


if __name__ == "__main__":
    main(convnext_tiny, size=(224, 64))
