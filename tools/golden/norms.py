# SPDX-License-Identifier: Apache-2.0
"""norms.py -- golden values of batchnorm, layernorm, gelu, the classifier losses and LAMB, from PyTorch in float64.

    python3 tools/golden/norms.py            # prints the arrays that stand in src/ops/*/*_test.c

Inputs are sines (x[k] = amp sin(fr k + ph), as rig_sines in tests/rig.h), so that tests need no files."""
import math
import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)


def sines(shape, amp, fr, ph, grad=True):
    n = math.prod(shape)
    x = amp * torch.sin(fr * torch.arange(n, dtype=torch.float64) + ph)
    return x.reshape(shape).requires_grad_(grad)


def show(name, t):
    print(name, "{ " + ", ".join(f"{v:.10g}" for v in t.detach().reshape(-1).tolist()) + " }")


def gelu():
    at = torch.tensor([-3, -1.5, -0.3, 0, 0.2, 0.9, 1.7, 4])
    seed = torch.tensor([1, -2, 0.5, 3, 1, -1, 2, 0.25])
    for form in ("none", "tanh"):
        x = at.clone().requires_grad_()
        y = F.gelu(x, approximate=form)
        y.backward(seed)
        show(f"gelu {form} y", y), show(f"gelu {form} dx", x.grad)


def layernorm():
    x, w, b = sines((3, 5), 1, 0.7, 0.1), sines((5,), 1, 0.9, 0.4), sines((5,), 1, 1.1, 0.2)
    y = F.layer_norm(x, (5,), w, b, 1e-5)
    y.backward(sines((3, 5), 1, 1.3, 0.5, False))
    for name, t in (("y", y), ("dx", x.grad), ("dw", w.grad), ("db", b.grad)):
        show(f"layernorm {name}", t)


def batchnorm():
    for relu in (False, True):
        for train in (True, False):
            x, w, b = sines((6, 3), 2, 0.7, 0.1), sines((3,), 1, 0.9, 0.4), sines((3,), 1, 1.1, 0.2)
            with torch.no_grad():
                x += 1
            bn = torch.nn.BatchNorm1d(3, eps=1e-4, momentum=0.1)
            bn.running_mean.copy_(torch.tensor([0.5, -0.25, 1]))
            bn.running_var.copy_(torch.tensor([2, 0.5, 1.5]))
            bn.weight, bn.bias = torch.nn.Parameter(w.detach().clone()), torch.nn.Parameter(b.detach().clone())
            bn.train(train)
            y = bn(x[:5])                                     # the sixth row is beyond the count
            y = F.relu(y) if relu else y
            y.backward(sines((6, 3), 1, 1.3, 0.5, False)[:5])
            label = f"batchnorm relu={relu} train={train}"
            for name, t in (("y", y), ("dx", x.grad), ("dw", bn.weight.grad), ("db", bn.bias.grad),
                            ("mean", bn.running_mean), ("var", bn.running_var)):
                show(f"{label} {name}", t)


def losses():
    z = sines((3, 4), 2, 0.7, 0.1)
    t = torch.softmax(sines((3, 4), 1, 1.3, 0.5, False), 1)
    loss = F.cross_entropy(z, t)
    loss.backward()
    show("soft loss", loss), show("soft dz", z.grad)
    z = sines((3, 4), 2, 0.7, 0.1)
    loss = F.cross_entropy(z, torch.tensor([2, -100, 0]), label_smoothing=0.1)
    loss.backward()
    show("label loss", loss), show("label dz", z.grad)


def lamb():
    """Three steps of section 8.2 over two decaying tensors and one that does not decay."""
    b1, b2, eps, wd, lr = 0.9, 0.999, 1e-8, 0.05, 5e-3
    p = [sines((4, 3), 1, 0.7, 0.1, False), sines((5,), 0.3, 0.9, 0.4, False), sines((3,), 1, 1.1, 0.2, False)]
    m, v = [torch.zeros_like(x) for x in p], [torch.zeros_like(x) for x in p]
    for t in range(1, 4):
        g = [sines(tuple(x.shape), s, 0.5 + 0.1 * t, 0.3 * k, False) for k, (x, s) in enumerate(zip(p, (4, 2, 1)))]
        if t == 2:
            g = [x * 0.05 for x in g]                         # short enough to be clipped by neither
        total = torch.sqrt(sum((x ** 2).sum() for x in g))
        outer = min(1.0, float(5 / (total + 1e-6)))
        g = [x * outer / max(1.0, float(total) * outer) for x in g]
        for k in range(3):
            m[k], v[k] = b1 * m[k] + (1 - b1) * g[k], b2 * v[k] + (1 - b2) * g[k] ** 2
            u = (m[k] / (1 - b1 ** t)) / (v[k].sqrt() / math.sqrt(1 - b2 ** t) + eps)
            if k < 2:
                u = u + wd * p[k]
                u = u * p[k].norm() / u.norm()
            p[k] = p[k] - lr * u
    for k in range(3):
        show(f"lamb p{k}", p[k])


gelu(), layernorm(), batchnorm(), losses(), lamb()
