#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""shapes_linear.py DIR -- how hard is the made-up set "shapes"? A linear model on pixels and a small conv network.

DIR holds x0.npy, y0.npy (training) and x1.npy, y1.npy (validation): int32 (N, 3072) pixels and (N) labels, written by
    MBA_SHAPES_OUT=DIR build/tests/image_set_test
The figures are in docs/image-data.md. Needs torch; three minutes on two cores.
"""
import sys

import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
load = lambda name: torch.from_numpy(np.load(f"{sys.argv[1]}/{name}.npy"))
x = [(load(f"x{k}").float() / 255 - 0.5) / 0.25 for k in (0, 1)]
y = [load(f"y{k}").long() for k in (0, 1)]


def train(name, model, epochs, rate, shape, decay=0.0):
    best = torch.optim.AdamW(model.parameters(), rate, weight_decay=decay)
    steps = epochs * (len(x[0]) // 128)
    schedule = torch.optim.lr_scheduler.OneCycleLR(best, rate, total_steps=steps)
    for _ in range(epochs):
        order = torch.randperm(len(x[0]))
        for i in range(len(order) // 128):
            pick = order[128 * i:128 * i + 128]
            loss = nn.functional.cross_entropy(model(x[0][pick].view(shape)), y[0][pick])
            best.zero_grad()
            loss.backward()
            best.step()
            schedule.step()
    model.eval()
    with torch.no_grad():
        right = [100 * (model(a.view(shape)).argmax(1) == b).float().mean().item() for a, b in zip(x, y)]
    print(f"{name}: {right[0]:.1f} % of the training images, {right[1]:.1f} % of the validation images", flush=True)


def block(a, b):
    return [nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU(), nn.MaxPool2d(2)]


for decay in (0.0, 1.0):
    train(f"linear on pixels, weight decay {decay}", nn.Linear(3072, 10), 15, 1e-3, (-1, 3072), decay)


class Planes(nn.Module):
    def forward(self, z):
        return z.permute(0, 3, 1, 2)


conv = nn.Sequential(Planes(), *block(3, 16), *block(16, 32), *block(32, 64), nn.Flatten(), nn.Linear(1024, 10))
train("three convolutions", conv, 6, 4e-3, (-1, 32, 32, 3))
