#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""convolutions -- golden values of conv2d and of conv1d with a tap ahead, by PyTorch in double precision.

    python3 tools/golden/convolutions.py            # prints the tables of conv2d_test.c and conv1d_test.c

Tensors are filled with amp * sin(freq * k + phase), k counting elements in the engine's layout (channels last), as
rig_sines of tests/rig.h does; values are printed in that layout. Made with torch 2.15.0."""
import torch
import torch.nn.functional as F


def sines(shape, amp, freq, phase):
    k = torch.arange(torch.Size(shape).numel(), dtype=torch.float64)
    return (amp * torch.sin(freq * k + phase)).reshape(shape).requires_grad_()


def table(name, t):
    values = [f"{v:.10f}" for v in t.detach().flatten().tolist()]
    print(f"// {name} {tuple(t.shape)}")
    for i in range(0, len(values), 7):
        print("        " + ", ".join(values[i:i + 7]) + ",")


def sums(name, t):
    flat = t.detach().flatten()
    weights = torch.arange(1, flat.numel() + 1, dtype=torch.float64)
    print(f"// sums of {name}: {flat.sum().item():.13g}, {(weights * flat).sum().item():.13g}")


def conv2d(shape, outs, stride, bias):
    print(f"// ---- conv2d: x {shape}, {outs} channels out, stride {stride}, pad 1")
    x = sines(shape, 1, 0.7, 0.1)
    w = sines((outs, shape[3], 3, 3), 0.6, 0.9, 0.3)
    b = sines((outs,), 0.2, 1, 0.5) if bias else None
    y = F.conv2d(x.permute(0, 3, 1, 2), w, b, stride=stride, padding=1).permute(0, 2, 3, 1)
    y.backward(sines(y.shape, 1, 0.3, 0.7).detach())
    table("y", y)
    sums("dx", x.grad)
    sums("dw", w.grad)
    if bias:
        table("dbias", b.grad)


def conv1d(batch, length, channels):
    print("// ---- conv1d: 3 taps, one of them ahead, silu, no bias")
    x = sines((batch, length, channels), 1, 0.7, 0.1)
    w = sines((channels, 1, 3), 0.6, 0.9, 0.3)
    y = F.silu(F.conv1d(x.transpose(1, 2), w, None, padding="same", groups=channels)).transpose(1, 2)
    y.backward(sines(y.shape, 1, 0.3, 0.7).detach())
    table("y", y)
    sums("dx", x.grad)
    sums("dw", w.grad)


conv2d((1, 3, 4, 2), 3, 1, True)
conv2d((2, 5, 4, 3), 2, 2, False)
conv1d(2, 5, 2)
