#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The golden language models through `mambascope eval` on a GPU, in fp32 and in bf16, against the committed vectors.

    tools/golden/device_check.py build/mambascope [NAME..]   # prints a table, exits 1 if a bound is broken

fp32: logits and every gradient within 2e-4 of max(its norm, 1e-4 of the largest gradient norm), loss 1e-5.
bf16: loss within 1e-2; every gradient's cosine to the golden one at least 0.999, 0.99 for those under 1e-3 of the
largest. Beside the least cosine stand those of bf16_floor.txt, what storing bf16 between operators costs by itself: its
median and its worst draw. A checkpoint that breaks the bound by less than the draws do has met the limit of bf16; below
the worst of them look for a bug.
"""
import json, pathlib, struct, subprocess, sys, tempfile
import numpy as np

def tensors(path):
    raw = pathlib.Path(path).read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    head = json.loads(raw[8:8 + size])
    kinds = {"F32": np.float32, "F64": np.float64, "BF16": np.uint16}
    out = {}
    for name, t in head.items():
        if name == "__metadata__":
            continue
        a, b = t["data_offsets"]
        x = np.frombuffer(raw[8 + size + a:8 + size + b], dtype=kinds[t["dtype"]])
        if t["dtype"] == "BF16":
            x = (x.astype(np.uint32) << 16).view(np.float32)
        out[name] = x.astype(np.float64)
    return out

def run(program, folder, precision, scratch):
    command = [program, "eval", "--checkpoint", str(folder), "--tokens", str(folder / "tokens.npy"), "--device", "cuda",
               "--precision", precision,
               "--logits", f"{scratch}/l.npy", "--grads", f"{scratch}/g.safetensors", "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().replace("\n", " | ")[:300])
    return json.loads(done.stdout)["loss"], np.load(f"{scratch}/l.npy").astype(np.float64), \
        tensors(f"{scratch}/g.safetensors")

def floors():
    """{checkpoint: (median, worst)} of the least cosines that bf16_floor.py drew."""
    lines = (pathlib.Path(__file__).resolve().parent / "bf16_floor.txt").read_text().splitlines()
    return {f[0]: (float(f[2]), float(f[3])) for f in map(str.split, lines[2:])}

def main():
    program, bad, only, floor = sys.argv[1], 0, sys.argv[2:], floors()
    root = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"
    print(f"{'checkpoint':28} {'type':5} {'loss':>9} {'logits':>9} {'worst gradient':>15} {'least cosine':>13} "
          f"{'drawn':>9} {'worst':>9}")
    for folder in sorted(p for p in root.iterdir() if (p / "logits.npy").exists()
                         and (p / "grads.safetensors").exists() and (not only or p.name in only)):
        want_loss = json.loads((folder / "expected.json").read_text())["loss"]
        logits, grads = np.load(folder / "logits.npy").astype(np.float64), tensors(folder / "grads.safetensors")
        largest = max(np.linalg.norm(g) for g in grads.values())
        for precision in ("fp32", "bf16"):
            with tempfile.TemporaryDirectory() as scratch:
                try:
                    loss, l, g = run(program, folder, precision, scratch)
                except RuntimeError as error:
                    print(f"{folder.name:28} {precision:5} FAILED: {error}")
                    bad += 1
                    continue
            e_loss = abs(loss - want_loss) / abs(want_loss)
            e_logits = np.linalg.norm(l - logits) / np.linalg.norm(logits)
            worst, least, fine, where = 0.0, 1.0, True, ""
            for name, b in grads.items():
                a, n = g[name], np.linalg.norm(b)
                worst = max(worst, np.linalg.norm(a - b) / max(n, 1e-4 * largest))
                if n > 1e-9 * largest:
                    cosine = float(a @ b / max(np.linalg.norm(a) * n, 1e-300))
                    if cosine < least:
                        least, where = cosine, f"{name} ({n / largest:.0e} of the largest)"
                    fine &= cosine >= (0.999 if n >= 1e-3 * largest else 0.99)
            ok = (e_loss <= 1e-5 and e_logits <= 2e-4 and worst <= 2e-4) if precision == "fp32" else (e_loss <= 1e-2
                and fine)
            bad += not ok
            drawn = floor.get(folder.name) if precision == "bf16" else None
            beyond = "BEYOND every draw " if drawn and least < drawn[1] else ""
            print(f"{folder.name:28} {precision:5} {e_loss:9.1e} {e_logits:9.1e} {worst:15.1e} {least:13.6f} "
                  f"{'%9.5f %9.5f' % drawn if drawn else ' ' * 19} {beyond}{'' if ok else 'BAD: ' + where}")
    return 1 if bad else 0

sys.exit(main())
