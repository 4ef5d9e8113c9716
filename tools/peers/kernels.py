# SPDX-License-Identifier: Apache-2.0
"""The state-space kernels of mamba_ssm and ours on the same GPU in one process, on the same numbers, turn by turn:

    PYTHONPATH=bindings/torch python3 tools/peers/kernels.py [ssd] [scan]        # prints Markdown tables, ends with 1
                                                                                 if a bound is not met
    ... kernels.py widths [256,128]      # SSD at shapes of published models and at odd ones, bf16 and fp32 (mamba_ssm:
                                         # TF32); chunks of mamba_ssm
    ... kernels.py widths ours           # the same without mamba_ssm
    ... kernels.py scans                 # selective scans of 1 to 256 states, odd channels, fp32

Timed as gpu_times.py says, both sides in turn. mamba_ssm's SSD is Triton's own choice of tilings, chunk 256 and 128,
the faster counts; for ours the first variant that takes the shape. mamba_ssm must be importable; PEERS_SCRIPTS may name
a folder whose common.py knows where its checkout lies (setup_paths) and compiles Triton kernels with all cores before
they run (dry_run)."""
import contextlib
import math
import os
import sys

compiling = contextlib.nullcontext
if "PEERS_SCRIPTS" in os.environ:
    sys.path.insert(0, os.environ["PEERS_SCRIPTS"])
    import common
    common.setup_paths("mamba")
    common.install_dry()
    compiling = common.dry_run
import torch

import mambascope_torch as mt
from gpu_times import sets_of, times

BATCHES = [(8, 2048), (4, 4096), (1, 32768), (32, 512)]
HEADS = {"130m": 24, "1.3b": 64, "2.7b": 80}
WIDTH, STATE, CHUNKS = 64, 128, (256, 128)
SCAN_STATE, SCAN_CHANNELS = 16, (1536, 4096)
bf16 = torch.bfloat16
missed = []


def normal(*shape, kind=bf16):
    return torch.randn(*shape, device="cuda").to(kind)


def judge(title, have, ask):
    if have < ask:
        missed.append(f"{title}: {have:.2f} of {ask}")
    return f"**{have:.2f}**" if have < ask else f"{have:.2f}"


# ---- ssd ----

def ssd_inputs(batch, length, heads, width=WIDTH, groups=1, state=STATE, kind=bf16):
    step = torch.exp(torch.rand(heads, device="cuda") * math.log(100) + math.log(0.001))
    tokens = (batch, length)
    return dict(x=normal(*tokens, heads, width, kind=kind), dt=0.5 * normal(*tokens, heads, kind=kind),
                B=normal(*tokens, groups, state, kind=kind), C=normal(*tokens, groups, state, kind=kind),
                dy=normal(*tokens, heads, width, kind=kind),
                A=-torch.empty(heads, device="cuda").uniform_(1, 16), D=torch.ones(heads, device="cuda"),
                bias=step + torch.log(-torch.expm1(-step)))


def theirs_ssd(s, chunk):
    from mamba_ssm.ops.triton import ssd_combined as sc
    more = dict(D=s["D"], dt_bias=s["bias"], dt_softplus=True)

    def forward():
        return sc._mamba_chunk_scan_combined_fwd(s["x"], s["dt"], s["A"], s["B"], s["C"], chunk, **more)[0]

    def backward(out):
        return sc._mamba_chunk_scan_combined_bwd(s["dy"], s["x"], s["dt"], s["A"], s["B"], s["C"], out, chunk, **more)
    return forward, backward


def ours_ssd(s):
    operands = dict(x=s["x"], dt=s["dt"], B=s["B"], C=s["C"], A_log=torch.log(-s["A"]), D=s["D"], dt_bias=s["bias"],
                    ids=None, initial=None,
                    chunk=256, dt_min=0.0, dt_max=0.0, variant="", final=False)

    def forward(keep):
        return mt.ssd(**operands, backward=keep)

    def backward(kept):
        return mt.ssd_backward(dy=s["dy"], dfinal=None, saved=kept, **operands)
    return forward, backward


def ssd_row(model, batch, length):
    sets = sets_of(lambda: ssd_inputs(batch, length, HEADS[model]), batch * length * HEADS[model] * WIDTH * 2)
    n = len(sets)
    ours = [ours_ssd(s) for s in sets]
    kept = [f(True)[2] for f, _ in ours]
    calls = [lambda i: ours[i % n][0](False), lambda i: ours[i % n][0](True), lambda i: ours[i % n][1](kept[i % n])]
    for chunk in CHUNKS:
        peer = [theirs_ssd(s, chunk) for s in sets]
        outs = [f() for f, _ in peer]
        calls += [lambda i, peer=peer: peer[i % n][0](), lambda i, peer=peer, outs=outs: peer[i % n][1](outs[i % n])]
    alone, keeping, back, *peer = times(calls)
    theirs_alone = min(peer[0], peer[2])
    theirs_both = min(peer[0] + peer[1], peer[2] + peer[3])
    shape = f"{model} {batch}×{length}"
    print(f"| {shape} | {alone:.0f} | {theirs_alone:.0f} | {judge(shape + ' forward', theirs_alone / alone, 3.5)} | "
          f"{keeping:.0f} | {back:.0f} | "
          f"{theirs_both:.0f} | {judge(shape + ' both', theirs_both / (keeping + back), 4)} |", flush=True)


def tune_ssd():
    """Compiles with all cores, lets Triton choose on the first shape of the peers' table, as there."""
    def both(batch, length, heads):
        s = ssd_inputs(batch, length, heads)
        for chunk in CHUNKS:
            forward, backward = theirs_ssd(s, chunk)
            backward(forward())
    with compiling():
        both(8, 2048, HEADS["1.3b"])
    both(8, 2048, HEADS["1.3b"])
    with compiling():
        for heads in HEADS.values():
            for batch, length in BATCHES:
                both(batch, length, heads)


def ssd_table():
    tune_ssd()
    print("\n| SSD, bf16, state 128, µs | forward | mamba_ssm | × | forward that keeps | backward | mamba_ssm, both | "
          "both × |")
    print("|---|---|---|---|---|---|---|---|")
    for model in HEADS:
        for batch, length in BATCHES:
            ssd_row(model, batch, length)


# heads, their width, groups, state; what people train, then what nobody optimizes for
PUBLISHED = {"mamba2-130m": (24, 64, 1, 128), "mamba2-1.3b": (64, 64, 1, 128), "mamba2-2.7b": (80, 64, 1, 128),
             "nemotron-h-8b": (128, 64, 8, 128), "nemotron-h-4b": (112, 64, 8, 128),
             "nemotron-3-nano-30b": (64, 64, 8, 128), "granite-4.0-h-1b": (48, 64, 1, 128),
             "bamba-9b": (128, 64, 1, 128), "zamba2-2.7b": (80, 64, 1, 64), "zamba2-7b": (112, 64, 2, 64),
             "plamo2-8b": (64, 128, 1, 64), "nemotron-nano-9b": (128, 80, 8, 128),
             "nemotron-3-nano-4b": (96, 80, 8, 128), "granite-4.0-h-350m": (48, 32, 1, 128),
             "falcon-h1-1.5b": (48, 64, 1, 256), "falcon-h1-3b": (32, 128, 1, 256), "falcon-h1-7b": (24, 128, 1, 256),
             "falcon-h1-34b": (32, 128, 2, 256), "nemotron-h-56b": (256, 64, 8, 256), "N 16": (64, 64, 1, 16),
             "N 32": (64, 64, 1, 32), "P 128": (32, 128, 1, 128)}
ODD = {"25 heads": (25, 64, 1, 128), "P 50": (24, 50, 1, 128), "N 20": (24, 64, 1, 20), "P 33, N 12": (20, 33, 5, 12),
       "N 100": (24, 64, 1, 100), "P 72, N 200": (24, 72, 1, 200)}


def both_chunks(s, chunks):
    for chunk in chunks:
        forward, backward = theirs_ssd(s, chunk)
        backward(forward())


def width_row(name, batch, length, shape, kind, chunks, ask):
    size = batch * length * shape[0] * shape[1] * kind.itemsize
    sets = sets_of(lambda: ssd_inputs(batch, length, *shape, kind), size, most=3)
    n = len(sets)
    ours = [ours_ssd(s) for s in sets]
    kept = [f(True)[2] for f, _ in ours]
    calls = [lambda i: ours[i % n][0](False), lambda i: ours[i % n][0](True), lambda i: ours[i % n][1](kept[i % n])]
    for chunk in chunks:
        peer = [theirs_ssd(s, chunk) for s in sets]
        outs = [f() for f, _ in peer]
        calls += [lambda i, peer=peer: peer[i % n][0](), lambda i, peer=peer, outs=outs: peer[i % n][1](outs[i % n])]
    alone, keeping, back, *peer = times(calls)
    heads, width, groups, state = shape
    line = (f"| {name} {batch}×{length} | {heads} | {width} | {groups} | {state} | {alone:.1f} | {keeping:.1f} | "
            f"{back:.1f} |")
    if peer:
        forward, together = min(peer[::2]), min(a + b for a, b in zip(peer[::2], peer[1::2]))
        line += (f" {forward:.1f} | {judge(name + ' forward', forward / alone, ask[0])} | {together:.1f} | "
                 f"{judge(name + ' both', together / (keeping + back), ask[1])} |")
    print(line, flush=True)


def width_table(chunks):
    rows = [(name, 8, 2048, shape, bf16, (3, 3.5)) for name, shape in PUBLISHED.items()]
    rows += [(name, 1, 2048, PUBLISHED[name], bf16, (1, 1)) for name in ("mamba2-130m", "mamba2-1.3b", "falcon-h1-7b")]
    rows += [(f"{name}, fp32", 8, 2048, PUBLISHED[name], torch.float32, (1, 1))
             for name in ("mamba2-130m", "mamba2-1.3b", "zamba2-2.7b", "falcon-h1-1.5b")]
    rows += [(name, 8, 2048, shape, bf16, (1.5, 1.5)) for name, shape in ODD.items()]
    print("\n| SSD, µs | heads | P | groups | N | forward | that keeps | backward | mamba_ssm | × | both | × |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    compiled = set()                                         # Triton chooses by these alone
    for name, batch, length, shape, kind, ask in rows:
        if chunks and (shape[1], shape[3], kind) not in compiled:
            with compiling():
                both_chunks(ssd_inputs(batch, length, *shape, kind), chunks)
            compiled.add((shape[1], shape[3], kind))
        width_row(name, batch, length, shape, kind, chunks, ask)
        torch.cuda.empty_cache()


# ---- selective scan ----

def scan_inputs(batch, length, channels, state, kind):
    s = {name: normal(batch, length, channels, kind=kind) for name in ("u", "delta", "z", "dy")}
    s |= {name: normal(batch, length, 1, state, kind=kind) for name in ("B", "C")}
    s |= dict(D=torch.ones(channels, device="cuda"), bias=torch.full((channels,), -4.0, device="cuda"),
              A=-torch.arange(1, state + 1, device="cuda", dtype=torch.float32).repeat(channels, 1).contiguous())
    s["A_log"] = torch.log(-s["A"])
    for name in ("u", "delta", "z", "dy"):                   # mamba_ssm's layout: time last
        s[name + "_t"] = s[name].transpose(1, 2).contiguous()
    for name in ("B", "C"):
        s[name + "_t"] = s[name].permute(0, 2, 3, 1).contiguous()
    return s


def ours_scan(s):
    operands = dict(u=s["u"], delta=s["delta"], B=s["B"], C=s["C"], z=s["z"], A_log=s["A_log"], D=s["D"],
                    delta_bias=s["bias"], ids=None,
                    initial=None, final=False)

    def forward(keep):
        return mt.selective_scan(**operands, backward=keep)

    def backward(kept):
        return mt.selective_scan_backward(dy=s["dy"], dfinal=None, saved=kept, **operands)
    return forward, backward


def scan_row(batch, length, channels, state=SCAN_STATE, kind=bf16, ask=None):
    import selective_scan_cuda
    sets = sets_of(lambda: scan_inputs(batch, length, channels, state, kind),
                   batch * length * channels * 3 * kind.itemsize)
    n = len(sets)
    ours = [ours_scan(s) for s in sets]

    def theirs(s):
        return selective_scan_cuda.fwd(s["u_t"], s["delta_t"], s["A"], s["B_t"], s["C_t"], s["D"], s["z_t"], s["bias"],
                                       True)

    def theirs_back(s, out, states):
        return selective_scan_cuda.bwd(s["u_t"], s["delta_t"], s["A"], s["B_t"], s["C_t"], s["D"], s["z_t"], s["bias"],
                                       s["dy_t"], states, out, None,
                                       True, False)
    kept = [f(True)[2] for f, _ in ours]
    outs = [theirs(s) for s in sets]
    fwd, back, peer, peer_back = times([lambda i: ours[i % n][0](True), lambda i: ours[i % n][1](kept[i % n]),
                                        lambda i: theirs(sets[i % n]),
                                        lambda i: theirs_back(sets[i % n], outs[i % n][0], outs[i % n][1])])
    shape = f"{batch}×{length}×{channels}" + ("" if ask is None else f", {state} states, {str(kind)[6:]}")
    ask = ask or ((1.8, 2.6) if batch < 4 else (2.3, 2.8))
    print(f"| {shape} | {fwd:.0f} | {peer:.0f} | {judge('scan ' + shape + ' forward', peer / fwd, ask[0])} | "
          f"{back:.0f} | {peer_back:.0f} | "
          f"{judge('scan ' + shape + ' backward', peer_back / back, ask[1])} |", flush=True)


# batch, length, channels, states, type: any number of states, odd channels, short batches, fp32
SCANS = ([(8, 2048, 1536, state, bf16) for state in (1, 2, 4, 8, 16, 32, 64)]
         + [(2, 2048, 1536, 128, bf16), (1, 2048, 1536, 256, bf16), (8, 2048, 1538, 16, bf16),
            (1, 2048, 1536, 16, bf16)]
         + [(8, 2048, *shape, torch.float32) for shape in ((1536, 16), (1536, 64), (1538, 16))])


def scan_table(widths=False):
    print("\n| selective scan, gated, µs | forward that keeps | mamba_ssm | × | backward | mamba_ssm | × |")
    print("|---|---|---|---|---|---|---|")
    if widths:
        for batch, length, channels, state, kind in SCANS:
            scan_row(batch, length, channels, state, kind, (1.8, 2.5) if channels % 4 == 0 else (1, 1))
        return
    for channels in SCAN_CHANNELS:
        for batch, length in BATCHES:
            scan_row(batch, length, channels)


def main():
    torch.manual_seed(0)
    print(torch.cuda.get_device_name(), "PyTorch", torch.__version__, "mambascope",
          mt.library().mba_kernels_version().decode())
    with torch.no_grad():
        if sys.argv[1:2] == ["widths"]:
            chunks = (sys.argv[2:] or ["256,128"])[0]
            width_table([int(c) for c in chunks.split(",")] if chunks != "ours" else [])
            sys.argv[1:] = ["nothing more"]
        if sys.argv[1:] == ["scans"]:
            scan_table(widths=True)
        for name, table in (("scan", scan_table), ("ssd", ssd_table)):
            if len(sys.argv) < 2 or name in sys.argv[1:]:
                table()
    print("\n".join(["", "not met:"] + missed) if missed else "\nall met")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
