#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mambavision.py -- MambaVision in plain PyTorch, written from the equations: the yardstick for our own.

    model  = MambaVision(**VARIANTS["T"])                    parameters under their published names
    logits = model(images)                                   (N, 3, H, W) of any size -> (N, classes)
    logits = model(images, drop)                             drop: a factor per image or window for every branch,
                                                             in the order of model.branches(H, W)

    python3 tools/golden/mambavision.py                      checks: sizes, reference vectors, gradients (needs torch)

train() normalises with the statistics of the batch and updates the running ones; eval() uses those. Nothing is drawn in
here: dropped paths come from outside. Images are channels first, as torch has them."""
import math

import torch
from torch import nn
from torch.nn import functional as F

import pieces

STATES, TAPS = 8, 3


def variant(dim, in_dim, depths, heads, layer_scale, drop_path, windows=(14, 7)):
    """Stages 0 and 1 have no windows (0) and no heads (theirs are listed, unused)."""
    return dict(dim=dim, in_dim=in_dim, depths=depths, heads=heads, windows=[0, 0, *windows], mlp_ratio=4,
                layer_scale=layer_scale, drop_path=drop_path, classes=1000)


VARIANTS = {
    "T": variant(80, 32, [1, 3, 8, 4], [2, 4, 8, 16], None, 0.2),
    "T2": variant(80, 32, [1, 3, 11, 4], [2, 4, 8, 16], None, 0.2),
    "S": variant(96, 64, [3, 3, 7, 5], [2, 4, 8, 16], None, 0.2),
    "B": variant(128, 64, [3, 3, 10, 5], [2, 4, 8, 16], 1e-5, 0.3),
    "L": variant(196, 64, [3, 3, 10, 5], [4, 8, 16, 32], 1e-5, 0.3),
    "L2": variant(196, 64, [3, 3, 12, 5], [4, 8, 16, 32], 1e-5, 0.3),
    "L3": variant(256, 64, [3, 3, 20, 10], [4, 8, 16, 32], 1e-5, 0.5, (16, 8)),
}


# Blocks ------------------------------------------------------------------------------------------------------------

def scaled(branch, factor):
    """The branch with every image or window of its leading axis times its own factor; None: kept as it is."""
    return branch if factor is None else branch * factor.reshape(-1, *[1] * (branch.dim() - 1))


class ConvBlock(nn.Module):
    branches = 1

    def __init__(self, C):
        super().__init__()
        self.conv1 = nn.Conv2d(C, C, 3, padding=1)
        self.norm1 = nn.BatchNorm2d(C)
        self.conv2 = nn.Conv2d(C, C, 3, padding=1)
        self.norm2 = nn.BatchNorm2d(C)

    def forward(self, x, factor):
        r = F.gelu(self.norm1(self.conv1(x)), approximate="tanh")
        return x + scaled(self.norm2(self.conv2(r)), factor)


class Mixer(nn.Module):
    """The SSM mixer: half the channels are scanned, the other half only convolved; both are concatenated."""

    def __init__(self, C, rank=None, states=STATES, scan=pieces.scan):
        super().__init__()
        h, self.rank, self.states, self.scan = C // 2, rank or math.ceil(C / 16), states, scan
        self.A_log = nn.Parameter(torch.log(torch.arange(1.0, states + 1)).repeat(h, 1))
        self.D = nn.Parameter(torch.ones(h))
        self.in_proj = nn.Linear(C, C, bias=False)
        self.x_proj = nn.Linear(h, self.rank + 2 * states, bias=False)
        self.dt_proj = nn.Linear(self.rank, h)
        self.out_proj = nn.Linear(C, C, bias=False)
        self.conv1d_x = nn.Conv1d(h, h, TAPS, padding=TAPS // 2, groups=h, bias=False)
        self.conv1d_z = nn.Conv1d(h, h, TAPS, padding=TAPS // 2, groups=h, bias=False)

    def forward(self, x):
        px, pz = self.in_proj(x).chunk(2, -1)
        u = F.silu(self.conv1d_x(px.transpose(1, 2))).transpose(1, 2)
        z = F.silu(self.conv1d_z(pz.transpose(1, 2))).transpose(1, 2)
        r, B, C = self.x_proj(u).split([self.rank, self.states, self.states], -1)
        step = F.softplus(self.dt_proj(r) + self.dt_proj.bias)                       # the bias enters twice
        y = self.scan(u, step, -torch.exp(self.A_log), B, C, self.D)
        return self.out_proj(torch.cat([y, z], -1))


class Attention(nn.Module):
    def __init__(self, C, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(C, 3 * C)
        self.proj = nn.Linear(C, C)

    def forward(self, x):
        M, L, C = x.shape
        q, k, v = self.qkv(x).reshape(M, L, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        P = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(C // self.heads), -1)
        return self.proj((P @ v).transpose(1, 2).reshape(M, L, C))


class MLP(nn.Module):
    def __init__(self, C, ratio):
        super().__init__()
        self.fc1 = nn.Linear(C, ratio * C)
        self.fc2 = nn.Linear(ratio * C, C)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x)))                                         # the exact gelu here


class TokenBlock(nn.Module):
    branches = 2

    def __init__(self, C, mixer, mlp_ratio, layer_scale):
        super().__init__()
        self.gamma_1 = self.gamma_2 = 1.0
        if layer_scale is not None:
            self.gamma_1 = nn.Parameter(torch.full((C,), layer_scale))
            self.gamma_2 = nn.Parameter(torch.full((C,), layer_scale))
        self.norm1 = nn.LayerNorm(C)
        self.mixer = mixer
        self.norm2 = nn.LayerNorm(C)
        self.mlp = MLP(C, mlp_ratio)

    def forward(self, x, factor_a, factor_b):
        x = x + scaled(self.gamma_1 * self.mixer(self.norm1(x)), factor_a)
        return x + scaled(self.gamma_2 * self.mlp(self.norm2(x)), factor_b)


# Windows -----------------------------------------------------------------------------------------------------------

def window_grid(H, W, w):
    """Windows down and across; the last ones reach over the edge where w does not divide."""
    return -(-H // w), -(-W // w)


def to_windows(x, w):
    """(B, C, H, W) -> (B nH nW, w w, C); zeros below and to the right fill the last windows."""
    B, C, H, W = x.shape
    nH, nW = window_grid(H, W, w)
    x = F.pad(x, (0, nW * w - W, 0, nH * w - H))
    return x.reshape(B, C, nH, w, nW, w).permute(0, 2, 4, 3, 5, 1).reshape(B * nH * nW, w * w, C)


def from_windows(x, w, B, H, W):
    nH, nW = window_grid(H, W, w)
    x = x.reshape(B, nH, nW, w, w, -1).permute(0, 5, 1, 3, 2, 4).reshape(B, -1, nH * w, nW * w)
    return x[:, :, :H, :W]


# The network -------------------------------------------------------------------------------------------------------

class Stage(nn.Module):
    """`factors` is an iterator over the drop-path factors of all branches, or over Nones."""

    def __init__(self, C, blocks, window, last):
        super().__init__()
        self.window = window
        self.blocks = nn.ModuleList(blocks)
        if not last:
            self.downsample = nn.Module()
            self.downsample.reduction = nn.Sequential(nn.Conv2d(C, 2 * C, 3, 2, 1, bias=False))

    def forward(self, x, factors):
        B, _, H, W = x.shape
        if self.window:
            x = to_windows(x, self.window)
        for block in self.blocks:
            x = block(x, *[next(factors) for _ in range(block.branches)])
        if self.window:
            x = from_windows(x, self.window, B, H, W)
        return self.downsample.reduction(x) if hasattr(self, "downsample") else x


class MambaVision(nn.Module):
    def __init__(self, dim, in_dim, depths, heads, windows, mlp_ratio, layer_scale, drop_path, classes,
                 scan=pieces.scan, **_):
        super().__init__()
        self.drop_path = drop_path
        self.patch_embed = nn.Module()
        self.patch_embed.conv_down = nn.Sequential(
            nn.Conv2d(3, in_dim, 3, 2, 1, bias=False), nn.BatchNorm2d(in_dim, eps=1e-4), nn.ReLU(),
            nn.Conv2d(in_dim, dim, 3, 2, 1, bias=False), nn.BatchNorm2d(dim, eps=1e-4), nn.ReLU())
        self.levels = nn.ModuleList()
        for i, depth in enumerate(depths):
            C = dim * 2 ** i
            blocks = []
            for j in range(depth):
                if i < 2:
                    blocks.append(ConvBlock(C))
                else:
                    mixer = Mixer(C, scan=scan) if j < math.ceil(depth / 2) else Attention(C, heads[i])
                    blocks.append(TokenBlock(C, mixer, mlp_ratio, layer_scale))
            self.levels.append(Stage(C, blocks, windows[i] if i >= 2 else 0, i == 3))
        self.norm = nn.BatchNorm2d(8 * dim)
        self.head = nn.Linear(8 * dim, classes)

    def forward(self, images, drop=None):
        factors = iter(drop) if drop is not None else iter(lambda: None, 0)
        x = self.patch_embed.conv_down(images)
        for level in self.levels:
            x = level(x, factors)
        return self.head(self.norm(x).mean((2, 3)))

    def branches(self, H, W):
        """For every branch, in the order they are computed: (stage, block of the stage, branch of the block,
        probability to drop it, factors per image)."""
        total, j = sum(len(level.blocks) for level in self.levels), 0
        result = []
        H, W = -(-H // 4), -(-W // 4)
        for i, level in enumerate(self.levels):
            nH, nW = window_grid(H, W, level.window) if level.window else (1, 1)
            for b, block in enumerate(level.blocks):
                p = self.drop_path * j / (total - 1)
                result += [(i, b, branch, p, nH * nW) for branch in range(block.branches)]
                j += 1
            H, W = -(-H // 2), -(-W // 2)
        return result

    @torch.no_grad()
    def initialise(self):
        for module in self.modules():
            if isinstance(module, nn.Linear):
                module.weight.normal_(0, 0.02)
                if module.bias is not None:
                    module.bias.zero_()
            elif isinstance(module, (nn.Conv2d, nn.Conv1d)):
                bound = module.weight[0].numel() ** -0.5
                for p in module.parameters():
                    p.uniform_(-bound, bound)
        return self


def draw_drop(model, N, H, W, generator):
    """Factors for one step: each branch of an image or window kept with probability 1 - p and then divided by it."""
    return [(torch.rand(N * count, generator=generator) >= p).double() / (1 - p)
            for _, _, _, p, count in model.branches(H, W)]


# Checks ------------------------------------------------------------------------------------------------------------

PARAMETERS = {"T": 31794248, "T2": 35104008, "S": 50140584, "B": 97685288, "L": 227961048, "L2": 241554824,
              "L3": 739570472}
TENSORS = {"T": 219, "T2": 265, "S": 240, "B": 311, "L": 311}
NOT_DECAYED = {"T": 64744, "T2": 75304, "S": 81384, "B": 147048, "L": 224568}
# Stem, then blocks and downsample of every stage, norm, head.
GROUPS = {"T": [24128, 115680, 115200, 1385280, 460800, 9085440, 1843200, 18122240, 1280, 641000],
          "T2": [24128, 115680, 115200, 1385280, 460800, 12395200, 1843200, 18122240, 1280, 641000],
          "S": [57344, 499392, 165888, 1994112, 663552, 11296896, 2654208, 32038656, 1536, 769000],
          "B": [75840, 887040, 294912, 3543552, 1179648, 29025280, 4718592, 56933376, 2048, 1025000],
          "L": [115144, 2077992, 691488, 8304912, 2765952, 67968880, 11063808, 133400736, 3136, 1569000]}


def check_sizes():
    for name, config in VARIANTS.items():
        with torch.device("meta"):
            model = MambaVision(**config)
        parameters = dict(model.named_parameters())
        assert sum(p.numel() for p in parameters.values()) == PARAMETERS[name], name
        if name in GROUPS:
            groups = {}
            for n, p in parameters.items():
                parts = n.split(".")
                key = tuple(parts[:3 if parts[0] == "levels" else 1])
                groups[key] = groups.get(key, 0) + p.numel()
            assert list(groups.values()) == GROUPS[name], (name, groups)
            assert len(parameters) == TENSORS[name], name
            bare = sum(p.numel() for n, p in parameters.items() if p.dim() <= 1 or n.endswith(".bias"))
            assert bare == NOT_DECAYED[name], (name, bare)
    print(f"sizes: {len(VARIANTS)} variants as specified")


def check_mixer():
    """Section 13 of the specification: one window of 6 tokens, 4 channels, rank 2, 3 states."""
    x, w_in, w_x, w_z, x_proj, dt, beta, skip, w_out, go = pieces.filled(
        (1, 6, 4), (4, 4), (2, 1, 3), (2, 1, 3), (8, 2), (2, 2), (2,), (2,), (4, 4), (1, 6, 4))
    mixer = Mixer(4, rank=2, states=3).double()
    mixer.A_log.data = torch.log(torch.arange(1.0, 4, dtype=torch.float64)).repeat(2, 1)
    mixer.load_state_dict({"A_log": mixer.A_log, "D": skip, "in_proj.weight": w_in, "x_proj.weight": x_proj,
                           "dt_proj.weight": dt, "dt_proj.bias": beta, "out_proj.weight": w_out,
                           "conv1d_x.weight": w_x, "conv1d_z.weight": w_z})
    x.requires_grad_()
    out = mixer(x)
    (out * go).sum().backward()
    pieces.near("out[0]", out[0, 0], [-0.016266519, -0.193490511, 0.191841445, -0.327681384])
    pieces.near("out[5]", out[0, 5], [0.218530685, 0.156581917, 0.150240228, -0.059067400])
    pieces.near("sums", torch.stack([out.sum(), (out * out).sum()]), [4.523006768, 5.456938536])
    pieces.near("gx[0]", x.grad[0, 0], [-0.038250258, -0.045028806, -0.208877033, -0.252342670])
    pieces.near("gx", torch.stack([x.grad.sum(), (x.grad ** 2).sum()]), [-0.481710750, 2.445214147])
    pieces.near("gA_log", mixer.A_log.grad,
                [0.001402080, -0.000054266, 0.000251683, -0.000148071, -0.000011371, -0.000141586])
    pieces.near("gbeta", mixer.dt_proj.bias.grad, [0.002753683, 0.000070830])
    pieces.near("gDskip", mixer.D.grad, [0.376217121, -0.060116000])
    print("mixer: reference vectors met to all digits")


def check_attention():
    """Against torch's own multi-head attention, whose weights have the same layout."""
    torch.manual_seed(4)
    ours, theirs = Attention(12, 4).double(), nn.MultiheadAttention(12, 4, batch_first=True).double()
    with torch.no_grad():
        theirs.in_proj_weight.copy_(ours.qkv.weight)
        theirs.in_proj_bias.copy_(ours.qkv.bias)
        theirs.out_proj.load_state_dict(ours.proj.state_dict())
        x = torch.randn(2, 9, 12, dtype=torch.float64)
        assert (ours(x) - theirs(x, x, x)[0]).abs().max() < 1e-14
    print("attention: as torch's own")


def check_windows():
    """The index map as written: window and token of every pixel, zeros elsewhere."""
    B, C, H, W, w = 2, 3, 5, 7, 3
    x = torch.arange(1.0, B * C * H * W + 1).reshape(B, C, H, W)
    tokens = to_windows(x, w)
    wanted = torch.zeros_like(tokens)
    nH, nW = 2, 3
    for b in range(B):
        for row in range(H):
            for column in range(W):
                m = (b * nH + row // w) * nW + column // w
                wanted[m, row % w * w + column % w] = x[b, :, row, column]
    assert torch.equal(tokens, wanted) and torch.equal(from_windows(tokens, w, B, H, W), x)
    print("windows: index map and its inverse")


def check_norm():
    """torch's BatchNorm against 5.3: biased variance to normalise, unbiased in the running buffer."""
    x = torch.randn(3, 4, 5, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    norm = nn.BatchNorm2d(4).double()
    y, M = norm(x), 90
    mean = x.mean((0, 2, 3))
    variance = ((x - mean[:, None, None]) ** 2).mean((0, 2, 3))
    assert (y - (x - mean[:, None, None]) / torch.sqrt(variance[:, None, None] + 1e-5)).abs().max() < 1e-12
    assert (norm.running_mean - 0.1 * mean).abs().max() < 1e-15
    assert (norm.running_var - (0.9 + 0.1 * variance * M / (M - 1))).abs().max() < 1e-15
    print("batchnorm: statistics as specified")


def check_gradients():
    """A small network with everything in it: windows that overhang, dropped paths, layer scale, training statistics."""
    torch.manual_seed(5)
    model = MambaVision(dim=4, in_dim=3, depths=[1, 1, 2, 2], heads=[1, 1, 2, 4], windows=[0, 0, 2, 3], mlp_ratio=2,
                        layer_scale=0.5, drop_path=0.4, classes=5).double()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p) * 0.1)
    images = torch.randn(2, 3, 45, 37, dtype=torch.float64)
    drop = draw_drop(model, 2, 45, 37, torch.Generator().manual_seed(2))
    assert min(f.min() for f in drop) == 0
    labels = torch.tensor([1, 4])
    off, name = pieces.gradient_error(lambda: F.cross_entropy(model(images, drop), labels),
                                      dict(model.named_parameters()))
    print(f"gradients: autograd and differences agree to {off:.0e} ({name})")
    assert off < 1e-6


if __name__ == "__main__":
    torch.set_num_threads(1)
    check_sizes()
    check_mixer()
    check_attention()
    check_windows()
    check_norm()
    check_gradients()
