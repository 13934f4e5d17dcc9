#!/usr/bin/env python3
"""Makes EfficientNet-B0, as torchvision has it, with random weights: inverted residuals with squeeze and excitation."""
from network import BRANCH, main

# How much wider the middle of a block is, kernel, channels, blocks, stride of the first.
STAGES = [(1, 3, 16, 1, 1), (6, 3, 24, 2, 2), (6, 5, 40, 2, 2), (6, 3, 80, 3, 2), (6, 5, 112, 3, 1), (6, 5, 192, 4, 2),
          (6, 3, 320, 1, 1)]
SILU, GATED = 1.6, 1.7  # gains: where SiLU follows, and after gates, which are near one half


def squeeze_excite(net, x, squeezed):
    """Each channel times a number in (0, 1) that depends on the means of all channels."""
    y = net.silu(net.conv(net.global_average_pool(x), squeezed, 1, gain=BRANCH))
    return net.mul(net.sigmoid(net.conv(y, x.shape[1], 1, gain=BRANCH)), x)


def inverted_residual(net, x, expansion, kernel, channels, stride):
    width = x.shape[1] * expansion
    y = x if expansion == 1 else net.silu(net.conv_norm(x, width, 1, gain=SILU))
    y = net.silu(net.conv_norm(y, width, kernel, stride, groups=width, gain=SILU))
    y = squeeze_excite(net, y, max(1, x.shape[1] // 4))
    if stride != 1 or x.shape[1] != channels:
        return net.conv_norm(y, channels, 1, gain=GATED)
    return net.add(net.conv_norm(y, channels, 1, gain=GATED * BRANCH), x)


def efficientnet_b0(net, options):
    share, most, classes = (4, 2, 10) if options.tiny else (1, 4, 1000)
    x = net.input("x", (options.batch, 3, options.size, options.size))
    x = net.silu(net.conv_norm(x, 32 // share, 3, 2, gain=SILU))
    for expansion, kernel, channels, count, stride in STAGES:
        for i in range(min(count, most)):
            x = inverted_residual(net, x, expansion, kernel, channels // share, stride if i == 0 else 1)
    x = net.silu(net.conv_norm(x, 1280 // share, 1, gain=SILU))
    x = net.flatten(net.global_average_pool(x))
    return {"y": net.linear(x, classes)}


if __name__ == "__main__":
    main(efficientnet_b0, size=(224, 64), batch_norm=True)
