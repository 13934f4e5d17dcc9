#!/usr/bin/env python3
"""Makes ResNet-18, as torchvision has it, with random weights: blocks of two 3x3 convolutions."""
from network import BRANCH, LINEAR, main


def block(net, x, channels, stride):
    y = net.relu(net.conv_norm(x, channels, 3, stride))
    y = net.conv_norm(y, channels, 3, gain=BRANCH)
    if stride != 1 or x.shape[1] != channels:
        x = net.conv_norm(x, channels, 1, stride, gain=LINEAR)
    return net.relu(net.add(y, x))


def resnet18(net, options):
    width, blocks, classes = (8, 1, 10) if options.tiny else (64, 2, 1000)
    x = net.input("x", (options.batch, 3, options.size, options.size))
    x = net.relu(net.conv_norm(x, width, 7, 2))
    x = net.max_pool(x, 3, 2, 1)
    for stage in range(4):
        for i in range(blocks):
            x = block(net, x, width << stage, 2 if stage > 0 and i == 0 else 1)
    x = net.flatten(net.global_average_pool(x))
    return {"y": net.linear(x, classes)}


if __name__ == "__main__":
    main(resnet18, size=(224, 64), batch_norm=True)
