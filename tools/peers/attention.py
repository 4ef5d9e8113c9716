# SPDX-License-Identifier: Apache-2.0
"""Attention of PyTorch by cuDNN and by FlashAttention-2, and ours, on the same GPU in one call, at the sizes of
`mambascope bench op attention`:

    python3 tools/peers/attention.py [build/mambascope]             # prints a Markdown table

Theirs: timed as gpu_times.py says, forwards that keep what the backward needs. q, k and v are slices of one projection,
as in a model. `same bits`: with torch.use_deterministic_algorithms; of every way it is looked whether two backwards
agree. Ours, which always gives the same bits: the program's own bench, best of its runs, L2 swept."""
import csv
import io
import subprocess
import sys

import torch
from gpu_times import sets_of, times
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention as attend

SIZES = {"hybrid-130m, 1024 tokens": (1, 1024, 12, 4, 64, True), "hybrid-130m, 4096 tokens": (1, 4096, 12, 4, 64, True),
         "hybrid-peer-370m, 8 x 2048 tokens": (8, 2048, 16, 16, 64, True),
         "hybrid-1b, 8 x 2048 tokens": (8, 2048, 16, 4, 128, True),
         "mambavision-t, 128 windows of 14 x 14": (128, 196, 8, 8, 40, False),
         "mambavision-t, 128 windows of 7 x 7": (128, 49, 16, 16, 40, False)}
WAYS = {"cuDNN": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}


def inputs(batch, length, heads, shared, width):
    packed = torch.randn(batch, length, (heads + 2 * shared) * width, device="cuda").bfloat16()
    parts = packed.split([heads * width, shared * width, shared * width], dim=2)
    q, k, v = (p.unflatten(2, (-1, width)).transpose(1, 2).detach().requires_grad_() for p in parts)
    return q, k, v, torch.randn(batch, length, heads, width, device="cuda").bfloat16().transpose(1, 2)


def theirs(backend, batch, length, heads, shared, width, causal):
    """us of forward and backward, and whether two backwards agree bit by bit."""
    sets = sets_of(lambda: inputs(batch, length, heads, shared, width), batch * length * heads * width * 8, most=16)
    n = len(sets)

    def forward(i):
        q, k, v, _ = sets[i % n]
        return attend(q, k, v, is_causal=causal, enable_gqa=shared != heads)
    with sdpa_kernel(backend):
        outs = [forward(i) for i in range(n)]
        back = lambda i: torch.autograd.grad(outs[i % n], sets[i % n][:3], sets[i % n][3], retain_graph=True)
        same = all(torch.equal(a, b) for _ in range(5) for a, b in zip(back(0), back(0)))
        return *times([forward, back]), same


def ours(program):
    text = subprocess.run([program, "bench", "op", "attention", "--device", "cuda", "--csv"], capture_output=True,
                          text=True, check=True).stdout
    return {(r["operator"], r["case"]): 1e3 * float(r["ms"]) for r in csv.DictReader(io.StringIO(text))}


def cell(backend, deterministic, size):
    torch.use_deterministic_algorithms(deterministic)
    try:
        forward, backward, same = theirs(backend, *size)
    except RuntimeError as refused:
        return f"refused: {str(refused).splitlines()[0][:60]}"
    finally:
        torch.use_deterministic_algorithms(False)
    return f"{forward:.0f}, {backward:.0f}{'' if same else ' (bits differ)'}"


if __name__ == "__main__":
    mine = ours(sys.argv[1] if len(sys.argv) > 1 else "build/mambascope")
    print(torch.cuda.get_device_name(), "PyTorch", torch.__version__, "cuDNN", torch.backends.cudnn.version())
    print("\n| attention, bf16, µs: forward, backward | ours (same bits) | " + " | ".join(f"{w} | {w}, same bits"
        for w in WAYS) + " |")
    print("|---" * (2 + 2 * len(WAYS)) + "|")
    for note, size in SIZES.items():
        cells = [cell(b, d, size) for b in WAYS.values() for d in (False, True)]
        print(f"| {note} | {mine['attention', note]:.0f}, {mine['attention_bwd', note]:.0f} | " + " | ".join(cells)
              + " |", flush=True)
