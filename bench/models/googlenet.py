#!/usr/bin/env python3
"""Makes GoogLeNet, as torchvision has it, with random weights: four branches beside each other, then one image of all."""
from network import main

# Channels of the four branches; before the 3x3 convolutions, too. A pooling layer stands in front of some blocks.
BLOCKS = [(64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64), "pool", (192, 96, 208, 16, 48, 64),
          (160, 112, 224, 24, 64, 64), (128, 128, 256, 24, 64, 64), (112, 144, 288, 32, 64, 64),
          (256, 160, 320, 32, 128, 128), "pool", (256, 160, 320, 32, 128, 128), (384, 192, 384, 48, 128, 128)]


def inception(net, x, channels):
    def conv(x, channels, kernel):
        return net.relu(net.conv_norm(x, channels, kernel))

    one, before_three, three, before_five, five, pooled = channels
    branches = [conv(x, one, 1), conv(conv(x, before_three, 1), three, 3), conv(conv(x, before_five, 1), five, 3),
                conv(net.max_pool(x, 3, 1, 1), pooled, 1)]
    return net.concat(branches, 1)


def googlenet(net, options):
    share, most, classes = (8, 4, 10) if options.tiny else (1, len(BLOCKS), 1000)
    x = net.input("x", (options.batch, 3, options.size, options.size))
    x = net.max_pool(net.relu(net.conv_norm(x, 64 // share, 7, 2)), 3, 2, 1)
    x = net.relu(net.conv_norm(x, 64 // share, 1))
    x = net.max_pool(net.relu(net.conv_norm(x, 192 // share, 3)), 3, 2, 1)
    for block in BLOCKS[:most]:
        x = net.max_pool(x, 3, 2, 1) if block == "pool" else inception(net, x, [n // share for n in block])
    x = net.flatten(net.global_average_pool(x))
    return {"y": net.linear(x, classes)}


if __name__ == "__main__":
    main(googlenet, size=(224, 64), batch_norm=True)
