#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What transformers itself makes of the golden checkpoints in bf16, on a CPU, against float64: beside device_check.py's
bf16 rows.

    python tools/golden/bf16_peer.py [NAME..]

Two ways: fp32 weights under autocast, as the Mamba authors train, and all weights in bf16. Of each the least cosine of
a gradient tensor to the one of float64, its name, and how many tensors are below what device_check.py asks (0.999, 0.99
for those under 1e-3 of the largest norm).
"""
import copy
import pathlib
import sys

import numpy as np

import lm


def judge(model, truth):
    largest = max(q.grad.norm().item() for q in truth.parameters())
    least, where, below = 1.0, "", 0
    for (name, p), q in zip(model.named_parameters(), truth.parameters()):
        a, b = p.grad.double().flatten(), q.grad.double().flatten()
        norm = b.norm().item()
        if norm <= 1e-9 * largest:
            continue
        cosine = (a @ b / max(a.norm().item() * norm, 1e-300)).item()
        below += cosine < (0.999 if norm >= 1e-3 * largest else 0.99)
        if cosine < least:
            least, where = cosine, f"{name} ({norm / largest:.0e} of the largest)"
    return f"{least:9.6f} {below:6}  {where}"


def main():
    import torch
    root = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"
    print(f"{'checkpoint':28} {'way':9} {'least':>9} {'below':>6}  where")
    for folder in sorted(p for p in root.iterdir() if (p / "grads.safetensors").exists()
                         and (not sys.argv[1:] or p.name in sys.argv[1:])):
        tokens = np.load(folder / "tokens.npy").astype(np.int64)
        truth = lm.evaluate_double(folder, tokens)[0]
        master = lm.load(folder)
        whole = copy.deepcopy(master).to(torch.bfloat16)
        with torch.autocast("cpu", torch.bfloat16):
            lm.evaluate(master, tokens)
        lm.evaluate(whole, tokens)
        for way, model in (("autocast", master), ("bf16", whole)):
            print(f"{folder.name:28} {way:9} {judge(model, truth)}", flush=True)


main()
