#!/usr/bin/env python3
"""Makes ResNet-50 v1.5, as torchvision has it, with random weights: blocks of 1x1, 3x3 and 1x1 convolutions."""
from network import BRANCH, LINEAR, main


def bottleneck(net, x, channels, stride):
    y = net.relu(net.conv_norm(x, channels, 1))
    y = net.relu(net.conv_norm(y, channels, 3, stride))  # the stride is here in v1.5
    y = net.conv_norm(y, 4 * channels, 1, gain=BRANCH)
    if stride != 1 or x.shape[1] != 4 * channels:
        x = net.conv_norm(x, 4 * channels, 1, stride, gain=LINEAR)
    return net.relu(net.add(y, x))


def resnet50(net, options):
    width, blocks, classes = (8, (1, 2, 1, 1), 10) if options.tiny else (64, (3, 4, 6, 3), 1000)
    x = net.input("x", (options.batch, 3, options.size, options.size))
    x = net.relu(net.conv_norm(x, width, 7, 2))
    x = net.max_pool(x, 3, 2, 1)
    for stage, count in enumerate(blocks):
        for i in range(count):
            x = bottleneck(net, x, width << stage, 2 if stage > 0 and i == 0 else 1)
    x = net.flatten(net.global_average_pool(x))
    return {"y": net.linear(x, classes)}


if __name__ == "__main__":
    main(resnet50, size=(224, 64), batch_norm=True)
