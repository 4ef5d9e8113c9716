# SPDX-License-Identifier: Apache-2.0
"""graph_ops.py -- golden values for the losses, the pooling and the encoder of the graph models, from PyTorch in
float64. Prints C initialisers for src/ops/{weighted_cross_entropy,bce,l1,segment_pool,lap_encoder}/*_test.c.

Inputs are amp * sin(fr * k + ph) for the k-th element, as tests/rig.h fills them."""
import math
import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
nan = float("nan")


def sines(shape, amp, fr, ph, grad=True):
    count = math.prod(shape)
    return torch.tensor([amp * math.sin(fr * k + ph) for k in range(count)]).reshape(shape).requires_grad_(grad)


def show(name, t):
    print(f"{name}: " + ", ".join(f"{v:.10f}" for v in t.detach().flatten().tolist()))


def weighted_cross_entropy():
    z, t = sines((7, 4), 2, 0.7, 0.1), torch.tensor([0, 2, 2, 1, 2, 0, 2])
    n = torch.bincount(t, minlength=4)
    w = torch.where(n > 0, (len(t) - n) / len(t), torch.zeros(4))
    loss = F.cross_entropy(z, t, weight=w)
    loss.backward()
    show("weighted_cross_entropy loss", loss)
    show("dz", z.grad)


def bce():
    z = sines((3, 4), 3, 0.9, 0.2)
    t = torch.tensor([[1, 0, nan, 1], [0, 0, 1, nan], [1, 1, 0, 0]], dtype=torch.float64)
    there = ~torch.isnan(t)
    loss = F.binary_cross_entropy_with_logits(z[there], t[there])
    loss.backward()
    show("bce loss", loss)
    show("dz", z.grad)
    y, t = sines((7,), 3, 0.9, 0.2), torch.tensor([1, 0, 0, 1, 0, 0, 0.])
    n = torch.bincount(t.long())
    loss = F.binary_cross_entropy_with_logits(y, t, weight=((len(t) - n) / len(t))[t.long()])
    loss.backward()
    show("weighted bce loss", loss)
    show("dz", y.grad)


def l1():
    y = sines((3, 4), 1, 0.9, 0.2)
    t = sines((3, 4), 0.6, 0.4, 0.5, grad=False)
    t[1, 2] = y[1, 2].detach()
    loss = F.l1_loss(y, t)
    loss.backward()
    show("l1 loss", loss)
    show("dy", y.grad)


def pools():
    for kind in ("mean", "max"):
        x = sines((6, 3), 1, 0.7, 0.1)
        rows = [(0, 2), (2, 2), (2, 5), (5, 6)]
        y = torch.stack([torch.zeros(3) if a == b else x[a:b].mean(0) if kind == "mean" else x[a:b].max(0).values
                         for a, b in rows])
        (y * sines((4, 3), 1, 0.3, 0.7, grad=False)).sum().backward()
        show(kind, y)
        show("dx", x.grad)


def lap_encoder():
    p, K, nodes = 3, 5, 4
    phi, lam = sines((nodes, K), 1, 1.1, 0.2, grad=False), sines((nodes, K), 0.5, 0.6, 1.0, grad=False).abs()
    phi[1, 3:], lam[1, 3:] = nan, nan
    a, b = torch.nn.Linear(2, 2 * p), torch.nn.Linear(2 * p, p)
    for q, (amp, fr, ph) in zip((a.weight, a.bias, b.weight, b.bias),
                                ((1, 0.8, 0.3), (0.5, 0.5, 0.6), (1, 1.3, 0.9), (0.4, 0.9, 0.2))):
        q.data = sines(q.shape, amp, fr, ph, grad=False)
    pos = torch.stack((phi, lam), 2)
    gone = torch.isnan(pos)
    c = torch.relu(b(torch.relu(a(pos.masked_fill(gone, 0))))).masked_fill(gone[:, :, :1], 0)
    y = c.sum(1)
    (y * sines((nodes, p), 1, 0.4, 0.3, grad=False)).sum().backward()
    show("lap y", y)
    for name, q in zip(("wa", "ba", "wb", "bb"), (a.weight, a.bias, b.weight, b.bias)):
        show("d" + name, q.grad)


for make in (weighted_cross_entropy, bce, l1, pools, lap_encoder):
    make()
