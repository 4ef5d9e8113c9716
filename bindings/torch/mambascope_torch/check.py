# SPDX-License-Identifier: Apache-2.0
"""check -- the PyTorch operators on this machine, in four parts. Ends with 1 if a bound is not met.

    python -m mambascope_torch.check                                 # gradients against a recurrence in float64
    PYTHONPATH=a/checkout/of/mamba python -m mambascope_torch.check   # and against mamba_ssm's kernels, side by side
    ... check --operators | --layers | --training [--width 2048]     # one part of it
    ... check --operators --all                                      # every tensor, not the worst of each shape alone;
                                                                     # more SSD shapes, mamba_ssm with chunks of 256
    ... check --operators --all --variant chunked                    # that variant of ssd, where it takes a shape
    ... check --device cpu                                           # not on the GPU that is here

1. Both operators on six small shapes each, fp32 and bf16: relative error (norm) of the result and of every gradient.
2. The same inputs through mamba_ssm's functions where they can be imported. Ours may not be further from float64 than
   theirs, beyond a tenth and the noise of one rounding. Its Triton kernels take the last of their tilings here: to
   choose the fastest for every shape takes many minutes and hardly moves a rounding.
3. Twenty steps of a small Mamba-2 model and of a small Mamba-1 model, from the same start on the same tokens:
   mamba_ssm's layers as they come (their fused paths), the same layers on the paths that call the operators, and these
   with our operators installed. Losses and step times. Without mamba_ssm: layers of plain PyTorch with ours alone.

4. A whole Mamba-2 mixer against float64, steps given in every way, and the same numbers from it compiled, under
   autocast and in a CUDA graph.

Without a GPU it is parts 1 and 4 in fp32, on the CPU. Of a checkout: PYTHONPATH=bindings/torch.
"""
import argparse
import gc
import importlib
import importlib.util
import sys
import time
import types

import torch
import torch.nn.functional as F

import mambascope_torch as mt
from mambascope_torch import recurrence

# fp32: sums of some thousand products. bf16: 8 bits, and tensor cores that multiply operands rounded to them.
BOUND = {torch.float32: 2e-5, torch.bfloat16: 2e-2}
EXACT = {torch.float32: 1e-6, torch.bfloat16: 4e-3}        # one rounding: below this nobody is better
PARAMETER, ROUNDING = 3e-4, 1e-4                           # what --all allows beside mamba_ssm in bf16
bad = []
device = "cuda"


# ---- inputs ----

def normal(*shape, dtype=torch.float32):
    return torch.randn(*shape, device=device).to(dtype).requires_grad_()


def ssd_inputs(dtype, batch, length, heads, width, groups, state, **more):
    """Raw steps near softplus^-1 of 0.01 .. 0.3, as models have them, or near `raw`; A in -1 .. -8."""
    dt, bias = torch.randn(batch, length, heads, device=device), torch.randn(heads, device=device) - 3
    if "raw" in more:
        dt, bias = 0.3 * dt, torch.full_like(bias, more["raw"])
    a = dict(x=normal(batch, length, heads, width, dtype=dtype), dt=dt.to(dtype).requires_grad_(),
             A=(-1 - 7 * torch.rand(heads, device=device)).requires_grad_(),
             B=normal(batch, length, groups, state, dtype=dtype), C=normal(batch, length, groups, state, dtype=dtype),
             D=normal(heads), dt_bias=bias.requires_grad_(), dt_softplus=True)
    if more.get("documents"):
        numbers = torch.arange(length, device=device) // more["documents"]
        a["seq_idx"] = numbers.int().expand(batch, length).contiguous()
    if more.get("initial"):
        a["initial_states"] = normal(batch, heads, width, state)
    if more.get("gate"):
        a["z"] = normal(batch, length, heads, width, dtype=dtype)
    return a


def scan_inputs(dtype, batch, length, channels, state, groups=None, gate=True, skip=True):
    shape = (batch, state, length) if groups is None else (batch, groups, state, length)
    a = dict(u=normal(batch, channels, length, dtype=dtype), delta=normal(batch, channels, length, dtype=dtype),
             A=(-1 - 7 * torch.rand(channels, state, device=device)).requires_grad_(), B=normal(*shape, dtype=dtype),
             C=normal(*shape, dtype=dtype), delta_bias=(torch.randn(channels, device=device) - 3).requires_grad_(),
             delta_softplus=True)
    if skip:
        a["D"] = normal(channels)
    if gate:
        a["z"] = normal(batch, channels, length, dtype=dtype)
    return a


SSD_SHAPES = [dict(batch=2, length=256, heads=4, width=64, groups=1, state=128),
              dict(batch=1, length=1000, heads=8, width=64, groups=2, state=128),
              dict(batch=2, length=333, heads=6, width=64, groups=1, state=128, documents=50),
              dict(batch=2, length=200, heads=4, width=64, groups=1, state=128, initial=True),
              dict(batch=3, length=77, heads=3, width=32, groups=1, state=16, gate=True),
              dict(batch=2, length=130, heads=8, width=128, groups=4, state=64)]
MORE_SHAPES = [dict(batch=2, length=777, heads=8, width=64, groups=2, state=128),
               dict(batch=1, length=777, heads=5, width=50, groups=1, state=20),
               dict(batch=1, length=777, heads=4, width=128, groups=1, state=256),
               dict(batch=2, length=777, heads=8, width=64, groups=2, state=128, raw=-18.4),
               dict(batch=2, length=777, heads=8, width=64, groups=2, state=128, raw=8)]
SCAN_SHAPES = [dict(batch=2, length=256, channels=256, state=16), dict(batch=1, length=1000, channels=96, state=16),
               dict(batch=4, length=49, channels=160, state=8),
               dict(batch=2, length=200, channels=64, state=16, groups=2),
               dict(batch=2, length=130, channels=37, state=5, gate=False),
               dict(batch=3, length=1, channels=64, state=16, skip=False)]


# ---- parts 1 and 2 ----

def fresh(arguments, dtype=None):
    return {k: t.detach().to(dtype or t.dtype).requires_grad_() if torch.is_tensor(t) and t.is_floating_point() else t
            for k, t in arguments.items()}


def results_of(function, arguments, seeds):
    """Everything a call makes: both results and the gradients of all inputs."""
    out = function(**arguments)
    pairs = [(o, s.to(o.dtype)) for o, s in zip(out, seeds) if o.requires_grad]
    torch.autograd.backward([o for o, _ in pairs], [s for _, s in pairs])
    named = {"result": out[0].detach(), "final": out[1].detach()}
    named.update({"d " + k: t.grad for k, t in arguments.items() if torch.is_tensor(t) and t.requires_grad})
    return named


def errors_of(got, want):
    def relative(g, w):
        norm = w.norm()
        return float((g.double() - w).norm() / norm) if norm > 0 else float(g.double().norm())
    return {k: relative(got[k], want[k]) if got[k] is not None else float("nan") for k in want}


def open_reference():
    """mamba_ssm from wherever it lies, without what its package imports for generating and sharing models."""
    if "mamba_ssm" in sys.modules:
        return
    spec = importlib.util.find_spec("mamba_ssm")
    if spec is None:
        raise ImportError("no mamba_ssm")
    package = types.ModuleType("mamba_ssm")
    package.__path__ = list(spec.submodule_search_locations)
    sys.modules["mamba_ssm"] = package
    if importlib.util.find_spec("huggingface_hub") is None:
        hub = types.ModuleType("huggingface_hub")
        hub.PyTorchModelHubMixin = type("PyTorchModelHubMixin", (), {})
        sys.modules["huggingface_hub"] = hub


def shapes_of(op):
    return (SSD_SHAPES, ssd_inputs) if op == "ssd" else (SCAN_SHAPES, scan_inputs)


def functions_of(op, chunk=64, variant=""):
    """The yardstick, ours and mamba_ssm's, the last None where it cannot be imported; each returns result and state."""
    home, name, flag = {
        "ssd": ("mamba_ssm.ops.triton.ssd_combined", "mamba_chunk_scan_combined", "return_final_states"),
        "selective_scan": ("mamba_ssm.ops.selective_scan_interface", "selective_scan_fn", "return_last_state")}[op]
    extra = {flag: True} | ({"chunk_size": chunk} if op == "ssd" else {})
    yardstick = recurrence.ssd if op == "ssd" else recurrence.scan
    ours = getattr(mt, name)
    try:
        open_reference()
        theirs = getattr(importlib.import_module(home), name)
        if op != "ssd" and importlib.import_module(home).selective_scan_cuda is None:
            theirs = None
    except Exception as missing:                           # whatever it is, it costs us a comparison only
        print(f"  without {name} of mamba_ssm: {type(missing).__name__}: {missing}")
        theirs = None
    named = {"variant": variant} if variant else {}
    return yardstick, lambda **a: ours(**a, **extra, **named), theirs and (lambda **a: theirs(**a, **extra))


def compare(op, dtype, shape, functions):
    inputs = shapes_of(op)[1](dtype, **shape)
    exact = fresh(inputs, torch.float64)
    yardstick, ours, theirs = functions
    with torch.no_grad():
        like = yardstick(**exact)
    # A last state of the reference's scan has no gradient: none is asked of either.
    seeds = [torch.randn_like(t) if op == "ssd" or i == 0 else torch.zeros_like(t) for i, t in enumerate(like)]
    seeds = [s.to(dtype).double() if i == 0 else s.float().double() for i, s in enumerate(seeds)]
    want = results_of(yardstick, exact, seeds)
    mine = errors_of(results_of(ours, fresh(inputs), seeds), want)
    other = None
    if theirs:
        try:
            other = errors_of(results_of(theirs, fresh(inputs), seeds), want)
        except Exception as failure:
            print(f"    mamba_ssm fails here: {type(failure).__name__}: {str(failure)[:80]}")
    return mine, other


def judge(title, dtype, mine, other, everything=False):
    for name, error in mine.items():
        limit = BOUND[dtype]
        beside = other.get(name) if other else None
        wrong = not error <= limit
        if beside is not None and beside == beside and error > 1.1 * beside + EXACT[dtype]:
            wrong = True
        if everything and beside is not None and dtype == torch.bfloat16:
            parameter = name in ("d A", "d dt_bias", "d D")
            if error > (max(beside, PARAMETER) if parameter else 1.25 * beside + ROUNDING):
                print(f"    further than mamba_ssm: {name} {error:.2e} for {beside:.2e}")
        if wrong:
            beside = f", mamba_ssm {beside:.2e}" if other else ""
            bad.append(f"{title} {name}: {error:.2e}, bound {limit:.0e}{beside}")
    worst = max(mine, key=lambda k: mine[k])
    line = f"  {title:58s} worst {worst:16s} {mine[worst]:.2e}"
    if other:
        theirs = max((k for k in other if other[k] == other[k]), key=lambda k: other[k])
        line += f"   mamba_ssm {theirs:16s} {other[theirs]:.2e}   same tensor {other[worst]:.2e}"
    print(line)
    for name, error in mine.items() if everything else ():
        print(f"    {name:16s} {error:.2e}" + (f"   mamba_ssm {other[name]:.2e}" if other else ""))


def one_tiling():
    """Of every Triton kernel that is loaded; returns what undoes it."""
    try:
        autotuner = importlib.import_module("triton.runtime.autotuner").Autotuner
    except ImportError:
        return lambda: None
    kept = [(o, o.configs) for o in gc.get_objects() if type(o) is autotuner]
    for o, configs in kept:
        o.configs = configs[-1:]

    def undo():
        for o, configs in kept:
            o.configs = configs
    return undo


def taken(op, dtype, variant, shape):
    """Whether a variant that was asked for by name has a plan for a shape."""
    if not variant:
        return True
    sizes = dict(op=mt.SSD, type=int(dtype == torch.bfloat16), batch=shape["batch"], length=shape["length"], chunk=64,
                 heads=shape["heads"], head_dim=shape["width"], groups=shape["groups"], state=shape["state"])
    try:
        mt.Plan((), **sizes, variant=variant.encode())
    except RuntimeError:
        return False
    return True


def check_operator(op, everything=False, variant=""):
    print(f"{op}{' ' + variant if variant else ''}: error against float64")
    functions = functions_of(op, chunk=256 if everything else 64, variant=variant)
    undo, count = one_tiling(), 0
    for dtype in (torch.float32, torch.bfloat16) if device == "cuda" else (torch.float32,):
        more = MORE_SHAPES if everything and op == "ssd" and dtype == torch.bfloat16 else []
        for shape in shapes_of(op)[0] + more:
            if not taken(op, dtype, variant, shape):
                continue
            torch.manual_seed(11)
            mine, other = compare(op, dtype, shape, functions)
            title = f"{str(dtype)[6:]} {' '.join(f'{k[0:2]}{int(v)}' for k, v in shape.items())}"
            judge(title, dtype, mine, other, everything)
            count += 1
    undo()
    if not count:
        bad.append(f"{op}: {variant} takes none of the shapes")


# ---- part 4 ----

def mixer_inputs(dtype, heads=4, width=64, groups=1, state=128, batch=2, length=200):
    inner, mixed = heads * width, heads * width + 2 * groups * state
    return dict(zxbcdt=normal(batch, length, inner + mixed + heads, dtype=dtype),
                conv1d_weight=normal(mixed, 4), conv1d_bias=normal(mixed), D=normal(heads),
                dt_bias=(torch.randn(heads, device=device) - 3).requires_grad_(),
                A=(-1 - 7 * torch.rand(heads, device=device)).requires_grad_(), rmsnorm_weight=normal(inner),
                headdim=width, ngroups=groups, norm_before_gate=False)


def run_mixer(arguments, seed, function=mt.mamba_split_conv1d_scan_combined, **more):
    """Result and gradients."""
    leaves = {k: t for k, t in arguments.items() if torch.is_tensor(t)}
    out = function(**arguments, **more)
    grads = torch.autograd.grad(out, list(leaves.values()), seed.to(out.dtype))
    return {"result": out.detach()} | {"d " + k: g for k, g in zip(leaves, grads)}


def check_mixer(dtype, shape):
    torch.manual_seed(12)
    inputs = mixer_inputs(dtype, **shape)
    exact = fresh(inputs, torch.float64)
    seed = torch.randn(*inputs["zxbcdt"].shape[:2], inputs["rmsnorm_weight"].numel(), device=device).to(dtype)
    want = run_mixer(exact, seed, lambda **a: recurrence.mixer(**a)[0])
    judge(f"{str(dtype)[6:]} mixer {shape}", dtype, errors_of(run_mixer(inputs, seed, chunk_size=64), want), None)


def check_steps(dtype):
    """dt in float32, and ready steps in either type, beside activations of two bytes."""
    torch.manual_seed(13)
    a = ssd_inputs(dtype, 2, 256, 4, 64, 1, 128)
    a["dt"] = a["dt"].detach().float()
    ready = F.softplus(a["dt"] + a["dt_bias"].detach())
    rest = {k: v for k, v in a.items() if k not in ("dt", "dt_bias", "dt_softplus")}
    for title, given in (("float32 dt", dict(dt=a["dt"], dt_bias=a["dt_bias"].detach(), dt_softplus=True)),
                         ("ready float32 steps", dict(dt=ready)), ("ready steps", dict(dt=ready.to(dtype)))):
        exact = fresh(dict(rest, **given), torch.float64)
        want = results_of(recurrence.ssd, exact, [torch.ones_like(rest["x"]).double()])
        got = results_of(lambda **k: mt.mamba_chunk_scan_combined(**k, chunk_size=64, return_final_states=True),
                         fresh(dict(rest, **given)), [torch.ones_like(rest["x"])])
        judge(f"{str(dtype)[6:]} {title}", dtype, errors_of(got, want), None)


def check_modes():
    """Compiled, under autocast and in a CUDA graph: the numbers of the plain call."""
    torch.manual_seed(14)
    inputs = mixer_inputs(torch.bfloat16)
    seed = torch.randn(2, 200, 256, device=device).bfloat16()
    plain = mt.mamba_split_conv1d_scan_combined
    want = run_mixer(inputs, seed, chunk_size=64)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        found = {"autocast": run_mixer(inputs, seed, chunk_size=64)}
    found["compiled"] = run_mixer(inputs, seed, torch.compile(plain, fullgraph=True), chunk_size=64)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = run_mixer(inputs, seed, chunk_size=64)
    for t in kept.values():
        t.zero_()
    graph.replay()
    found["CUDA graph"] = kept
    for mode, got in found.items():
        apart = max(float((g.double() - want[k].double()).norm() / want[k].double().norm()) for k, g in got.items())
        print(f"  {mode}: {apart:.1e} from the plain call")
        if not apart < 1e-6:
            bad.append(f"{mode}: {apart:.1e} from the plain call")


def check_misuse():
    """An A that is not negative is an error with words, and the device lives on. On a GPU it is looked at when a shape
    is new, as five heads are here."""
    inputs = dict(mixer_inputs(torch.float32, heads=5), chunk_size=64)
    try:
        mt.mamba_split_conv1d_scan_combined(**dict(inputs, A=-inputs["A"]))
        bad.append("a positive A was taken")
    except ValueError as why:
        print(f"  a positive A: {why}")
    if not bool(torch.isfinite(mt.mamba_split_conv1d_scan_combined(**inputs)).all()):
        bad.append("after a positive A: no numbers")


def check_layers():
    print("layers: error against float64")
    for dtype in (torch.float32, torch.bfloat16) if device == "cuda" else (torch.float32,):
        for shape in (dict(), dict(heads=8, width=80, groups=2), dict(heads=3, width=48, state=16, length=77)):
            check_mixer(dtype, shape)
        check_steps(dtype)
    check_misuse()
    if device == "cuda":
        check_modes()


# ---- part 3 ----

class Block(torch.nn.Module):
    """A Mamba-2 layer of plain PyTorch around an operator."""

    def __init__(self, model, operator, heads=8, width=64, state=128):
        super().__init__()
        self.operator, self.sizes = operator, (heads, width, state)
        inner = heads * width
        self.norm, self.out_norm = torch.nn.RMSNorm(model), torch.nn.RMSNorm(inner)
        self.into = torch.nn.Linear(model, 2 * inner + 2 * state + heads, bias=False)
        self.conv = torch.nn.Conv1d(inner + 2 * state, inner + 2 * state, 4, groups=inner + 2 * state, padding=3)
        self.out = torch.nn.Linear(inner, model, bias=False)
        step = torch.exp(torch.rand(heads) * 4.6 - 6.9)
        self.dt_bias = torch.nn.Parameter(step + torch.log(-torch.expm1(-step)))
        self.A_log = torch.nn.Parameter(torch.log(1 + 15 * torch.rand(heads)))
        self.D = torch.nn.Parameter(torch.ones(heads))

    def forward(self, residual):
        heads, width, state = self.sizes
        z, xbc, dt = self.into(self.norm(residual)).split([heads * width, heads * width + 2 * state, heads], dim=-1)
        xbc = F.silu(self.conv(xbc.transpose(1, 2))[..., :residual.shape[1]].transpose(1, 2)).contiguous()
        x, B, C = xbc.split([heads * width, state, state], dim=-1)
        y = self.operator(x.unflatten(2, (heads, width)), dt, -torch.exp(self.A_log.float()), B.unsqueeze(2),
                          C.unsqueeze(2), 256, D=self.D, dt_bias=self.dt_bias, dt_softplus=True)
        return residual + self.out(self.out_norm(y.flatten(2) * F.silu(z)))


class ReferenceBlock(torch.nn.Module):
    """A layer of mamba_ssm. fast: its own fused path; otherwise the path that calls the operator by its name."""

    KINDS = {"Mamba2": ("mamba_ssm.modules.mamba2", "use_mem_eff_path", dict(d_state=128, headdim=64)),
             "Mamba": ("mamba_ssm.modules.mamba_simple", "use_fast_path", dict(d_state=16))}

    def __init__(self, model, kind, fast):
        super().__init__()
        home, path, sizes = self.KINDS[kind]
        self.norm = torch.nn.RMSNorm(model)
        self.mixer = getattr(importlib.import_module(home), kind)(model, **sizes, **{path: fast})

    def forward(self, residual):
        return residual + self.mixer(self.norm(residual))


class Model(torch.nn.Module):
    def __init__(self, block, model, vocabulary=512, layers=4):
        super().__init__()
        self.embed = torch.nn.Embedding(vocabulary, model)
        self.layers = torch.nn.ModuleList(block(model) for _ in range(layers))
        self.norm, self.head = torch.nn.RMSNorm(model), torch.nn.Linear(model, vocabulary, bias=False)

    def forward(self, tokens):
        h = self.embed(tokens)
        for layer in self.layers:
            h = layer(h)
        return self.head(self.norm(h))


def train(block, width=256, steps=20, batch=8, length=1024):
    """Losses, and the median time of a step after the first five."""
    torch.manual_seed(17)
    model = Model(block, width).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    start = torch.randint(0, 512, (batch, 1), device="cuda")
    tokens = (start + 7 * torch.arange(length + 1, device="cuda") ** 2) % 512        # something to learn
    losses, times = [], []
    for _ in range(steps):
        torch.cuda.synchronize()
        began = time.perf_counter()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
        torch.cuda.synchronize()
        times.append(time.perf_counter() - began)
    return losses, sorted(times[5:])[len(times[5:]) // 2]


def try_layers(kind):
    """None if mamba_ssm's layers run here, else why not."""
    try:
        open_reference()
        for fast in (True, False):
            with torch.autocast("cuda", dtype=torch.bfloat16):
                ReferenceBlock(256, kind, fast).cuda()(torch.randn(1, 64, 256, device="cuda")).sum().backward()
    except Exception as failure:                           # whatever it is, it costs us a comparison only
        return f"{type(failure).__name__}: {str(failure)[:120]}"
    return None


def train_ours_alone():
    losses, step = train(lambda model: Block(model, mt.mamba_chunk_scan_combined))
    print("training: 4 Mamba-2 layers of plain PyTorch, 8 x 1024 tokens, bf16 autocast")
    print("  losses: " + " ".join(f"{v:.4f}" for v in losses))
    print(f"  step {1e3 * step:.2f} ms; nothing to compare with")


def compare_training(kind, width):
    print(f"training: 4 layers {kind} of mamba_ssm, width {width}, 8 x 1024 tokens, bf16 autocast")
    fused, fused_step = train(lambda model: ReferenceBlock(model, kind, True), width)
    plain, plain_step = train(lambda model: ReferenceBlock(model, kind, False), width)
    print("  installed in: " + ", ".join(mt.install()))
    ours, our_step = train(lambda model: ReferenceBlock(model, kind, False), width)
    mt.uninstall()
    print("  step  mamba_ssm, fused path  same, path of operators  mambascope's operators  difference")
    for i, (f, a, b) in enumerate(zip(fused, plain, ours)):
        print(f"  {i:4d}  {f:21.5f}  {a:23.5f}  {b:22.5f}  {b - a:+.5f}")
    print(f"  median step, ms: {1e3 * fused_step:.2f}, {1e3 * plain_step:.2f}, {1e3 * our_step:.2f}: "
          f"{fused_step / our_step:.2f}x and {plain_step / our_step:.2f}x")
    for name, other in (("its fused path", fused), ("the same path", plain)):
        apart = max(abs(a - b) for a, b in zip(other, ours))
        noise = max(abs(a - b) for a, b in zip(fused, plain))
        print(f"  largest distance from {name}: {apart:.5f} (its two paths: {noise:.5f})")
        if not apart < 0.02 * other[0]:
            bad.append(f"{kind}: loss curves are {apart:.4f} apart")


def check_training(width):
    absent = {kind: try_layers(kind) for kind in ReferenceBlock.KINDS}
    for kind, why in absent.items():
        if why:
            print(f"  without layers {kind} of mamba_ssm: {why}")
        else:
            compare_training(kind, width)
    if absent["Mamba2"]:
        train_ours_alone()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operators", action="store_true", help="parts 1 and 2 alone")
    parser.add_argument("--all", action="store_true", help="errors of all tensors")
    parser.add_argument("--training", action="store_true", help="part 3 alone")
    parser.add_argument("--layers", action="store_true", help="part 4 alone")
    parser.add_argument("--variant", default="", help="of ssd, by name: parts 1 and 2 of ssd alone")
    parser.add_argument("--width", type=int, default=256, help="of the model in part 3; the steps of small ones are "
                        "the host's time, from 1024 on the GPU's (default 256)")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda" if torch.cuda.is_available() else "cpu",
                        help="where tensors lie (default: the GPU if there is one)")
    args = parser.parse_args()
    global device
    device = args.device
    if device == "cpu" and (args.training or args.variant):
        parser.error("--training and --variant need a GPU")
    torch.backends.cuda.matmul.allow_tf32 = False
    version = mt.library().mba_kernels_version().decode()
    where = torch.cuda.get_device_name() if device == "cuda" else f"the CPU, {torch.get_num_threads()} threads"
    print(f"{where}, torch {torch.__version__}, mambascope {version}")
    parts = args.operators or args.layers or args.training or args.variant
    for operator in ("ssd", "selective_scan") if (args.operators or not parts) and not args.variant else ():
        check_operator(operator, args.all)
    if args.variant:
        check_operator("ssd", args.all, args.variant)
    if args.layers or not parts:
        check_layers()
    if (args.training or not parts) and device == "cuda":
        check_training(args.width)
    print("\n".join(["not met:"] + bad) if bad else "all bounds met")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
