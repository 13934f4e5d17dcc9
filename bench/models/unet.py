#!/usr/bin/env python3
"""Makes a U-Net with random weights: images get smaller and then larger again, joined with those on the way down."""
from network import main


def block(net, x, channels):
    for _ in range(2):
        x = net.relu(net.conv_norm(x, channels, 3))
    return x


def unet(net, options):
    width, depth = (8, 2) if options.tiny else (32, 4)
    x = net.input("x", (options.batch, 3, options.size, options.size))
    kept = []
    for level in range(depth):
        kept.append(block(net, x, width << level))
        x = net.max_pool(kept[-1], 2, 2, 0)
    x = block(net, x, width << depth)
    for level in reversed(range(depth)):
        x = net.conv_transpose(x, width << level, 2)
        x = block(net, net.concat([kept[level], x], 1), width << level)
    return {"y": net.conv(x, 2, 1)}


if __name__ == "__main__":
    main(unet, size=(224, 64), batch_norm=True)
