#!/usr/bin/env python3
"""Makes DenseNet-121, as torchvision has it, with random weights: a layer reads what all layers before it made."""
from network import LINEAR, main


def layer(net, parts, growth):
    x = net.concat(parts, 1) if len(parts) > 1 else parts[0]
    y = net.relu(net.conv_norm(net.relu(net.norm(x)), 4 * growth, 1))
    return net.conv(y, growth, 3, bias=False, gain=LINEAR)


def densenet121(net, options):
    growth, counts, classes = (8, (2, 2, 3, 2), 10) if options.tiny else (32, (6, 12, 24, 16), 1000)
    x = net.input("x", (options.batch, 3, options.size, options.size))
    x = net.max_pool(net.relu(net.conv_norm(x, 2 * growth, 7, 2)), 3, 2, 1)
    for stage, count in enumerate(counts):
        parts = [x]
        for _ in range(count):
            parts.append(layer(net, parts, growth))
        x = net.relu(net.norm(net.concat(parts, 1)))
        if stage + 1 < len(counts):
            x = net.average_pool(net.conv(x, x.shape[1] // 2, 1, bias=False), 2, 2)
    x = net.flatten(net.global_average_pool(x))
    return {"y": net.linear(x, classes)}


if __name__ == "__main__":
    main(densenet121, size=(224, 64), batch_norm=True)
