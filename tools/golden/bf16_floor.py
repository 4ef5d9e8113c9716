#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What storing bf16 between operators costs the golden gradients, whatever kernels do inside: beside device_check.py's
bf16 rows.

    python tools/golden/bf16_floor.py [NAME..] [--draws 32]      # prints the table that stands in bf16_floor.txt (needs
                                                                 torch; CPU)
    python tools/golden/bf16_floor.py NAME --single              # which roundings carry the tensor that comes out worst

Our bf16 graph (src/models) in float64, rounded to bf16 where the graph stores bf16: operands and results of products,
outputs of operators, and the gradients of all those; not the residual stream, the table's rows, norms' statistics,
states, parameters that are no operand of a product, nor anything inside an operator. "rounded" is that, once. A draw
has noise of the same size (uniform within half a last bit) in place of each rounding: how far a gradient is off is a
matter of luck, and draws say how much of it. "weights alone": draws in which nothing but the operands W of products is
disturbed, the least that any bf16 training does.
"""
import argparse
import math
import pathlib

import numpy as np
import torch

import plain

ROOT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"


# Roundings ---------------------------------------------------------------------------------------------------------

class Rounding(torch.autograd.Function):
    """Rounds a value on its way forward, its gradient on its way back, or either, by the function `way`."""

    @staticmethod
    def forward(context, x, way, forward, backward):
        context.way = way if backward else None
        return way(x) if forward else x.clone()

    @staticmethod
    def backward(context, g):
        return (context.way(g) if context.way else g), None, None, None


def to_bf16(x):
    return x.float().bfloat16().double()


def disturbed(x):
    last_bit = torch.exp2(torch.floor(torch.log2(x.abs().clamp_min(1e-300))) - 7)
    return torch.where(to_bf16(x) == x, x, x + (torch.rand_like(x) - 0.5) * last_bit)


class Roundings:
    """Places are named: "u>" is the value of u, "u<" its gradient. `only`: the places that round, None for all of
    them."""

    def __init__(self, way, only=None):
        self.way, self.only, self.seen = way, only, set()

    def on(self, place):
        self.seen.add(place)
        return self.only is None or place in self.only

    def __call__(self, x, name, gradient=True):
        return Rounding.apply(x, self.way, self.on(name + ">"), gradient and self.on(name + "<"))


# The models of plain.py with roundings -----------------------------------------------------------------------------

def silu(t):
    return t * torch.sigmoid(t)


def rmsnorm(x, w, eps):
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps) * w


def selective_scan(x, dt, A, Bm, C):
    """x, dt (B, L, D), A (D, N), Bm and C (B, L, N)."""
    h, y = 0, []
    for t in range(x.shape[1]):
        h = torch.exp(dt[:, t, :, None] * A) * h + (dt[:, t] * x[:, t])[..., None] * Bm[:, t, None]
        y.append((h * C[:, t, None]).sum(-1))
    return torch.stack(y, 1)


def ssd(x, dt, A, Bm, C):
    """x (B, L, H, P), dt (B, L, H), A (H), Bm and C (B, L, H, N), all pairs of tokens at once."""
    L, since = x.shape[1], torch.cumsum(dt * A, 1)
    before = torch.tril(torch.ones(L, L, dtype=torch.bool))[None, :, :, None]
    decay = torch.exp((since[:, :, None] - since[:, None]).masked_fill(~before, -torch.inf))
    return torch.einsum("blsh,bshp->blhp", torch.einsum("blhn,bshn->blsh", C, Bm) * decay * dt[:, None], x)


class Mixers:
    """What plain.py's branches call, by the same names and arguments."""

    def __init__(self, rounded):
        self.rounded = rounded

    def linear(self, at, name, x, place):
        y = self.rounded(x @ self.rounded(at[name + ".weight"], "W", gradient=False).T, place)
        bias = at.get(name + ".bias")
        return y if bias is None else self.rounded(y + bias, place + " + bias")        # an operator of its own

    def conv(self, at, x):
        w = at["conv1d.weight"]
        x = torch.nn.functional.pad(x.transpose(1, 2), (w.shape[2] - 1, 0))
        y = torch.nn.functional.conv1d(x, w, at.get("conv1d.bias"), groups=w.shape[0])
        return self.rounded(silu(y.transpose(1, 2)), "conv1d")

    def mamba1(self, at, u, inner_norm_eps):
        xz = self.linear(at, "in_proj", u, "in_proj")
        D = xz.shape[-1] // 2
        z, x = xz[..., D:], self.conv(at, xz[..., :D])
        R, N = at["dt_proj.weight"].shape[1], at["A_log"].shape[1]
        low, Bm, C = self.linear(at, "x_proj", x, "x_proj").split([R, N, N], -1)
        if inner_norm_eps is not None:
            low, Bm, C = (self.rounded(rmsnorm(t, at[f"{k}_layernorm.weight"], inner_norm_eps), "inner norms")
                          for t, k in ((low, "dt"), (Bm, "b"), (C, "c")))
        delta = self.rounded(low @ self.rounded(at["dt_proj.weight"], "W", gradient=False).T, "dt_proj")
        dt = torch.nn.functional.softplus(delta + at["dt_proj.bias"])
        y = selective_scan(x, dt, -torch.exp(at["A_log"]), Bm, C) + at["D"] * x
        return self.linear(at, "out_proj", self.rounded(y * silu(z), "y"), "out_proj")

    def mamba2(self, at, u, P, N, G, norm_groups, limit, eps):
        H, (B, L) = at["A_log"].shape[0], u.shape[:2]
        z, xbc, dt = self.linear(at, "in_proj", u, "in_proj").split([H * P, H * P + 2 * G * N, H], -1)
        x, Bm, C = self.conv(at, xbc).split([H * P, G * N, G * N], -1)
        x = x.reshape(B, L, H, P)
        Bm, C = (t.reshape(B, L, G, N).repeat_interleave(H // G, 2) for t in (Bm, C))
        dt = torch.nn.functional.softplus(dt + at["dt_bias"]).clamp(*limit)
        y = ssd(x, dt, -torch.exp(at["A_log"]), Bm, C) + at["D"][:, None] * x
        q = (self.rounded(y, "y").reshape(B, L, -1) * silu(z)).reshape(B, L, norm_groups, -1)
        y = rmsnorm(q, 1, eps).reshape(B, L, -1) * at["norm.weight"]
        return self.linear(at, "out_proj", self.rounded(y, "gated norm"), "out_proj")

    def attention(self, at, u, heads, kv_heads, rotary_factor, theta):
        B, L = u.shape[:2]
        q, k, v = (self.linear(at, f"{n}_proj", u, "qkv").reshape(B, L, h, -1)
                   for n, h in (("q", heads), ("k", kv_heads), ("v", kv_heads)))
        P = q.shape[-1]
        width = int(P * rotary_factor)
        if width:
            q, k = (self.rounded(rotate(t, width, theta), "rotary") for t in (q, k))
        k, v = (t.repeat_interleave(heads // kv_heads, 2) for t in (k, v))
        score = torch.einsum("blhp,bshp->bhls", q, k) / math.sqrt(P)
        score = score.masked_fill(~torch.tril(torch.ones(L, L, dtype=torch.bool)), -torch.inf)
        out = torch.einsum("bhls,bshp->blhp", torch.softmax(score, -1), v)
        return self.linear(at, "o_proj", self.rounded(out, "attention").reshape(B, L, -1), "out_proj")

    def swiglu(self, at, u):
        a = silu(self.linear(at, "gate_proj", u, "fc1")) * self.linear(at, "up_proj", u, "fc1")
        return self.linear(at, "down_proj", self.rounded(a, "activation"), "fc2")

    def relu2(self, at, u):
        a = torch.relu(self.linear(at, "up_proj", u, "fc1")) ** 2
        return self.linear(at, "down_proj", self.rounded(a, "activation"), "fc2")


def rotate(v, width, theta):
    half = (width + 1) // 2
    angle = torch.arange(v.shape[1])[:, None] * theta ** (-2.0 * torch.arange(half) / width)
    cos, sin = torch.cos(angle)[:, None, :], torch.sin(angle)[:, None, :]
    a, b, rest = v[..., :half], v[..., half:2 * half], v[..., 2 * half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin, rest], -1)


def gradients(name, rounded):
    """{tensor: gradient} of a golden directory, in numpy."""
    config, arrays = plain.load(str(ROOT / name))
    tensors = {k: torch.tensor(v, requires_grad=True) for k, v in arrays.items()}
    tokens = torch.tensor(np.load(ROOT / name / "tokens.npy").astype(np.int64))
    mixers = Mixers(rounded)
    for mixer in ("mamba1", "mamba2", "attention", "swiglu", "relu2"):  # which its branches look up there
        setattr(plain, mixer, getattr(mixers, mixer))
    branches, embedding, last_norm = plain.FAMILIES[config["model_type"]]
    eps = config["layer_norm_epsilon"] if "layer_norm_epsilon" in config else config["rms_norm_eps"]
    stream = tensors[embedding][tokens]
    for norm, branch in branches(config, tensors):
        stream = stream + branch(rounded(rmsnorm(stream, tensors[norm], eps), "u"))
    head = rounded(tensors.get("lm_head.weight", tensors[embedding]), "W", gradient=False)
    logits = rounded(rounded(rmsnorm(stream, tensors[last_norm], eps), "u") @ head.T, "logits")
    torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()).backward()
    return {k: t.grad.numpy() for k, t in tensors.items()}


# Against the golden ones -------------------------------------------------------------------------------------------

def compare(name, rounded):
    """(least cosine, its tensor, tensors below what device_check.py asks, {tensor: cosine})."""
    want = plain.read_safetensors(str(ROOT / name / "grads.safetensors"))
    have, largest = gradients(name, rounded), max(np.linalg.norm(g) for g in want.values())
    cosines, below = {}, 0
    for k, b in want.items():
        norm = np.linalg.norm(b)
        if norm > 1e-9 * largest:
            cosines[k] = float(np.sum(have[k] * b) / (np.linalg.norm(have[k]) * norm))
            below += cosines[k] < (0.999 if norm >= 1e-3 * largest else 0.99)
    worst = min(cosines, key=cosines.get)
    return cosines[worst], worst, below, cosines


def draws(name, count, only=None):
    """(median and least of the least cosines, draws within the bounds)."""
    least, within = [], 0
    for seed in range(count):
        torch.manual_seed(seed)
        cosine, _, below, _ = compare(name, Roundings(disturbed, only))
        least.append(cosine)
        within += below == 0
    return np.median(least), min(least), within


def singles(name):
    every = Roundings(to_bf16)
    _, worst, _, cosines = compare(name, every)
    print(f"{name}: {worst}, cosine {cosines[worst]:.5f}; each rounding by itself, 1 - cosine:")
    shares = {place: 1 - compare(name, Roundings(to_bf16, {place}))[3][worst] for place in every.seen}
    for place in sorted(shares, key=shares.get, reverse=True)[:16]:
        print(f"  {place:22} {shares[place]:.5f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--draws", type=int, default=32)
    parser.add_argument("--single", action="store_true")
    arguments = parser.parse_args()
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    names = arguments.names or sorted(p.name for p in ROOT.iterdir() if (p / "grads.safetensors").exists())
    for name in names if arguments.single else ():
        singles(name)
    if arguments.single:
        return
    print(f"# tools/golden/bf16_floor.py --draws {arguments.draws}: least cosine of a gradient tensor; draws that "
          f"meet the bounds")
    print(f"{'checkpoint':22} {'rounded':>9} {'median':>9} {'worst':>9} {'within':>7}   {'weights alone: median':>21} "
          f"{'worst':>9} {'within':>7}")
    for name in names:
        assert compare(name,
                       Roundings(to_bf16, set()))[0] > 1 - 1e-9, f"{name}: without roundings it must be the golden one"
        median, least, within = draws(name, arguments.draws)
        w_median, w_least, w_within = draws(name, arguments.draws, {"W>"})
        print(f"{name:22} {compare(name, Roundings(to_bf16))[0]:9.5f} {median:9.5f} {least:9.5f} "
              f"{within:4}/{arguments.draws}"
              f"   {w_median:21.5f} {w_least:9.5f} {w_within:4}/{arguments.draws}", flush=True)


main()
